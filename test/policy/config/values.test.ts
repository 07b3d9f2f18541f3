// What each kind of value takes and refuses, through the loader: a table for each.
import { describe, expect, test } from 'vitest'
import type { Config } from '../../../src/config/schema.ts'
import { loadWith, problemsOf } from '../../support/configuration.ts'

/** `a.b.c` and a YAML value as nested YAML. */
function yamlOf(key: string, value: string): string {
  return `${key
    .split('.')
    .map((part, depth) => `${'  '.repeat(depth)}${part}:`)
    .join('\n')} ${value}\n`
}

function read(config: Config, key: string): unknown {
  return key.split('.').reduce<unknown>((section, part) => (section as Record<string, unknown>)[part], config)
}

const taken: [key: string, yaml: string, value: unknown][] = [
  ['window.lookback', '3d', 259_200_000],
  ['window.settle', '0s', 0],
  ['shutdown.grace', '"0s"', 0],
  ['auth.assertionLifetime', '10m', 600_000],
  ['window.notBefore', '2026-01-01T00:00:00Z', Date.UTC(2026, 0, 1)],
  ['window.notBefore', '2026-01-01T00:00:00+01:00', Date.UTC(2025, 11, 31, 23)],
  ['window.notBefore', '2026-01-01 00:00Z', Date.UTC(2026, 0, 1)],
  ['platform.maxRequestsPerSecond', '0.5', 0.5],
  ['platform.maxRequestsPerSecond', '1000', 1000],
  ['retry.concurrency', '1', 1],
  ['retry.concurrency', '0x10', 16],
  ['retry.backoff.jitter', '0', 0],
  ['retry.backoff.jitter', '1', 1],
  ['retry.backoff.multiplier', '1', 1],
  ['retry.enabled', 'FALSE', false],
  ['server.port', '0', 0],
  ['server.port', '65535', 65_535],
  ['server.host', '"::"', '::'],
  ['server.host', '"fe80::1%eth0"', 'fe80::1%eth0'],
  ['server.host', 'localhost', 'localhost'],
  ['log.level', 'silent', 'silent'],
  ['platform.timeZone', 'europe/berlin', 'Europe/Berlin'],
  ['platform.timeZone', 'Etc/GMT-1', 'Etc/GMT-1'],
  ['schedule.cron', '"0 */5 * * * *"', '0 */5 * * * *'],
  ['schedule.cron', '"  0  0 3 * jan-mar MON  "', '0 0 3 * jan-mar MON'],
  ['auth.scope', '""', ''],
  ['auth.scope', 'api openid', 'api openid'],
  ['auth.clientId', '"0123"', '0123'],
  ['auth.clientId', 'urn:client:äöü', 'urn:client:äöü'],
  ['select.eventTypes', '[]', []],
  ['select.eventTypes', '[b, a, b]', ['b', 'a']],
  ['select.modules', '["outgoing-transfers"]', ['outgoing-transfers']],
  ['select.subscriptionIds', '[123E4567-E89B-12D3-A456-426614174000]', ['123e4567-e89b-12d3-a456-426614174000']],
  [
    'subscriptions',
    '{123E4567-E89B-12D3-A456-426614174000: payments eu}',
    { '123e4567-e89b-12d3-a456-426614174000': 'payments eu' },
  ],
  ['instance.name', 'reconciler 1 (blue)', 'reconciler 1 (blue)'],
  ['auth.certificateFile', '../certificates/a b.pem', '../certificates/a b.pem'],
  ['window.expiryWarning', '0s', 0],
  ['outcome.firstCheck', '10ms', 10],
  ['outcome.stuckAfter', '1m', 60_000],
  ['circuit.enabled', 'false', false],
  ['circuit.initialLimit', '1', 1],
  ['circuit.failureRatio', '1', 1],
  ['circuit.maxLimit', '100000', 100_000],
  ['receiver.healthUrl', 'http://receiver:8080/healthz/', 'http://receiver:8080/healthz/'],
  ['receiver.healthUrl', 'https://receiver/health?full=1', 'https://receiver/health?full=1'],
  ['receiver.interval', '100ms', 100],
  ['control.allowRemote', 'true', true],
]

const refused: [key: string, yaml: string][] = [
  ['window.lookback', '7'],
  ['window.lookback', '0'],
  ['window.lookback', '7 days'],
  ['window.lookback', '1.5d'],
  ['window.lookback', '-1d'],
  ['window.lookback', '0s'],
  ['window.lookback', '3651d'],
  ['window.lookback', '999999999999d'],
  ['window.lookback', '[7d]'],
  ['window.lookback', '{days: 7}'],
  ['window.lookback', 'true'],
  ['platform.requestTimeout', '0s'],
  ['platform.requestTimeout', '6m'],
  ['auth.assertionLifetime', '601s'],
  ['auth.assertionLifetime', '0s'],
  ['auth.assertionLifetime', '29s'],
  ['window.notBefore', '2026-01-01'],
  ['window.notBefore', '2026-01-01T00:00:00'],
  ['window.notBefore', '2026-02-30T00:00:00Z'],
  ['window.notBefore', '1767225600'],
  ['window.notBefore', 'yesterday'],
  ['platform.maxRequestsPerSecond', '0'],
  ['platform.maxRequestsPerSecond', '-1'],
  ['platform.maxRequestsPerSecond', '.nan'],
  ['platform.maxRequestsPerSecond', '.inf'],
  ['platform.maxRequestsPerSecond', '1e9'],
  ['platform.maxRequestsPerSecond', '"20"'],
  ['retry.concurrency', '0'],
  ['retry.concurrency', '1.5'],
  ['retry.concurrency', '1000000000'],
  ['retry.concurrency', '1_0'],
  ['retry.maxAttempts', '99999999999999999999'],
  ['retry.maxPerSecond', '0'],
  ['retry.backoff.jitter', '1.01'],
  ['retry.backoff.multiplier', '0.5'],
  ['retry.enabled', 'yes'],
  ['retry.enabled', '1'],
  ['retry.enabled', '"true"'],
  ['subscriptions', '{payments: 123E4567-E89B-12D3-A456-426614174000}'],
  ['subscriptions', '{123E4567-E89B-12D3-A456-426614174000: ""}'],
  ['subscriptions', '[payments]'],
  ['server.port', '-1'],
  ['server.port', '65536'],
  ['server.port', '80.5'],
  ['server.host', '"[::1]"'],
  ['server.host', 'localhost:80'],
  ['server.host', 'http://localhost'],
  ['server.host', '""'],
  ['log.level', 'INFO'],
  ['log.level', 'verbose'],
  ['platform.timeZone', 'Mars/Olympus'],
  ['platform.timeZone', '"+01:00"'],
  ['platform.timeZone', 'GMT+1'],
  ['platform.timeZone', '""'],
  ['schedule.cron', '"* * * * *"'],
  ['schedule.cron', '"* * * * * * *"'],
  ['schedule.cron', '"@hourly"'],
  ['schedule.cron', '"61 * * * * *"'],
  ['schedule.cron', '"*/90 * * * * *"'],
  ['schedule.cron', '"0 */90 * * * *"'],
  ['schedule.cron', '"*/0 * * * * *"'],
  ['schedule.cron', '30s'],
  ['auth.scope', '" api"'],
  ['auth.scope', '"a  b"'],
  ['auth.scope', '[api]'],
  ['auth.clientId', '0123'],
  ['auth.clientId', 'true'],
  ['auth.clientId', '" a"'],
  ['auth.clientId', '"a\\nb"'],
  ['auth.clientId', '"a\\0b"'],
  ['select.eventTypes', 'a'],
  ['select.eventTypes', '"a,b"'],
  ['select.eventTypes', '[[a]]'],
  ['select.eventTypes', '[1]'],
  ['select.eventTypes', '["a b"]'],
  ['select.eventTypes', '[""]'],
  ['select.eventTypes', '{a: b}'],
  ['select.subscriptionIds', '[123]'],
  ['select.subscriptionIds', '[123e4567-e89b-12d3-a456-42661417400]'],
  ['select.subscriptionIds', '["123e4567-e89b-12d3-a456-426614174000 "]'],
  ['instance.name', '""'],
  ['instance.name', '"a\\u0085b"'],
  ['auth.certificateFile', '""'],
  ['auth.certificateFile', '"-----BEGIN CERTIFICATE-----"'],
  ['window.expiryWarning', '-1h'],
  ['outcome.firstCheck', '0s'],
  ['outcome.giveUpAfter', '0s'],
  ['outcome.stuckAfter', '30s'],
  ['circuit.enabled', 'no way'],
  ['circuit.initialLimit', '0'],
  ['circuit.initialLimit', '1001'],
  ['circuit.maxLimit', '0'],
  ['circuit.failureRatio', '0'],
  ['circuit.failureRatio', '1.1'],
  ['circuit.cooldown', '0s'],
  ['circuit.probeTimeout', '0s'],
  ['receiver.healthUrl', 'receiver:8080/healthz'],
  ['receiver.healthUrl', 'ftp://receiver/healthz'],
  ['receiver.healthUrl', 'http://receiver/healthz#full'],
  ['receiver.healthUrl', 'http://user:pass@receiver/healthz'],
  ['receiver.healthUrl', '""'],
  ['receiver.interval', '0s'],
  ['receiver.timeout', '2m'],
  ['control.allowRemote', 'perhaps'],
  ['control.token', '""'],
]

describe('a value in the file', () => {
  test.each(taken)('%s: %s', (key, yaml, value) => {
    const env = key === 'auth.clientId' ? { RECONCILER_AUTH_CLIENT_ID: undefined } : {}
    const { config, origins } = loadWith({ yaml: yamlOf(key, yaml), env })
    expect(read(config, key)).toEqual(value)
    expect(origins.get(key)).toBe(`config.yaml:${key.split('.').length}`)
  })

  test.each(refused)('%s: %s is refused', (key, yaml) => {
    const env = key === 'auth.clientId' ? { RECONCILER_AUTH_CLIENT_ID: undefined } : {}
    const problems = problemsOf(() => loadWith({ yaml: yamlOf(key, yaml), env }))
    expect(problems.map((problem) => problem.key)).toEqual([key])
    expect(problems[0]?.origin).toBe(`config.yaml:${key.split('.').length}`)
    expect(problems[0]?.message).toMatch(/^must (be|have) /)
  })
})

const takenFromEnvironment: [variable: string, text: string, key: string, value: unknown][] = [
  [
    'RECONCILER_SUBSCRIPTIONS',
    '123e4567-e89b-12d3-a456-426614174000=a=b',
    'subscriptions',
    { '123e4567-e89b-12d3-a456-426614174000': 'a=b' },
  ],
  ['RECONCILER_WINDOW_LOOKBACK', '3d', 'window.lookback', 259_200_000],
  ['RECONCILER_WINDOW_LOOKBACK', ' 3d\n', 'window.lookback', 259_200_000],
  ['RECONCILER_RETRY_CONCURRENCY', '12', 'retry.concurrency', 12],
  ['RECONCILER_RETRY_CONCURRENCY', '+012', 'retry.concurrency', 12],
  ['RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND', '0.5', 'platform.maxRequestsPerSecond', 0.5],
  ['RECONCILER_RETRY_ENABLED', 'false', 'retry.enabled', false],
  ['RECONCILER_RETRY_ENABLED', 'True', 'retry.enabled', true],
  ['RECONCILER_SERVER_PORT', '0', 'server.port', 0],
  ['RECONCILER_AUTH_SCOPE', '', 'auth.scope', ''],
  ['RECONCILER_SELECT_EVENT_TYPES', 'a', 'select.eventTypes', ['a']],
  ['RECONCILER_SELECT_EVENT_TYPES', ' a , b,a ', 'select.eventTypes', ['a', 'b']],
  ['RECONCILER_RETRY_BACKOFF_INITIAL', '2m', 'retry.backoff.initial', 120_000],
  ['RECONCILER_AUTH_CLIENT_ID', '0123', 'auth.clientId', '0123'],
]

const refusedFromEnvironment: [variable: string, text: string][] = [
  ['RECONCILER_RETRY_CONCURRENCY', 'eight'],
  ['RECONCILER_RETRY_CONCURRENCY', '1e1'],
  ['RECONCILER_RETRY_CONCURRENCY', '0x8'],
  ['RECONCILER_RETRY_CONCURRENCY', '8,0'],
  ['RECONCILER_RETRY_CONCURRENCY', 'NaN'],
  ['RECONCILER_RETRY_CONCURRENCY', 'Infinity'],
  ['RECONCILER_RETRY_ENABLED', '1'],
  ['RECONCILER_RETRY_ENABLED', 'no'],
  ['RECONCILER_RETRY_ENABLED', 'constructor'],
  ['RECONCILER_SELECT_EVENT_TYPES', 'a,,b'],
  ['RECONCILER_SELECT_EVENT_TYPES', 'a,'],
  ['RECONCILER_SELECT_EVENT_TYPES', '[a, b]'],
  ['RECONCILER_SELECT_SUBSCRIPTION_IDS', 'a'],
  // What an empty variable would turn off in silence.
  ['RECONCILER_WINDOW_NOT_BEFORE', ''],
  ['RECONCILER_RETRY_ENABLED', ' '],
  ['RECONCILER_SELECT_SUBSCRIPTION_IDS', ''],
  ['RECONCILER_SELECT_EVENT_TYPES', '\n'],
  ['RECONCILER_AUTH_CLIENT_ID', ''],
  ['RECONCILER_PLATFORM_BASE_URL', ''],
  ['RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', ''],
]

describe('a value in the environment', () => {
  test.each(takenFromEnvironment)('%s=%j', (variable, text, key, value) => {
    const { config, origins } = loadWith({ env: { [variable]: text } })
    expect(read(config, key)).toEqual(value)
    expect(origins.get(key)).toBe(variable)
  })

  test.each(refusedFromEnvironment)('%s=%j is refused', (variable, text) => {
    const problems = problemsOf(() => loadWith({ env: { [variable]: text } }))
    expect(problems.map(({ origin }) => origin)).toEqual([variable])
    expect(problems[0]?.message).toMatch(text.trim() === '' ? /^is empty: / : /^must (be|have) /)
  })

  test('a token in a wrong place is not shown', () => {
    const token = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJjIn0.c2ln'
    const [problem] = problemsOf(() => loadWith({ env: { RECONCILER_LOG_LEVEL: token } }))
    expect(problem?.message).toMatch(/, not "\[token\]"$/)
  })

  test('a refused value is shown, but not all of a long one, and nothing that could forge a line', () => {
    const [problem] = problemsOf(() =>
      loadWith({ env: { RECONCILER_LOG_LEVEL: `loud\u001b[31m\u2028${'x'.repeat(500)}` } }),
    )
    expect(problem?.message).toMatch(/^must be one of trace, .*, not "loud\?\[31m\?x+\.\.\."$/)
    expect(problem?.message.length).toBeLessThan(200)
  })
})
