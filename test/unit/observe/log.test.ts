// A line of the log: what it holds, what never gets into it, and the safe parts of errors.
import { describe, expect, test } from 'vitest'
import {
  countedLevels,
  createLog,
  errorFields,
  type CountedLog,
  type LogOptions,
} from '../../../src/observe/log/log.ts'
import { logEvents, type LogEvent, type LogFields } from '../../../src/observe/log/log-events.ts'
import { ConfigurationError, UsageError } from '../../../src/runtime/errors.ts'
import { TokenError } from '../../../src/platform/auth/token-response.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TransportError } from '../../../src/platform/http/http.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const clock = createVirtualClock(Date.UTC(2026, 0, 2, 3, 4, 5, 678))

function capture(options: Partial<LogOptions> = {}): { log: CountedLog; lines: string[] } {
  const lines: string[] = []
  const log = createLog({
    level: 'debug',
    instance: 'reconciler-0',
    clock,
    write: (line) => void lines.push(line),
    ...options,
  })
  return { log, lines }
}

const parsed = (line: string | undefined): Record<string, unknown> => JSON.parse(line ?? '') as Record<string, unknown>

/** A text, or what a cast lets through, in a line. */
const textFields = (detail: unknown): LogFields['receiver_up'] => ({ detail }) as LogFields['receiver_up']

describe('a line', () => {
  test('holds level, time, instance, event, fields and message, at once', () => {
    const { log, lines } = capture()
    log.event('circuit_closed', { subscriptionId: 'x y', to: 'closed' }, 'info')
    expect(lines).toEqual([
      '{"level":"info","time":"2026-01-02T03:04:05.678Z","instance":"reconciler-0","event":"circuit_closed","subscriptionId":"x y","to":"closed","msg":"circuit closed"}\n',
    ])
  })

  test.each([
    ['debug', countedLevels],
    ['info', ['info', 'warn', 'error']],
    ['error', ['error']],
    ['silent', []],
  ] as const)('is written, and counted, from level %s on; its own is the first one of its event', (level, expected) => {
    const { log, lines } = capture({ level })
    const counted: string[] = []
    log.countLines((of) => counted.push(of))
    log.event('records_expired', { records: 1, again: 0 }, 'debug')
    log.event('platform_available', {})
    log.event('records_expired', { records: 1, again: 0 })
    log.event('certificate_invalid', { file: 'x', problem: 'x' })
    expect(counted).toEqual(expected)
    expect(lines.map((line) => parsed(line)['level'])).toEqual(expected)
  })

  test('of a bug is written at any level, and not counted', () => {
    const { log, lines } = capture({ level: 'fatal' })
    log.countLines(() => {
      throw new Error('counted')
    })
    log.event('unexpected_error', { errorName: 'Error' })
    expect(parsed(lines[0])).toMatchObject({ level: 'fatal', event: 'unexpected_error', errorName: 'Error' })
  })

  test('holds no more than the kind of what a cast lets through', () => {
    const { log, lines } = capture()
    const values = [{ authorization: 'x' }, new Error('secret'), () => 1, 10n, Symbol('s'), { toJSON: () => 'secret' }]
    for (const value of [...values, NaN, -Infinity, 29_999.999_999_999_996, [{ a: 1 }, 'b']])
      log.event('receiver_up', textFields(value))
    expect(lines.map((line) => parsed(line)['detail'])).toEqual([
      ...['[object]', '[object]', '[function]', '[bigint]', '[symbol]', '[object]'],
      ...['NaN', '-Infinity', 30_000, ['[object]', 'b']],
    ])
  })

  test('leaves out what is undefined, and cuts what is long', () => {
    const { log, lines } = capture()
    for (const length of [4000, 4001]) log.event('receiver_up', textFields('a'.repeat(length)))
    log.event('unexpected_error', { errorName: 'x', errorCauses: Array.from({ length: 1000 }, () => 'b') })
    log.event('shutdown_started', { signal: undefined, inFlight: 0, grace: '1s' })
    const whole = 'a'.repeat(4000)
    expect(lines.slice(0, 2).map((line) => parsed(line)['detail'])).toEqual([whole, `${whole}...`])
    expect(parsed(lines[2])['errorCauses']).toHaveLength(100)
    expect(parsed(lines[3])).not.toHaveProperty('signal')
  })
})

const jwt = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJjIn0.c2ln'

test('secrets: never reach a line, while ids stay', () => {
  const { log, lines } = capture()
  const key = '-----BEGIN PRIVATE KEY-----\nc2ln\n-----END PRIVATE KEY-----\n'
  for (const value of [jwt, ['x', `Bearer ${jwt}`], key, JSON.stringify({ access_token: 'c2ln' })])
    log.event('receiver_up', textFields(value))
  expect(lines).toHaveLength(4)
  expect(lines.join('')).not.toContain('c2ln')
  log.event('receiver_up', { detail: 'to DE89 3704 0044 0532 0130 00 of 123e4567-e89b-12d3-a456-426614174000' })
  expect(parsed(lines[4])['detail']).toBe('to [iban] of 123e4567-e89b-12d3-a456-426614174000')
})

test('a value can not forge a line, nor hide in one, and reads back as it was', () => {
  const breaks = '\n\r\u2028\u2029\u0085\u000b\u000c\u0000\u001b[31m\u202e\ufeff\u007f'
  const { log, lines } = capture()
  const forged = `${breaks}{"level":"error","msg":"forged"}`
  log.event('unexpected_error', { errorName: 'x', errorCauses: [forged] })
  expect(lines).toHaveLength(1)
  expect(lines[0]?.endsWith('\n')).toBe(true)
  expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u)
  expect(parsed(lines[0])['errorCauses']).toEqual([forged])
})

test('a log that can not be written does not stop the work', () => {
  let tries = 0
  const { log } = capture({
    write() {
      tries += 1
      throw new Error('EPIPE')
    },
  })
  log.event('platform_available', {})
  log.event('platform_available', {})
  expect(tries).toBe(2)
})

test.each(Object.entries<LogEvent>(logEvents))(
  '%s is snake_case, with a short and constant message',
  (id, [, message]) => {
    expect(id).toMatch(/^[a-z]+(?:_[a-z]+)*$/)
    expect(message).toMatch(/^[A-Za-z][^$%{}.]*(?:\.[a-zA-Z][^$%{}.]*)?$/)
    expect(message.length).toBeLessThanOrEqual(90)
  },
)

const secret = 'hunter2'

test.each([
  [new UsageError('no such option'), 'UsageError', 'USAGE', 'no such option'],
  [
    new ConfigurationError([{ key: 'a', origin: 'b', message: 'c' }]),
    'ConfigurationError',
    'CONFIGURATION',
    'a (b): c',
  ],
  [new TransportError('tls', 'CODE'), 'TransportError', 'CODE', 'no usable response: tls (CODE)'],
  [new TokenError('refused', { kind: 'rejected', reason: 'bad-request' }), 'TokenError', 'TOKEN_REJECTED', 'refused'],
  [new PlatformFailure('throttled', 429, 'list'), 'PlatformFailure', 'PLATFORM_FAILURE', 'list: throttled (HTTP 429)'],
])('our own errors say their message: %s', (error, errorName, errorCode, errorMessage) => {
  const status = error instanceof PlatformFailure ? { errorStatus: 429 } : {}
  const { errorStack, ...fields } = errorFields(error)
  expect(fields).toStrictEqual({ errorName, errorCode, errorMessage, ...status })
  expect(errorStack).toContainEqual(expect.stringMatching(/log\.test\.ts:\d+:\d+\)?$/))
})

describe('errors of others', () => {
  test('say name, code, causes and places, not messages', () => {
    const cause = Object.assign(new TypeError(`cause ${secret}`), {
      code: 'ECONNREFUSED',
      cause: new RangeError(secret, { cause: secret }),
    })
    const error = Object.assign(new Error(`outer ${secret}`, { cause }), {
      code: 'ERR_X',
      headers: { authorization: secret },
    })
    const fields = errorFields(error)
    expect(fields).toMatchObject({
      errorName: 'Error',
      errorCode: 'ERR_X',
      errorCauses: ['TypeError ECONNREFUSED', 'RangeError', 'string'],
    })
    expect(fields.errorStack).toContainEqual(expect.stringMatching(/log\.test\.ts:\d+:\d+\)?$/))
    expect(JSON.stringify(fields)).not.toContain(secret)
  })

  const itsOwnCause = new Error(secret)
  itsOwnCause.cause = itsOwnCause

  test.each([
    ['a message with lines like frames', new Error(`x\n    at ${secret} (file:///${secret}.js:1:1)\n    at ${secret}`)],
    ['a message that was changed later', Object.assign(new Error(`${secret} first`), { message: 'changed' })],
    ['a name from outside', Object.assign(new Error('x'), { name: `Error: ${secret} with spaces` })],
    ['a code from outside', Object.assign(new Error('x'), { code: `code ${secret}` })],
    ['a status from outside', Object.assign(new Error('x'), { status: secret })],
    ['a stack from outside', Object.assign(new Error('x'), { stack: `${secret}\n  ${secret}\n    at ${secret}` })],
    ['a stack that is no text', Object.assign(new Error('x'), { stack: [secret] })],
    ['one that takes our name', Object.assign(new Error(secret), { name: 'TransportError' })],
    ['a cause that is text', new Error('x', { cause: secret })],
    ['a cause that is its own cause', itsOwnCause],
    ['many errors in one', new AggregateError([new Error(secret)], secret)],
  ])('%s', (_, error) => {
    const { errorCauses = [], ...fields } = errorFields(error)
    expect(JSON.stringify([errorCauses, fields])).not.toContain(secret)
    expect(errorCauses.length).toBeLessThanOrEqual(3)
  })

  test('what is no error, and one that can not be read, do not break the log', () => {
    const names = [secret, undefined, null, { message: secret }, 5].map((thrown) => errorFields(thrown).errorName)
    expect(names).toEqual(['string', 'undefined', 'null', 'object', 'number'].map((kind) => `thrown ${kind}`))
    const hostile = new Proxy(new Error(secret), {
      get() {
        throw new Error(secret)
      },
    })
    expect(errorFields(hostile)).toEqual({ errorName: 'an unreadable error' })
  })

  test('a deep stack is cut, also when its places hold the text of the message', () => {
    const dive = (depth: number): Error => (depth === 0 ? new Error('log') : dive(depth - 1))
    expect(errorFields(dive(50)).errorStack).toHaveLength(10)
  })
})
