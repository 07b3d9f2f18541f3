// `npm run sandbox`: from options and a file to a running platform, and clear refusals.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { sandboxCommand } from '../../sandbox/command.ts'
import { planOf } from '../../sandbox/plan.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { UsageError } from '../../src/runtime/errors.ts'
import { defaultReadings } from '../../sandbox/options.ts'
import { testKeys } from '../support/keys.ts'

const anyPorts = ['--port', '0', '--control-port', '0', '--receiver-port', '0']

interface Run {
  output: string
  ended: Promise<unknown>
  stop(): void
}

/** Starts the command with these files; resolves when it has said where it listens, or has ended. */
async function run(args: string[], files: Record<string, string> = {}): Promise<Run> {
  const stop = new AbortController()
  const started = Promise.withResolvers<string>()
  const command = sandboxCommand({
    stdout: {
      write: (text) => {
        started.resolve(text)
      },
    },
    clock: systemClock,
    signal: stop.signal,
    readFile: (path) => files[path] ?? readFileSync(path, 'utf8'),
  })
  const ended = command.parseAsync(args, { from: 'user' })
  const output = await Promise.race([started.promise, ended.then(() => '')])
  return {
    output,
    ended,
    stop: () => {
      stop.abort()
    },
  }
}

async function refusal(args: string[], files: Record<string, string> = {}): Promise<string> {
  const error: unknown = await run(args, files).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(UsageError)
  return (error as UsageError).message
}

test('runs until it is stopped, and says what the daemon needs', async () => {
  const { certificateFile } = await testKeys()
  const options = [
    '--records',
    '50',
    '--failed-share',
    '0.5',
    '--prefix',
    '/v1/demo',
    '--receiver',
    'down',
    '--client-id',
    'me',
  ]
  const { output, ended, stop } = await run(['--certificate', certificateFile, ...anyPorts, ...options])
  const environment: Record<string, string> = Object.fromEntries(
    [...output.matchAll(/export (\w+)='(.*)'/g)].map(([, name = '', value = '']) => [name, value]),
  )
  expect(environment).toMatchObject({
    RECONCILER_PLATFORM_BASE_URL: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1\/demo$/) as string,
    RECONCILER_AUTH_AUTH_URL: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
    RECONCILER_AUTH_REALM: 'demo',
    RECONCILER_AUTH_CLIENT_ID: 'me',
  })
  const controlUrl = /control +(\S+)/.exec(output)?.[1] ?? ''
  expect(await (await fetch(`${controlUrl}/counts`)).json()).toEqual({ processing: 0, successful: 25, failed: 25 })
  expect(await (await fetch(`${controlUrl}/receiver`)).json()).toMatchObject({ isUp: false })
  stop()
  await ended
  await expect(fetch(controlUrl)).rejects.toThrow()
})

test('without a certificate it names the command that makes one', async () => {
  expect(await refusal(anyPorts)).toMatch(/npm run keygen/)
})

test.each([
  [['--port', 'eighty'], /--port.*number.*eighty/],
  [['--port', '99999'], /port/],
  [['--order', 'sideways'], /order/],
  [['--delivery', 'sometimes'], /delivery.mode/],
  [['--records', '10', '--failed-share', '2'], /failed/],
  [['--receiver', 'broken'], /receiver.state/],
  [['--time-zone', 'Mars/Olympus'], /--time-zone/],
  [['--realm', 'a/b'], /realm/],
  [['--config', '/nowhere/file.yaml'], /--config.*nowhere.*ENOENT/],
])('%o is refused and named', async (options, message) => {
  const { certificateFile } = await testKeys()
  expect(await refusal(['--certificate', certificateFile, ...anyPorts, ...options])).toMatch(message)
})

test.each([
  ['/missing.pem', {}, /--certificate.*missing.*ENOENT/],
  ['/bad.pem', { '/bad.pem': 'not a certificate' }, /--certificate.*X\.509/],
])('the certificate %s is refused', async (path, files, message) => {
  expect(await refusal(['--certificate', path, ...anyPorts], files)).toMatch(message)
})

test.each([
  ['order: [', /no YAML/],
  ['ordre: id', /ordre/],
  ['faults: [{ operation: list, fault: { kind: nap } }]', /faults\.0\.fault/],
])('a file with "%s" is refused', async (text, message) => {
  const { certificateFile } = await testKeys()
  expect(
    await refusal(['--certificate', certificateFile, '--config', '/s.yaml', ...anyPorts], { '/s.yaml': text }),
  ).toMatch(message)
})

test('two sandboxes on one port: the second says which and what to do', async () => {
  const { certificateFile } = await testKeys()
  const first = await run(['--certificate', certificateFile, ...anyPorts])
  const port = new URL(/API +(\S+)/.exec(first.output)?.[1] ?? '').port
  expect(await refusal(['--certificate', certificateFile, ...anyPorts, '--port', port])).toMatch(
    new RegExp(`${port} is taken.*--port`),
  )
  first.stop()
  await first.ended
})

const io = { clock: systemClock, readFile: (path: string) => readFileSync(path, 'utf8') }

test('sandbox/config.yaml says the defaults, with what is commented out too', () => {
  const { options, records, traffic, receiver } = planOf({ config: 'sandbox/config.yaml' }, io)
  expect(options).toMatchObject(defaultReadings)
  expect({ records: records.length, traffic, receiver }).toEqual({ records: 1, traffic: undefined, receiver: {} })

  const text = readFileSync('sandbox/config.yaml', 'utf8')
  const examples = text.slice(text.indexOf('# records:')).replaceAll(/^# /gm, '')
  const plan = planOf({ config: 'x' }, { ...io, readFile: () => examples })
  expect(plan).toMatchObject({ records: [{ count: 5000 }], traffic: { perSecond: 5 }, receiver: { state: 'down' } })
  expect(plan.options.faults).toHaveLength(2)
})

test('options win over the file', () => {
  const readFile = (): string => 'order: id\nskewMs: 5\nreceiver: { state: down, fail: [{ status: 503 }] }\nrecords: []'
  const plan = planOf(
    { config: 'x', order: 'shuffled', receiver: 'up', latency: '20', records: '7' },
    { ...io, readFile },
  )
  expect(plan.options).toMatchObject({
    order: 'shuffled',
    skewMs: 5,
    faults: [{ operation: 'api', fault: { kind: 'latency', ms: 20 } }],
  })
  expect(plan.receiver).toEqual({ state: 'up', fail: [{ status: 503 }] })
  expect(plan.records).toMatchObject([{ count: 7 }])
})
