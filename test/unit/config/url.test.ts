// URLs: which are taken, in which form; plain http to this machine alone; nothing secret in a refusal.
import { describe, expect, test } from 'vitest'
import { loadWith, problemsOf } from '../../support/configuration.ts'

const base = (url: string, more: Record<string, string> = {}): string =>
  loadWith({ env: { RECONCILER_PLATFORM_BASE_URL: url, ...more } }).config.platform.baseUrl

describe('platform.baseUrl', () => {
  test.each([
    ['https://api.example.com/', 'https://api.example.com'],
    ['https://api.example.com/v1/abc///', 'https://api.example.com/v1/abc'],
    ['https://API.example.com:443/V1', 'https://api.example.com/V1'],
    ['https://api.example.com:8443/a%20b', 'https://api.example.com:8443/a%20b'],
    ['https://api.example.com/a@b', 'https://api.example.com/a@b'],
    ['https://[2001:db8::1]:8443', 'https://[2001:db8::1]:8443'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['http://127.255.255.254', 'http://127.255.255.254'],
    ['http://0x7f.1', 'http://127.0.0.1'],
    ['http://LOCALHOST', 'http://localhost'],
    ['http://[0:0:0:0:0:0:0:1]/v1', 'http://[::1]/v1'],
  ])('%s', (given, taken) => {
    expect(base(given)).toBe(taken)
  })

  test.each([
    'api.example.com',
    'https:api.example.com',
    'https:///v1',
    'ftp://api.example.com',
    'https://api.example.com/v1?a=b',
    'https://api.example.com/#',
    'https://api.exa\tmple.com',
    'https://api.example.com/a b',
    'https://api.example.com\\v1',
    'https://<your-host>/v1',
    'https://api.example.com:99999',
  ])('%j is refused', (url) => {
    const problems = problemsOf(() => base(url))
    expect(problems.map(({ key }) => key)).toEqual(['platform.baseUrl'])
    expect(problems[0]?.message).toMatch(/^must be a URL /)
  })

  test.each([
    'https://user:hunter2@api.example.com',
    'https://hunter2@api.example.com',
    'https://api.example.com?token=hunter2',
  ])('what is secret in a refused URL is not repeated: %s', (url) => {
    const [problem] = problemsOf(() => base(url))
    expect(problem?.message).not.toContain('hunter2')
    expect(problem?.message).toContain('without')
  })
})

describe('plain http', () => {
  test.each([
    'http://api.example.com',
    'HTTP://api.example.com',
    'http://127.example.com',
    'http://localhost.example.com',
    'http://127.0.0.1.example.com',
    'http://0.0.0.0',
    'http://10.0.0.1',
    'http://[::2]',
    'http://192.168.127.1',
    'http://128.0.0.1',
    'http://127.1.example.com',
    'http://localhost.',
  ])('%s is refused, unless the operator insists', (url) => {
    const [problem, ...others] = problemsOf(() => base(url))
    expect(others).toEqual([])
    expect(problem?.message).toMatch(/^must start with https:\/\//)
    expect(base(url, { RECONCILER_PLATFORM_ALLOW_INSECURE: 'true' })).toBe(new URL(url).href.replace(/\/$/, ''))
  })

  test.each([
    ['auth.issuerUrl', { RECONCILER_AUTH_ISSUER_URL: 'http://id.example.com/auth/realms/r' }],
    [
      'auth.authUrl',
      {
        RECONCILER_AUTH_ISSUER_URL: undefined,
        RECONCILER_AUTH_AUTH_URL: 'http://id.example.com',
        RECONCILER_AUTH_REALM: 'r',
      },
    ],
  ])('is refused for %s too', (key, env) => {
    expect(problemsOf(() => loadWith({ env })).map((problem) => problem.key)).toEqual([key])
    expect(() => loadWith({ env: { ...env, RECONCILER_PLATFORM_ALLOW_INSECURE: 'true' } })).not.toThrow()
  })
})

describe('the issuer', () => {
  const issuer = (env: Record<string, string>): string =>
    loadWith({ env: { RECONCILER_AUTH_ISSUER_URL: undefined, ...env } }).config.auth.issuerUrl

  test.each(['https://id.example.com', 'https://id.example.com/', 'https://id.example.com//'])(
    'comes from %s and the realm',
    (host) => {
      expect(issuer({ RECONCILER_AUTH_AUTH_URL: host, RECONCILER_AUTH_REALM: 'main' })).toBe(
        'https://id.example.com/auth/realms/main',
      )
    },
  )

  test('is taken as written, as it is compared as text; only a slash at its end goes', () => {
    expect(issuer({ RECONCILER_AUTH_ISSUER_URL: 'https://ID.example.com:443/auth/realms/Main/' })).toBe(
      'https://ID.example.com:443/auth/realms/Main',
    )
  })

  test.each(['..', '.', 'a/b', 'a?b', 'a#b', 'a b', 'a%2fb', '', 'a\nb'])('a realm %j is refused', (realm) => {
    const env = { RECONCILER_AUTH_AUTH_URL: 'https://id.example.com', RECONCILER_AUTH_REALM: realm }
    expect(problemsOf(() => issuer(env)).map(({ key }) => key)).toEqual(['auth.realm'])
  })
})
