// What is refused: each problem is reported once, in one line, with its place; no secret is repeated, and nothing crashes.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { anyCharacter } from '../../support/any-text.ts'
import { load, loadWith, problemsOf, toldOf, type Sources } from '../../support/configuration.ts'

test('all problems at once, each in one line, and nothing but these', () => {
  const yaml = `
platform:
  baseURL: https://api.example.com
  requestTimeout: 10
auth:
  realm: 0123
retry:
  backoff: {initial: 7h}
  concurrency: 0
  colour: red
log: debug
window: {settle: soon}
`
  const loading = (): unknown =>
    load({ yaml, env: { RECONCILER_SERVER_PORT: '99999', RECONCILER_SCHEDULE_CRONE: 'x', OTHER: '1' } })
  const told = [
    'platform.baseURL (config.yaml:3): there is no such key; platform has baseUrl, timeZone, requestTimeout, maxRequestsPerSecond, allowInsecure',
    'platform.baseUrl (missing): is required: set it in the file that --config names, or as RECONCILER_PLATFORM_BASE_URL',
    'auth.realm (config.yaml:6): must be text, and YAML reads a number here: put it in quotes',
    'auth.authUrl (missing): is required, as auth.realm is set (config.yaml:6)',
    'auth.clientId (missing): is required: set it in the file that --config names, or as RECONCILER_AUTH_CLIENT_ID',
    'auth.privateKeyFile (missing): is required, or auth.privateKey or auth.signCommand in its place',
    'retry.backoff.initial (config.yaml:8): is 7h, but must be at most retry.backoff.max, which is 6h (default)',
    'retry.concurrency (config.yaml:9): must be a whole number from 1 to 256, not 0',
    'retry.colour (config.yaml:10): there is no such key; retry has enabled, concurrency, maxPerSecond, maxAttempts, backoff',
    'log (config.yaml:11): is a section: it needs keys below it, such as log.level',
    'window.settle (config.yaml:12): must be a duration from 0s to 1d, written as a whole number and one unit (ms, s, m, h, d), such as 90s, not "soon"',
    'server.port (RECONCILER_SERVER_PORT): must be a whole number from 0 to 65535, not 99999',
    'RECONCILER_SCHEDULE_CRONE (environment): there is no such variable; of this section there are RECONCILER_SCHEDULE_CRON, RECONCILER_SCHEDULE_TIME_ZONE',
    'platform.requestTimeout (config.yaml:4): must be a duration from 100ms to 5m, written as a whole number and one unit (ms, s, m, h, d), such as 90s, not 10',
  ]
  expect(toldOf(loading).toSorted()).toEqual(told.toSorted())
  expect(loading).toThrow(toldOf(loading).join('\n'))
})

/** The beginning of the problem, by the file that has it. */
const files: Record<string, string> = {
  'log:\n  level: info\n  level: debug': '--config (config.yaml:3): this key is repeated: keep one',
  'log:\n\tlevel: info': '--config (config.yaml:2): a tab in the indentation',
  'retry:\n    enabled: true\n  concurrency: 2': '--config (config.yaml:3): the indentation does not fit',
  'log:\n  level: "info\n': '--config (config.yaml:3): something is not closed',
  'log: level: info': '--config (config.yaml:1): a second ": " in one line',
  'log:\n  level: @info': '--config (config.yaml:2): the value starts with a character',
  'schedule:\n  cron: */30 * * * * *': '--config (config.yaml:2): not understood: put values that start with *',
  'log: {}\n---\nretry: {}': '--config (config.yaml:2): a second document',
  'log:\n  level: !secret info': '--config (config.yaml:2): a tag (!...) is not supported',
  '? [log]\n: {}': '--config (config.yaml:1): a key must be plain text',
  '- log': '--config (config.yaml): must hold sections with keys',
  // Forms that people bring from elsewhere.
  'l\0o\0g\0:\0': '--config (config.yaml:1): is UTF-16, or no text',
  '\ufffd\ufffdl\0o': '--config (config.yaml:1): is UTF-16, or no text',
  'log:\r  level: info\r': '--config (config.yaml:1): has lines that end with a carriage return alone',
  'log:\n\u00a0 level: info': '--config (config.yaml:2): a no-break space in the indentation',
  'log:\n  level: {{ .Values.level }}': '--config (config.yaml:2): an unrendered template ({{ ... }})',
  'apiVersion: v1\nkind: ConfigMap\ndata: {}': '--config (config.yaml:2): a Kubernetes manifest',
  '[platform]\nbaseUrl = "https://api.example.com"': '--config (config.yaml:1): TOML',
  '// the log\nlog: {}': '--config (config.yaml:1): a comment begins with #',
  'reconciler:\n  log: {level: info}':
    'reconciler (config.yaml:1): there is no such section: what is below it belongs to the top',
  'subscriptions:\n  123e4567-e89b-12d3-a456-426614174000: b\n  123e4567-e89b-12d3-a456-426614174000: c\n':
    '--config (config.yaml:3): this key is repeated: keep one',
  'instance: {name: "\'svc\'"}': 'instance.name (config.yaml:1): has quotes that are part of the value',
  'receiver: {healthUrl: "https://${HOST}/v1"}':
    'receiver.healthUrl (config.yaml:1): holds the placeholder ${HOST}, which',
  'instance: {name: <client-id>}': 'instance.name (config.yaml:1): holds the placeholder <client-id>, which',
  'instance: {name: "svc\u200b"}': 'instance.name (config.yaml:1): holds an invisible character (U+200B)',
  'server: {host: "0.0.0.0:10964"}': 'server.host (config.yaml:1): must be a host name or an address to listen on',
  'window:\n  lookback: &a 2d\n  settle: *a': 'window.settle (config.yaml:3): aliases (*name) are not supported',
  'log: &a {}\nretry: *a': 'retry (config.yaml:2): aliases (*name) are not supported',
  'select:\n  subscriptionIds: &a []\n  eventTypes: [*a]':
    'select.eventTypes (config.yaml:3): aliases (*name) are not supported',
  'log: &a {}\nretry:\n  <<: *a': 'retry.<< (config.yaml:3): there is no such key',
  'log.level: debug': 'log.level (config.yaml:1): sections are nested: write log: and indented below it level:',
  'retry.backoff: {}': 'retry.backoff (config.yaml:1): sections are nested: write retry:',
  'retry:\n  backoff: 1m':
    'retry.backoff (config.yaml:2): is a section: it needs keys below it, such as retry.backoff.',
  'log:\n  level:': 'log.level (config.yaml:2): has no value',
  '__proto__:\n  level: info': '__proto__ (config.yaml:1): there is no such key',
  'constructor: {prototype: {a: 1}}': 'constructor (config.yaml:1): there is no such key',
  'retry:\n  concurrency: true': 'retry.concurrency (config.yaml:2): must be a whole number from 1 to 256, not true',
  'log:\r\n  level: loud\r\n': 'log.level (config.yaml:2): must be one of',
  '"a\\nlog.level (config.yaml:1)\\u001b[2J": 1':
    'a?log.level (config.yaml:1)?[2J (config.yaml:1): there is no such key',
  'window: {lookback: 1h, settle: 1h}': 'window.settle (config.yaml:1): is 1h, but must be below',
  'retry: {backoff: {max: 30s}}': 'retry.backoff.initial (default): is 1m, but must be at most',
  'window: {lookback: 90s, settle: 0s}\nretry: {backoff: {initial: 90s}}':
    'retry.backoff.initial (config.yaml:2): is 90s, but must be below window.lookback, which is 90s',
  // Deliveries would leave the window between two sweeps.
  'window: {lookback: 12h}\nschedule: {cron: 0 0 2 * * *}':
    'schedule.cron (config.yaml:2): leaves up to 1d between two sweeps, more than three quarters of the time from window.lookback',
  'window: {lookback: 1d}\nschedule: {cron: 0 0 2 1 1 *}': 'schedule.cron (config.yaml:2): leaves up to 366d between',
  'window: {lookback: 7d}\nschedule: {cron: 0 0 0 * * SUN}': 'schedule.cron (config.yaml:2): leaves up to 7d between',
  'window: {lookback: 3d}\nschedule: {cron: "* * 8-18 * * MON-FRI"}': 'schedule.cron (config.yaml:2): leaves up to ',
  'window: {lookback: 1h}\nschedule: {cron: 0 0 22 * * *}': 'schedule.cron (config.yaml:2): leaves up to 1d between',
  // A wrong maximum says nothing of what it bounds.
  'retry: {backoff: {max: 30}}': 'retry.backoff.max (config.yaml:1): must be a duration',
}

test.each(Object.entries(files))('%j', (yaml, told) => {
  expect(toldOf(() => loadWith({ yaml }))).toEqual([expect.stringContaining(told)])
})

test.each([
  'retry: {backoff: {max: 1m}}',
  'window: {lookback: 1h, settle: 59m}',
  'window: {lookback: 32h, settle: 0s}\nschedule: {cron: 0 0 2 * * *}',
  'schedule: {cron: "* * 8-18 * * MON-FRI"}',
])('bounds that touch are taken: %s', (yaml) => {
  expect(() => loadWith({ yaml })).not.toThrow()
})

const key = 'privateKeyFile: /k'
const issuer = 'issuerUrl: https://i.example.com'
const host = 'authUrl: https://i.example.com'
const pem = String.raw`privateKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"`

/** Of one source too much or too little. */
const authentications: Record<string, string> = {
  [key]: 'auth.issuerUrl (missing)',
  [`${key}, ${host}`]: 'auth.realm (missing)',
  [`${key}, realm: r`]: 'auth.authUrl (missing)',
  [`${key}, ${issuer}, ${host}`]: 'auth.issuerUrl (config.yaml:1)',
  [`${key}, ${issuer}, realm: r`]: 'auth.issuerUrl (config.yaml:1)',
  [`${key}, ${host}/auth/realms/r, realm: r`]: 'auth.authUrl (config.yaml:1)',
  [issuer]: 'auth.privateKeyFile (missing)',
  [`${issuer}, ${key}, ${pem}`]: 'auth.privateKeyFile (config.yaml:1)',
  [`${issuer}, ${key}, signCommand: [sign], certificateFile: /c`]:
    'auth.privateKeyFile (config.yaml:1): auth.signCommand',
  [`${issuer}, signCommand: [sign]`]: 'auth.certificateFile (missing): is required, as auth.signCommand is set',
  [`${issuer}, signCommand: [sign], certificateFile: /c, privateKeyPassphrase: p`]:
    'auth.privateKeyPassphrase (config.yaml:1): has no effect, as auth.signCommand is set',
  [`${issuer}, signCommand: sign --key a, certificateFile: /c`]: 'auth.signCommand (config.yaml:1): must be a list',
  [`${issuer}, signCommand: [], certificateFile: /c`]: 'auth.signCommand (config.yaml:1): must be a list',
  [`${issuer}, signCommand: ['', x], certificateFile: /c`]: 'auth.signCommand (config.yaml:1): must be a list',
  // A wrong realm is not also missing.
  [`${key}, ${host}, realm: ../x`]: 'auth.realm (config.yaml:1)',
}

test.each(Object.entries(authentications))('auth: {%s}', (auth, told) => {
  const env = { RECONCILER_AUTH_ISSUER_URL: undefined, RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined }
  expect(toldOf(() => loadWith({ yaml: `auth: {${auth}}`, env }))).toEqual([expect.stringContaining(told)])
})

test('a moment that lies ahead is no beginning of the window', () => {
  const yaml = 'window: {notBefore: 2026-01-01T00:00:00Z}'
  const at = (now: number) => (): unknown => loadWith({ yaml, clock: { now: () => now } })
  expect(at(Date.UTC(2026, 0, 1))).not.toThrow()
  expect(toldOf(at(Date.UTC(2026, 0, 1) - 1))).toEqual([
    expect.stringContaining('window.notBefore (config.yaml:1): is in the future'),
  ])
})

test.each([
  ['unknown keys', '1'],
  ['values that begin with @', '@'],
])('of a file with ten thousand %s the first fifty are told', (_, value) => {
  const yaml = Array.from({ length: 10_000 }, (__, n) => `k${n}: ${value}`).join('\n')
  expect(problemsOf(() => loadWith({ yaml }))).toHaveLength(50)
})

const twin = 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE'

/** Variables with the same value, and a part of the problem of each. */
const variables: [names: string[], value: string, told: string][] = [
  [['RECONCILER_', 'RECONCILER_LOG', 'RECONCILER_CONFIGURATION', 'RECONCILER___PROTO__'], 'hunter2', ' (environment)'],
  // Only secrets have such a twin.
  [['RECONCILER_AUTH_CLIENT_ID_FILE'], 'hunter2', ' (environment)'],
  [[twin, twin.replace('_FILE', '')], '/run/p', `auth.privateKeyPassphrase (${twin}): RECONCILER_AUTH_PRIVATE_KEY_`],
  // No variables of a Service, although they are called so.
  [['RECONCILER_SERVICE_HOST'], '0.0.0.0', ' (environment)'],
  [['RECONCILER_SERVICE_HOST'], 'localhost', ' (environment)'],
  [['RECONCILER_SERVICE_HOST'], '::', ' (environment)'],
  [['RECONCILER_SERVICE_PORT'], 'http', ' (environment)'],
  [['RECONCILER_PORT', 'RECONCILER_SERVICEPORT'], '10964', ' (environment)'],
  [['RECONCILER_PORT_10964'], 'tcp://10.96.0.7:10964', ' (environment)'],
  ...['http://10.0.0.1:80', 'tcp', '10.0.0.1:80', '80/tcp'].map((value): [string[], string, string] => [
    ['RECONCILER_SERVER_PORT'],
    value,
    'server.port (RECONCILER_SERVER_PORT): must be a whole number',
  ]),
  // A token is not repeated.
  [
    ['RECONCILER_CONTROL_TOKEN'],
    'hunter2-0123456789012345678901',
    'control.token (RECONCILER_CONTROL_TOKEN): must be at least 32',
  ],
  ...['hunter2-0123456789\n', 'hunter2 0123456789', 'hunter2-äöü'].map((value): [string[], string, string] => [
    ['RECONCILER_CONTROL_TOKEN'],
    value,
    'control.token (RECONCILER_CONTROL_TOKEN): must contain only ASCII',
  ]),
  // As docker --env-file, a shell that fills in nothing, and a chat hand them over.
  [
    ['RECONCILER_AUTH_CLIENT_ID', 'RECONCILER_CONTROL_TOKEN', 'RECONCILER_SELECT_EVENT_TYPES'],
    '"hunter2"',
    ': has quotes that',
  ],
  [
    ['RECONCILER_AUTH_CLIENT_ID', 'RECONCILER_INSTANCE_NAME'],
    '${CLIENT_ID}',
    ': holds the placeholder ${CLIENT_ID}, which',
  ],
  [['RECONCILER_CONTROL_TOKEN'], 'https://hunter2/${X}', ': holds a placeholder such as ${NAME}, which'],
  [['RECONCILER_AUTH_CLIENT_ID'], 'hunter2\u200d', ': holds an invisible character (U+200D)'],
  [['NODE_TLS_REJECT_UNAUTHORIZED'], '0', 'NODE_TLS_REJECT_UNAUTHORIZED (environment): is 0, so any certificate'],
]

test.each(variables)('%j=%j', (names, value, told) => {
  const env = Object.fromEntries(names.map((name) => [name, value]))
  const all = toldOf(() => loadWith({ env }))
  expect(all.length).toBe(names.length === 2 && names[0] === twin ? 1 : names.length)
  for (const line of all) {
    expect(line).toContain(told)
    expect(line).not.toContain('hunter2')
  }
})

const id = 'https://id.example'
const realm = `${id}/auth/realms/main`

/** Mistakes that would pass in silence, by the part of the name behind `RECONCILER_`; undefined: it is none. */
test.each<[given: Record<string, string>, told: string | undefined]>([
  [
    { PLATFORM_BASE_URL: 'https://a.example/v1/webhooks/' },
    'platform.baseUrl (RECONCILER_PLATFORM_BASE_URL): ends in /webhooks, which each call appends: give the part before it',
  ],
  [{ PLATFORM_BASE_URL: 'https://a.example/webhooks/123e4567-e89b-12d3-a456-426614174000' }, 'ends in /webhooks'],
  // An API whose own path has a part of that name.
  [{ PLATFORM_BASE_URL: 'https://a.example/webhooks/v1' }, undefined],
  [{ PLATFORM_BASE_URL: realm }, 'platform.baseUrl (RECONCILER_PLATFORM_BASE_URL): is an address of the identity'],
  [{ AUTH_AUTH_URL: `${id}/auth`, AUTH_REALM: 'main' }, 'ends in /auth, which the issuer appends'],
  [{ AUTH_AUTH_URL: realm, AUTH_REALM: 'main' }, 'holds a realm already, so it is an issuer'],
  [{ AUTH_AUTH_URL: `${id}/realms/main`, AUTH_REALM: 'main' }, 'holds a realm already'],
  [{ AUTH_ISSUER_URL: `${realm}/protocol/openid-connect/token` }, 'is not an issuer, but a URL below one'],
  [{ AUTH_ISSUER_URL: `${realm}/.well-known/openid-configuration` }, 'is not an issuer, but a URL below one'],
  [{ AUTH_ISSUER_URL: `${id}/oauth2/token` }, 'is not an issuer, but a URL below one'],
  [
    { CONTROL_ALLOW_REMOTE: 'true' },
    'control.allowRemote (RECONCILER_CONTROL_ALLOW_REMOTE): has no effect without control.token: set that too, or omit this',
  ],
  // A switch that is off, and one that was set on purpose, need nothing.
  [{ CONTROL_ALLOW_REMOTE: 'false' }, undefined],
  [{ CONTROL_ALLOW_REMOTE: 'true', CONTROL_TOKEN: 'a-token-that-is-longer-than-32-characters' }, undefined],
  [{ LEDGER_KEY: 'webhookId' }, 'has no effect without ledger.url'],
  [{ LEDGER_SETTLE: '1h' }, 'has no effect without ledger.url'],
  [{ LEDGER_LOOKBACK: '2d' }, 'has no effect without ledger.url'],
  [{ LEADER_ELECTION_LEASE_NAME: 'mine' }, 'has no effect without leaderElection.kind'],
  [{ LEADER_ELECTION_LEASE_DURATION: '30s' }, 'has no effect without leaderElection.kind'],
  [{ LEADER_ELECTION_LEASE_NAME: 'mine', LEADER_ELECTION_KIND: 'none' }, undefined],
])('%j: %s', (given, told) => {
  const issuer = 'AUTH_AUTH_URL' in given ? { RECONCILER_AUTH_ISSUER_URL: undefined } : {}
  const own = Object.fromEntries(Object.entries(given).map(([name, value]) => [`RECONCILER_${name}`, value]))
  const loading = (): unknown => loadWith({ env: { ...issuer, ...own } })
  if (told === undefined) expect(loading).not.toThrow()
  else expect(toldOf(loading)).toEqual([expect.stringContaining(told)])
})

describe('a file that can not be read', () => {
  test.each<[unknown, RegExp]>([
    [Object.assign(new Error('secret detail'), { code: 'ENOENT' }), /^does not exist; check the path.*\(ENOENT\)$/],
    [Object.assign(new Error('secret detail'), { code: 'EIO' }), /^can't be read \(EIO\)$/],
    ['thrown text', /^can't be read \(no code\)$/],
  ])('hides what may stand in it, and only that: %s', (error, message) => {
    const readFile = (): never => {
      throw error
    }
    const env = { RECONCILER_LOG_LEVEL: 'loud' }
    expect(problemsOf(() => loadConfig({ file: '/c.yaml', env, hostName: 'h', readFile }))).toMatchObject([
      { key: '--config', origin: '/c.yaml', message: expect.stringMatching(message) as string },
      { key: 'log.level', origin: 'RECONCILER_LOG_LEVEL' },
    ])
  })

  test('nor parsed hides as much', () => {
    const told = toldOf(() => load({ yaml: 'log: [', env: { RECONCILER_LOG_LEVEL: 'x' } }))
    expect(told).toEqual([expect.stringContaining('--config '), expect.stringContaining('log.level ')])
  })
})

const secret = 'hunter2-very-secret'

test.each<Sources>([
  { env: { RECONCILER_AUTH_PASSPHRASE: secret } },
  { env: { [twin]: secret } },
  ...[`[${secret}]`, `{a: ${secret}}`, `${secret}: x`, `@${secret}`, `"${secret}\n`, `"\\${secret}"`, `*${secret}`].map(
    (value) => ({ yaml: `auth:\n  privateKeyPassphrase: ${value}` }),
  ),
  { yaml: `auth:\n  privateKeyPassphrase: !${secret} x` },
  { yaml: `auth:\n  privateKeyPassphrase:\n${secret}\n` },
  { yaml: `auth:\n  passphrase: ${secret}` },
  { yaml: `auth:\n\tprivateKeyPassphrase: ${secret}` },
])('a secret is not repeated: %j', (sources) => {
  expect(toldOf(() => loadWith(sources)).join('\n')).not.toContain(secret)
})

test('no matter what stands in the file, it is taken or refused', () => {
  const bomb = Array.from({ length: 30 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}, *a${n}]`)
  const indented = Array.from({ length: 5000 }, (_, depth) => `${' '.repeat(depth % 200)}a:`)
  for (const yaml of [
    '['.repeat(10_000),
    '{a: '.repeat(10_000),
    indented.join('\n'),
    `a0: &a0 [x]\n${bomb.join('\n')}`,
  ]) {
    expect(() => loadWith({ yaml })).toThrow(ConfigurationError)
  }
  const piece = fc.oneof(
    fc.constantFrom('log:', 'level:', 'retry:', '---', '...', '- ', ': ', '&a ', '*a ', '!!', '? ', ', '),
    fc.constantFrom(...' \n\t"\'[]{}#|>%@'),
    fc.string({ unit: anyCharacter, maxLength: 5 }),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      try {
        return loadWith({ yaml: pieces.join('') }).config.log.level.length > 0
      } catch (error) {
        return error instanceof ConfigurationError && error.problems.length > 0
      }
    }),
    { numRuns: 500 },
  )
})
