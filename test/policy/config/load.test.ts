import { describe, expect, expectTypeOf, test } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { environmentName } from '../../../src/config/key.ts'
import { keys } from '../../../src/config/schema.ts'
import type { Config } from '../../../src/config/schema.ts'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { load, loadWith, problemsOf, requiredEnv, toldOf } from '../../support/configuration.ts'

/** Each stands in config/default.yaml, which is generated: a changed default is a changed file. */
const { config: defaults } = loadWith({})

describe('defaults', () => {
  test('stand for all keys that are not set, and each key has an origin', () => {
    const { origins } = loadWith({})
    const set = [...origins.values()].filter((origin) => origin !== 'default')
    expect(set.sort()).toEqual(Object.keys(requiredEnv).sort())
    expect([...origins.keys()]).toEqual(keys.map(({ key }) => key))
  })

  test('an instance is named after its host, which may have no usable name', () => {
    expect(loadWith({ hostName: 'pod-7' }).config.instance.name).toBe('pod-7')
    expect(loadWith({ hostName: '', env: { RECONCILER_INSTANCE_NAME: 'a' } }).config.instance.name).toBe('a')
    expect(problemsOf(() => loadWith({ hostName: '' })).map(({ key }) => key)).toEqual(['instance.name'])
  })

  test('types follow the schema', () => {
    expectTypeOf<Config['retry']['backoff']['initial']>().toEqualTypeOf<number>()
    expectTypeOf<Config['window']['notBefore']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<Config['auth']['issuerUrl']>().toEqualTypeOf<string>()
    expectTypeOf<Config['auth']['privateKey']>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Config['select']['eventTypes']>().toEqualTypeOf<string[]>()
  })
})

describe('precedence', () => {
  const yaml = 'window:\n  lookback: 2d\n  settle: 2m\n'

  test('the file over the defaults, the environment over the file', () => {
    const { config, origins } = loadWith({ yaml, env: { RECONCILER_WINDOW_LOOKBACK: '3d' } })
    expect(config.window).toEqual({ ...defaults.window, lookback: 259_200_000, settle: 120_000 })
    expect(origins.get('window.lookback')).toBe('RECONCILER_WINDOW_LOOKBACK')
    expect(origins.get('window.settle')).toBe('config.yaml:3')
    expect(origins.get('window.notBefore')).toBe('default')
  })

  test('a list from the environment takes the place of the one in the file, it adds nothing', () => {
    const { config } = loadWith({ yaml: 'select:\n  modules: [a, b]', env: { RECONCILER_SELECT_MODULES: 'c' } })
    expect(config.select.modules).toEqual(['c'])
  })

  test.each([
    '',
    '\n',
    '# nothing yet\n',
    '---\n',
    'null\n',
    '~',
    'retry:\n',
    'retry:\n  backoff:\n',
    'retry: {}',
    '\ufeff',
  ])('a file %j changes nothing', (empty) => {
    expect(loadWith({ yaml: empty }).config).toEqual(defaults)
  })
})

describe('names', () => {
  test.each([
    ['platform.baseUrl', 'RECONCILER_PLATFORM_BASE_URL'],
    ['retry.backoff.initial', 'RECONCILER_RETRY_BACKOFF_INITIAL'],
    ['platform.maxRequestsPerSecond', 'RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND'],
    ['auth.privateKeyFile', 'RECONCILER_AUTH_PRIVATE_KEY_FILE'],
    ['select.subscriptionIds', 'RECONCILER_SELECT_SUBSCRIPTION_IDS'],
  ])('%s is %s', (key, variable) => {
    expect(environmentName(key)).toBe(variable)
  })

  test('no two keys share a variable, and no twin is a key', () => {
    const variables = keys.flatMap(({ environment, fileTwin }) =>
      fileTwin === undefined ? [environment] : [environment, fileTwin],
    )
    expect(new Set(variables).size).toBe(variables.length)
  })

  test('every key explains itself in one line', () => {
    for (const { explanation } of keys) expect(explanation).toMatch(/^[^\n]{10,140}\.$/)
  })
})

describe('all problems at once', () => {
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
`
  const told = toldOf(() =>
    load({ yaml, env: { RECONCILER_SERVER_PORT: '99999', RECONCILER_AUTH_CLIENTID: 'x', OTHER: '1' } }),
  )

  test.each([
    'platform.baseURL (config.yaml:3): there is no such key; did you mean platform.baseUrl?',
    'platform.baseUrl (missing): is required: set it in the file, or as RECONCILER_PLATFORM_BASE_URL',
    'auth.realm (config.yaml:6): must be text, and YAML reads a number here: put it in quotes',
    'auth.authUrl (missing): is required, as auth.realm is set (config.yaml:6)',
    'auth.clientId (missing): is required: set it in the file, or as RECONCILER_AUTH_CLIENT_ID',
    'auth.privateKeyFile (missing): is required, or auth.privateKey in its place',
    'retry.backoff.initial (config.yaml:8): is 7h, but must be at most retry.backoff.max, which is 6h (default)',
    'retry.concurrency (config.yaml:9): must be a whole number from 1 to 256, not 0',
    'retry.colour (config.yaml:10): there is no such key',
    'log (config.yaml:11): is a section: it takes keys below it, such as log.level',
    'server.port (RECONCILER_SERVER_PORT): must be a whole number from 0 to 65535, not 99999',
    'RECONCILER_AUTH_CLIENTID (environment): there is no such variable; did you mean RECONCILER_AUTH_CLIENT_ID?',
  ])('%s', (line) => {
    expect(told).toContain(line)
  })

  test('and nothing but these', () => {
    expect(
      told.filter((line) => !line.startsWith('platform.requestTimeout (config.yaml:4): must be a duration')).length,
    ).toBe(12)
    expect(told.length).toBe(13)
  })

  test('in the message of the error too', () => {
    const load = (): unknown => loadWith({ yaml: 'a: 1\nb: 2' })
    expect(load).toThrow(ConfigurationError)
    expect(load).toThrow(/^a \(config\.yaml:1\): .*\nb \(config\.yaml:2\): .*$/)
  })

  test('nothing at all is set: says what has to be', () => {
    expect(problemsOf(() => load({})).map(({ key, origin }) => `${key} ${origin}`)).toEqual([
      'platform.baseUrl missing',
      'auth.clientId missing',
      'auth.issuerUrl missing',
      'auth.privateKeyFile missing',
    ])
  })
})

describe('a file that can not be read', () => {
  const loadFailing = (error: unknown): unknown =>
    loadConfig({
      file: '/etc/config.yaml',
      env: { RECONCILER_LOG_LEVEL: 'loud' },
      hostName: 'h',
      readFile() {
        throw error
      },
    })

  test.each([
    [Object.assign(new Error('secret detail'), { code: 'ENOENT' }), /there is no such file \(ENOENT\)$/],
    [Object.assign(new Error('secret detail'), { code: 'EISDIR' }), /it is a directory \(EISDIR\)$/],
    [Object.assign(new Error('secret detail'), { code: 'EACCES' }), /may not read it \(EACCES\)$/],
    [Object.assign(new Error('secret detail'), { code: 'EIO' }), /reading failed \(EIO\)$/],
    [new Error('secret detail'), /reading failed/],
    ['thrown text', /reading failed/],
  ])('%s', (error, message) => {
    const [first, second, ...others] = problemsOf(() => loadFailing(error))
    expect(first).toMatchObject({ key: '--config', origin: '/etc/config.yaml' })
    expect(first?.message).toMatch(message)
    expect(first?.message).not.toContain('secret')
    // What may stand in that file is not missing; what is wrong in the environment is still reported.
    expect(second).toMatchObject({ key: 'log.level', origin: 'RECONCILER_LOG_LEVEL' })
    expect(others).toEqual([])
  })
})

describe('checks over several keys', () => {
  const without = { RECONCILER_AUTH_ISSUER_URL: undefined, RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined }
  const pem = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
  const key = { RECONCILER_AUTH_PRIVATE_KEY_FILE: '/k' }
  const issuer = { RECONCILER_AUTH_ISSUER_URL: 'https://i.example.com' }
  const host = { RECONCILER_AUTH_AUTH_URL: 'https://i.example.com' }
  const realm = { RECONCILER_AUTH_REALM: 'r' }

  test.each<[string, Record<string, string>, string[]]>([
    ['no issuer', { ...key }, ['auth.issuerUrl missing']],
    ['host without realm', { ...key, ...host }, ['auth.realm missing']],
    ['realm without host', { ...key, ...realm }, ['auth.authUrl missing']],
    ['issuer and host', { ...key, ...issuer, ...host }, ['auth.issuerUrl RECONCILER_AUTH_ISSUER_URL']],
    ['issuer and realm', { ...key, ...issuer, ...realm }, ['auth.issuerUrl RECONCILER_AUTH_ISSUER_URL']],
    ['all three', { ...key, ...issuer, ...host, ...realm }, ['auth.issuerUrl RECONCILER_AUTH_ISSUER_URL']],
    [
      'an issuer as host',
      { ...key, RECONCILER_AUTH_AUTH_URL: 'https://i.example.com/auth/realms/r', ...realm },
      ['auth.authUrl RECONCILER_AUTH_AUTH_URL'],
    ],
    ['no key', { ...issuer }, ['auth.privateKeyFile missing']],
    [
      'two keys',
      { ...issuer, ...key, RECONCILER_AUTH_PRIVATE_KEY: pem },
      ['auth.privateKeyFile RECONCILER_AUTH_PRIVATE_KEY_FILE'],
    ],
    [
      'a wrong realm is not also missing',
      { ...key, ...host, RECONCILER_AUTH_REALM: '../x' },
      ['auth.realm RECONCILER_AUTH_REALM'],
    ],
    [
      'settle = lookback',
      { ...key, ...issuer, RECONCILER_WINDOW_LOOKBACK: '1h', RECONCILER_WINDOW_SETTLE: '1h' },
      ['window.settle RECONCILER_WINDOW_SETTLE'],
    ],
    [
      'maxCooldown < cooldown',
      { ...key, ...issuer, RECONCILER_CIRCUIT_COOLDOWN: '11m' },
      ['circuit.cooldown RECONCILER_CIRCUIT_COOLDOWN'],
    ],
    [
      'maxLimit < initialLimit',
      { ...key, ...issuer, RECONCILER_CIRCUIT_MAX_LIMIT: '4' },
      ['circuit.initialLimit default'],
    ],
    [
      'giveUpAfter < firstCheck',
      { ...key, ...issuer, RECONCILER_OUTCOME_FIRST_CHECK: '2s', RECONCILER_OUTCOME_GIVE_UP_AFTER: '1s' },
      ['outcome.firstCheck RECONCILER_OUTCOME_FIRST_CHECK'],
    ],
    [
      'renewDeadline above nine tenths of leaseDuration',
      { ...key, ...issuer, RECONCILER_LEADER_ELECTION_LEASE_DURATION: '11s' },
      ['leaderElection.renewDeadline default'],
    ],
    [
      'retryPeriod above half of renewDeadline',
      { ...key, ...issuer, RECONCILER_LEADER_ELECTION_RETRY_PERIOD: '5001ms' },
      ['leaderElection.retryPeriod RECONCILER_LEADER_ELECTION_RETRY_PERIOD'],
    ],
    ['max < initial', { ...key, ...issuer, RECONCILER_RETRY_BACKOFF_MAX: '30s' }, ['retry.backoff.initial default']],
    [
      'a wrong max says nothing of initial',
      { ...key, ...issuer, RECONCILER_RETRY_BACKOFF_MAX: '30' },
      ['retry.backoff.max RECONCILER_RETRY_BACKOFF_MAX'],
    ],
  ])('%s', (_, env, expected) => {
    expect(
      problemsOf(() => loadWith({ env: { ...without, ...env } })).map((problem) => `${problem.key} ${problem.origin}`),
    ).toEqual(expected)
  })

  test.each<[string, Record<string, string>, RegExp]>([
    ['31 characters', { RECONCILER_CONTROL_TOKEN: 'CANARY-012345678901234567890123' }, /^control\.token .*at least 32/],
    ['a line break at its end', { RECONCILER_CONTROL_TOKEN: 'CANARY-0123456789\n' }, /^control\.token .*line break/],
    ['a space in it', { RECONCILER_CONTROL_TOKEN: 'CANARY 0123456789' }, /^control\.token .*no spaces/],
    [
      'letters that no header carries',
      { RECONCILER_CONTROL_TOKEN: 'CANARY-äöü-0123456789' },
      /^control\.token .*ASCII/,
    ],
  ])('control: %s is refused, and no secret is repeated', (_, env, expected) => {
    const [told, ...others] = toldOf(() => loadWith({ env }))
    expect(others).toEqual([])
    expect(told).toMatch(expected)
    expect(told).not.toContain('CANARY')
  })

  test('control: a token of 32 characters is taken, from this host alone', () => {
    const given = '0123456789abcdef0123456789abcde~'
    expect(loadWith({ env: { RECONCILER_CONTROL_TOKEN: given } }).config.control).toEqual({
      token: given,
      allowRemote: false,
    })
  })

  test('bounds that touch are taken', () => {
    const env = {
      RECONCILER_RETRY_BACKOFF_MAX: '1m',
      RECONCILER_WINDOW_LOOKBACK: '1h',
      RECONCILER_WINDOW_SETTLE: '59m',
    }
    expect(loadWith({ env }).config.retry.backoff.max).toBe(60_000)
  })
})

describe('where one of several is to be given, the environment goes before the file', () => {
  const base = 'platform: { baseUrl: "https://api.example.com" }\n'
  const key = 'RECONCILER_AUTH_PRIVATE_KEY_FILE'
  const issuer = 'RECONCILER_AUTH_ISSUER_URL'

  test('an issuer in place of the host and realm of the file', () => {
    const yaml = `${base}auth: { clientId: c, privateKeyFile: /k, authUrl: "https://old.example", realm: main }\n`
    const { config, origins } = load({ yaml, env: { [issuer]: 'https://new.example/auth/realms/x' } })
    expect(config.auth).toMatchObject({ issuerUrl: 'https://new.example/auth/realms/x' })
    expect(config.auth.authUrl).toBeUndefined()
    expect(origins.get('auth.realm')).toBe('default')
  })

  test('a host and realm in place of the issuer of the file, and a realm beside its host', () => {
    const env = { RECONCILER_AUTH_AUTH_URL: 'https://new.example', RECONCILER_AUTH_REALM: 'r' }
    const old = `${base}auth: { clientId: c, privateKeyFile: /k, issuerUrl: "https://old.example/i" }\n`
    expect(load({ yaml: old, env }).config.auth.issuerUrl).toBe('https://new.example/auth/realms/r')
    const halves = `${base}auth: { clientId: c, privateKeyFile: /k, authUrl: "https://old.example", realm: main }\n`
    const { issuerUrl } = load({ yaml: halves, env: { RECONCILER_AUTH_REALM: 'r' } }).config.auth
    expect(issuerUrl).toBe('https://old.example/auth/realms/r')
  })

  test('a key file in place of the key of the file', () => {
    const yaml = `${base}auth: { clientId: c, privateKey: "-----BEGIN PRIVATE KEY-----", issuerUrl: "https://i.example/i" }\n`
    const { config } = load({ yaml, env: { [key]: '/run/key.pem' } })
    expect(config.auth).toMatchObject({ privateKeyFile: '/run/key.pem' })
    expect(config.auth.privateKey).toBeUndefined()
  })

  test('within one source both are still too many', () => {
    const env = { ...requiredEnv, RECONCILER_AUTH_REALM: 'r', RECONCILER_AUTH_AUTH_URL: 'https://x.example' }
    expect(toldOf(() => load({ env }))).toEqual([expect.stringContaining('give either auth.issuerUrl')])
  })
})
