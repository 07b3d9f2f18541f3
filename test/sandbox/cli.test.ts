// `npm run sandbox`: from nothing, two flags and a file to a running platform, and clear refusals.
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readingsSchema } from '../../sandbox/options.ts'
import { runSandbox } from '../../sandbox/main.ts'
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

interface Run {
  output: string
  controlUrl: string
  ended: Promise<unknown>
  stop(): void
}

/** Starts it; resolves when it has said where it listens, or has ended. */
async function run(...args: string[]): Promise<Run> {
  const stop = new AbortController()
  const started = Promise.withResolvers<string>()
  const stdout = {
    write: (text: string): void => {
      started.resolve(text)
    },
  }
  const ended = runSandbox(args, {
    ...{ stdout, clock: systemClock, random: systemRandom },
    ...{ folder: folder.path, signal: stop.signal },
  })
  const output = await Promise.race([started.promise, ended.then(() => '')])
  return {
    output,
    controlUrl: /curl +(\S+)\/state/.exec(output)?.[1] ?? '',
    ended,
    stop: () => {
      stop.abort()
    },
  }
}

interface Configuration {
  control: { token: string }
}

async function stateOf({ controlUrl }: Run): Promise<unknown> {
  return (await fetch(`${controlUrl}/state`)).json()
}

test('runs until it is stopped, and writes the configuration of the daemon', async () => {
  const running = await run('--port', '0')
  expect(running.output).toContain('npm start -- run --config sandbox-keys/config.yaml')
  const file = join(folder.path, 'sandbox-keys/config.yaml')
  expect(parse(readFileSync(file, 'utf8'))).toMatchObject({
    platform: { baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string, timeZone: 'UTC' },
    auth: {
      realm: 'demo',
      clientId: 'sandbox-service-account',
      privateKeyFile: join(folder.path, 'sandbox-keys/private-key.pem'),
    },
    receiver: { healthUrl: expect.stringMatching(/\/health$/) as string },
  })
  expect(await stateOf(running)).toMatchObject({
    counts: { processing: 0, successful: 0, failed: 1000 },
    receiver: { isUp: true },
  })
  running.stop()
  await running.ended
  await expect(fetch(running.controlUrl)).rejects.toThrow()
})

test('makes a control token, for its owner alone, and keeps it', async () => {
  const start = async (): Promise<[token: unknown, output: string]> => {
    const { ended, output, stop } = await run('--port', '0')
    stop()
    await ended
    const { control } = parse(readFileSync(join(folder.path, 'sandbox-keys/config.yaml'), 'utf8')) as Configuration
    return [control.token, output]
  }
  const [token, output] = await start()
  expect(token).toMatch(/^[\x21-\x7e]{32,}$/)
  expect(output).toContain(`control.token ${String(token)}`)
  expect(output).toContain('npm start -- pause --config sandbox-keys/config.yaml')
  expect((await start())[0]).toBe(token)
  for (const file of ['control-token', 'config.yaml']) {
    expect(statSync(join(folder.path, 'sandbox-keys', file)).mode & 0o777).toBe(0o600)
  }
  rmSync(join(folder.path, 'sandbox-keys/control-token'))
  expect((await start())[0]).not.toBe(token)
})

test('makes its key in a folder of its own, for its owner alone', async () => {
  await folder[Symbol.asyncDispose]()
  folder = await makeFolder()
  const running = await run('--port', '0')
  expect(running.output).toContain('RSA-4096')
  running.stop()
  await running.ended
  const key = join(folder.path, 'sandbox-keys/private-key.pem')
  expect(readFileSync(key, 'utf8')).toContain('-----BEGIN PRIVATE KEY-----')
  expect(statSync(key).mode & 0o777).toBe(0o600)
})

test.each(['--help', '-h'])('%s names every option, and starts nothing', async (option) => {
  const { ended, output } = await run(option, '--port', '1')
  await ended
  const named = [...output.matchAll(/^ {2}(--\w+) /gm)].map(([, name]) => name)
  expect(named).toEqual(['--config', '--port'])
  expect(existsSync(join(folder.path, 'sandbox-keys/config.yaml'))).toBe(false)
})

test.each([
  [['--port', 'eighty'], /^--port: a number up to 65533, not "eighty"$/],
  [['--port', '65534'], /^--port: a number up to 65533, not "65534"$/],
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
  ['faults: [{ operation: list, fault: { kind: nap } }]', /faults\.0\.fault/],
])('a file with "%s" is refused', async (text, message) => {
  await expect(run('--port', '0', '--config', await folder.write('s.yaml', text))).rejects.toThrow(message)
})

test('two sandboxes on one port: the second says which and what to do', async () => {
  const first = await run('--port', '0')
  const port = new URL(/API +(\S+)/.exec(first.output)?.[1] ?? '').port
  await expect(run('--port', port)).rejects.toThrow(new RegExp(`${port} is taken.*--port`))
  first.stop()
  await first.ended
})

test('sandbox/config.yaml says the defaults, and its examples are understood', async () => {
  const text = readFileSync('sandbox/config.yaml', 'utf8')
  const running = await run('--config', 'sandbox/config.yaml', '--port', '0')
  expect(await stateOf(running)).toMatchObject({ readings: readingsSchema.parse({}), counts: { failed: 1000 } })
  running.stop()
  await running.ended

  const examples = text.slice(text.indexOf('# records:')).replaceAll(/^# /gm, '')
  const played = await run('--config', await folder.write('x.yaml', examples), '--port', '0')
  expect(await stateOf(played)).toMatchObject({
    receiver: { isUp: false },
    faults: { rules: [{ operation: 'list' }, { operation: 'retry' }] },
  })
  played.stop()
  await played.ended
})

test('a port wins over that of the file', async () => {
  const file = await folder.write('s.yaml', 'order: id\nreceiver: { state: down }\nrecords: []\nport: 1')
  const running = await run('--config', file, '--port', '0')
  expect(await stateOf(running)).toMatchObject({
    readings: { order: 'id' },
    counts: { failed: 0 },
    receiver: { isUp: false },
  })
  running.stop()
  await running.ended
})
