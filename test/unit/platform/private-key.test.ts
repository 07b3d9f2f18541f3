// The private key and its certificate: all forms in which they are read, and every wrong thing that can lie where they belong.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  verify,
  X509Certificate,
  type KeyObject,
} from 'node:crypto'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ConfigurationProblem } from '../../../src/runtime/errors.ts'
import { loadCertificate } from '../../../src/platform/auth/certificate.ts'
import { keyWarnings, loadKey, type PrivateKeySetting } from '../../../src/platform/auth/private-key.ts'
import { redact } from '../../../src/runtime/redact.ts'
import { problemsOf } from '../../support/configuration.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'

let keys: TestKeys
let folder: string
let file: string

beforeAll(async () => {
  keys = await testKeys()
  folder = await mkdtemp(join(tmpdir(), 'private-key-test-'))
  file = join(folder, 'key.pem')
})

afterAll(async () => {
  await rm(folder, { recursive: true })
})

const passphrase = 'correct horse'
const small = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey

function pem(key: KeyObject, type: 'pkcs1' | 'pkcs8' = 'pkcs8', encrypt = false): string {
  return key.export({ type, format: 'pem', ...(encrypt ? { cipher: 'aes-256-cbc', passphrase } : {}) }).toString()
}

const bag = 'Bag Attributes\n    localKeyID: 01 02\nKey Attributes: <No Attributes>\n'

function inline(text: string, secret?: string): PrivateKeySetting {
  const origin = 'RECONCILER_AUTH_PRIVATE_KEY'
  const given =
    secret === undefined ? undefined : { read: () => secret, origin: 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE' }
  return { pem: text, origin, passphrase: given }
}

/** The one problem that reading shows. */
function problemOf(read: () => unknown): ConfigurationProblem | undefined {
  const [problem, ...others] = problemsOf(read)
  expect(others).toEqual([])
  return problem
}

function fingerprint(privatePem: string): string {
  const der = createPublicKey(privatePem).export({ type: 'spki', format: 'der' })
  return createHash('sha256').update(der).digest('hex')
}

describe('a usable key', () => {
  test.each([
    ['as keygen writes it', () => keys.privateKeyPem],
    ['as PKCS#1', () => pem(createPrivateKey(keys.privateKeyPem), 'pkcs1')],
    ['with a BOM and CRLF', () => `\uFEFF${keys.privateKeyPem.replaceAll('\n', '\r\n')}`],
    ['with \\n written literally', () => keys.privateKeyPem.replaceAll('\n', '\\n')],
    ['on one line', () => keys.privateKeyPem.trim().replaceAll('\n', ' ')],
    ['indented', () => keys.privateKeyPem.replaceAll(/^/gm, '    ')],
    ['with \\r\\n, escaped twice', () => keys.privateKeyPem.replaceAll('\n', String.raw`\\r\\n`)],
    ['in quotes, after comments and its certificate', () => `"# made\n${keys.certificatePem}${keys.privateKeyPem}"`],
    [
      'behind Bag Attributes, its certificate behind it',
      () => `${bag}${keys.privateKeyPem}${bag}${keys.certificatePem}`,
    ],
    ['before a block that is cut off', () => keys.privateKeyPem + keys.certificatePem.slice(0, 200)],
    ['in the JSON of a cloud console', () => JSON.stringify({ type: 'account', private_key: keys.privateKeyPem })],
    ['with a passphrase that is not needed', () => keys.privateKeyPem, 'not needed'],
  ])('%s is taken, and shows nothing of itself', (_, text, secret?: string) => {
    const setting = inline(text(), secret)
    const key = loadKey(setting).current()
    expect(JSON.parse(JSON.stringify(key))).toEqual({ bits: 4096, fingerprint: fingerprint(keys.privateKeyPem) })
    expect(keyWarnings(key, setting)).toEqual([])
  })

  test.each([
    ['PKCS#8', pem(small, 'pkcs8', true)],
    ['PKCS#1', pem(small, 'pkcs1', true)],
    ['PKCS#1, with \\n written literally', pem(small, 'pkcs1', true).replaceAll('\n', '\\n')],
  ])('encrypted as %s opens with its passphrase', (_, text) => {
    expect(loadKey(inline(text, passphrase)).current().fingerprint).toBe(fingerprint(pem(small)))
  })

  test('of 2048 bits is taken with a warning', async () => {
    await writeFile(file, pem(small))
    const key = loadKey({ file }).current()
    expect(key.bits).toBe(2048)
    expect(keyWarnings(key, { file })).toEqual([
      { key: 'auth.privateKeyFile', origin: file, message: expect.stringContaining('2048 bits') as string },
    ])
  })

  test('signs what node:crypto verifies', async () => {
    const key = loadKey({ file: keys.privateKeyFile }).current()
    const jwt = await key.sign({ b: 'second', a: 1 })
    const [head = '', body = '', signature = ''] = jwt.split('.')
    expect(Buffer.from(head, 'base64url').toString()).toBe('{"alg":"RS256","typ":"JWT"}')
    expect(Buffer.from(body, 'base64url').toString()).toBe('{"b":"second","a":1}')
    const signed = Buffer.from(`${head}.${body}`)
    expect(verify('sha256', signed, keys.certificatePem, Buffer.from(signature, 'base64url'))).toBe(true)
  })
})

/** The lowest bit of one part is another one: the key parses. */
function damaged(part: 'n' | 'p'): string {
  const der = small.export({ type: 'pkcs8', format: 'der' })
  const number = Buffer.from(small.export({ format: 'jwk' })[part] ?? '', 'base64url')
  const last = der.indexOf(number) + number.length - 1
  der[last] = (der[last] ?? 0) ^ 1
  return `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n`
}

const label = (name: string): string => `-----BEGIN ${name}-----\nAAAA\n-----END ${name}-----\n`
const whole = pem(small)

const unusable: Record<string, [string | (() => string | Buffer), RegExp]> = {
  'an empty file': ['', /is empty/],
  'a file that is too large': [() => Buffer.alloc(128 * 1024 + 1), /too large/],
  'a file as large as one may be': [() => Buffer.alloc(128 * 1024, 'x'), /no PEM/],
  'a certificate': [() => keys.certificatePem, /holds a certificate; give the private key/],
  'an OpenSSH key': [label('OPENSSH PRIVATE KEY'), /OpenSSH.*ssh-keygen -p/],
  'a PGP key': [label('PGP PRIVATE KEY BLOCK'), /"PGP PRIVATE KEY BLOCK"/],
  DER: [() => small.export({ type: 'pkcs8', format: 'der' }), /binary \(DER or PKCS#12\).*openssl/],
  'Base64 of the PEM': [() => Buffer.from(whole).toString('base64'), /no PEM block/],
  'a path': ['"/run/secrets/changeme.pem"\n', /no PEM block/],
  'UTF-16': [() => Buffer.from(`\uFEFF${whole}`, 'utf16le'), /no PEM block/],
  'text beyond ASCII': ['Schlüssel', /no PEM block/],
  'a block without its end': [() => whole.slice(0, 400), /cut off/],
  'a BEGIN line alone': ['-----BEGIN PRIVATE KEY-----', /cut off/],
  'a certificate, and a key that is cut off': [() => keys.certificatePem + whole.slice(0, 400), /cut off/],
  'a BEGIN line of another label': [
    () => whole.replace('BEGIN ', 'BEGIN RSA '),
    /begins as "RSA PRIVATE KEY" and ends as "PRIVATE KEY"/,
  ],
  'PKCS#1 as PKCS#8': [() => pem(small, 'pkcs1').replaceAll('RSA ', ''), /not what its BEGIN line says/],
  'a block with other characters': [() => whole.replace(/\n.{10}/, '\n***REDACTED'), /not all of it is Base64/],
  'a shortened key': [() => whole.replace(/\n.{64}\n/, '\n'), /damaged/],
  'a key whose modulus has a wrong bit': [() => damaged('n'), /damaged/],
  'a key of which a prime has a wrong bit': [() => damaged('p'), /damaged/],
  'two keys': [() => whole + pem(small, 'pkcs1'), /two private keys/],
  'an EC key': [pem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey), /type ec.*RSA.*keygen/],
  'RSA of 1024 bits': [pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey), /1024 bits; 4096 are/],
}

test.each(Object.entries(unusable))('what is no usable key is named: %s', async (_, [content, message]) => {
  await writeFile(file, typeof content === 'string' ? content : content())
  const problem = problemOf(() => loadKey({ file }))
  expect(problem).toMatchObject({ key: 'auth.privateKeyFile', origin: file })
  expect(problem?.message).toMatch(message)
  expect(problem?.message).not.toMatch(/MII|AAAA|changeme/)
})

test('the cost of a file of BEGIN lines grows with its length, not with its square', () => {
  const linesAlone = (bytes: number): string => '-----BEGIN PRIVATE KEY-----\n'.repeat(bytes / 28)
  for (const text of [linesAlone(10_000_000), '\\'.repeat(10_000_000)])
    expect(problemOf(() => loadKey(inline(text)))?.message).toMatch(/cut off|no PEM block/)
})

describe('a file that cannot be read is named', () => {
  test.each([
    ['nowhere.pem', /does not exist.*mounted/],
    ['.', /is a directory/],
    ['x'.repeat(300), /too long for a path/],
  ])('%s', (path, message) => {
    expect(problemOf(() => loadKey({ file: join(folder, path) }))?.message).toMatch(message)
  })

  test.skipIf(process.getuid?.() === 0)('not readable for this user', async () => {
    const locked = join(folder, 'locked.pem')
    await writeFile(locked, keys.privateKeyPem)
    await chmod(locked, 0)
    expect(problemOf(() => loadKey({ file: locked }))?.message).toMatch(/may not be read/)
  })
})

test('given as text it stays, and the problem names the variable', () => {
  const source = loadKey(inline(pem(small)))
  expect(source.reload()).toBe(false)
  expect(source.lastReload()).toBeUndefined()
  const origin = 'RECONCILER_AUTH_PRIVATE_KEY'
  expect(problemOf(() => loadKey(inline('oops')))).toMatchObject({ key: 'auth.privateKey', origin })
})

test.each<['pkcs1' | 'pkcs8', string | undefined, RegExp]>([
  ['pkcs8', undefined, /is encrypted; give its passphrase/],
  ['pkcs8', '', /is encrypted; give its passphrase/],
  ['pkcs8', 'battery staple', /does not open the private key/],
  ['pkcs1', 'battery staple', /does not open the private key/],
  ['pkcs8', `${passphrase}\n`, /does not open/],
])('for a key in %s the passphrase %j is refused, and not repeated', (type, secret, message) => {
  const problem = problemOf(() => loadKey(inline(pem(small, type, true), secret)))
  const origin = secret === undefined ? 'missing' : 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE'
  expect(problem).toMatchObject({ key: 'auth.privateKeyPassphrase', origin })
  expect(problem?.message).toMatch(message)
  expect(problem?.message).not.toMatch(/correct horse|battery staple/)
})

describe('the certificate', () => {
  test('is read before its chain and after other text, and again when the file has changed', async () => {
    const other = (await testKeys('other')).certificatePem
    await writeFile(file, `Certificate:\r\n    Data:\r\n${keys.certificatePem}${other}`)
    const source = loadCertificate(file)
    expect(source.current()).toEqual({
      notBefore: Date.UTC(2000, 0, 1),
      notAfter: Date.UTC(2100, 0, 1),
      keyFingerprint: fingerprint(keys.privateKeyPem),
      fingerprint: new X509Certificate(keys.certificatePem).fingerprint256,
    })
    await writeFile(file, other)
    expect(source.reload()).toBe(true)
    expect(source.current().fingerprint).toBe(new X509Certificate(other).fingerprint256)
  })

  test.each([
    ['nothing', () => '', /is empty; the certificate in PEM is needed/],
    ['the private key', () => keys.privateKeyPem, /holds "PRIVATE KEY"; the certificate/],
    [
      'a damaged block',
      () => keys.certificatePem.replace(/\n.{5}/, '\n*****'),
      /PEM block that is damaged.*; the certificate/,
    ],
    ['a shortened certificate', () => keys.certificatePem.replace(/\n.{64}\n/, '\n'), /certificate that is damaged/],
  ])('%s is named', async (_, content, message) => {
    await writeFile(file, content())
    const problem = problemOf(() => loadCertificate(file))
    expect(problem).toMatchObject({ key: 'auth.certificateFile', origin: file })
    expect(problem?.message).toMatch(message)
    // Nothing of it is redacted where it is written.
    expect(redact(problem?.message ?? '')).toBe(problem?.message)
  })
})
