// Defaults, file and environment make one configuration; all that is wrong with it is reported together.
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/load.ts'
import { keys } from '../../../src/config/schema.ts'
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

  test.each(['', '# nothing yet\n', '---\n', 'null\n', 'retry:\n', 'retry:\n  backoff:\n', 'retry: {}', '\ufeff'])(
    'a file %j changes nothing',
    (empty) => {
      expect(loadWith({ yaml: empty }).config).toEqual(defaults)
    },
  )
})

test('no two keys share a variable, and no twin is a key', () => {
  const variables = keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin ?? []].flat())
  expect(new Set(variables).size).toBe(variables.length)
})

test('every key explains itself in one line', () => {
  for (const { explanation } of keys) expect(explanation).toMatch(/^[^\n]{10,140}\.$/)
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

  test('are told, each in one line, and nothing but these', () => {
    expect(told.toSorted()).toEqual(
      [
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
        'platform.requestTimeout (config.yaml:4): must be a duration from 100ms to 5m, written as a whole number and one unit (ms, s, m, h, d), such as 90s, not 10',
      ].toSorted(),
    )
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
    [Object.assign(new Error('secret detail'), { code: 'EIO' }), /reading failed \(EIO\)$/],
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
  const key = 'privateKeyFile: /k'
  const issuer = 'issuerUrl: https://i.example.com'
  const host = 'authUrl: https://i.example.com'
  const pem = String.raw`privateKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"`

  test.each<[name: string, auth: string[], key: string, origin: string]>([
    ['no issuer', [key], 'auth.issuerUrl', 'missing'],
    ['host without realm', [key, host], 'auth.realm', 'missing'],
    ['realm without host', [key, 'realm: r'], 'auth.authUrl', 'missing'],
    ['issuer and host', [key, issuer, host], 'auth.issuerUrl', 'config.yaml:1'],
    ['issuer and realm', [key, issuer, 'realm: r'], 'auth.issuerUrl', 'config.yaml:1'],
    ['all three', [key, issuer, host, 'realm: r'], 'auth.issuerUrl', 'config.yaml:1'],
    [
      'an issuer as host',
      [key, 'authUrl: https://i.example.com/auth/realms/r', 'realm: r'],
      'auth.authUrl',
      'config.yaml:1',
    ],
    ['no key', [issuer], 'auth.privateKeyFile', 'missing'],
    ['two keys', [issuer, key, pem], 'auth.privateKeyFile', 'config.yaml:1'],
    ['a wrong realm is not also missing', [key, host, 'realm: ../x'], 'auth.realm', 'config.yaml:1'],
  ])('%s', (_, auth, wrong, origin) => {
    const env = { RECONCILER_AUTH_ISSUER_URL: undefined, RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined }
    const problems = problemsOf(() => loadWith({ yaml: `auth: {${auth.join(', ')}}`, env }))
    expect(problems).toMatchObject([{ key: wrong, origin }])
  })

  test.each<[yaml: string, key: string, origin: string]>([
    ['window: {lookback: 1h, settle: 1h}', 'window.settle', 'config.yaml:1'],
    ['retry: {backoff: {max: 30s}}', 'retry.backoff.initial', 'default'],
    ['circuit: {cooldown: 11m}', 'circuit.cooldown', 'config.yaml:1'],
    ['circuit: {maxLimit: 4}', 'circuit.initialLimit', 'default'],
    ['outcome: {firstCheck: 2s, giveUpAfter: 1s}', 'outcome.firstCheck', 'config.yaml:1'],
    // Above nine tenths of the lease's duration.
    ['leaderElection: {leaseDuration: 11s}', 'leaderElection.renewDeadline', 'default'],
    // Above half of the deadline.
    ['leaderElection: {retryPeriod: 5001ms}', 'leaderElection.retryPeriod', 'config.yaml:1'],
    // A wrong maximum says nothing of what it bounds.
    ['retry: {backoff: {max: 30}}', 'retry.backoff.max', 'config.yaml:1'],
  ])('%s', (yaml, wrong, origin) => {
    expect(problemsOf(() => loadWith({ yaml }))).toMatchObject([{ key: wrong, origin }])
  })

  test.each([
    'retry: {backoff: {max: 1m}}',
    'window: {lookback: 1h, settle: 59m}',
    'leaderElection: {leaseDuration: 10s, renewDeadline: 9s, retryPeriod: 4500ms}',
  ])('bounds that touch are taken: %s', (yaml) => {
    expect(() => loadWith({ yaml })).not.toThrow()
  })

  test.each([
    ['31 characters', 'CANARY-012345678901234567890123', /^control\.token .*at least 32/],
    ['a line break at its end', 'CANARY-0123456789\n', /^control\.token .*line break/],
    ['a space in it', 'CANARY 0123456789', /^control\.token .*no spaces/],
    ['letters that no header carries', 'CANARY-äöü-0123456789', /^control\.token .*ASCII/],
  ])('a control token of %s is refused, and not repeated', (_, token, expected) => {
    const [told, ...others] = toldOf(() => loadWith({ env: { RECONCILER_CONTROL_TOKEN: token } }))
    expect(others).toEqual([])
    expect(told).toMatch(expected)
    expect(told).not.toContain('CANARY')
  })
})

test('where one of several is to be given, the environment goes before the file; within one source they are too many', () => {
  const key = 'privateKeyFile: /k'
  const halves = `${key}, authUrl: "https://old.example", realm: main`
  const authOf = (auth: string, env: Record<string, string>): object =>
    load({ yaml: `platform: { baseUrl: "https://api.example" }\nauth: { clientId: c, ${auth} }`, env }).config.auth
  const [issuer, host, realm] = ['RECONCILER_AUTH_ISSUER_URL', 'RECONCILER_AUTH_AUTH_URL', 'RECONCILER_AUTH_REALM']

  const ofIssuer = { issuerUrl: 'https://new.example/i', authUrl: undefined, realm: undefined }
  expect(authOf(halves, { [issuer]: 'https://new.example/i' })).toMatchObject(ofIssuer)
  const ofHost = { issuerUrl: 'https://new.example/auth/realms/r' }
  const old = `${key}, issuerUrl: "https://old.example/i"`
  expect(authOf(old, { [host]: 'https://new.example', [realm]: 'r' })).toMatchObject(ofHost)
  expect(authOf(halves, { [realm]: 'r' })).toMatchObject({ issuerUrl: 'https://old.example/auth/realms/r' })
  const inline = 'privateKey: "-----BEGIN PRIVATE KEY-----", issuerUrl: "https://i.example/i"'
  const ofFile = { privateKeyFile: '/run/key.pem', privateKey: undefined }
  expect(authOf(inline, { RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem' })).toMatchObject(ofFile)

  const env = { ...requiredEnv, [realm]: 'r', [host]: 'https://x.example' }
  expect(toldOf(() => load({ env }))).toEqual([expect.stringContaining('give either auth.issuerUrl')])
})
