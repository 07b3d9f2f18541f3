// keygen: a pair that fits together, files that only their owner can read, nothing overwritten.
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadCertificate } from '../../src/platform/auth/certificate.ts'
import { keyWarnings, loadKey } from '../../src/platform/auth/private-key.ts'
import { runCommand } from '../support/command.ts'
import { envOf, seedDue, startPlatform } from '../support/platform.ts'
import { makeFolder, runProgram } from '../support/process.ts'
import { keygen } from '../../tools/keygen.ts'

const script = join(import.meta.dirname, '../../tools/keygen.ts')

/** In this process. */
async function keygenHere(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const written = { stdout: '', stderr: '' }
  const code = await keygen(args, {
    stdout: { write: (text) => (written.stdout += text) },
    stderr: { write: (text) => (written.stderr += text) },
  })
  return { code, ...written }
}
const name = 'svc-client, O="evil" + ü'

test('a pair that program and platform take without a warning', async () => {
  await using folder = await makeFolder()
  const out = join(folder.path, 'made', 'deep')
  const [keyFile, certificateFile] = [join(out, 'private-key.pem'), join(out, 'certificate.pem')]
  const { code, stdout } = await runProgram(['--name', name, '--out', out, '--days', '30'], { script })
  expect(code).toBe(0)
  const pem = await readFile(keyFile, 'utf8')
  const certificate = new X509Certificate(await readFile(certificateFile))
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600)
  expect((await stat(out)).mode & 0o777).toBe(0o700)

  expect(certificate.checkPrivateKey(createPrivateKey(pem))).toBe(true)
  expect(certificate.verify(createPublicKey(pem))).toBe(true)
  expect(certificate.toLegacyObject().subject).toEqual({ CN: name })
  expect(certificate.validToDate.getTime() - certificate.validFromDate.getTime()).toBe(30 * 86_400_000 + 60_000)
  const key = loadKey({ file: keyFile }).current()
  expect([key.bits, keyWarnings(key, { file: keyFile })]).toEqual([4096, []])
  expect(loadCertificate(certificateFile).current().keyFingerprint).toBe(key.fingerprint)
  for (const told of [keyFile, certificateFile, certificate.validTo]) expect(stdout).toContain(told)
  for (const line of pem.split('\n').slice(1, -2)) expect(stdout).not.toContain(line)

  await using sandbox = await startPlatform({ certificatePem: await readFile(certificateFile, 'utf8') })
  seedDue(sandbox, 5)
  const env = {
    ...(await envOf(sandbox)),
    RECONCILER_AUTH_PRIVATE_KEY_FILE: keyFile,
    RECONCILER_AUTH_CERTIFICATE_FILE: certificateFile,
    RECONCILER_SERVER_PORT: '0',
  }
  expect(await runCommand(['run', '--once'], { env })).toMatchObject({ code: 0 })
  expect(sandbox.counts().successful).toBe(5)
})

test('overwrites nothing, and follows no link, not even one that leads nowhere', async () => {
  await using folder = await makeFolder()
  const out = join(folder.path, 'out')
  await mkdir(out)
  await symlink(join(folder.path, 'elsewhere'), join(out, 'private-key.pem'))
  const { code, stderr, stdout } = await runProgram(['--out', out], { script })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/private-key\.pem exists\.\nNothing is overwritten: name another folder/)
  expect(await readdir(folder.path)).toEqual(['out'])
})

test('beside a certificate it leaves no key', async () => {
  await using folder = await makeFolder()
  await writeFile(join(folder.path, 'certificate.pem'), '')
  expect(await keygenHere('--out', folder.path)).toMatchObject({ code: 2 })
  expect(await readdir(folder.path)).toEqual(['certificate.pem'])
})

test('has a help', async () => {
  expect(await keygenHere('--help')).toMatchObject({
    ...{ code: 0, stderr: '' },
    stdout: expect.stringContaining('--name <name>') as string,
  })
})

test.each([
  ['no --out', []],
  ['--days 0', ['--days', '0']],
  ['a line break in the name', ['--name', 'a\nb']],
])('%s: 2, the option is named, and nothing is made', async (what, args) => {
  await using folder = await makeFolder()
  const out = join(folder.path, 'out')
  const { code, stderr } = await keygenHere(...(what === 'no --out' ? [] : ['--out', out]), ...args)
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(args[0] ?? '--out <folder>') as string })
  expect(await readdir(folder.path)).toEqual([])
})
