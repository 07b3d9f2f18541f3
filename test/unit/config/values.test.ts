// What each kind of value takes and refuses, in the file and in the environment. The kind and bounds of each key stand in docs/configuration.md.
import { describe, expect, test } from 'vitest'
import { environmentName } from '../../../src/config/key.ts'
import type { LoadedConfig } from '../../../src/config/load.ts'
import { keys } from '../../../src/config/schema.ts'
import { loadWith, problemsOf } from '../../support/configuration.ts'

/** `a.b.c` and a YAML value as nested YAML. */
function yamlOf(key: string, value: string): string {
  return `${key
    .split('.')
    .map((part, depth) => `${'  '.repeat(depth)}${part}:`)
    .join('\n')} ${value}\n`
}

function read(config: unknown, key: string): unknown {
  return key.split('.').reduce((section, part) => (section as Record<string, unknown>)[part], config)
}

const id = '123e4567-e89b-12d3-a456-426614174000'
const otherId = id.replaceAll('4', '5')
const pem = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nQUJD\nREVG\n-----END ENCRYPTED PRIVATE KEY-----\n'
const token = '0123456789abcdef0123456789abcde~'

const files = {
  '/plain': 'hunter2',
  '/line-feed': 'hunter2\n',
  '/windows': 'hunter2\r\n',
  '/two-lines': 'a\nhunter2\n\n',
  '/spaces': ' hunter2 ',
  '/empty': '',
  '/line-end': '\n',
}

/** A key in the file, or a variable: what it takes, with its value, and what it refuses. */
const examples: Record<string, [taken: Record<string, unknown>, refused: string[]]> = {
  'window.lookback': [
    { '3d': 259_200_000, '6h': 21_600_000, '90m': 5_400_000, '3600s': 3_600_000, '3600001ms': 3_600_001 },
    ['7', '-1d', '0s', '999999999999d', '[7d]', '1.5d', '1d12h', '7D', '2w', '٣d'],
  ],
  'window.notBefore': [
    { '2026-01-01T00:00:00+01:00': Date.UTC(2025, 11, 31, 23), '2026-01-01 00:00Z': Date.UTC(2026, 0, 1) },
    ['2026-01-01', '2026-01-01T00:00:00', '2026-02-30T00:00:00Z', '1767225600', 'yesterday'],
  ],
  'platform.maxRequestsPerSecond': [{ '0.1': 0.1, '100000': 100_000 }, ['0', '-1', '.nan', '.inf', '1e9', '"20"']],
  'retry.concurrency': [{ '1': 1, '256': 256, '0x10': 16 }, ['0', '257', '1.5', '1_0', '99999999999999999999']],
  'retry.enabled': [{ FALSE: false }, ['yes', '1', '"true"']],
  subscriptions: [
    { [`{${id.toUpperCase()}: payments eu}`]: { [id]: 'payments eu' } },
    [
      ...[
        `{payments: ${id}}`,
        `{${id}: ""}`,
        `{${id}: ${'x'.repeat(41)}}`,
        '[payments]',
        `{${id}: ${id.toUpperCase()}}`,
      ],
      ...[`{${id}: other}`, `{${id}: a, ${id.toUpperCase()}: b}`, `{${id}: a, ${otherId}: a}`],
    ],
  ],
  'server.host': [
    { '"fe80::1%eth0"': 'fe80::1%eth0', localhost: 'localhost' },
    ['"[::1]"', 'localhost:80', '127.0.0.1:80', '"::1:2:3:4:5:6:7:8"', 'http://localhost', '""'],
  ],
  'log.level': [{ warn: 'warn' }, ['INFO', 'verbose', 'silent']],
  'platform.timeZone': [{ 'europe/berlin': 'Europe/Berlin' }, ['Mars/Olympus', '"+01:00"', 'GMT+1', '""']],
  'schedule.cron': [
    {
      '"*/59 */5 * * * *"': '*/59 */5 * * * *',
      '"0 0 */23 * * *"': '0 0 */23 * * *',
      '"  0  0 3 * jan-dec MON-FRI  "': '0 0 3 * jan-dec MON-FRI',
    },
    [
      // Days that never come, other numbers of fields, and steps beyond the field.
      ...['"0 0 0 29 2 *"', '"0 0 0 31 4,6,9,11 *"', '"* * * * *"', '"* * * * * * *"'],
      ...['"*/60 * * * * *"', '"0 */90 * * * *"', '"0 0 */24 * * *"'],
    ],
  ],
  'auth.scope': [{ '""': '', 'api openid': 'api openid' }, ['" api"', '"a  b"', '[api]']],
  'auth.clientId': [
    { '"0123"': '0123', 'urn:client:äöü': 'urn:client:äöü' },
    ['0123', 'true', '" a"', '"a "', '"a\\nb"', '"a\\0b"', '"a\\u0085b"', '""'],
  ],
  'select.eventTypes': [
    { '[]': [], '[b, a-1, b]': ['b', 'a-1'] },
    ['a', '"a,b"', '[[a]]', '[1]', '["a b"]', '[""]', '{a: b}'],
  ],
  'select.subscriptionIds': [{ [`[${id.toUpperCase()}]`]: [id] }, ['[123]', `[${id.slice(0, -1)}]`, `["${id} "]`]],
  'auth.certificateFile': [{ '../a b.pem': '../a b.pem' }, ['""', '"-----BEGIN CERTIFICATE-----"']],
  'receiver.healthUrl': [
    { 'http://receiver:8080/health/?full=1': 'http://receiver:8080/health/?full=1' },
    ['receiver:8080/healthz', 'ftp://receiver/healthz', 'http://receiver/h#full', 'http://u:hunter2@receiver', '""'],
  ],
  'leaderElection.leaseName': [{}, ['Team', 'a_b', '-a', 'a-', 'a'.repeat(254)]],
  'control.token': [{ [token]: token }, ['""']],
  RECONCILER_SUBSCRIPTIONS: [{ [`${id}=a=b`]: { [id]: 'a=b' } }, [`${id}=a,${id}=b`]],
  RECONCILER_WINDOW_LOOKBACK: [{ ' 3d\n': 259_200_000 }, []],
  RECONCILER_WINDOW_NOT_BEFORE: [{}, ['']],
  RECONCILER_RETRY_CONCURRENCY: [{ '+012': 12 }, ['eight', '1e1', '8,0']],
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: [{ '0.5': 0.5 }, []],
  RECONCILER_RETRY_ENABLED: [{ false: false, True: true }, ['no', 'constructor', ' ']],
  RECONCILER_AUTH_SCOPE: [{ '': '' }, []],
  RECONCILER_SELECT_EVENT_TYPES: [{ ' a , b,a ': ['a', 'b'] }, ['a,', '[a, b]', '\n']],
  RECONCILER_SELECT_SUBSCRIPTION_IDS: [{}, ['']],
  RECONCILER_AUTH_CLIENT_ID: [{ '0123': '0123' }, ['x\nhunter2']],
  RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: [{}, ['']],
  // Only the last line end goes.
  RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: [
    {
      ...{ '/plain': 'hunter2', '/line-feed': 'hunter2', '/windows': 'hunter2' },
      ...{ '/two-lines': 'a\nhunter2\n', '/spaces': ' hunter2 ' },
    },
    ['', '/empty', '/line-end', '/hunter2'],
  ],
  // As it stands: who loads the key says what else it is.
  RECONCILER_AUTH_PRIVATE_KEY: [{ [` "${pem}`]: ` "${pem}`, x: 'x' }, []],
  RECONCILER_AUTH_PRIVATE_KEY_FILE: [{}, [pem, pem.replaceAll('\n', ' '), 'MIIJQgIB', btoa(pem), 'QUJD'.repeat(256)]],
  RECONCILER_AUTH_ISSUER_URL: [
    // It is compared as text; only a slash at its end goes.
    { 'https://ID.example.com:443/auth/realms/Main/': 'https://ID.example.com:443/auth/realms/Main' },
    ['http://id.example.com/auth/realms/r'],
  ],
  RECONCILER_PLATFORM_BASE_URL: [
    {
      'https://api.example.com/v1/abc///': 'https://api.example.com/v1/abc',
      'https://API.example.com:443/V1': 'https://api.example.com/V1',
      'https://api.example.com:8443/a%20b@c': 'https://api.example.com:8443/a%20b@c',
      'https://[2001:db8::1]:8443': 'https://[2001:db8::1]:8443',
      'http://127.255.255.254:8080': 'http://127.255.255.254:8080',
      'http://0x7f.1': 'http://127.0.0.1',
      'http://LOCALHOST': 'http://localhost',
      'http://[0:0:0:0:0:0:0:1]/v1': 'http://[::1]/v1',
    },
    [
      ...['api.example.com', 'https:api.example.com', 'https:///v1', 'ftp://api.example.com', 'https://<host>/v1'],
      ...['https://api.example.com?token=hunter2', 'https://api.example.com/#', 'https://api.example.com:99999'],
      ...['https://api.exa\tmple.com', 'https://api.example.com/a b', 'https://api.example.com\\v1'],
      ...['https://user:hunter2@api.example.com', 'https://hunter2@api.example.com'],
    ],
  ],
}

const refusal = expect.stringMatching(
  /^(must (be|have|start) |is empty: |names a file that (is empty|does not exist|can't))/,
) as string

describe.each(Object.entries(examples))('%s', (name, [taken, refused]) => {
  const key = keys.find(({ environment, fileTwin }) => [environment, fileTwin].includes(name))?.key ?? name
  const origin = key === name ? `config.yaml:${key.split('.').length}` : name
  function load(value: string): LoadedConfig {
    if (key === name) return loadWith({ yaml: yamlOf(key, value), env: { [environmentName(key)]: undefined } })
    const others = name === 'RECONCILER_AUTH_PRIVATE_KEY' ? { RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined } : {}
    return loadWith({ env: { ...others, [name]: value }, files: { ...files, '': 'x' } })
  }

  test.each(Object.entries(taken))('%j', (text, value) => {
    const { config, origins } = load(text)
    expect(read(config, key)).toEqual(value)
    expect(origins.get(key)).toBe(origin)
  })

  test.each(refused)('%j is refused', (text) => {
    const problems = problemsOf(() => load(text))
    expect(problems).toEqual([{ key, origin, message: refusal }])
    expect(problems[0]?.message).not.toMatch(/hunter2|QUJD/)
  })
})

test.each([
  ...['http://api.example.com', 'HTTP://api.example.com', 'http://0.0.0.0', 'http://10.0.0.1', 'http://[::2]'],
  ...['http://127.example.com', 'http://127.0.0.1.example.com', 'http://127.1.example.com', 'http://192.168.127.1'],
  ...['http://localhost.example.com', 'http://localhost.'],
])('%s is refused, unless the operator insists', (url) => {
  const env = { RECONCILER_PLATFORM_BASE_URL: url }
  const message = expect.stringMatching(/^must start with https:\/\//) as string
  expect(problemsOf(() => loadWith({ env }))).toMatchObject([{ key: 'platform.baseUrl', message }])
  const insists = { RECONCILER_PLATFORM_ALLOW_INSECURE: 'true', NODE_TLS_REJECT_UNAUTHORIZED: '0' }
  const insisting = loadWith({ env: { ...env, ...insists } })
  expect(insisting.config.platform.baseUrl).toBe(new URL(url).href.replace(/\/$/, ''))
})

describe('the issuer of a host and a realm', () => {
  const issuer = (authUrl: string, realm: string): string =>
    loadWith({
      env: {
        RECONCILER_AUTH_ISSUER_URL: undefined,
        RECONCILER_AUTH_AUTH_URL: authUrl,
        RECONCILER_AUTH_REALM: realm,
      },
    }).config.auth.issuerUrl

  test.each(['https://id.example.com', 'https://id.example.com//'])('%s', (host) => {
    expect(issuer(host, 'main')).toBe('https://id.example.com/auth/realms/main')
  })

  test.each([
    ['http://id.example.com', 'main', 'auth.authUrl'],
    ...['..', '.', 'a/b', 'a?b', 'a#b', 'a b', 'a%2fb', '', 'a\nb'].map((realm) => [
      'https://a.b',
      realm,
      'auth.realm',
    ]),
  ])('%s and %j are refused', (host = '', realm = '', key) => {
    expect(problemsOf(() => issuer(host, realm)).map((problem) => problem.key)).toEqual([key])
  })
})

test.each([
  ['eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJjIn0.c2ln', /^must be one of debug, .*, not "\[token\]"$/],
  [`loud\u001b[31m\u2028${'x'.repeat(500)}`, /^must be one of debug, .*, not "loud\?\[31m\?x{1,60}\.\.\."$/],
])(
  'a refused value is shown, but no token, not all of a long one, and nothing that could forge a line: %j',
  (level, message) => {
    const [problem] = problemsOf(() => loadWith({ env: { RECONCILER_LOG_LEVEL: level } }))
    expect(problem?.message).toMatch(message)
  },
)
