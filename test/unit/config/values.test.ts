// What each kind of value takes and refuses, through the loader. The kind and bounds of each key stand in docs/configuration.md.
import { describe, expect, test } from 'vitest'
import { environmentName } from '../../../src/config/key.ts'
import type { LoadedConfig } from '../../../src/config/load.ts'
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

const id = '123e4567-e89b-12d3-a456-426614174000'

interface Examples {
  taken: [yaml: string, value: unknown][]
  refused: string[]
}

/** By key: one of each kind. */
const inFile: Record<string, Examples> = {
  'window.lookback': {
    taken: [['3d', 259_200_000]],
    refused: ['7', '7 days', '-1d', '0s', '999999999999d', '[7d]', '{days: 7}', 'true'],
  },
  // The platform refuses longer assertions.
  'auth.assertionLifetime': { taken: [['10m', 600_000]], refused: ['29s', '601s'] },
  'window.notBefore': {
    taken: [
      ['2026-01-01T00:00:00+01:00', Date.UTC(2025, 11, 31, 23)],
      ['2026-01-01 00:00Z', Date.UTC(2026, 0, 1)],
    ],
    refused: ['2026-01-01', '2026-01-01T00:00:00', '2026-02-30T00:00:00Z', '1767225600', 'yesterday'],
  },
  'platform.maxRequestsPerSecond': {
    taken: [
      ['0.1', 0.1],
      ['100000', 100_000],
    ],
    refused: ['0', '-1', '.nan', '.inf', '1e9', '"20"'],
  },
  'retry.concurrency': {
    taken: [
      ['1', 1],
      ['256', 256],
      ['0x10', 16],
    ],
    refused: ['0', '257', '1.5', '1_0', '99999999999999999999'],
  },
  'retry.backoff.jitter': { taken: [['0', 0]], refused: ['1.01'] },
  'retry.enabled': { taken: [['FALSE', false]], refused: ['yes', '1', '"true"'] },
  subscriptions: {
    taken: [[`{${id.toUpperCase()}: payments eu}`, { [id]: 'payments eu' }]],
    refused: [`{payments: ${id}}`, `{${id}: ""}`, `{${id}: ${'x'.repeat(41)}}`, '[payments]'],
  },
  'server.host': {
    taken: [
      ['"fe80::1%eth0"', 'fe80::1%eth0'],
      ['localhost', 'localhost'],
    ],
    refused: ['"[::1]"', 'localhost:80', 'http://localhost', '""'],
  },
  'log.level': { taken: [['silent', 'silent']], refused: ['INFO', 'verbose'] },
  'platform.timeZone': {
    taken: [['europe/berlin', 'Europe/Berlin']],
    refused: ['Mars/Olympus', '"+01:00"', 'GMT+1', '""'],
  },
  'schedule.cron': {
    taken: [
      ['"*/59 */5 * * * *"', '*/59 */5 * * * *'],
      ['"  0  0 3 * jan-mar MON  "', '0 0 3 * jan-mar MON'],
    ],
    refused: [
      '"* * * * *"',
      '"* * * * * * *"',
      '"@hourly"',
      '"*/60 * * * * *"',
      '"0 */90 * * * *"',
      '"0 0 */24 * * *"',
      '"*/0 * * * * *"',
      '30s',
    ],
  },
  'auth.scope': {
    taken: [
      ['""', ''],
      ['api openid', 'api openid'],
    ],
    refused: ['" api"', '"a  b"', '[api]'],
  },
  'auth.clientId': {
    taken: [
      ['"0123"', '0123'],
      ['urn:client:äöü', 'urn:client:äöü'],
    ],
    refused: ['0123', 'true', '" a"', '"a "', '"a\\nb"', '"a\\0b"', '"a\\u0085b"', '""'],
  },
  'select.eventTypes': {
    taken: [
      ['[]', []],
      ['[b, a-1, b]', ['b', 'a-1']],
    ],
    refused: ['a', '"a,b"', '[[a]]', '[1]', '["a b"]', '[""]', '{a: b}'],
  },
  'select.subscriptionIds': {
    taken: [[`[${id.toUpperCase()}]`, [id]]],
    refused: ['[123]', `[${id.slice(0, -1)}]`, `["${id} "]`],
  },
  'auth.certificateFile': {
    taken: [['../certificates/a b.pem', '../certificates/a b.pem']],
    refused: ['""', '"-----BEGIN CERTIFICATE-----"'],
  },
  'receiver.healthUrl': {
    taken: [
      ['http://receiver:8080/healthz/', 'http://receiver:8080/healthz/'],
      ['https://receiver/health?full=1', 'https://receiver/health?full=1'],
    ],
    refused: [
      'receiver:8080/healthz',
      'ftp://receiver/healthz',
      'http://receiver/healthz#full',
      'http://user:pass@receiver/healthz',
      '""',
    ],
  },
  'leaderElection.namespace': {
    taken: [['team-1.a', 'team-1.a']],
    refused: ['Team', 'a_b', '-a', 'a-', 'a'.repeat(64)],
  },
  'leaderElection.serviceAccountDirectory': { taken: [['/run/a b', '/run/a b']], refused: ['""'] },
  'control.token': {
    taken: [['0123456789abcdef0123456789abcde~', '0123456789abcdef0123456789abcde~']],
    refused: ['""'],
  },
}

describe.each(Object.entries(inFile))('%s in the file', (key, { refused, taken }) => {
  const origin = `config.yaml:${key.split('.').length}`
  const load = (value: string): LoadedConfig =>
    loadWith({ yaml: yamlOf(key, value), env: { [environmentName(key)]: undefined } })

  test.each(taken)('%s', (yaml, value) => {
    const { config, origins } = load(yaml)
    expect(read(config, key)).toEqual(value)
    expect(origins.get(key)).toBe(origin)
  })

  test.each(refused)('%s is refused', (yaml) => {
    const problems = problemsOf(() => load(yaml))
    expect(problems).toEqual([{ key, origin, message: expect.stringMatching(/^must (be|have) /) as string }])
  })
})

const fromEnvironment: [variable: string, text: string, key: string, value: unknown][] = [
  ['RECONCILER_SUBSCRIPTIONS', `${id}=a=b`, 'subscriptions', { [id]: 'a=b' }],
  ['RECONCILER_WINDOW_LOOKBACK', ' 3d\n', 'window.lookback', 259_200_000],
  ['RECONCILER_RETRY_CONCURRENCY', '+012', 'retry.concurrency', 12],
  ['RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND', '0.5', 'platform.maxRequestsPerSecond', 0.5],
  ['RECONCILER_RETRY_ENABLED', 'false', 'retry.enabled', false],
  ['RECONCILER_RETRY_ENABLED', 'True', 'retry.enabled', true],
  ['RECONCILER_AUTH_SCOPE', '', 'auth.scope', ''],
  ['RECONCILER_SELECT_EVENT_TYPES', ' a , b,a ', 'select.eventTypes', ['a', 'b']],
  ['RECONCILER_AUTH_CLIENT_ID', '0123', 'auth.clientId', '0123'],
]

const refusedFromEnvironment: [variable: string, text: string][] = [
  ['RECONCILER_RETRY_CONCURRENCY', 'eight'],
  ['RECONCILER_RETRY_CONCURRENCY', '1e1'],
  ['RECONCILER_RETRY_CONCURRENCY', '8,0'],
  ['RECONCILER_RETRY_ENABLED', 'no'],
  ['RECONCILER_RETRY_ENABLED', 'constructor'],
  ['RECONCILER_SELECT_EVENT_TYPES', 'a,'],
  ['RECONCILER_SELECT_EVENT_TYPES', '[a, b]'],
  // What an empty variable would turn off in silence.
  ['RECONCILER_WINDOW_NOT_BEFORE', ''],
  ['RECONCILER_RETRY_ENABLED', ' '],
  ['RECONCILER_SELECT_SUBSCRIPTION_IDS', ''],
  ['RECONCILER_SELECT_EVENT_TYPES', '\n'],
  ['RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', ''],
]

describe('a value in the environment', () => {
  test.each(fromEnvironment)('%s=%j', (variable, text, key, value) => {
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
