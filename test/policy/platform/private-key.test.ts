// The private key: every wrong thing that can lie where it belongs, and a key that changes while the daemon runs.
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, verify, type KeyObject } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConfigurationError, type ConfigurationProblem } from '../../../src/runtime/errors.ts'
import { keyWarnings, loadKey, type PrivateKeySetting } from '../../../src/platform/auth/private-key.ts'
import { testKeys, type TestKeys } from '../../support/keys.ts'

let keys: TestKeys
let other: TestKeys
let folder: string
let file: string

beforeAll(async () => {
  keys = await testKeys()
  other = await testKeys('other')
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

function inline(text: string, secret?: string): PrivateKeySetting {
  const origin = 'RECONCILER_AUTH_PRIVATE_KEY'
  const given = secret === undefined ? undefined : { value: secret, origin: 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE' }
  return { pem: text, origin, passphrase: given }
}

function problemOf(read: () => unknown): ConfigurationProblem {
  let error: unknown
  try {
    read()
  } catch (thrown) {
    error = thrown
  }
  if (!(error instanceof ConfigurationError)) throw new Error('expected a ConfigurationError', { cause: error })
  expect(error.problems).toHaveLength(1)
  const [problem] = error.problems
  if (problem === undefined) throw new Error('no problem reported')
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
    ['with CRLF', () => keys.privateKeyPem.replaceAll('\n', '\r\n')],
    ['with old Mac line ends', () => keys.privateKeyPem.replaceAll('\n', '\r')],
    ['with a BOM', () => `\uFEFF${keys.privateKeyPem}`],
    ['with comments before', () => `# made by hand\nBag Attributes\n    friendlyName: x\n${keys.privateKeyPem}`],
    ['with \\n written literally', () => keys.privateKeyPem.replaceAll('\n', '\\n')],
    ['with \\r\\n written literally', () => keys.privateKeyPem.replaceAll('\n', '\\r\\n')],
    ['on one line', () => keys.privateKeyPem.trim().replaceAll('\n', ' ')],
    ['indented', () => keys.privateKeyPem.replaceAll(/^/gm, '    ')],
    ['in quotes', () => `"${keys.privateKeyPem}"`],
    ['without a last line end', () => keys.privateKeyPem.trimEnd()],
    ['after its certificate', () => keys.certificatePem + keys.privateKeyPem],
  ])('%s is taken', (_, text) => {
    const setting = inline(text())
    const key = loadKey(setting).current()
    const warnings = keyWarnings(key, setting)
    expect(key.bits).toBe(4096)
    expect(key.fingerprint).toBe(fingerprint(keys.privateKeyPem))
    expect(warnings).toEqual([])
  })

  test.each([
    ['PKCS#8', 'pkcs8'],
    ['PKCS#1', 'pkcs1'],
  ] as const)('encrypted as %s opens with its passphrase', (_, type) => {
    const key = loadKey(inline(pem(small, type, true), passphrase)).current()
    expect(key.fingerprint).toBe(fingerprint(pem(small)))
  })

  test('encrypted as PKCS#1, with CRLF and literal line breaks, opens too', () => {
    const text = pem(small, 'pkcs1', true)
    loadKey(inline(text.replaceAll('\n', '\r\n'), passphrase))
    loadKey(inline(text.replaceAll('\n', '\\n'), passphrase))
  })

  test('a passphrase that is not needed does no harm', () => {
    expect(loadKey(inline(keys.privateKeyPem, 'not needed'))).toBeDefined()
  })

  test.each([
    [2048, () => small],
    [3072, () => generateKeyPairSync('rsa', { modulusLength: 3072 }).privateKey],
  ])('of %s bits is taken with a warning', async (bits, made) => {
    await writeFile(file, pem(made()))
    const key = loadKey({ file }).current()
    const warnings = keyWarnings(key, { file })
    expect(key.bits).toBe(bits)
    expect(warnings).toEqual([
      { key: 'auth.privateKeyFile', origin: file, message: expect.stringContaining(`${bits} bits`) as string },
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

  test('shows nothing of itself', () => {
    const key = loadKey(inline(keys.privateKeyPem)).current()
    expect(JSON.parse(JSON.stringify(key))).toEqual({ bits: 4096, fingerprint: key.fingerprint })
  })
})

function keyOf(type: 'ec' | 'ed25519' | 'rsa-pss' | 'rsa-1024'): string {
  if (type === 'ec') return pem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)
  if (type === 'ed25519') return pem(generateKeyPairSync('ed25519').privateKey)
  if (type === 'rsa-pss') return pem(generateKeyPairSync('rsa-pss', { modulusLength: 1024 }).privateKey)
  return pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey)
}

function sec1(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ type: 'sec1', format: 'pem' })
    .toString()
}

/** The lowest bit of one part is another one: the key parses. */
function damaged(part: 'n' | 'e' | 'd' | 'p' | 'q' | 'dp' | 'dq' | 'qi'): string {
  const der = small.export({ type: 'pkcs8', format: 'der' })
  const number = Buffer.from(small.export({ format: 'jwk' })[part] ?? '', 'base64url')
  // A short number may also occur within another one: with its length before it, it does not.
  const found = number.length < 128 ? Buffer.from([number.length, ...number]) : number
  const last = der.indexOf(found) + found.length - 1
  der[last] = (der[last] ?? 0) ^ 1
  return pemOf(der)
}

function pemOf(der: Buffer): string {
  return `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n`
}

describe('what is no usable key is named', () => {
  const label = (name: string): string => `-----BEGIN ${name}-----\nAAAA\n-----END ${name}-----\n`
  const whole = pem(small)
  test.each<[string, string | (() => string | Buffer), RegExp]>([
    ['an empty file', '', /is empty/],
    ['white space', ' \n\t\n', /is empty/],
    ['a certificate', () => keys.certificatePem, /holds a certificate; give the private key/],
    ['a public key', () => createPublicKey(small).export({ type: 'spki', format: 'pem' }).toString(), /a public key/],
    [
      'a PKCS#1 public key',
      () => createPublicKey(small).export({ type: 'pkcs1', format: 'pem' }).toString(),
      /a public/,
    ],
    ['a signing request', label('CERTIFICATE REQUEST'), /signing request/],
    ['an old signing request', label('NEW CERTIFICATE REQUEST'), /signing request/],
    ['an OpenSSH key', label('OPENSSH PRIVATE KEY'), /OpenSSH.*ssh-keygen -p/],
    ['a PuTTY key', 'PuTTY-User-Key-File-3: ssh-rsa\n', /PuTTY/],
    ['an SSH public key', 'ssh-rsa AAAAB3NzaC1yc2E me@host', /SSH public key/],
    ['a PGP key', label('PGP PRIVATE KEY BLOCK'), /"PGP PRIVATE KEY BLOCK"/],
    ['DER', () => small.export({ type: 'pkcs8', format: 'der' }), /binary \(DER or PKCS#12\).*openssl/],
    ['Base64 of the PEM', () => Buffer.from(whole).toString('base64'), /Base64 once more.*base64 -d/],
    ['the Base64 alone', () => whole.replaceAll(/-----.*-----/g, ''), /without its BEGIN and END/],
    ['JSON', () => JSON.stringify(small.export({ format: 'jwk' })), /JSON/],
    ['UTF-16', () => Buffer.from(`\uFEFF${whole}`, 'utf16le'), /UTF-16/],
    ['any text', 'changeme', /no PEM block/],
    ['a path', '/etc/keys/key.pem', /no PEM block/],
    ['a block without its end', () => whole.slice(0, 400), /cut off/],
    ['a block with other characters', () => whole.replace(/\n.{10}/, '\n***REDACTED'), /not all of it is Base64/],
    ['an empty block', '-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----', /damaged/],
    ['a shortened key', () => whole.replace(/\n.{64}\n/, '\n'), /damaged/],
    ...(['n', 'e', 'p', 'q'] as const).map((part): [string, () => string, RegExp] => [
      `a key whose ${part} has a wrong bit`,
      () => damaged(part),
      /damaged/,
    ]),
    ['two keys', () => whole + pem(small, 'pkcs1'), /two private keys/],
    ['an EC key', () => keyOf('ec'), /type ec.*RSA.*keygen/],
    ['an EC key in its own form', sec1, /EC key.*RSA/],
    ['an Ed25519 key', () => keyOf('ed25519'), /type ed25519.*RSA/],
    ['an RSA-PSS key', () => keyOf('rsa-pss'), /type rsa-pss.*RSA/],
    ['RSA of 1024 bits', () => keyOf('rsa-1024'), /1024 bits; 4096 are needed/],
  ])('%s', async (_, content, message) => {
    await writeFile(file, typeof content === 'string' ? content : content())
    const problem = problemOf(() => loadKey({ file }))
    expect(problem).toMatchObject({ key: 'auth.privateKeyFile', origin: file })
    expect(problem.message).toMatch(message)
    expect(problem.message).not.toMatch(/MII|AAAA|changeme/)
  })

  test.each(['d', 'dp', 'dq', 'qi'] as const)(
    'but a key whose %s has a wrong bit signs as the whole one',
    async (part) => {
      const { bits, fingerprint: found, sign } = loadKey(inline(damaged(part))).current()
      expect([bits, found]).toEqual([2048, fingerprint(pem(small))])
      const [header, payload, signature = ''] = (await sign({ iss: 'x' })).split('.')
      const signed = Buffer.from(`${header}.${payload}`)
      expect(verify('sha256', signed, createPublicKey(small), Buffer.from(signature, 'base64url'))).toBe(true)
    },
  )

  test('in a variable the variable is named', () => {
    expect(problemOf(() => loadKey(inline('oops')))).toMatchObject({
      key: 'auth.privateKey',
      origin: 'RECONCILER_AUTH_PRIVATE_KEY',
    })
  })
})

describe('a file that can not be read is named', () => {
  test.each<[string, () => Promise<string> | string, RegExp]>([
    ['missing', () => join(folder, 'nowhere.pem'), /does not exist.*mounted/],
    ['below a file', () => join(keys.certificateFile, 'key.pem'), /not a directory/],
    ['a directory', () => folder, /is a directory/],
    ['a device', () => '/dev/zero', /not a regular file/],
    ['too long', () => join(folder, 'x'.repeat(300)), /too long for a path/],
    [
      'a link to itself',
      async () => {
        await symlink('loop', join(folder, 'loop'))
        return join(folder, 'loop')
      },
      /leads back/,
    ],
    [
      'a pipe',
      () => {
        execFileSync('mkfifo', [join(folder, 'pipe')])
        return join(folder, 'pipe')
      },
      /not a regular file/,
    ],
    [
      'huge',
      async () => {
        await writeFile(join(folder, 'huge'), Buffer.alloc(1_000_000))
        return join(folder, 'huge')
      },
      /too large/,
    ],
  ])('%s', async (_, path, message) => {
    const file = await path()
    const problem = problemOf(() => loadKey({ file }))
    expect(problem.key).toBe('auth.privateKeyFile')
    expect(problem.message).toMatch(message)
  })

  test.each([
    ['PEM', () => keys.privateKeyPem],
    ['PEM on one line', () => keys.privateKeyPem.replaceAll('\n', ' ')],
    [
      'Base64 of its DER',
      () => createPrivateKey(keys.privateKeyPem).export({ type: 'pkcs8', format: 'der' }).toString('base64'),
    ],
    ['Base64 of its PEM', () => Buffer.from(keys.privateKeyPem).toString('base64')],
  ])('the key itself where its path belongs (%s) is not repeated', (_, content) => {
    const problem = problemOf(() => loadKey({ file: content() }))
    expect(problem).toEqual({
      key: 'auth.privateKeyFile',
      origin: 'value not shown',
      message: 'looks like the content of a file; the path of the file belongs here',
    })
  })

  test.skipIf(process.getuid?.() === 0)('not readable for this user', async () => {
    const locked = join(folder, 'locked.pem')
    await writeFile(locked, keys.privateKeyPem)
    await chmod(locked, 0)
    expect(problemOf(() => loadKey({ file: locked })).message).toMatch(/permission denied/)
  })
})

describe('passphrase', () => {
  test.each<[string, 'pkcs1' | 'pkcs8', string | undefined, string, RegExp]>([
    ['missing', 'pkcs8', undefined, 'missing', /is encrypted; give its passphrase/],
    ['missing', 'pkcs1', undefined, 'missing', /is encrypted; give its passphrase/],
    ['empty', 'pkcs8', '', 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', /is encrypted; give its passphrase/],
    ['wrong', 'pkcs8', 'battery staple', 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', /does not open the private key/],
    ['wrong', 'pkcs1', 'battery staple', 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', /does not open the private key/],
    ['far too long', 'pkcs8', 'x'.repeat(5_000), 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', /does not open/],
    ['with a line end', 'pkcs8', `${passphrase}\n`, 'RECONCILER_AUTH_PRIVATE_KEY_PASSPHRASE', /does not open/],
  ])('%s (%s)', (_, type, secret, origin, message) => {
    const problem = problemOf(() => loadKey(inline(pem(small, type, true), secret)))
    expect(problem).toMatchObject({ key: 'auth.privateKeyPassphrase', origin })
    expect(problem.message).toMatch(message)
    expect(problem.message).not.toContain(secret === undefined || secret === '' ? passphrase : secret)
  })
})

describe('a key that changes', () => {
  /** As the kubelet lays a volume out: key.pem -> ..data/key.pem, ..data -> a dated directory. */
  async function volume(): Promise<{ path: string; swap: (content: string) => Promise<void> }> {
    const root = await mkdtemp(join(folder, 'volume-'))
    let version = 0
    const swap = async (content: string): Promise<void> => {
      const dated = `..2026_01_15_${++version}`
      await mkdir(join(root, dated))
      await writeFile(join(root, dated, 'key.pem'), content)
      await symlink(dated, join(root, '..data_tmp'))
      await rename(join(root, '..data_tmp'), join(root, '..data'))
      if (version > 1) await rm(join(root, `..2026_01_15_${version - 1}`), { recursive: true })
    }
    await swap(keys.privateKeyPem)
    await symlink(join('..data', 'key.pem'), join(root, 'key.pem'))
    return { path: join(root, 'key.pem'), swap }
  }

  test('swapped as Kubernetes does it, it is used from then on', async () => {
    const { path, swap } = await volume()
    const source = loadKey({ file: path })
    expect(source.reload()).toBe(false)
    await swap(other.privateKeyPem)
    expect(source.current().fingerprint).toBe(fingerprint(keys.privateKeyPem))
    expect(source.reload()).toBe(true)
    expect(source.current().fingerprint).toBe(fingerprint(other.privateKeyPem))
    expect(source.reload()).toBe(false)
  })

  test('the same key in another file is no change', async () => {
    const { path, swap } = await volume()
    const source = loadKey({ file: path })
    await swap(`# rotated\n${keys.privateKeyPem}`)
    expect(source.reload()).toBe(false)
  })

  test('a new content that can not be used leaves the old key, and is reported once', async () => {
    const { path, swap } = await volume()
    const source = loadKey({ file: path })
    await swap(keys.certificatePem)
    expect(problemOf(() => source.reload()).message).toMatch(/a certificate/)
    expect(source.reload()).toBe(false)
    expect(source.current().fingerprint).toBe(fingerprint(keys.privateKeyPem))
    await swap('')
    expect(problemOf(() => source.reload()).message).toMatch(/is empty/)
    await swap(other.privateKeyPem)
    expect(source.reload()).toBe(true)
  })

  test('a file that is gone for a while leaves the old key, and is reported once, as is its return', async () => {
    await writeFile(file, keys.privateKeyPem)
    const source = loadKey({ file })
    await rm(file)
    expect(problemOf(() => source.reload()).message).toMatch(/does not exist/)
    expect(source.reload()).toBe(false)
    await writeFile(file, keys.privateKeyPem)
    expect(source.reload()).toBe(true)
    await rm(file)
    expect(problemOf(() => source.reload()).message).toMatch(/does not exist/)
  })

  test('given as text it stays', () => {
    const source = loadKey(inline(pem(small)))
    expect(source.reload()).toBe(false)
    expect(source.lastReload()).toBeUndefined()
  })

  test('unusable from the start is an error', async () => {
    await writeFile(file, (await readFile(keys.certificateFile)).toString())
    expect(problemOf(() => loadKey({ file })).message).toMatch(/a certificate/)
  })
})
