// keygen: a pair that fits together, files that only their owner can read, nothing overwritten, errors that help.
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { keygenCommand } from '../../tools/keygen.ts'
import { systemRandom } from '../../src/runtime/clock.ts'
import { UsageError } from '../../src/runtime/errors.ts'
import { prepareFolder, writeCredentials } from '../../tools/credentials.ts'
import { keyWarnings, loadKey } from '../../src/platform/auth/private-key.ts'
import { loadCertificate } from '../../src/platform/auth/certificate.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const now = Date.UTC(2026, 0, 15, 12, 0, 0, 345)
const dayMs = 86_400_000
const clientId = 'svc-client, O="evil" + ü'

let root: string
let folder: string
let count = 0

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'keygen-test-'))
})

beforeEach(() => {
  folder = join(root, String(++count))
})

afterAll(async () => {
  await rm(root, { recursive: true })
})

async function keygen(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  let stdout = ''
  let stderr = ''
  const io = {
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
    clock: createVirtualClock(now),
    random: systemRandom,
  }
  await keygenCommand(io)
    .exitOverride()
    .configureOutput({ writeErr: io.stderr.write })
    .parseAsync(args, { from: 'user' })
  return { stdout, stderr }
}

describe('keygen', () => {
  let out: string
  let certificate: X509Certificate
  let said: string
  let privatePem: string

  beforeAll(async () => {
    out = join(root, 'made', 'deep')
    said = (await keygen('--client-id', clientId, '--out', out, '--days', '30')).stdout
    privatePem = await readFile(join(out, 'private-key.pem'), 'utf8')
    certificate = new X509Certificate(await readFile(join(out, 'certificate.pem')))
  })

  test('makes an RSA-4096 key in PKCS#8 that only its owner may read', async () => {
    expect(privatePem).toMatch(
      /^-----BEGIN PRIVATE KEY-----\n(?:[\w+/]{64}\n)+[\w+/=]{1,64}\n-----END PRIVATE KEY-----\n$/,
    )
    expect(createPrivateKey(privatePem).asymmetricKeyDetails).toMatchObject({
      modulusLength: 4096,
      publicExponent: 65537n,
    })
    expect((await stat(join(out, 'private-key.pem'))).mode & 0o777).toBe(0o600)
    expect((await stat(out)).mode & 0o777).toBe(0o700)
    expect((await readdir(out)).sort()).toEqual(['certificate.pem', 'private-key.pem'])
  })

  test('makes the certificate of its public key, signed by itself with SHA-256', () => {
    expect(certificate.checkPrivateKey(createPrivateKey(privatePem))).toBe(true)
    expect(certificate.verify(createPublicKey(privatePem))).toBe(true)
    expect(certificate.ca).toBe(false)
    expect(certificate.signatureAlgorithm).toBe('sha256WithRSAEncryption')
    expect(certificate.serialNumber).toMatch(/^01[0-9A-F]{32}$/)
  })

  test('names it after the client id, which can not add to the name', () => {
    expect(certificate.toLegacyObject().subject).toEqual({ CN: clientId })
    expect(certificate.issuer).toBe(certificate.subject)
  })

  test('is valid from a minute ago for the days asked for', () => {
    expect(certificate.validFromDate.getTime()).toBe(now - 345 - 60_000)
    expect(certificate.validToDate.getTime()).toBe(now - 345 + 30 * dayMs)
  })

  test('says which file goes where, the fingerprints and the expiry, and nothing of the key', () => {
    const key = loadKey({ file: join(out, 'private-key.pem') }).current()
    for (const text of [
      join(out, 'private-key.pem'),
      join(out, 'certificate.pem'),
      'auth.privateKeyFile',
      'auth.certificateFile',
      'operator',
      certificate.fingerprint256,
      key.fingerprint,
      '2026-02-14T12:00:00.000Z',
    ]) {
      expect(said).toContain(text)
    }
    for (const line of privatePem.split('\n').slice(1, -2)) expect(said).not.toContain(line)
  })

  test('is read by the daemon without a warning, and the two belong together', () => {
    const setting = { file: join(out, 'private-key.pem') }
    const key = loadKey(setting).current()
    const warnings = keyWarnings(key, setting)
    expect(warnings).toEqual([])
    const source = loadCertificate(join(out, 'certificate.pem'))
    expect(source.current().keyFingerprint).toBe(key.fingerprint)
  })

  test('a second run overwrites nothing and says so', async () => {
    await expect(keygen('--client-id', 'x', '--out', out)).rejects.toThrow(UsageError)
    await expect(keygen('--client-id', 'x', '--out', out)).rejects.toThrow(
      /private-key\.pem exists and is not overwritten/,
    )
    expect(await readFile(join(out, 'private-key.pem'), 'utf8')).toBe(privatePem)
  })
})

describe('what stands in the way is reported, and nothing is made', () => {
  test.each([
    ['0', /--days: a whole number from 1 to 3650, not "0"/],
    ['3651', /--days/],
    ['-1', /--days/],
    ['1.5', /--days/],
    ['1e3', /--days/],
    ['', /--days/],
    ['two years', /--days/],
    ['99999999999', /--days/],
  ])('--days %s', async (days, message) => {
    await expect(keygen('--out', folder, `--days=${days}`)).rejects.toThrow(UsageError)
    await expect(keygen('--out', folder, `--days=${days}`)).rejects.toThrow(message)
    await expect(stat(folder)).rejects.toThrow('ENOENT')
  })

  test.each([
    ['empty', ''],
    ['65 characters', 'x'.repeat(65)],
    ['a line break', 'a\nb'],
  ])('--client-id that is %s', async (_, id) => {
    await expect(keygen(`--client-id=${id}`, '--out', folder)).rejects.toThrow(UsageError)
    await expect(keygen(`--client-id=${id}`, '--out', folder)).rejects.toThrow(/--client-id: 1 to 64 characters/)
    await expect(stat(folder)).rejects.toThrow('ENOENT')
  })

  test('no --out', async () => {
    await expect(keygen()).rejects.toThrow(/--out/)
  })

  test.each([
    ['an unknown option', ['--bits', '2048'], /unknown option '--bits'/],
    ['an option without its value', ['--days'], /'--days <number>' argument missing/],
    ['an argument', ['my-client'], /too many arguments/],
  ])('%s', async (_, wrong, message) => {
    await expect(keygen('--out', folder, ...wrong)).rejects.toThrow(message)
    await expect(stat(folder)).rejects.toThrow('ENOENT')
  })

  test.each(['private-key.pem', 'certificate.pem'])('%s exists', async (name) => {
    await mkdir(folder)
    await writeFile(join(folder, name), 'mine')
    await expect(keygen('--out', folder)).rejects.toThrow(`${join(folder, name)} exists and is not overwritten`)
    expect(await readdir(folder)).toEqual([name])
  })

  test('--out is a file', async () => {
    await writeFile(folder, '')
    await expect(keygen('--out', folder)).rejects.toThrow(/--out .*: the folder can't be made \(EEXIST\)/)
    await expect(keygen('--out', join(folder, 'below'))).rejects.toThrow(/can't be made \(ENOTDIR\)/)
  })
})

describe('writing', () => {
  const credentials = {
    privateKeyPem: 'PRIVATE',
    certificatePem: 'CERTIFICATE',
    keyFingerprint: '',
    certificateFingerprint: '',
  }

  test.each(['private-key.pem', 'certificate.pem'])(
    '%s that came into being meanwhile is kept, nothing else is left',
    async (name) => {
      const files = await prepareFolder(folder)
      await writeFile(join(folder, name), 'mine')
      await expect(writeCredentials(files, credentials)).rejects.toThrow(/exists and is not overwritten/)
      expect(await readdir(folder)).toEqual([name])
      expect(await readFile(join(folder, name), 'utf8')).toBe('mine')
    },
  )

  test('follows no link, not even one that leads nowhere', async () => {
    const files = await prepareFolder(folder)
    await symlink(join(root, 'elsewhere'), files.privateKeyFile)
    await expect(writeCredentials(files, credentials)).rejects.toThrow(/exists/)
    await expect(stat(join(root, 'elsewhere'))).rejects.toThrow('ENOENT')
  })

  test('into a folder that is gone is reported', async () => {
    const files = await prepareFolder(folder)
    await rm(folder, { recursive: true })
    await expect(writeCredentials(files, credentials)).rejects.toThrow(/private-key\.pem can't be written \(ENOENT\)/)
  })
})
