// Every answer that a token endpoint, or what stands in its place, may give.
import { describe, expect, test } from 'vitest'
import { explainRefusal, readTokenResult, type Refused } from '../../../src/platform/auth/token-response.ts'

const now = Date.UTC(2026, 0, 15, 12)

function read(status: number, body: unknown, headers: Record<string, string> = {}): ReturnType<typeof readTokenResult> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return readTokenResult({ status, headers, body: text, sentAt: now, receivedAt: now }, now)
}

const token = { access_token: 'abc.def', token_type: 'Bearer', expires_in: 3600, scope: 'api' }

describe('a token', () => {
  test('as specified', () => {
    expect(read(200, token)).toEqual({ kind: 'granted', value: 'abc.def', lifetimeMs: 3_600_000, scope: 'api' })
  })

  test.each<[number, object]>([
    [200, { token_type: 'BEARER' }],
    [200, { token_type: null }],
    [201, { error: null, refresh_token: 'x', 'not-before-policy': 0 }],
    [203, { error: '', token_type: undefined }],
  ])('under %i, with %j, all the same', (status, changes) => {
    expect(read(status, { ...token, ...changes })).toMatchObject({ kind: 'granted' })
  })

  test.each(
    Object.entries({
      ...{ '3600': 3_600_000, '1': 1_000, '0.5': 1_000, '"3600"': 3_600_000, '" 60.5 "': 60_500 },
      ...{ '86400': 86_400_000, '86401': 86_400_000, '1e999': 86_400_000 },
      ...{ '0': 60_000, '"0"': 60_000, '-1': 60_000, null: 60_000, '[3600]': 60_000 },
      ...{ '"0x10"': 60_000, '"1e3"': 60_000 },
    }),
  )('that lives expires_in = %s is believed for %s ms', (expiresIn, lifetimeMs) => {
    const text = JSON.stringify(token).replace('3600', expiresIn)
    expect(read(200, text)).toMatchObject({ kind: 'granted', lifetimeMs })
  })
})

describe('no token under a status of success', () => {
  test.each([
    ['HTML', '<html><body>Sign in</body></html>', /not JSON/],
    ['cut JSON', '{"access_token":"abc', /not JSON/],
    ['null', 'null', /not JSON/],
    ['a list', [], /no access_token/],
    ['no access_token', { ...token, access_token: undefined }, /no access_token/],
    ['an empty access_token', { ...token, access_token: '' }, /no access_token/],
    ['a number for access_token', { ...token, access_token: 17 }, /no access_token/],
    ['a line break in access_token', { ...token, access_token: 'abc\r\nX-Evil: 1' }, /no header may carry/],
    ['a letter beyond ASCII', { ...token, access_token: 'abcü' }, /no header may carry/],
    ['another token_type', { ...token, token_type: 'DPoP' }, /not Bearer/],
    ['a token_type that is no text', { ...token, token_type: ['Bearer'] }, /not Bearer/],
    ['a token that only the prototype has', '{"__proto__":{"access_token":"abc"}}', /no access_token/],
  ])('%s', (_, body, detail) => {
    expect(read(200, body)).toEqual({
      kind: 'transient',
      reason: 'invalid-body',
      detail: expect.stringMatching(detail) as string,
    })
  })

  test.each([
    ['invalid_client', 'rejected', 'unauthorized'],
    ['invalid_grant', 'rejected', 'bad-request'],
    ['access_denied', 'rejected', 'forbidden'],
    ['temporarily_unavailable', 'transient', 'server-error'],
    ['slow_down', 'transient', 'throttled'],
  ])('an error, even next to a token: %s', (error, kind, reason) => {
    expect(read(200, { ...token, error })).toEqual({ kind, reason, oauthError: error })
  })
})

describe('an error', () => {
  // A gateway's own words are no OAuth error.
  const gateway = ['Not Found', 'Unauthorized', 'invalid\u001b_client', 'x'.repeat(65)].map((error) => ({ error }))
  const others = ['<html>no</html>', '', '{}', '{"error":{"code":1}}', '{"error":""}', '[]', 'null', token, ...gateway]

  test.each([
    [400, 'rejected', 'bad-request'],
    [401, 'rejected', 'unauthorized'],
    [403, 'rejected', 'forbidden'],
    [404, 'rejected', 'not-found'],
    [415, 'rejected', 'other'],
    [408, 'transient', 'server-error'],
    [425, 'transient', 'throttled'],
    [429, 'transient', 'throttled'],
    [500, 'transient', 'server-error'],
    [503, 'transient', 'server-error'],
    [302, 'transient', 'redirect'],
    [999, 'transient', 'server-error'],
  ])('%s with an OAuth error is %s, without one it may pass: %s', (status, kind, reason) => {
    expect(read(status, { error: 'invalid_client' })).toEqual({ kind, reason, status, oauthError: 'invalid_client' })
    for (const body of others) expect(read(status, body)).toEqual({ kind: 'transient', reason, status })
  })

  test.each([
    [404, 'Realm does not exist', 'rejected', 'not-found'],
    [400, 'temporarily_unavailable', 'transient', 'bad-request'],
    [400, 'server_error', 'transient', 'bad-request'],
    [400, 'slow_down', 'transient', 'bad-request'],
  ])('%s with %j is %s', (status, error, kind, reason) => {
    expect(read(status, { error })).toEqual({ kind, reason, status, oauthError: error })
  })

  test('has its texts scrubbed and cut', () => {
    const description = `assertion eyJhbGciOiJSUzI1NiJ9.e30.abc of\nDE89370400440532013000 ${'x '.repeat(300)}`
    const answer = read(401, { error: 'invalid_client', error_description: description })
    if (answer.kind === 'granted') throw new Error('granted')
    expect(answer.oauthError).toBe('invalid_client')
    expect(answer.description).toMatch(/^assertion \[\w+\] of \[\w+\] x x/)
    expect([...(answer.description ?? '')]).toHaveLength(200)
  })

  test.each([[42], [null], [''], [['a']]])('has no description when it is %j', (error_description) => {
    expect(read(400, { error: 'invalid_client', error_description })).not.toHaveProperty('description')
  })
})

test.each([
  [429, '7', 7_000],
  [503, '86400', 86_400_000],
  [429, new Date(now + 90_000).toUTCString(), 90_000],
  [500, '7', undefined],
  [401, '7', undefined],
])('Retry-After under %s: %s', (status, value, expected) => {
  const answer = read(status, '', { 'retry-after': value })
  expect('retryAfterMs' in answer ? answer.retryAfterMs : undefined).toBe(expected)
})

describe('the message and the advice', () => {
  const inWords = (refused: Refused, knowsTime = true): string => {
    const { advice, message } = explainRefusal(refused, { fingerprint: 'f00d', knowsTime })
    return `${message}; ${advice}`
  }

  const keycloak = (words: string): object => ({
    error: 'invalid_client',
    error_description: `Client authentication with signed JWT failed: ${words}`,
  })

  test.each<[number, unknown, RegExp]>([
    [
      401,
      { error: 'invalid_client', error_description: 'nope' },
      /rejected .*invalid_client, "nope"; check auth\.clientId.*f00d.*expired, and auth\.authUrl and auth\.realm \(or auth\.issuerUrl\)$/,
    ],
    ...['Token is not active', 'Token was issued in the future', 'assertion expired', 'JWT not active: exp'].map(
      (words): [number, object, RegExp] => [401, keycloak(words), /"; set this host's clock/],
    ),
    [401, keycloak('Token expiration is too far in the future'), /set this host's clock/],
    [400, keycloak('Invalid token audience'), /the issuer must be written as/],
    [401, keycloak('Token reuse detected'), /sends requests twice/],
    [401, keycloak('Certificate of the assertion has expired'), /check auth\.clientId/],
    [400, { error: 'invalid_scope' }, /invalid_scope; check auth\.scope/],
    [400, { error: 'unsupported_grant_type' }, /check auth\.authUrl/],
    [403, { error: 'access_denied' }, /operator give the service account access/],
    [302, '', /redirects are not followed: check auth\.authUrl/],
    [404, '', /not-found.*check auth\.authUrl/],
    [200, '<html>', /not JSON.*login page or a proxy may respond/],
    [500, { error: 'unknown_error' }, /server-error, unknown_error; if it lasts for 15 min, ask/],
    [418, '', /other.*ask the platform's operator/],
  ])('of %s %j', (status, body, message) => {
    const answer = read(status, body)
    if (answer.kind === 'granted') throw new Error('granted')
    expect(inWords(answer)).toMatch(message)
  })

  test('names the clock where the identity host sends no Date', () => {
    const refused = { kind: 'rejected', reason: 'unauthorized', oauthError: 'invalid_client' } as const
    expect(inWords(refused, false)).toMatch(/check auth\.clientId.*, and this host's clock: .* no Date/)
    expect(inWords(refused)).not.toContain('clock')
  })

  test('of no answer', () => {
    const refused = { kind: 'transient', reason: 'tls', transportCode: 'CERT_HAS_EXPIRED' } as const
    expect(inWords(refused)).toMatch(/: tls \(CERT_HAS_EXPIRED\); .*its certificate has expired/)
  })
})
