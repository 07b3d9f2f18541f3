// auth.signCommand: a real program signs; whatever else it does is said in words, ends in time, and shows no secret.
import { verify, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { SigningKey } from '../../src/platform/auth/private-key.ts'
import { loadSignCommand, signLimitMs } from '../../src/platform/auth/sign-command.ts'
import { systemClock, type Clock } from '../../src/runtime/clock.ts'
import { runCommand } from '../support/command.ts'
import { testKeys } from '../support/keys.ts'
import { envOf, startPlatform } from '../support/platform.ts'
import { makeFolder } from '../support/process.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

/** A program of Node: this code, with the text to sign in `text`, and the signature of the key at `argv[1]` by `sign`. */
function program(code: string): string[] {
  const head = `const { readFileSync } = require('node:fs')
    const text = readFileSync(0)
    const sign = () => require('node:crypto').sign('sha256', text, readFileSync(process.argv[1]))
    const write = (signature) => process.stdout.write(signature)
    `
  return [process.execPath, '--eval', head + code]
}

const signing = "write(sign().toString('base64url'))"

async function keyBy(command: readonly string[], clock: Clock = systemClock): Promise<SigningKey> {
  const { certificateFile } = await testKeys()
  const env = { PATH: process.env['PATH'] }
  return loadSignCommand({ command, certificateFile, clock, env }).current()
}

async function failure(signed: Promise<string>): Promise<unknown> {
  return signed.then(
    () => 'it was signed',
    (error: unknown) => error,
  )
}

test.each([
  ['Base64 for URLs', signing],
  [
    'Base64 in lines, as openssl and KMS tools write it',
    "write(sign().toString('base64').replace(/.{64}/g, '$&\\n') + '\\n')",
  ],
  ["the form of Vault's transit engine", "write('vault:v3:' + sign().toString('base64'))"],
])('an assertion is signed by %s', async (_, code) => {
  const { certificatePem, privateKeyFile } = await testKeys()
  const key = await keyBy([...program(code), privateKeyFile])
  const [header = '', claims = '', signature = ''] = (await key.sign({ jti: 'a', exp: 1 })).split('.')
  const read = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString())
  expect([read(header), read(claims)]).toEqual([
    { alg: 'RS256', typ: 'JWT' },
    { jti: 'a', exp: 1 },
  ])
  const { publicKey } = new X509Certificate(certificatePem)
  const isGood = verify('sha256', Buffer.from(`${header}.${claims}`), publicKey, Buffer.from(signature, 'base64url'))
  expect({ isGood, bits: key.bits }).toEqual({ isGood: true, bits: 4096 })
})

const token = 'Bearer eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiJhIn0.c2lnbmF0dXJl'

describe('what goes wrong is said', () => {
  test.each<[string, string[], string, string]>([
    ['no such program', ['/no/such/program'], 'SIGN_COMMAND_NOT_FOUND', 'was not found'],
    ['a folder in its place', ['/'], 'SIGN_COMMAND_NOT_RUN', 'may not be run by this user'],
    [
      'longer arguments than the system takes',
      ['/bin/true', 'x'.repeat(10_000_000)],
      'SIGN_COMMAND_NOT_RUN',
      'could not be run (E2BIG)',
    ],
    [
      'it fails',
      program(`console.error('first\\nno slot ${token}\\n'); process.exitCode = 3`),
      'SIGN_COMMAND_FAILED',
      'ended with 3: "no slot ',
    ],
    [
      'it fails, and repeats its arguments',
      [
        ...program("console.error(process.argv[1], 'no PIN 1234'); process.exitCode = 1"),
        'pkcs11:id=%01?pin-value=1234&x=y',
      ],
      'SIGN_COMMAND_FAILED',
      'ended with 1: "[argument] no PIN [argument]"',
    ],
    ['it is killed', program("process.kill(process.pid, 'SIGKILL')"), 'SIGN_COMMAND_FAILED', 'was ended by SIGKILL'],
    [
      'it reads nothing and fails',
      [process.execPath, '--eval', 'process.exit(5)'],
      'SIGN_COMMAND_FAILED',
      'ended with 5',
    ],
    ['it writes nothing', program(''), 'SIGN_COMMAND_NO_SIGNATURE', 'wrote no signature'],
    ['it writes a page', program("write('<html>')"), 'SIGN_COMMAND_NO_SIGNATURE', 'wrote no signature'],
    [
      'it writes without end',
      program("for (let i = 0; i < 100; i++) write('A'.repeat(100_000))"),
      'SIGN_COMMAND_OTHER_KEY',
      'wrote a signature that does not verify',
    ],
  ])('%s', async (_, command, code, message) => {
    const { privateKeyFile } = await testKeys()
    const error = await failure((await keyBy([...command, privateKeyFile])).sign({}))
    expect(error).toMatchObject({ code, message: expect.stringContaining(`auth.signCommand ${message}`) as string })
    expect(String(error)).not.toContain('c2lnbmF0dXJl')
  })

  test('the key of another certificate', async () => {
    const { privateKeyFile } = await testKeys('other')
    const error = await failure((await keyBy([...program(signing), privateKeyFile])).sign({}))
    expect(error).toMatchObject({ code: 'SIGN_COMMAND_OTHER_KEY' })
  })
})

const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}/stat`) && !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')

describe.each(['the time-out', 'the signal'])('at %s', (name) => {
  test('the program ends, with what it has started', async () => {
    await using folder = await makeFolder()
    const pids = join(folder.path, 'pids')
    const code = `const child = require('node:child_process').spawn(process.execPath, ['--eval', 'setInterval(() => {}, 1e6)'], { stdio: 'inherit' })
      require('node:fs').writeFileSync(${JSON.stringify(pids)}, process.pid + ' ' + child.pid + '.')
      ${name === 'the time-out' ? 'child.unref()' : 'setInterval(() => {}, 1e6)'}`
    const clock = createVirtualClock()
    const controller = new AbortController()
    const failed = failure((await keyBy(program(code), clock)).sign({}, controller.signal))
    await expect.poll(() => existsSync(pids) && readFileSync(pids, 'utf8').endsWith('.')).toBe(true)
    const started = readFileSync(pids, 'utf8')
      .split(' ')
      .map((text) => Number.parseInt(text))
    // It has ended by then, and what it started has not.
    if (name === 'the time-out') {
      await expect.poll(() => started.filter(isAlive)).toEqual(started.slice(1))
      await clock.advance(signLimitMs)
    } else controller.abort(new Error('stopped'))
    const message = name === 'the time-out' ? 'auth.signCommand did not end within 5 s' : 'stopped'
    expect(await failed).toMatchObject({ message })
    await expect.poll(() => started.filter(isAlive)).toEqual([])
  })
})

describe('check', () => {
  async function checked(command: readonly string[]): Promise<{ code: number | null; out: string }> {
    await using sandbox = await startPlatform()
    const { certificateFile } = await testKeys()
    const env = await envOf(sandbox, {
      RECONCILER_AUTH_SIGN_COMMAND: JSON.stringify(command),
      RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile,
    })
    Reflect.deleteProperty(env, 'RECONCILER_AUTH_PRIVATE_KEY_FILE')
    return await runCommand(['check'], { env })
  }

  test('shows the program and its key, and the platform takes its signature; the program gets none of our variables', async () => {
    const { privateKeyFile } = await testKeys()
    const ours = "if (Object.keys(process.env).some((name) => name.startsWith('RECONCILER_'))) process.exit(9)\n"
    const { code, out } = await checked([...program(ours + signing), privateKeyFile])
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      `RSA, 4096 bits, signed by ${process.execPath}, SHA-256 of the public key`,
    )
    expect(out).toMatch(/^ok +token +assertion accepted/m)
    expect(code).toBe(0)
  })

  test('shows why it does not sign, and what to do, without its arguments', async () => {
    const { code, out } = await checked([...program("console.error('CKR_PIN_INCORRECT'); process.exit(1)"), 'pin-1234'])
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      'FAILED key auth.signCommand ended with 1: "CKR_PIN_INCORRECT" -> run it by hand as the user of this process',
    )
    expect(out).not.toContain('pin-1234')
    expect(code).toBe(78)
  })
})
