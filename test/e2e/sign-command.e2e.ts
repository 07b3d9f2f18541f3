// A key that never leaves its token: SoftHSM2 holds it, OpenSSL signs with it by PKCS#11, and the daemon recovers with it.
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { platformEnv, startSandbox } from '../../sandbox/sandbox.ts'
import { describeWith } from '../support/needs.ts'
import { makeFolder, startProgram } from '../support/process.ts'

const [token] = globSync('/usr/lib/{softhsm,*-linux-gnu/softhsm}/libsofthsm2.so')
const [engine] = globSync('/usr/lib/*-linux-gnu/engines-3/pkcs11.so')
const hasTools = ['softhsm2-util', 'pkcs11-tool'].every((name) => spawnSync('which', [name]).status === 0)
const obstacle =
  token !== undefined && engine !== undefined && hasTools ? undefined : 'no softhsm2, opensc, libengine-pkcs11-openssl'
const pin = '4711'
const uri = `pkcs11:token=payments;object=service;type=private;pin-value=${pin}`

describeWith(obstacle, 'a key in a token of PKCS#11', () => {
  test.each([
    // Standard input is a socket, which has no name such as /dev/stdin: `cat` makes a pipe of it.
    ['openssl', `openssl dgst -sha256 -engine pkcs11 -keyform engine -sign '${uri}' | base64 -w 0`],
    [
      'pkcs11-tool',
      `cat | pkcs11-tool --module ${token ?? ''} --login --pin ${pin} --token-label payments --sign --id 01 --mechanism SHA256-RSA-PKCS --input-file /dev/stdin --output-file /dev/stdout | base64 -w 0`,
    ],
  ])('signs by %s: all is recovered, and a wrong PIN is said', async (_, script) => {
    await using folder = await makeFolder()
    const tokens = join(folder.path, 'tokens')
    await mkdir(tokens)
    const engines = `openssl_conf = a\n[a]\nengines = b\n[b]\npkcs11 = c\n[c]\nMODULE_PATH = ${token ?? ''}\n`
    const env = {
      PATH: process.env['PATH'] ?? '',
      SOFTHSM2_CONF: await folder.write('softhsm2.conf', `directories.tokendir = ${tokens}\n`),
      OPENSSL_CONF: await folder.write('openssl.cnf', engines),
    }
    const certificateFile = join(folder.path, 'certificate.pem')
    const run = (command: string): unknown =>
      execFileSync('sh', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    run(`softhsm2-util --init-token --free --label payments --pin ${pin} --so-pin 5678`)
    run(
      `pkcs11-tool --module ${token ?? ''} --login --pin ${pin} --token-label payments --keypairgen --key-type rsa:4096 --label service --id 01`,
    )
    run(
      `openssl req -new -x509 -engine pkcs11 -keyform engine -key '${uri}' -days 2 -subj /CN=service -out ${certificateFile}`,
    )

    const certificatePem = await readFile(certificateFile, 'utf8')
    await using sandbox = await startSandbox({ clock: systemClock, certificatePem })
    const now = systemClock.now()
    sandbox.seed({ count: 50, from: now - 10 * 3_600_000, to: now - 3_600_000, attempts: 1 })
    const platform = platformEnv(sandbox, '')
    Reflect.deleteProperty(platform, 'RECONCILER_AUTH_PRIVATE_KEY_FILE')
    const signedBy = (words: string): Record<string, string> => ({
      ...platform,
      ...env,
      RECONCILER_AUTH_SIGN_COMMAND: JSON.stringify(['sh', '-c', words]),
      RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile,
      RECONCILER_SERVER_PORT: '0',
    })
    await using daemon = startProgram(['run'], { env: signedBy(script) })
    await expect.poll(() => sandbox.counts().successful).toBe(50)
    expect(daemon.stdout()).toContain('"event":"token_obtained"')

    await using checked = startProgram(['check'], { env: signedBy(script.replaceAll(pin, '0000')) })
    const { code, stdout } = await checked.ended()
    expect(code).toBe(78)
    expect(stdout).toContain('auth.signCommand')
    expect(stdout).not.toContain('0000')
  })
})
