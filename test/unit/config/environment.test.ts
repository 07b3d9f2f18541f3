// The environment: variables, their _FILE twins, those that Kubernetes adds, and secrets that stand in a wrong place.
import { describe, expect, test } from 'vitest'
import { loadWith, problemsOf, toldOf } from '../../support/configuration.ts'

const valueVariable = 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE'
const twinVariable = 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE'
const pem = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nQUJD\nREVG\n-----END ENCRYPTED PRIVATE KEY-----\n'

describe('a _FILE twin', () => {
  const passphrase = (content: string): string | undefined =>
    loadWith({ env: { [twinVariable]: '/run/p' }, files: { '/run/p': content } }).config.auth.privateKeyPassphrase

  test.each([
    ['hunter2', 'hunter2'],
    ['hunter2\n', 'hunter2'],
    ['hunter2\r\n', 'hunter2'],
    ['hunter2\n\n', 'hunter2\n'],
    [' hunter2 ', ' hunter2 '],
    ['a\nb\n', 'a\nb'],
  ])('%j gives %j: only the last line end goes', (content, value) => {
    expect(passphrase(content)).toBe(value)
  })

  test('is reported as the origin, and goes before the file', () => {
    const yaml = 'auth:\n  privateKeyPassphrase: other'
    const { config, origins } = loadWith({ yaml, env: { [twinVariable]: '/run/p' }, files: { '/run/p': 'hunter2' } })
    expect(config.auth.privateKeyPassphrase).toBe('hunter2')
    expect(origins.get('auth.privateKeyPassphrase')).toBe(twinVariable)
  })

  test.each<[string, Record<string, string>, RegExp]>([
    ['both', { [twinVariable]: '/run/p', [valueVariable]: 'x' }, /^RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE is set too/],
    ['both, one empty', { [twinVariable]: '/run/p', [valueVariable]: '' }, /is empty|is set too/],
    [
      'no file',
      { [twinVariable]: '/run/hunter2' },
      /^names a file that can't be read: there is no such file \(ENOENT\)$/,
    ],
    ['an empty file', { [twinVariable]: '/empty' }, /^names a file that is empty$/],
    ['a file of one line end', { [twinVariable]: '/line-end' }, /^names a file that is empty$/],
    ['no path', { [twinVariable]: '' }, /^is empty/],
  ])('%s: refused', (_, env, message) => {
    const files = { '/run/p': 'y', '/empty': '', '/line-end': '\n', '': 'x' }
    const problems = problemsOf(() => loadWith({ env, files }))
    expect(new Set(problems.map(({ key }) => key))).toEqual(new Set(['auth.privateKeyPassphrase']))
    for (const problem of problems) expect(problem.message).toMatch(message)
  })
})

describe('the private key itself', () => {
  const env = { RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined }

  test('is taken as it is, or in one line with \\n', () => {
    for (const given of [pem, pem.replaceAll('\n', '\\n')]) {
      expect(loadWith({ env: { ...env, RECONCILER_AUTH_PRIVATE_KEY: given } }).config.auth.privateKey).toBe(pem)
    }
  })

  test.each([
    '/run/key.pem',
    'hunter2',
    '-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----',
    pem.slice(0, 60),
  ])('%j is none, and is not repeated', (given) => {
    const [problem, ...others] = problemsOf(() => loadWith({ env: { ...env, RECONCILER_AUTH_PRIVATE_KEY: given } }))
    expect(others).toEqual([])
    expect(problem?.message).toMatch(/^must be a private key in PEM form/)
    expect(problem?.message).not.toContain('QUJD')
    expect(problem?.message).not.toContain(given)
  })

  test('put where its path belongs, is not repeated', () => {
    const [problem] = problemsOf(() => loadWith({ env: { RECONCILER_AUTH_PRIVATE_KEY_FILE: pem } }))
    expect(problem?.message).toBe('must be the path of a file (its content does not belong here)')
  })
})

describe('variables of Kubernetes Services', () => {
  const links = (service: string): Record<string, string> => ({
    [`${service}_SERVICE_HOST`]: 'fd00::1234',
    [`${service}_SERVICE_PORT`]: '10964',
    [`${service}_SERVICE_PORT_METRICS`]: '10964',
    [`${service}_PORT`]: 'tcp://10.96.0.7:10964',
    [`${service}_PORT_10964_TCP`]: 'tcp://10.96.0.7:10964',
    [`${service}_PORT_10964_TCP_PROTO`]: 'tcp',
    [`${service}_PORT_10964_TCP_PORT`]: '10964',
    [`${service}_PORT_10964_TCP_ADDR`]: '10.96.0.7',
    [`${service}_PORT_53_UDP`]: 'udp://[fd00::1234]:53',
  })

  test.each(['RECONCILER', 'RECONCILER_SERVER', 'RECONCILER_V2'])('of a Service %s are passed over', (service) => {
    expect(loadWith({ env: links(service) }).config.server).toEqual({
      host: '0.0.0.0',
      port: 10_964,
      statusPage: true,
    })
  })

  test('a Service reconciler-server takes nothing from the port in the file', () => {
    const { config, origins } = loadWith({ yaml: 'server:\n  port: 9000', env: links('RECONCILER_SERVER') })
    expect(config.server.port).toBe(9000)
    expect(origins.get('server.port')).toBe('config.yaml:2')
  })

  test.each([
    ['RECONCILER_SERVICE_HOST', '0.0.0.0'],
    ['RECONCILER_SERVICE_HOST', 'localhost'],
    ['RECONCILER_SERVICE_HOST', '::'],
    ['RECONCILER_SERVICE_PORT', 'http'],
    ['RECONCILER_PORT', '10964'],
    ['RECONCILER_PORT_10964', 'tcp://10.96.0.7:10964'],
    ['RECONCILER_SERVICEPORT', '10964'],
  ])('%s=%s is none of them', (name, value) => {
    expect(problemsOf(() => loadWith({ env: { [name]: value } })).map(({ key }) => key)).toEqual([name])
  })

  test.each(['http://10.0.0.1:80', 'tcp', '10.0.0.1:80', '80/tcp'])('server.port is ours when it says %s', (value) => {
    expect(problemsOf(() => loadWith({ env: { RECONCILER_SERVER_PORT: value } })).map(({ key }) => key)).toEqual([
      'server.port',
    ])
  })
})

describe('other variables', () => {
  test.each(['reconciler_log_level', 'XRECONCILER_LOG_LEVEL', 'RECONCILER', 'RECONCILERS_X'])(
    '%s is not ours',
    (name) => {
      expect(() => loadWith({ env: { [name]: 'x' } })).not.toThrow()
    },
  )

  test.each([
    'RECONCILER_',
    'RECONCILER_LOG',
    'RECONCILER_LOG_LEVELS',
    'RECONCILER_CONFIGURATION',
    // Only secrets have such a twin.
    'RECONCILER_AUTH_CLIENT_ID_FILE',
    'RECONCILER___PROTO__',
  ])('%s is unknown', (name) => {
    expect(problemsOf(() => loadWith({ env: { [name]: 'hunter2' } }))).toMatchObject([
      { key: name, origin: 'environment' },
    ])
  })
})

describe('secrets', () => {
  const secret = 'hunter2-very-secret'

  test.each<[string, Record<string, string>, string | undefined]>([
    ['as an unknown variable', { RECONCILER_AUTH_PASSPHRASE: secret }, undefined],
    ['of a wrong type in the file', {}, `auth:\n  privateKeyPassphrase: [${secret}]`],
    ['as a section', {}, `auth:\n  privateKeyPassphrase: {a: ${secret}}`],
    ['under an unknown key', {}, `auth:\n  passphrase: ${secret}`],
    ['behind a tab', {}, `auth:\n\tprivateKeyPassphrase: ${secret}`],
    ['with a colon', {}, `auth:\n  privateKeyPassphrase: ${secret}: x`],
    ['starting with @', {}, `auth:\n  privateKeyPassphrase: @${secret}`],
    ['with an open quotation mark', {}, `auth:\n  privateKeyPassphrase: "${secret}\n`],
    ['with a wrong escape', {}, `auth:\n  privateKeyPassphrase: "\\${secret}"`],
    ['as an alias', {}, `auth:\n  privateKeyPassphrase: *${secret}`],
    ['as a tag', {}, `auth:\n  privateKeyPassphrase: !${secret} x`],
    ['on a line of its own', {}, `auth:\n  privateKeyPassphrase:\n${secret}\n`],
    ['as the path of its twin', { RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: secret }, undefined],
    ['as the client id, cut in lines', { RECONCILER_AUTH_CLIENT_ID: `x\n${secret}` }, undefined],
  ])('%s are not reported', (_, env, yaml) => {
    const told = toldOf(() => loadWith({ env, yaml }))
    expect(told.join('\n')).not.toContain(secret)
  })
})
