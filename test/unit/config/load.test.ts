// Defaults, file and environment make one configuration, or some of its sections alone.
import { describe, expect, test } from 'vitest'
import { loadConfig, loadSections, type ConfigInput } from '../../../src/config/load.ts'
import { keys } from '../../../src/config/schema.ts'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { inputOf, load, loadWith, problemsOf, requiredEnv, toldOf } from '../../support/configuration.ts'

/** Each stands in config/default.yaml, which is generated: a changed default is a changed file. */
const { config: defaults, origins: ofDefaults } = loadWith({})

test('each key explains itself in one line, and has a variable of its own and an origin', () => {
  for (const { explanation } of keys) expect(explanation).toMatch(/^[^\n]{10,140}\.$/)
  const variables = keys.flatMap(({ environment, fileTwin }) => [environment, fileTwin ?? []].flat())
  expect(new Set(variables).size).toBe(variables.length)
  expect([...ofDefaults.keys()]).toEqual(keys.map(({ key }) => key))
  expect([...ofDefaults.values()].filter((origin) => origin !== 'default').sort()).toEqual(
    Object.keys(requiredEnv).sort(),
  )
})

test('an instance is named after its host, which may have no usable name', () => {
  expect(loadWith({ hostName: 'pod-7' }).config.instance.name).toBe('pod-7')
  expect(loadWith({ hostName: '', env: { RECONCILER_INSTANCE_NAME: 'a' } }).config.instance.name).toBe('a')
  expect(problemsOf(() => loadWith({ hostName: '' })).map(({ key }) => key)).toEqual(['instance.name'])
})

test('the file goes over the defaults, the environment over the file', () => {
  const yaml = 'window:\n  lookback: 2d\n  settle: 2m\nauth:\n  privateKeyPassphrase: other'
  const env = { RECONCILER_WINDOW_LOOKBACK: '3d', RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: '/p' }
  const { config, origins } = loadWith({ yaml, env, files: { '/p': 'hunter2' } })
  expect(config.window).toEqual({ ...defaults.window, lookback: 259_200_000, settle: 120_000 })
  expect(config.auth.privateKeyPassphrase).toBe('hunter2')
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

test.each(['RECONCILER', 'RECONCILER_SERVER', 'RECONCILER_CONFIG'])(
  'variables of a Service %s change nothing',
  (name) => {
    const env = {
      [`${name}_SERVICE_HOST`]: 'fd00::1234',
      [`${name}_SERVICE_PORT`]: '10964',
      [`${name}_SERVICE_PORT_METRICS`]: '10964',
      [`${name}_PORT`]: 'tcp://10.96.0.7:10964',
      [`${name}_PORT_10964_TCP`]: 'tcp://10.96.0.7:10964',
      [`${name}_PORT_10964_TCP_PROTO`]: 'tcp',
      [`${name}_PORT_10964_TCP_PORT`]: '10964',
      [`${name}_PORT_10964_TCP_ADDR`]: '10.96.0.7',
      [`${name}_PORT_53_UDP`]: 'udp://[fd00::1234]:53',
    }
    expect(loadWith({ env })).toEqual({ config: defaults, origins: ofDefaults })
    expect(loadWith({ yaml: 'server:\n  port: 9000', env }).config.server.port).toBe(9000)
  },
)

test.each(['reconciler_log_level', 'XRECONCILER_LOG_LEVEL', 'RECONCILER', 'RECONCILERS_X'])(
  '%s is not ours',
  (name) => {
    expect(loadWith({ env: { [name]: 'x' } }).config).toEqual(defaults)
  },
)

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
  const signCommand = ['/bin/sh', '-c', 'sign "${KEY}", {{.b}}']
  const ofCommand = { privateKeyFile: undefined, signCommand }
  const certified = `${old}, certificateFile: /c`
  expect(authOf(certified, { RECONCILER_AUTH_SIGN_COMMAND: JSON.stringify(signCommand) })).toMatchObject(ofCommand)

  const env = { ...requiredEnv, [realm]: 'r', [host]: 'https://x.example' }
  expect(toldOf(() => load({ env }))).toEqual([expect.stringContaining('give either auth.issuerUrl')])
})

const token = 'abcdef0123456789abcdef0123456789'

/** All but `server` and `control` is wrong or missing in the first, nothing in the others. */
const required = `
platform: { baseUrl: https://api.example.com }
auth: { issuerUrl: https://id.example.com/auth/realms/main, clientId: c, privateKeyFile: /run/key.pem }
`
const files: Record<string, string> = {
  '/broken.yaml': `
platform: { baseUrl: nonsense }
auth: { privateKeyFile: '', issuerUrl: http://x, clientID: typo }
retry: { concurrency: many }
server: { host: 127.0.0.2, port: 19970 }
control: { allowRemote: true }
`,
  '/a.yaml': `${required}log: { level: warn }`,
  '/b.yaml': `${required}log: { level: error }`,
}

const input = (env: Record<string, string>): ConfigInput => inputOf({ env, files, hostName: 'this-host' })

describe('sections', () => {
  test('are loaded with any values of the others', () => {
    const env = {
      ...{ RECONCILER_CONFIG: '/broken.yaml', RECONCILER_CONTROL_TOKEN: token },
      ...{ RECONCILER_INSTANCE_NAME: 'a\nb', RECONCILER_RETRY_TYPO: '1' },
    }
    expect(loadSections(input(env), ['server', 'control'])).toMatchObject({
      config: { server: { host: '127.0.0.2', port: 19_970 }, control: { allowRemote: true, token } },
    })
    expect(() => loadConfig(input(env))).toThrow(ConfigurationError)
  })

  test('need no file, and no secret of another section', () => {
    const env = { RECONCILER_CONTROL_TOKEN_FILE: '/not/there', RECONCILER_AUTH_CLIENT_ID: '' }
    expect(loadSections(input(env), ['server'])).toMatchObject({
      config: { server: { host: '0.0.0.0', port: 10_964 } },
    })
    const parts = ['auth.privateKey', 'auth.privateKeyFile']
    expect(loadSections(input({ ...env, RECONCILER_CONFIG: '/a.yaml' }), ['auth'], parts)).toEqual({
      config: { auth: { privateKeyFile: '/run/key.pem', privateKey: undefined } },
      origins: new Map([
        ['auth.privateKey', 'default'],
        ['auth.privateKeyFile', '/a.yaml:3'],
      ]),
    })
    expect(problemsOf(() => loadSections(input(env), ['auth'], parts)).map(({ key }) => key)).toEqual([
      'auth.privateKeyFile',
    ])
  })

  test.each([
    [{ RECONCILER_SERVER_PORT: 'x' }, 'server.port'],
    [{ RECONCILER_CONTROL_TOKEN: 'short' }, 'control.token'],
    [{ RECONCILER_SERVER_PRT: '1' }, 'RECONCILER_SERVER_PRT'],
    [{ RECONCILER_CONFIG: '/none.yaml' }, 'RECONCILER_CONFIG'],
  ])('their own problems are reported, and no others: %j', (env, key) => {
    const wrong = input({ ...env, RECONCILER_RETRY_CONCURRENCY: 'x' })
    expect(problemsOf(() => loadSections(wrong, ['server', 'control'])).map((problem) => problem.key)).toEqual([key])
  })
})

test('RECONCILER_CONFIG names the file; --config overrides it; a wrong one is reported under its own name', () => {
  const named = input({ RECONCILER_CONFIG: ' /a.yaml ' })
  expect(loadConfig(named).config.log.level).toBe('warn')
  expect(loadConfig(named).origins.get('log.level')).toBe('/a.yaml:4')
  expect(loadConfig({ ...named, file: '/b.yaml' }).config.log.level).toBe('error')
  expect(toldOf(() => loadConfig(input({ RECONCILER_CONFIG: '' })))).toEqual([
    expect.stringMatching(/^RECONCILER_CONFIG \(environment\): is empty/),
  ])
  expect(toldOf(() => loadConfig(input({ RECONCILER_CONFIG: '/none' })))).toEqual([
    expect.stringMatching(/^RECONCILER_CONFIG \(.*\): does not exist/),
  ])
})
