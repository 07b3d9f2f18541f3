// Some sections alone, for commands beside the daemon: nothing else needs to be valid. And the file that a variable names.
import { describe, expect, test } from 'vitest'
import { loadConfig, loadSections, type ConfigInput } from '../../../src/config/load.ts'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { problemsOf } from '../../support/configuration.ts'

const token = 'abcdef0123456789abcdef0123456789'

/** Everything else in it is wrong or missing. */
const broken = `
platform: { baseUrl: nonsense }
auth: { privateKeyFile: '', issuerUrl: http://x, clientID: typo }
retry: { concurrency: many }
server: { host: 127.0.0.2, port: 19970 }
control: { allowRemote: true }
`

function input(env: Record<string, string> = {}, files: Record<string, string> = { '/c.yaml': broken }): ConfigInput {
  return {
    env,
    hostName: 'this-host',
    readFile(path) {
      const text = files[path]
      if (text === undefined) throw Object.assign(new Error('secret detail'), { code: 'ENOENT' })
      return text
    },
  }
}

describe('sections', () => {
  test('are loaded with any values of the others', () => {
    const env = {
      ...{ RECONCILER_CONFIG: '/c.yaml', RECONCILER_CONTROL_TOKEN: token },
      ...{ RECONCILER_INSTANCE_NAME: 'own', RECONCILER_RETRY_TYPO: '1' },
    }
    expect(loadSections(input(env), ['server', 'control'])).toEqual({
      config: {
        server: { host: '127.0.0.2', port: 19_970, statusPage: true },
        control: { allowRemote: true, token },
      },
      instance: 'own',
    })
    expect(() => loadConfig(input(env))).toThrow(ConfigurationError)
  })

  test('need no file, and no secret of another section', () => {
    const env = { RECONCILER_INSTANCE_NAME: 'a\nb', RECONCILER_CONTROL_TOKEN_FILE: '/not/there' }
    expect(loadSections(input(env), ['server'])).toEqual({
      config: { server: { host: '0.0.0.0', port: 10_964, statusPage: true } },
      // A name that can not be used gives way to the host name.
      instance: 'this-host',
    })
  })

  test.each([
    ['a value', { RECONCILER_SERVER_PORT: 'x' }, 'server.port'],
    ['a token that is too short', { RECONCILER_CONTROL_TOKEN: 'short' }, 'control.token'],
    ['a variable that is not known', { RECONCILER_SERVER_PRT: '1' }, 'RECONCILER_SERVER_PRT'],
    ['a file that is not there', { RECONCILER_CONFIG: '/none.yaml' }, 'RECONCILER_CONFIG'],
  ])('%s of their own that is wrong is reported, and nothing else', (_name, env, key) => {
    const load = (): unknown =>
      loadSections(input({ ...env, RECONCILER_RETRY_CONCURRENCY: 'x' }), ['server', 'control'])
    expect(problemsOf(load).map((problem) => problem.key)).toEqual([key])
  })
})

describe('RECONCILER_CONFIG', () => {
  const required = `
platform: { baseUrl: https://api.example.com }
auth: { issuerUrl: https://id.example.com/auth/realms/main, clientId: c, privateKeyFile: /run/key.pem }
`
  const files = { '/a.yaml': `${required}log: { level: warn }`, '/b.yaml': `${required}log: { level: error }` }

  test('names the file; --config overrides it', () => {
    const named = input({ RECONCILER_CONFIG: ' /a.yaml ' }, files)
    expect(loadConfig(named).config.log.level).toBe('warn')
    expect(loadConfig(named).origins.get('log.level')).toBe('/a.yaml:4')
    expect(loadConfig({ ...named, file: '/b.yaml' }).config.log.level).toBe('error')
  })

  test.each([
    ['', /is empty/],
    ['/none', /there is no such file/],
  ])('"%s" is refused under its own name, and what the file may hold is not missing', (path, message) => {
    expect(problemsOf(() => loadConfig(input({ RECONCILER_CONFIG: path }, files)))).toMatchObject([
      { key: 'RECONCILER_CONFIG', message: expect.stringMatching(message) as string },
    ])
  })

  test('a Service named reconciler-config does not name a file', () => {
    const env = { RECONCILER_CONFIG_SERVICE_HOST: '10.0.0.1', RECONCILER_CONFIG_PORT: 'tcp://10.0.0.1:80' }
    expect(() => loadConfig({ ...input(env, files), file: '/a.yaml' })).not.toThrow()
  })
})
