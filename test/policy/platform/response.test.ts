// Every answer is classified once: each HTTP status with each kind of body, and Retry-After in all that servers write there.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  maxRetryAfterMs,
  PlatformFailure,
  classify,
  retryAfterMs,
  type ClassifiedResponse,
} from '../../../src/platform/http/response.ts'
import { reasons, type HttpResponse, type Reason } from '../../../src/platform/http/http.ts'
import { invalidStatusCode } from '../../../src/platform/wire.ts'

function response(status: number, body: string, headers: Record<string, string> = {}): HttpResponse {
  return { status, headers, body, sentAt: 0, receivedAt: 0 }
}

function read(status: number, body: unknown): ClassifiedResponse {
  return classify(response(status, typeof body === 'string' ? body : JSON.stringify(body)))
}

const statuses: [number, Reason][] = [
  [200, 'ok'],
  [201, 'ok'],
  [299, 'ok'],
  [100, 'other'],
  [199, 'other'],
  [300, 'redirect'],
  [302, 'redirect'],
  [304, 'redirect'],
  [308, 'redirect'],
  [399, 'redirect'],
  [400, 'bad-request'],
  [401, 'unauthorized'],
  [402, 'other'],
  [403, 'forbidden'],
  [404, 'not-found'],
  [405, 'other'],
  [407, 'other'],
  [408, 'timeout'],
  [409, 'conflict'],
  [410, 'not-found'],
  [413, 'bad-request'],
  [415, 'other'],
  [418, 'other'],
  [422, 'bad-request'],
  [425, 'throttled'],
  [429, 'throttled'],
  [451, 'other'],
  [499, 'other'],
  [500, 'server-error'],
  [502, 'server-error'],
  [503, 'server-error'],
  [504, 'server-error'],
  [599, 'server-error'],
  [600, 'other'],
  [999, 'other'],
]

describe('status and body', () => {
  test.each(statuses)('HTTP %i without a code is %s', (status, reason) => {
    expect(read(status, { data: {} })).toMatchObject({ reason, code: undefined })
  })

  test.each(statuses)('HTTP %i with the known code is a conflict: the code decides first', (status) => {
    const body = { timestamp: '2026-01-15T12:00:00.000', code: invalidStatusCode, message: 'm', messageParameters: [] }
    expect(read(status, body)).toMatchObject({ reason: 'conflict', code: invalidStatusCode })
  })

  test.each(statuses)('HTTP %i with an unknown code goes by its status, but is never ok', (status, reason) => {
    expect(read(status, { code: 'svc.unheard_of' })).toMatchObject({
      reason: reason === 'ok' ? 'other' : reason,
      code: 'svc.unheard_of',
    })
  })

  test.each(statuses)('HTTP %i without JSON goes by its status, but is never ok', (status, reason) => {
    expect(read(status, '<html>it works</html>')).toMatchObject({
      reason: reason === 'ok' ? 'invalid-body' : reason,
      body: undefined,
      code: undefined,
    })
  })

  test.each([
    'constructor',
    'toString',
    'hasOwnProperty',
    '__proto__',
    'valueOf',
    invalidStatusCode.toUpperCase(),
    ` ${invalidStatusCode}`,
    `${invalidStatusCode}2`,
  ])('the code %j is not one that we know', (code) => {
    expect(read(400, JSON.stringify({ x: 1 }).replace('"x":1', `"code":${JSON.stringify(code)}`))).toMatchObject({
      reason: 'bad-request',
    })
    expect(read(200, { code }).reason).toBe('other')
  })

  test.each(['', 'null', '1', 'true', '"text"', '{"a":', '{} {}', 'NaN', "{'a':1}", '\0', '}'])(
    'HTTP 200 with %j is no usable body',
    (body) => {
      expect(read(200, body).reason).toBe('invalid-body')
    },
  )

  test.each([{}, [], { code: '' }, { code: null }, { code: 0 }, { code: ['x'] }, { code: { x: 1 } }, [{ code: 'x' }]])(
    'HTTP 200 with %j shows no error',
    (body) => {
      expect(read(200, body)).toMatchObject({ reason: 'ok', code: undefined, body })
    },
  )

  test('a byte order mark before the JSON, as some gateways write it, is passed over', () => {
    expect(read(200, '\ufeff{"data":{}}')).toMatchObject({ reason: 'ok', body: { data: {} } })
  })

  test('a body nested a million deep is read without falling over', () => {
    expect(read(200, '['.repeat(1e6) + ']'.repeat(1e6)).reason).toBe('invalid-body')
    expect(read(200, '['.repeat(1e6)).reason).toBe('invalid-body')
  })

  test('no matter what comes, the reason is one of the list', () => {
    const known = new Set<unknown>(reasons)
    const bodies = fc.oneof(
      fc.json(),
      fc.string(),
      fc.string().map((code) => JSON.stringify({ code })),
    )
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 999 }), bodies, (status, body) => {
        const answer = read(status, body)
        expect(known).toContain(answer.reason)
        if (answer.reason === 'ok') expect(typeof answer.body).toBe('object')
      }),
    )
  })
})

describe('Retry-After', () => {
  const now = Date.UTC(2026, 0, 15, 12)
  const inTwoMinutes = 'Thu, 15 Jan 2026 12:02:00 GMT'

  function wait(value: string | undefined, date?: string): number | undefined {
    const headers = { ...(value !== undefined && { 'retry-after': value }), ...(date !== undefined && { date }) }
    return retryAfterMs(response(429, '', headers), now)
  }

  test.each([
    ['0', 0],
    ['1', 1_000],
    [' 120 ', 120_000],
    ['007', 7_000],
    ['300', 300_000],
    ['301', maxRetryAfterMs],
    ['99999999999999999999999', maxRetryAfterMs],
    ['9'.repeat(400), maxRetryAfterMs],
  ])('%j seconds', (value, ms) => {
    expect(wait(value)).toBe(ms)
  })

  test.each([
    ['in two minutes by our idea of the platform clock', inTwoMinutes, undefined, 120_000],
    ["relative to the answer's own Date", inTwoMinutes, 'Thu, 15 Jan 2026 12:01:30 GMT', 30_000],
    ['with a Date from another epoch', inTwoMinutes, 'Thu, 15 Jan 1970 12:00:00 GMT', maxRetryAfterMs],
    ['with a Date that is none', inTwoMinutes, 'half past', 120_000],
    ['with a Date that only looks like one', inTwoMinutes, '5', 120_000],
    ['in the past', 'Thu, 15 Jan 2026 11:59:59 GMT', undefined, 0],
    ['in a year', 'Fri, 15 Jan 2027 12:00:00 GMT', undefined, maxRetryAfterMs],
  ])('a date %s', (_, value, date, ms) => {
    expect(wait(value, date)).toBe(ms)
  })

  test.each([
    undefined,
    '',
    '   ',
    '-5',
    '+5',
    '1.5',
    '1e3',
    '0x10',
    '5;',
    '5 seconds',
    'tomorrow 5',
    'soon',
    'abc 12',
    '120, 120',
    '2026-01-15',
    '2026-01-15T12:02:00Z',
    'Thu Jan 15 12:02:00 2026',
    'Thursday, 15-Jan-26 12:02:00 GMT',
    'Thu, 15 Jan 2026 12:02:00 +0100',
    'Thu, 15 Foo 2026 12:02:00 GMT',
    '٥',
  ])('%j says nothing, so the default pause holds', (value) => {
    expect(wait(value)).toBeUndefined()
  })

  test('no matter what a server writes there, it is nothing or 0 to 5 minutes', () => {
    const values = fc.oneof(fc.string(), fc.integer().map(String), fc.date().map(String), fc.double().map(String))
    fc.assert(
      fc.property(values, fc.option(values, { nil: undefined }), (value, date) => {
        const ms = wait(value, date)
        if (ms === undefined) return
        expect(ms).toBeGreaterThanOrEqual(0)
        expect(ms).toBeLessThanOrEqual(maxRetryAfterMs)
      }),
    )
  })
})

describe('PlatformFailure', () => {
  test('says what and why, and holds nothing else', () => {
    const failure = new PlatformFailure('server-error', 503, 'list')
    expect(failure.message).toBe('list: server-error (HTTP 503)')
    expect(new PlatformFailure('timeout', undefined, 'list').message).toBe('list: timeout')
    expect({ ...failure }).toEqual({
      code: 'PLATFORM_FAILURE',
      name: 'PlatformFailure',
      reason: 'server-error',
      status: 503,
      advice: "if it lasts, ask the platform's operator",
    })
  })

  test.each([
    ['connection', 'ECONNREFUSED', 'nothing listens there: check platform.baseUrl'],
    ['timeout', undefined, 'raise platform.requestTimeout'],
    ['forbidden', undefined, 'access to the webhooks'],
  ] as const)('%s (%s) has advice of its own', (reason, transportCode, advice) => {
    expect(new PlatformFailure(reason, undefined, 'list', transportCode).advice).toContain(advice)
  })
})

describe('an error has a code and no data', () => {
  test('so an answer that carries both is an answer', () => {
    const body = { code: 'success', data: { webhooks: [] } }
    expect(read(200, body)).toEqual({ reason: 'ok', body, code: undefined })
  })

  test('unless its code is one of the specification', () => {
    expect(read(200, { code: invalidStatusCode, data: {} })).toMatchObject({ reason: 'conflict' })
  })

  test.each([undefined, null, 'none'])('data that is %j is none', (data) => {
    expect(read(200, { code: 'svc.x', data })).toMatchObject({ reason: 'other', code: 'svc.x' })
  })
})

describe('a text that is nested too deep is not parsed', () => {
  const nested = (depth: number): string =>
    `${'{"a":['.repeat(depth / 2)}1${']}'.repeat(depth / 2)}${' '.repeat(20_000)}`

  test('above 64 levels', () => {
    expect(read(200, nested(64)).reason).toBe('ok')
    expect(read(200, nested(66))).toMatchObject({ reason: 'invalid-body', body: undefined })
    expect(read(200, '['.repeat(6_000_000)).reason).toBe('invalid-body')
  })

  test('brackets in strings and siblings are no levels', () => {
    const text = JSON.stringify({ data: Array.from({ length: 500 }, () => ({ '[[\\"{{': ['}"[\\\\', '\\'] })) })
    expect(read(200, text).body).toEqual(JSON.parse(text))
    expect(read(200, `{"a":"${'['.repeat(100)}`).reason).toBe('invalid-body')
  })
})
