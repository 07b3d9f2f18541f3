// The same search in what the commands write: reports, logs beside them, and what they say of a configuration that can't be used.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import { startPlatform } from '../support/platform.ts'
import { findCanaries } from '../support/canaries.ts'
import { runCommand } from '../support/command.ts'
import { token } from '../support/control.ts'
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
import { makeFolder } from '../support/process.ts'

const asked = '22222222-2222-4333-8444-555555555555'
const on = (operation: FaultRule['operation'], fault: Fault): FaultRule => ({ operation, fault })
const troubles = {
  none: undefined,
  'the assertion is refused': on('token', refusedAssertion),
  'the list answers HTML': on('list', htmlPage),
  'the list is forbidden': on('list', forbidden),
  'retries are refused': on('retry', notFailed),
  'retries are forbidden': on('retry', forbidden),
  'retries answer HTML': on('retry', htmlPage),
}

describe('nothing that was planted is shown', () => {
  test.each<[string, keyof typeof troubles]>([
    ['once --verbose --json', 'none'],
    ['once --verbose', 'none'],
    ['once --verbose --json', 'the assertion is refused'],
    ['once --verbose', 'the assertion is refused'],
    ['once --verbose --json', 'the list answers HTML'],
    ['once --verbose', 'the list is forbidden'],
    ['once --verbose --json', 'retries are refused'],
    ['once --verbose', 'retries are forbidden'],
    ['once --verbose', 'retries answer HTML'],
    ['plan --records --verbose', 'none'],
    ['plan --records --json', 'none'],
    ['plan', 'the assertion is refused'],
    [`explain ${asked} --verbose`, 'none'],
    [`explain ${asked} --json`, 'none'],
    ['retry --since 1d --verbose', 'retries are refused'],
    ['retry --since 1d --json --verbose', 'retries are refused'],
    ['check', 'none'],
    ['check --json', 'none'],
    ['check', 'the assertion is refused'],
    ['print-config', 'none'],
    ['print-config --json', 'none'],
    ['pause --port 1', 'none'],
  ])('%s, trouble: %s', async (line, trouble) => {
    const { pem, encrypted } = await encryptedKey()
    const secrets = collectSecrets(pem, encrypted)
    await using sandbox = await startPlatform({ ignores: ['eventId'] })
    plantRecords(sandbox, systemClock.now())
    const text = `${planted['receiver error']} ${planted.name}`
    sandbox.addWebhook({ wire: { eventId: asked, responsePayload: text, lastAttemptErrorMessage: text } })
    const rule = troubles[trouble]
    sandbox.faults.set(secrets.watch, ...(rule === undefined ? [] : [rule]))
    sandbox.receiver.fail({ status: 500, body: planted['what the receiver answers later'], count: 3 })
    const { code, err, out } = await runCommand(line.split(' '), {
      env: {
        ...(await sandboxEnv(sandbox)),
        RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined,
        ...keyEnv(encrypted),
        RECONCILER_LOG_LEVEL: 'trace',
        RECONCILER_CONTROL_TOKEN: token,
        RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
        RECONCILER_PLATFORM_REQUEST_TIMEOUT: '1s',
        // So long is a retry looked for whose answer can't be read.
        RECONCILER_CIRCUIT_PROBE_TIMEOUT: '1s',
      },
    })
    const canaries = new Map([...secrets.canaries(), ['control token', token]])
    expect(findCanaries(out + err, canaries)).toEqual([])
    expect((out + err).length).toBeGreaterThan(80)
    if (trouble === 'the assertion is refused') expect(code).toBe(4)
  })
})

describe('a configuration that can not be used is refused, and not repeated', () => {
  interface Keys {
    pem: string
    encrypted: string
  }
  const base = {
    RECONCILER_PLATFORM_BASE_URL: 'https://api.example.com',
    RECONCILER_AUTH_ISSUER_URL: 'https://id.example.com/auth/realms/main',
    RECONCILER_AUTH_CLIENT_ID: 'client',
  }

  async function expectRefused(args: string[], env: Record<string, string>, { encrypted, pem }: Keys): Promise<void> {
    const { code, err, out } = await runCommand(args, { env })
    expect({ code, err }).toEqual({ code: 78, err: expect.stringMatching(/^The configuration has /) as string })
    expect(findCanaries(out + err, collectSecrets(pem, encrypted).canaries())).toEqual([])
  }

  const oneLine = (pem: string): string => pem.replaceAll('\n', '\\n')

  test.each<[string, (keys: Keys) => Record<string, string>]>([
    ['a wrong passphrase', ({ encrypted }) => ({ ...keyEnv(encrypted), ...passphraseOf(`${passphrase}!`) })],
    ['no passphrase', ({ encrypted }) => ({ RECONCILER_AUTH_PRIVATE_KEY: encrypted })],
    ['the key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: pem })],
    ['the key in one line where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: oneLine(pem) })],
    ['the bare key where its path belongs', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY_FILE: bare(pem) })],
    ['half of the key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.slice(0, 800) })],
    ['a key without its first bytes', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: pem.replace('MII', 'XYZ') })],
    ['the bare key', ({ pem }) => ({ RECONCILER_AUTH_PRIVATE_KEY: bare(pem) })],
    ['the key as the client id', ({ pem }) => ({ RECONCILER_AUTH_CLIENT_ID: pem })],
    ['the key as the realm', ({ pem }) => ({ RECONCILER_AUTH_REALM: pem, RECONCILER_AUTH_AUTH_URL: 'https://h' })],
    ['the key as the scope', ({ pem }) => ({ RECONCILER_AUTH_SCOPE: pem })],
    ['the key as the certificate', ({ pem }) => ({ ...keyOf(pem), RECONCILER_AUTH_CERTIFICATE_FILE: pem })],
    ['the key as a duration', ({ pem }) => ({ RECONCILER_PLATFORM_REQUEST_TIMEOUT: oneLine(pem) })],
    ['the key as the name of the instance', ({ pem }) => ({ RECONCILER_INSTANCE_NAME: pem })],
    ['the passphrase in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://user:${passphrase}@h` })],
    ['the passphrase in a query', () => ({ RECONCILER_AUTH_ISSUER_URL: `https://h/?p=${passphrase}` })],
    ['a token in a URL', () => ({ RECONCILER_PLATFORM_BASE_URL: `https://h/?token=${strayJwt}` })],
    ['a misspelt key with a secret', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASES: passphrase })],
    ['both keys', ({ pem }) => ({ ...keyOf(pem), RECONCILER_AUTH_PRIVATE_KEY_FILE: '/run/key.pem' })],
    ['a passphrase twice', () => ({ ...passphraseOf(passphrase), RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: '/p' })],
    ['a passphrase for the path of its file', () => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE_FILE: passphrase })],
  ])('%s', async (_, env) => {
    const keys = await encryptedKey()
    for (const command of ['once', 'run']) await expectRefused([command], { ...base, ...env(keys) }, keys)
  })

  test.each<[string, (keys: Keys) => string]>([
    ['the key under the wrong name', ({ pem }) => `auth:\n  key: |\n${indented(pem)}`],
    ['the key where its path belongs', ({ pem }) => `auth:\n  privateKeyFile: |\n${indented(pem)}`],
    ['the key in the wrong section', ({ pem }) => `platform:\n  baseUrl: |\n${indented(pem)}`],
    ['a passphrase of two kinds', () => `auth:\n  privateKeyPassphrase: [${passphrase}, ${passphrase}]`],
    ['a passphrase that is a section', () => `auth:\n  privateKeyPassphrase:\n    value: ${passphrase}`],
    ['YAML that breaks off behind a secret', () => `auth:\n  privateKeyPassphrase: "${passphrase}\n  a: b: [`],
    ['YAML with a tab behind a secret', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n\tclientId: x`],
    ['a secret twice', () => `auth:\n  privateKeyPassphrase: ${passphrase}\n  privateKeyPassphrase: ${passphrase}`],
    ['a file that is no YAML but the key', ({ pem }) => pem],
    ['a file that is the token', () => strayJwt],
  ])('a file with %s', async (_, yaml) => {
    const keys = await encryptedKey()
    await using folder = await makeFolder()
    const path = await folder.write('config.yaml', yaml(keys))
    await expectRefused(['once', '--config', path], base, keys)
  })
})

const keyOf = (pem: string): Record<string, string> => ({ RECONCILER_AUTH_PRIVATE_KEY: pem })
const passphraseOf = (value: string): Record<string, string> => ({ RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE: value })

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
