// What keeps the daemon from starting is said by name, all at once, without secrets; the exit code says whose turn it is.
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand, type Ran } from '../support/command.ts'
import { startConnectProxy } from '../support/connect-proxy.ts'
import { startPlatform } from '../support/platform.ts'
import { testKeys } from '../support/keys.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { makeFolder, runProgram, type Folder } from '../support/process.ts'

const canary = 'canary-4c1d0f'

/** Where no server listens: what is wrong is found before anything is sent. */
const nowhere = {
  RECONCILER_PLATFORM_BASE_URL: 'http://127.0.0.1:9',
  RECONCILER_AUTH_ISSUER_URL: 'http://127.0.0.1:9/auth/realms/main',
  RECONCILER_AUTH_CLIENT_ID: 'client',
  RECONCILER_SERVER_HOST: '127.0.0.1',
  RECONCILER_SERVER_PORT: '0',
}

let folder: Folder

beforeAll(async () => {
  folder = await makeFolder()
})

afterAll(() => folder[Symbol.asyncDispose]())

function expectRefused({ code, err, out }: Omit<Ran, 'questions'>, words: readonly string[]): void {
  expect({ code, out }, err).toEqual({ code: 78, out: '' })
  for (const word of words) expect(err).toContain(word)
  expect(err).not.toContain(canary)
  expect(err).not.toMatch(/^\s+at /m)
}

/** Runs the daemon in this process until it has started, or is refused. */
async function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ran> {
  const stop = new AbortController()
  const onOut = (text: string): void => {
    if (text.includes('"event":"daemon_started"')) stop.abort(new Error('SIGTERM'))
  }
  return runCommand(['run', ...args], { env, signal: stop.signal, onOut })
}

/** The line of the log with this event. */
function lineOf({ out }: Ran, event: string): unknown {
  const line = out.split('\n').find((one) => one.includes(`"event":"${event}"`))
  return JSON.parse(line ?? 'null')
}

describe('configuration', () => {
  const problems: [string, Record<string, string>, string | undefined, string[]][] = [
    [
      'nothing at all',
      {},
      undefined,
      ['problems', 'platform.baseUrl', 'auth.issuerUrl', 'auth.clientId', 'docs/configuration.md'],
    ],
    [
      'many problems at once',
      {
        RECONCILER_PLATFORM_BASE_URL: 'http://example.com',
        RECONCILER_AUTH_ISSUER_URL: 'nonsense',
        RECONCILER_RETRY_BACKOFF_INITIAL: '1 minute',
        RECONCILER_SERVER_PORT: '70000',
        RECONCILER_SCHEDULE_CRON: '* *',
        RECONCILER_LOG_LEVEL: 'loud',
      },
      undefined,
      [
        'platform.baseUrl (RECONCILER_PLATFORM_BASE_URL): must start with https://',
        'auth.issuerUrl (RECONCILER_AUTH_ISSUER_URL)',
        'auth.clientId (missing)',
        'auth.privateKeyFile (missing)',
        'retry.backoff.initial (RECONCILER_RETRY_BACKOFF_INITIAL)',
        'server.port (RECONCILER_SERVER_PORT)',
        'schedule.cron (RECONCILER_SCHEDULE_CRON)',
        'log.level (RECONCILER_LOG_LEVEL)',
      ],
    ],
    [
      'a settle time that is longer than the window',
      { ...nowhere, RECONCILER_WINDOW_SETTLE: '6h', RECONCILER_WINDOW_LOOKBACK: '1h' },
      undefined,
      ['window.settle (RECONCILER_WINDOW_SETTLE)', 'window.lookback'],
    ],
    [
      'an unknown variable',
      { ...nowhere, RECONCILER_AUTH_PRIVATE_KEY_FILE: '/nowhere', RECONCILER_RETRY_ENABELD: 'false' },
      undefined,
      ['a problem:', 'RECONCILER_RETRY_ENABELD (environment)', 'RECONCILER_RETRY_ENABLED?'],
    ],
    [
      'no YAML',
      {},
      'platform: [unclosed\nretry:\n\tenabled: true\n',
      ['config.yaml:', 'a tab in the indentation', 'indentation does not fit'],
    ],
    ['a YAML list', {}, '- a\n- b\n', ['config.yaml', 'must hold sections']],
    [
      'a misspelt and an ill-typed key',
      nowhere,
      'retry:\n  enbled: true\n  maxAttempts: many\n',
      ['config.yaml:2', 'retry.enabled?', 'retry.maxAttempts', 'config.yaml:3', 'auth.privateKeyFile (missing)'],
    ],
    [
      'a secret in the wrong place',
      { ...nowhere, RECONCILER_AUTH_PRIVATE_KEY: canary, RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: `/${canary}` },
      undefined,
      ['auth.privateKey (RECONCILER_AUTH_PRIVATE_KEY)', 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE'],
    ],
  ]

  test.concurrent.each(problems)('%s', async (_name, env, yaml, words) => {
    await using own = await makeFolder()
    const args = yaml === undefined ? [] : ['--config', await own.write('config.yaml', yaml)]
    expectRefused(await run(args, env), words)
  })

  test.concurrent.each(['run', 'once'])('%s with a file that is not there', async (command) => {
    const path = join(folder.path, 'no-such.yaml')
    const ran = await runCommand([command, '--config', path], { env: nowhere })
    expectRefused(ran, ['--config', path, 'there is no such file'])
  })

  test.concurrent('the process ends with 78, and writes to stderr alone', async () => {
    const { code, stderr, stdout } = await runProgram(['run'])
    expectRefused({ code: code as Ran['code'], err: stderr, out: stdout }, ['platform.baseUrl (missing)'])
  })
})

describe('a file that would block, or fill the memory, is refused at once', () => {
  const pipe = (): string => join(folder.path, 'pipe')
  beforeAll(() => {
    execFileSync('mkfifo', [pipe()])
  })

  test.concurrent.each([
    ['--config: a pipe', '--config', '', ''],
    ['--config: a device', '--config (/dev/zero)', '', '/dev/zero'],
    ['control.token: a pipe', 'control.token', 'RECONCILER_CONTROL_TOKEN_FILE', ''],
    [
      'auth.privateKeyPassphrase: a device',
      'auth.privateKeyPassphrase',
      'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE',
      '/dev/zero',
    ],
  ])('%s', async (_name, key, variable, device) => {
    const path = device || pipe()
    const args = variable === '' ? ['--config', path] : []
    const env = variable === '' ? nowhere : { ...nowhere, [variable]: path }
    expectRefused(await run(args, env), [key, 'must be a regular file'])
  })

  test.concurrent('by the process itself, too', async () => {
    const { code, stderr, stdout } = await runProgram(['run', '--config', pipe()])
    expectRefused({ code: code as Ran['code'], err: stderr, out: stdout }, ['must be a regular file'])
  })
})

describe('HTTPS_PROXY', () => {
  const elsewhere = {
    ...nowhere,
    RECONCILER_PLATFORM_BASE_URL: 'https://platform.invalid/v1',
    RECONCILER_AUTH_ISSUER_URL: 'https://id.invalid/auth/realms/main',
  }

  test.concurrent('is named in the first line, without its password', async () => {
    const { privateKeyFile } = await testKeys()
    await using proxy = await startConnectProxy(1, 502)
    const HTTPS_PROXY = `http://user:${canary}@127.0.0.1:${proxy.port}`
    const ran = await run([], { ...elsewhere, RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile, HTTPS_PROXY })
    expect(lineOf(ran, 'daemon_started')).toMatchObject({ proxy: `http://127.0.0.1:${proxy.port}` })
    expect(ran.out + ran.err).not.toContain(canary)
  })

  test.concurrent('is the way that calls go, and what it refuses is reported with its answer', async () => {
    const { privateKeyFile } = await testKeys()
    await using proxy = await startConnectProxy(1, 502)
    const HTTPS_PROXY = `http://127.0.0.1:${proxy.port}`
    const env = { ...elsewhere, RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile, HTTPS_PROXY }
    const { code, out } = await runCommand(['check'], { env })
    expect(code, out).toBe(69)
    expect(out).toMatch(/FAILED +token .*\(PROXY_STATUS_502\); POST https:\/\/id\.invalid\/\S+\n +-> the proxy/)
    expect(proxy.tunnels).toEqual([{ to: 'id.invalid:443', authorization: undefined }])
  })
})

test('a file, and the environment over it, is what it starts with', async () => {
  const { privateKeyFile } = await testKeys()
  await using own = await makeFolder()
  const yaml = [
    `platform: { baseUrl: '${nowhere.RECONCILER_PLATFORM_BASE_URL}/' }`,
    `auth: { issuerUrl: '${nowhere.RECONCILER_AUTH_ISSUER_URL}', clientId: from-file, privateKeyFile: ${privateKeyFile} }`,
    'instance: { name: from-file }',
    'server: { host: 127.0.0.1, port: 0 }',
    'window: { lookback: 36h, notBefore: 2026-01-02T03:04:05+02:00 }',
    'select: { modules: [accounts] }',
    'retry: { enabled: true }',
    'schedule: { cron: 0 0 4 * * * }',
  ]
  const file = await own.write('config.yaml', yaml.join('\n'))
  const env = { RECONCILER_INSTANCE_NAME: 'from-environment', RECONCILER_RETRY_ENABLED: 'false' }
  expect(lineOf(await run(['--config', file], env), 'daemon_started')).toMatchObject({
    instance: 'from-environment',
    platform: nowhere.RECONCILER_PLATFORM_BASE_URL,
    issuer: nowhere.RECONCILER_AUTH_ISSUER_URL,
    schedule: '0 0 4 * * *',
    lookback: '36h',
    notBefore: '2026-01-02T01:04:05.000Z',
    selectedBy: ['modules'],
    retries: 'observe only',
  })
})

describe('private key', () => {
  const passphrase = { RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: canary }
  const rsa = (modulusLength: number): string =>
    generateKeyPairSync('rsa', { modulusLength }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const encrypted = (): string =>
    generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'right' },
    }).privateKey
  const ec = (): string =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const certificate = async (): Promise<string> => (await testKeys()).certificatePem

  const cases: [string, () => string | Promise<string>, Record<string, string>, string[]][] = [
    ['is not RSA', ec, {}, ['auth.privateKeyFile', 'type ec', 'RSA only']],
    ['is too short', () => rsa(1024), {}, ['auth.privateKeyFile', '1024 bits', '4096']],
    ['is encrypted, no passphrase', encrypted, {}, ['auth.privateKeyPassphrase (missing)', 'encrypted']],
    ['is encrypted, wrong passphrase', encrypted, passphrase, ['auth.privateKeyPassphrase', 'wrong']],
    ['is a certificate', certificate, {}, ['auth.privateKeyFile', 'a certificate', 'private key that belongs to']],
    ['is empty', () => '', {}, ['auth.privateKeyFile', 'empty']],
    ['is a note', () => `the key is in the safe ${canary}\n`, {}, ['auth.privateKeyFile', 'private key in PEM']],
  ]

  test.concurrent.each(cases)('%s', async (_name, content, more, words) => {
    await using own = await makeFolder()
    const file = await own.write('key.pem', await content())
    const env = { ...nowhere, ...more, RECONCILER_AUTH_PRIVATE_KEY_FILE: file }
    expectRefused(await run([], env), [...words, file])
  })

  test.concurrent.each([
    ['is not there', 'missing.pem'],
    ['is a folder', '.'],
  ])('%s', async (_name, path) => {
    const file = join(folder.path, path)
    const env = { ...nowhere, RECONCILER_AUTH_PRIVATE_KEY_FILE: file }
    expectRefused(await run([], env), ['auth.privateKeyFile', file])
  })

  test('of 2048 bits works, with a warning', async () => {
    await using own = await makeFolder()
    const file = await own.write('key.pem', rsa(2048))
    const env = { ...nowhere, RECONCILER_AUTH_PRIVATE_KEY_FILE: file }
    const ran = await run([], env)
    const problem = expect.stringContaining('2048 bits') as string
    expect(lineOf(ran, 'key_weak')).toMatchObject({ level: 'warn', problem })
    // A person reads words, and gets this one from check.
    expect((await runCommand(['plan'], { env })).err).not.toContain('"event"')
    expect((await runCommand(['check'], { env })).out).toMatch(/^warning +key .*\n +-> the RSA key has 2048 bits/m)
  })
})

test('a certificate that is none', async () => {
  const { privateKeyFile } = await testKeys()
  const env = {
    ...nowhere,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
    RECONCILER_AUTH_CERTIFICATE_FILE: privateKeyFile,
  }
  expectRefused(await run([], env), ['auth.certificateFile', privateKeyFile])
})

describe('port', () => {
  test('taken: says so before anything is asked of the platform', async () => {
    await using sandbox = await startPlatform()
    const blocker = createServer()
    await new Promise<void>((resolve) => {
      blocker.listen(0, '127.0.0.1', resolve)
    })
    const { port } = blocker.address() as AddressInfo
    try {
      const env = {
        ...(await sandboxEnv(sandbox)),
        RECONCILER_SERVER_HOST: '127.0.0.1',
        RECONCILER_SERVER_PORT: String(port),
      }
      expectRefused(await run([], env), ['server.port', `127.0.0.1:${port}`, 'taken'])
      expect(sandbox.stats.requests.token).toEqual({})
    } finally {
      blocker.close()
    }
  })

  test('on an address of another host', async () => {
    const { privateKeyFile } = await testKeys()
    const env = {
      ...nowhere,
      RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
      RECONCILER_SERVER_HOST: '192.0.2.1',
    }
    expectRefused(await run([], env), ['192.0.2.1', 'no such address'])
  })
})
