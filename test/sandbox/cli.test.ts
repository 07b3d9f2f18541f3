// `npm run sandbox`: from nothing, two flags and a file to a running platform, and clear refusals.
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readingsSchema } from '../../sandbox/options.ts'
import { fileSchema, runSandbox } from '../../sandbox/main.ts'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import { makeFolder, type Folder } from '../support/process.ts'
import { testKeys } from '../support/keys.ts'

let folder: Folder

/** A key that is there already: making one takes seconds. */
beforeEach(async () => {
  folder = await makeFolder()
  await folder.write('sandbox-keys/private-key.pem', (await testKeys()).privateKeyPem)
})

afterEach(() => folder[Symbol.asyncDispose]())

interface Running extends AsyncDisposable {
  output: string
  controlUrl: string
}

/** Starts it; resolves when it has said where it listens, or has ended. Its disposal stops it. */
async function run(...args: string[]): Promise<Running> {
  const stop = new AbortController()
  const started = Promise.withResolvers<string>()
  const stdout = {
    write: (text: string): void => {
      started.resolve(text)
    },
  }
  const host = { stdout, clock: systemClock, random: systemRandom, folder: folder.path, signal: stop.signal }
  const ended = runSandbox(args, host)
  const output = await Promise.race([started.promise, ended.then(() => '')])
  return {
    output,
    controlUrl: /curl +(\S+)\/state/.exec(output)?.[1] ?? '',
    async [Symbol.asyncDispose]() {
      stop.abort()
      await ended
    },
  }
}

/** Runs the sandbox with a file of options, and looks at its state. */
async function stateWith(...args: string[]): Promise<unknown> {
  await using running = await run(...args, '--port', '0')
  return (await fetch(`${running.controlUrl}/state`)).json()
}

const pathOf = (file: string): string => join(folder.path, 'sandbox-keys', file)

function readConfiguration(): { control: { token: string } } {
  return parse(readFileSync(pathOf('config.yaml'), 'utf8')) as { control: { token: string } }
}

test('runs until it is stopped, and writes the configuration of the daemon, for its owner alone', async () => {
  const running = await run('--port', '0')
  expect(running.output).toContain('npm start --silent -- run --config sandbox-keys/config.yaml')
  const configuration = readConfiguration()
  const { token } = configuration.control
  expect(configuration).toMatchObject({
    platform: { baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string, timeZone: 'UTC' },
    auth: { realm: 'demo', clientId: 'sandbox-service-account', privateKeyFile: pathOf('private-key.pem') },
    receiver: { healthUrl: expect.stringMatching(/\/health$/) as string },
    control: { token: expect.stringMatching(/^[\x21-\x7e]{32,}$/) as string },
  })
  expect(running.output).toContain(`control.token ${token}`)
  for (const file of ['control-token', 'config.yaml']) expect(statSync(pathOf(file)).mode & 0o777).toBe(0o600)
  // The second says which port, and what to do.
  const port = new URL(/API +(\S+)/.exec(running.output)?.[1] ?? '').port
  await expect(run('--port', port)).rejects.toThrow(new RegExp(`${port} is taken.*--port`))
  await running[Symbol.asyncDispose]()
  await expect(fetch(running.controlUrl)).rejects.toThrow()
  // The token is kept while its file is.
  await stateWith()
  expect(readConfiguration().control.token).toBe(token)
  rmSync(pathOf('control-token'))
  await stateWith()
  expect(readConfiguration().control.token).not.toBe(token)
})

test('makes its key in a folder of its own, for its owner alone', async () => {
  rmSync(pathOf('private-key.pem'))
  await using running = await run('--port', '0')
  expect(running.output).toContain('RSA-4096')
  expect(readFileSync(pathOf('private-key.pem'), 'utf8')).toContain('-----BEGIN PRIVATE KEY-----')
  expect(statSync(pathOf('private-key.pem')).mode & 0o777).toBe(0o600)
})

test('--help names every option, and starts nothing', async () => {
  const { output } = await run('--help', '--port', '1')
  expect([...output.matchAll(/^ {2}(--\w+) /gm)].map(([, name]) => name)).toEqual(['--config', '--port'])
  expect(existsSync(pathOf('config.yaml'))).toBe(false)
})

test.each([
  [['--port', 'eighty'], /^--port: a number up to 65533, not "eighty"$/],
  [['--order', 'id'], /--order.*\n\nUsage: npm run sandbox/],
  [['7'], /Unexpected argument '7'.*\n\nUsage: npm run sandbox/],
  [['--config', '/nowhere/file.yaml'], /--config.*nowhere.*ENOENT/],
])('%o is refused and named', async (options, message) => {
  await expect(run('--port', '0', ...options)).rejects.toThrow(message)
})

test.each([
  ['order: [', /--config/],
  ['- order', /--config .*: the whole/],
  ['ordre: id', /ordre/],
  ['timeZone: Mars/Olympus', /timeZone/],
  ['receiver: { state: broken }', /receiver\.state/],
  ['realm: a/b', /realm/],
  ['host: 300.1.1.1', /cannot listen there \(ENOTFOUND\)/],
  ['faults: [{ operation: list, fault: { kind: nap } }]', /faults\.0\.fault/],
])('a file with "%s" is refused', async (text, message) => {
  await expect(run('--port', '0', '--config', await folder.write('s.yaml', text))).rejects.toThrow(message)
})

test('sandbox/config.yaml has every key with its default, and its examples are understood', async () => {
  const text = readFileSync('sandbox/config.yaml', 'utf8')
  expect([...text.matchAll(/^(?:# )?(\w+):/gm)].map(([, key]) => key).toSorted()).toEqual(
    Object.keys(fileSchema.shape).toSorted(),
  )
  expect(await stateWith('--config', 'sandbox/config.yaml')).toMatchObject({
    readings: readingsSchema.parse({}),
    counts: { processing: 0, successful: 0, failed: 1000 },
    receiver: { isUp: true },
  })
  const examples = text.slice(text.indexOf('# records:')).replaceAll(/^# /gm, '')
  expect(await stateWith('--config', await folder.write('x.yaml', examples))).toMatchObject({
    receiver: { isUp: false },
    faults: { rules: [{ operation: 'list' }, { operation: 'retry' }] },
  })
})

test('a port wins over that of the file', async () => {
  const file = await folder.write('s.yaml', 'order: id\nrecords: []\nport: 1')
  expect(await stateWith('--config', file)).toMatchObject({ readings: { order: 'id' }, counts: { failed: 0 } })
})
