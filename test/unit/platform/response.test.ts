// How an answer is classified, and Retry-After in all that servers write there. Each HTTP status and kind of body: client-responses.test.ts.
import { describe, expect, test } from 'vitest'
import {
  PlatformFailure,
  classify,
  maxRetryAfterMs,
  retryAfterMs,
  type ClassifiedResponse,
} from '../../../src/platform/http/response.ts'
import type { HttpResponse } from '../../../src/platform/http/http.ts'
import { invalidStatusCode } from '../../../src/platform/wire.ts'

function response(status: number, body: string, headers: Record<string, string> = {}): HttpResponse {
  return { status, headers, body, sentAt: 0, receivedAt: 0 }
}

function read(status: number, body: unknown): ClassifiedResponse {
  return classify(response(status, typeof body === 'string' ? body : JSON.stringify(body)))
}

describe('status and body', () => {
  test('HTTP 401 is unauthorized, with any body', () => {
    for (const body of [{ data: {} }, { code: 'svc.x' }, '<html>']) expect(read(401, body).reason).toBe('unauthorized')
  })

  test.each([400, 403, 500])('HTTP %i that calls the token invalid is unauthorized', (status) => {
    expect(read(status, { error: 'invalid_token' }).reason).toBe('unauthorized')
    const headers = { 'www-authenticate': 'Bearer realm="api", error="invalid_token", error_description="expired"' }
    expect(classify({ ...response(status, ''), headers }).reason).toBe('unauthorized')
    expect(read(200, { error: 'invalid_token', data: {} }).reason).toBe('ok')
  })

  test.each<[number, string | undefined, string, string]>([
    [200, 'svc.rate_limit_exceeded', '', 'throttled'],
    [400, 'RateLimited', '', 'throttled'],
    [403, 'svc.tooManyRequests', '', 'throttled'],
    [500, 'svc.throttled', '', 'throttled'],
    [403, undefined, '30', 'throttled'],
    [403, 'svc.forbidden', '30', 'forbidden'],
    [400, undefined, '30', 'bad-request'],
  ])('HTTP %i with the code %s and Retry-After %j is %s', (status, code, wait, reason) => {
    const headers = wait === '' ? {} : { 'retry-after': wait }
    expect(classify(response(status, JSON.stringify({ code }), headers)).reason).toBe(reason)
  })

  test('an error has a code and no data: a code beside data is one only if the specification has it', () => {
    const body = { code: 'success', data: { webhooks: [] } }
    expect(read(200, body)).toEqual({ reason: 'ok', body, code: undefined })
    expect(read(200, { code: invalidStatusCode, data: {} }).reason).toBe('conflict')
    for (const data of [undefined, null, 'none']) expect(read(200, { code: 'svc.x', data }).reason).toBe('other')
  })

  test('a text that is nested deeper than 64 levels is not parsed; brackets in strings and siblings are no levels', () => {
    const nested = (depth: number): string =>
      `${'{"a":['.repeat(depth / 2)}1${']}'.repeat(depth / 2)}${' '.repeat(20_000)}`
    expect(read(200, nested(64)).reason).toBe('ok')
    expect(read(200, nested(66))).toMatchObject({ reason: 'invalid-body', body: undefined })
    expect(read(200, '['.repeat(6_000_000)).reason).toBe('invalid-body')
    const text = JSON.stringify({ data: Array.from({ length: 1000 }, () => ({ '[[\\"{{': ['}"[\\\\', '\\'] })) })
    expect(read(200, text).body).toEqual(JSON.parse(text))
    expect(read(200, `{"a":"${'['.repeat(100)}`).reason).toBe('invalid-body')
  })
})

describe('Retry-After', () => {
  const now = Date.UTC(2026, 0, 15, 12)
  const inTwoMinutes = 'Thu, 15 Jan 2026 12:02:00 GMT'

  function wait(value: string | undefined, date?: string): number | undefined {
    const headers = { ...(value !== undefined && { 'retry-after': value }), ...(date !== undefined && { date }) }
    return retryAfterMs(response(429, '', headers), now)
  }

  test.each(
    Object.entries({
      '0': 0,
      ' 120 ': 120_000,
      '007': 7_000,
      '300': 300_000,
      '86400': 86_400_000,
      '6.0': 6_000,
      '5.493': 5_493,
      '6, 6': 6_000,
      '6,120': 120_000,
      ['9'.repeat(400)]: Infinity,
    }),
  )('%j seconds', (value, ms) => {
    expect(wait(value)).toBe(ms)
  })

  test.each([
    ['in two minutes by our idea of the platform clock', inTwoMinutes, undefined, 120_000],
    ["relative to the answer's own Date", inTwoMinutes, 'Thu, 15 Jan 2026 12:01:30 GMT', 30_000],
    ['with a Date from another epoch', inTwoMinutes, 'Thu, 15 Jan 2025 12:00:00 GMT', 120_000],
    ['with a Date that only looks like one', inTwoMinutes, '5', 120_000],
    ['with a Date beyond the year 9999', inTwoMinutes, 'Sat, 13 Sep 275760 00:00:00 GMT', 120_000],
    ['that came twice', `${inTwoMinutes}, ${inTwoMinutes}`, undefined, 120_000],
    ['of RFC 850', 'Thursday, 15-Jan-26 12:02:00 GMT', 'Thursday, 15-Jan-26 12:01:00 GMT', 60_000],
    ['of asctime', 'Thu Jan 15 12:02:00 2026', 'Thu Jan 15 12:01:00 2026', 60_000],
    ['of asctime, early in a month', 'Sun Feb  1 12:00:00 2026', 'Sat Jan 31 12:00:00 2026', 86_400_000],
    ['of the last century', 'Sunday, 06-Nov-94 08:49:37 GMT', undefined, 0],
    ['in the past', 'Thu, 15 Jan 2026 11:59:59 GMT', undefined, 0],
  ])('a date %s', (_, value, date, ms) => {
    expect(wait(value, date)).toBe(ms)
  })

  test.each([
    undefined,
    ...['', '-5', '1.', '1e3', '0x10', '5 seconds', '120, x', 'abc 12', '2026-01-15T12:02:00Z'],
    ...['Friday, 15-Jan-26 12:02:00 GMT', 'Thu, 15 Jan 2026 12:02:00 +0100', 'Thu Jan 15 12:02:00 2026 GMT'],
    ...['Thu, 15 Foo 2026 12:02:00 GMT', 'Tue, 31 Feb 2026 12:02:00 GMT'],
  ])('%j says nothing, so the default pause holds', (value) => {
    expect(wait(value)).toBeUndefined()
  })

  test('counts up to a quarter of the window, and a day', () => {
    expect([3_600_000, 2 * 86_400_000, 7 * 86_400_000].map(maxRetryAfterMs)).toEqual([900_000, 43_200_000, 86_400_000])
  })
})

test.each([
  [{ code: 'svc.denied' }, 'svc.denied'],
  [
    { code: 'svc.denied', message: 'Permission webhook:read is missing.' },
    'svc.denied: Permission webhook:read is missing',
  ],
  [{ code: 'svc.denied', message: 7 }, 'svc.denied'],
  [{ code: 'svc.denied', message: `no\u001b[2J: Bearer ${'aB3'.repeat(20)}` }, 'svc.denied: no [2J: Bearer [token]'],
  [{ message: 'no route' }, undefined],
])('the error %j is shown as %s', (body, problem) => {
  expect(read(403, body).problem).toBe(problem)
})

test('a failure says what, why and what to do, and holds nothing else', () => {
  const failure = new PlatformFailure('server-error', 503, 'list')
  expect(failure.message).toBe('list: server-error (HTTP 503)')
  expect(new PlatformFailure('timeout', undefined, 'list').message).toBe('list: timeout')
  expect({ ...failure }).toEqual({
    code: 'PLATFORM_FAILURE',
    name: 'PlatformFailure',
    reason: 'server-error',
    status: 503,
    advice: "if it lasts for 15 min, ask the platform's operator",
  })
  const { advice } = new PlatformFailure('connection', undefined, 'list', { transportCode: 'ECONNREFUSED' })
  expect(advice).toContain('nothing listens there: check platform.baseUrl')
  const forbidden = (problem?: string): string => new PlatformFailure('forbidden', 403, 'list', { problem }).advice
  expect(forbidden('svc.denied')).toMatch(/access to the webhooks$/)
  expect(forbidden()).toContain('a gateway or firewall in front of the platform may be the cause')
})
