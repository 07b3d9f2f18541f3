// The same search in what the commands write: reports, logs beside them, and what they say of a configuration that can't be used.
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { main } from '../../src/cli/program.ts'
import { systemClock, systemRandom } from '../../src/runtime/clock.ts'
import type { ExitCode } from '../../src/runtime/errors.ts'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { startPlatform } from '../support/platform.ts'
import { findCanaries } from '../support/canaries.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import {
  collectSecrets,
  encryptedKey,
  forbidden,
  htmlPage,
  keyEnv,
  notFailed,
  passphrase,
  planted,
  plantRecords,
  refusedAssertion,
  strayJwt,
} from '../support/planted.ts'

interface Ran {
  code: ExitCode
  out: string
  err: string
}

/** Runs the program in this process, with streams and environment of its own. */
async function run(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string = () => {
    throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
  },
): Promise<Ran> {
  let [out, err] = ['', '']
  const code = await main(args, {
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
    env,
    hostName: 'test',
    identity: { instance: 'test' },
    nodeVersion: process.version,
    version: '0.0.0',
    clock: systemClock,
    random: systemRandom,
    readFile,
    openInput: () => Readable.from([]),
    writtenAt: () => undefined,
    openOutput: () => ({ write: () => true, close: () => undefined }),
    signal: new AbortController().signal,
    onOutputLost: () => undefined,
  })
  return { code, out, err }
}

describe('once', () => {
  const none: FaultRule[] = []
  test.each<[string, string[], FaultRule[]]>([
    ['all is well', ['--json'], none],
    ['all is well', [], none],
    ['the assertion is refused', ['--json'], [{ operation: 'token', fault: refusedAssertion }]],
    ['the assertion is refused', [], [{ operation: 'token', fault: refusedAssertion }]],
    ['the list answers HTML', ['--json'], [{ operation: 'list', fault: htmlPage }]],
    ['the list is forbidden', [], [{ operation: 'list', fault: forbidden }]],
    ['retries are refused', ['--json'], [{ operation: 'retry', fault: notFailed }]],
    ['retries are forbidden', [], [{ operation: 'retry', fault: forbidden }]],
    ['retries answer HTML', [], [{ operation: 'retry', fault: htmlPage }]],
  ])('%s: once %j', async (_, options, faults) => {
    const { pem, encrypted } = await encryptedKey()
    const secrets = collectSecrets(pem, encrypted)
    await using sandbox = await startPlatform()
    plantRecords(sandbox, systemClock.now())
    sandbox.faults.set(secrets.watch, ...faults)
    sandbox.receiver.fail({ status: 500, body: planted['what the receiver answers later'], count: 3 })
    const ran = await run(['once', '--verbose', ...options], {
      ...(await sandboxEnv(sandbox)),
      RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined,
      ...keyEnv(encrypted),
      RECONCILER_LOG_LEVEL: 'debug',
      RECONCILER_PLATFORM_REQUEST_TIMEOUT: '1s',
      // So long is a retry looked for whose answer can't be read.
      RECONCILER_CIRCUIT_PROBE_TIMEOUT: '1s',
    })

    expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
    // Without JSON, a list that failed leaves stdout empty.
    expect(ran.out.length + ran.err.length).toBeGreaterThan(100)
    expect(ran.err.length).toBeGreaterThan(50)
    if (faults[0]?.fault === refusedAssertion) expect(ran.code).toBe(4)
  })
})

describe('a configuration that can not be used', () => {
  const base = {
    RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com',
    RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com/auth/realms/main',
    RECONCILER_AUTH_CLIENT_ID: 'client',
  }
  const oneLine = (pem: string): string => pem.replaceAll('\n', '\\n')
  const cases: [string, (keys: { pem: string; encrypted: string }) => Record<string, string>][] = [
    [
      'a wrong passphrase',
      ({ encrypted }) => ({
        RECONCILER_AUTH_PRIVATE_KEY: encrypted,
        RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: `${passphrase}!`,
      }),
    ],
    ['no passphrase', ({ encrypted }) => ({ RECONCILER_AUTH_PRIVATE_KEY: encrypted })],
    ['the key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: pem })],
    ['the key in one line where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: oneLine(pem) })],
    ['the bare key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: bare(pem) })],
    ['half of the key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.slice(0, 800) })],
    ['a key without its first bytes', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.replace('MII', 'XYZ') })],
    ['the bare key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: bare(pem) })],
    ['the key as the client id', ({ pem }) => ({ RECONCILER_AUTH_CLIENT_ID: pem })],
    [
      'the key as the realm',
      ({ pem }) => ({ RECONCILER_AUTH_REALM: pem, RECONCILER_AUTH_AUTH_URL: 'https://id.example.com' }),
    ],
    ['the key as the scope', ({ pem }) => ({ RECONCILER_AUTH_SCOPE: pem })],
    [
      'the key as the certificate',
      ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem, RECONCILER_AUTH_CERTIFICATE_FILE: pem }),
    ],
    ['the key as a duration', ({ pem }) => ({ RECONCILER_PLATFORM_REQUEST_TIMEOUT: oneLine(pem) })],
    ['the key as the name of the instance', ({ pem }) => ({ RECONCILER_INSTANCE_NAME: pem })],
    ['the passphrase in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://user:${passphrase}@api.example.com` })],
    ['the passphrase in a query', () => ({ RECONCILER_AUTH_ISSUER_URL: `https://id.example.com/?p=${passphrase}` })],
    ['a token in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://api.example.com/?token=${strayJwt}` })],
    ['a misspelt key with a secret', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASES: passphrase })],
    [
      'both keys',
      ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem, RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem' }),
    ],
    [
      'a passphrase twice',
      () => ({
        RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: passphrase,
        RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: '/run/passphrase',
      }),
    ],
    ['a passphrase whose file is named by itself', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: passphrase })],
  ]

  test.each(cases)('%s: refused with 78, by name, and not repeated', async (_, env) => {
    const keys = await encryptedKey()
    const secrets = collectSecrets(keys.pem, keys.encrypted)
    for (const command of ['once', 'run']) {
      const ran = await run([command], { ...base, ...env(keys) })
      expect(ran.code).toBe(78)
      expect(ran.err).toMatch(/^The configuration has /)
      expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
    }
  })

  test.each<[string, (keys: { pem: string; encrypted: string }) => string]>([
    ['the key under the wrong name', ({ pem }) => `auth:\n  key: |\n${indented(pem)}`],
    ['the key where its path belongs', ({ pem }) => `auth:\n  privateKeyFile: |\n${indented(pem)}`],
    ['the key in the wrong section', ({ pem }) => `platform:\n  baseUrl: |\n${indented(pem)}`],
    ['a passphrase of two kinds', () => `auth:\n  privateKeyPassphrase: [${passphrase}, ${passphrase}]`],
    ['a passphrase that is a section', () => `auth:\n  privateKeyPassphrase:\n    value: ${passphrase}`],
    [
      'YAML that breaks off behind a secret',
      () => `auth:\n  privateKeyPassphrase: "${passphrase}\n  clientId: x: y: [`,
    ],
    ['YAML with a tab behind a secret', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n\tclientId: x`],
    ['a secret twice', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n  privateKeyPassphrase: ${passphrase}`],
    ['a file that is no YAML but the key', ({ pem }) => pem],
    ['a file that is the token', () => strayJwt],
  ])('a file with %s', async (_, yaml) => {
    const keys = await encryptedKey()
    const secrets = collectSecrets(keys.pem, keys.encrypted)
    const ran = await run(['once', '--config', 'config.yaml'], base, () => yaml(keys))
    expect(ran.code).toBe(78)
    expect(findCanaries(ran.out + ran.err, secrets.canaries())).toEqual([])
  })
})

/** A key as people paste it: without its first and last line, in one. */
function bare(pem: string): string {
  return pem
    .split('\n')
    .filter((line) => !line.startsWith('-----'))
    .join('')
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '    ')
}
