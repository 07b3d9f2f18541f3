// The certificate: what is read of it, and every wrong thing that can lie where it belongs.
import { X509Certificate } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConfigurationError } from '../../../src/runtime/errors.ts'
import { loadCertificate } from '../../../src/platform/auth/certificate.ts'
import { loadKey } from '../../../src/platform/auth/private-key.ts'
import { redact } from '../../../src/runtime/redact.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'

let keys: TestKeys
let other: TestKeys
let folder: string
let file: string

beforeAll(async () => {
  keys = await testKeys()
  other = await testKeys('other')
  folder = await mkdtemp(join(tmpdir(), 'certificate-test-'))
  file = join(folder, 'certificate.pem')
})

afterAll(async () => {
  await rm(folder, { recursive: true })
})

test('says validity and fingerprints', () => {
  const certificate = loadCertificate(keys.certificateFile).current()
  const key = loadKey({ file: keys.privateKeyFile }).current()
  expect(certificate).toEqual({
    notBefore: Date.UTC(2000, 0, 1),
    notAfter: Date.UTC(2100, 0, 1),
    keyFingerprint: key.fingerprint,
    fingerprint: new X509Certificate(keys.certificatePem).fingerprint256,
  })
})

test.each([
  ['CRLF', () => keys.certificatePem.replaceAll('\n', '\r\n')],
  ['the text of openssl before it', () => `Certificate:\n    Data:\n        Version: 3 (0x2)\n${keys.certificatePem}`],
  ['a chain behind it', () => keys.certificatePem + other.certificatePem],
])('is read with %s', async (_, content) => {
  await writeFile(file, content())
  const key = loadKey({ file: keys.privateKeyFile }).current()
  expect(loadCertificate(file).current().keyFingerprint).toBe(key.fingerprint)
})

test.each([
  ['nothing', () => '', /is empty; the certificate in PEM is needed/],
  ['the private key', () => keys.privateKeyPem, /holds "PRIVATE KEY"; the certificate/],
  ['DER', () => new X509Certificate(keys.certificatePem).raw, /binary/],
  ['a damaged block', () => keys.certificatePem.replace(/\n.{5}/, '\n*****'), /damaged PEM block/],
  ['a shortened certificate', () => keys.certificatePem.replace(/\n.{64}\n/, '\n'), /certificate that is damaged/],
])('%s is named', async (_, content, message) => {
  await writeFile(file, content())
  expect(() => loadCertificate(file)).toThrow(ConfigurationError)
  expect(() => loadCertificate(file)).toThrow(message)
  expect(() => loadCertificate(file)).toThrow(`auth.certificateFile (${file})`)
  // Nothing of it is redacted where it is written.
  expect(() => loadCertificate(file)).toThrow(expect.toSatisfy((error) => redact(String(error)) === String(error)))
})

test('is read again when the file has changed', async () => {
  await writeFile(file, keys.certificatePem)
  const source = loadCertificate(file)
  await writeFile(file, other.certificatePem)
  expect(source.reload()).toBe(true)
  expect(source.current().fingerprint).toBe(new X509Certificate(other.certificatePem).fingerprint256)
})
