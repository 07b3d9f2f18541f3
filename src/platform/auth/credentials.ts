// The service account's private key and its certificate: loads them, explains what is wrong, reloads a file that has changed.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  sign,
  verify,
  X509Certificate,
  type KeyObject,
} from 'node:crypto'
import { SignJWT } from 'jose'
import { ConfigurationError, type ConfigurationProblem } from '../../runtime/errors.ts'
import { readSmallFile } from '../../runtime/small-file.ts'
import { pemBlocks, whatElse, type PemBlock } from './pem.ts'
import { assertionHeader } from '../wire.ts'

export interface SigningKey {
  /** Signs the claims, in the order given, into a JWT (RS256). @see docs/platform-api.md "Assertion" */
  sign(claims: Readonly<Record<string, string | number>>): Promise<string>
  /** Length of the modulus. */
  readonly bits: number
  /** SHA-256 of the public key (SubjectPublicKeyInfo, DER) in hex. Safe to log. */
  readonly fingerprint: string
}

export interface Certificate {
  /** Validity, epoch ms. */
  readonly notBefore: number
  readonly notAfter: number
  /** SHA-256 of the public key, as in `SigningKey.fingerprint`: where they differ, it is another key's certificate. */
  readonly keyFingerprint: string
  /** SHA-256 of the certificate itself, as `openssl x509 -fingerprint -sha256` prints it. */
  readonly fingerprint: string
}

/** A reloadable file. If its new content is invalid, the last valid one stays in use. */
export interface Reloadable<T> {
  current(): T
  /**
   * Reads the file again; true when it holds another key or certificate, which is used from now on.
   * @throws ConfigurationError for a new content that is not usable; the same problem throws only once
   */
  reload(): Promise<boolean>
  /** True when the file was usable at the last reload; undefined while it has never changed. */
  lastReloadOk(): boolean | undefined
}

/** Source of the key: a file that is reloaded, or a fixed text. */
export type PrivateKeySetting = (
  | { file: string }
  | {
      pem: string
      /** Source of the text: the environment variable's name, or the configuration file's path. */
      origin: string
    }
) & { passphrase?: { value: string; origin: string } | undefined }

/** Place that a problem is reported for: the configuration key, and the source of its value. */
type Place = Omit<ConfigurationProblem, 'message'>

/** Keys, certificates and whole chains are smaller. */
const maxFileBytes = 128 * 1024

const fileProblems: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist; check the path, and in a container that the secret is mounted there',
  ENOTDIR: 'does not exist: a part of the path is not a directory',
  EACCES: 'permission denied; make it readable for the user that this process runs as (in Kubernetes: fsGroup)',
  EPERM: 'permission denied; make it readable for the user that this process runs as',
  EISDIR: 'is a directory; name the file in it',
  ELOOP: 'is a symbolic link that leads back to itself',
  ENAMETOOLONG: 'is too long for a path',
  NOT_REGULAR: 'is not a regular file',
  TOO_LARGE: `is too large for a key or certificate (over ${maxFileBytes} bytes)`,
}

/** Detects the content itself in place of its path: it must not be repeated in a message. Paths are shorter. */
const pasted = /-----BEGIN|[\r\n]|^\s*(?:MII|LS0tLS1)|^.{1024}/

function fileProblem(error: unknown): string {
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error'
  return fileProblems[code] ?? `can't be read (${code})`
}

/** @throws ConfigurationError when it is missing, unreadable, no regular file, or over 128 KiB */
async function readCredentialFile(file: string, key: string): Promise<Buffer> {
  if (pasted.test(file)) {
    const message = 'looks like the content of a file; the path of the file belongs here'
    throw new ConfigurationError([{ key, origin: 'value not shown', message }])
  }
  const content = await readSmallFile(file, maxFileBytes).catch(fileProblem)
  if (typeof content !== 'string') return content
  throw new ConfigurationError([{ key, origin: file, message: content }])
}

interface Origin<T> {
  read: () => Promise<Buffer>
  parse: (content: Buffer) => T
  /** Fingerprint of the content. */
  identity: (value: T) => string
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/**
 * Compares contents, not file times: only contents show for certain that a directory was swapped behind a symbolic link,
 * as Kubernetes does it.
 * @throws the error of reading or parsing, when the first content is not usable
 */
async function createReloadable<T>({ read, parse, identity }: Origin<T>): Promise<Reloadable<T>> {
  const content = await read()
  let current = parse(content)
  let seen = digest(content)
  let lastProblem = ''
  let isReadable = true
  let isUsable = true
  let hasChanged = false
  let turn: Promise<unknown> = Promise.resolve()

  async function load(): Promise<boolean> {
    isReadable = false
    const next = await read()
    isReadable = true
    lastProblem = ''
    const found = digest(next)
    if (found === seen) return false
    seen = found
    hasChanged = true
    isUsable = false
    const value = parse(next)
    isUsable = true
    const isOther = identity(value) !== identity(current)
    current = value
    return isOther
  }

  function throwOnce(error: unknown): false {
    const problem = error instanceof Error ? error.message : ''
    hasChanged = true
    if (problem === lastProblem) return false
    lastProblem = problem
    throw error
  }

  return {
    current: () => current,
    lastReloadOk: () => (hasChanged ? isReadable && isUsable : undefined),
    reload() {
      // One after the other, so that an older content can't replace a newer one.
      const mine = turn.then(() => load().catch(throwOnce))
      turn = mine.catch(() => undefined)
      return mine
    },
  }
}

/** @see docs/platform-api.md "Limits" */
const specifiedBits = 4096
/** Minimum key length of RS256. @see RFC 7518 section 3.3 */
const minBits = 2048

const privateLabels = new Set(['PRIVATE KEY', 'RSA PRIVATE KEY', 'ENCRYPTED PRIVATE KEY'])
const giveTheKey = 'give the private key that belongs to the certificate registered with the platform'
const makeOne = 'the platform accepts RSA only; make a pair with openssl or `npm run keygen`'

const otherLabels: Readonly<Record<string, string>> = {
  CERTIFICATE: `a certificate; ${giveTheKey}`,
  'X509 CERTIFICATE': `a certificate; ${giveTheKey}`,
  'TRUSTED CERTIFICATE': `a certificate; ${giveTheKey}`,
  'CERTIFICATE REQUEST': `a certificate signing request; ${giveTheKey}`,
  'NEW CERTIFICATE REQUEST': `a certificate signing request; ${giveTheKey}`,
  'PUBLIC KEY': `a public key; ${giveTheKey}`,
  'RSA PUBLIC KEY': `a public key; ${giveTheKey}`,
  'EC PRIVATE KEY': `an EC key; ${makeOne}`,
  'EC PARAMETERS': `an EC key; ${makeOne}`,
  'DSA PRIVATE KEY': `a DSA key; ${makeOne}`,
  'OPENSSH PRIVATE KEY': 'a key in OpenSSH\'s own form; convert a copy of it with `ssh-keygen -p -m PEM -N "" -f FILE`',
}

function placeOf(setting: PrivateKeySetting): Place {
  if ('file' in setting) return { key: 'auth.privateKeyFile', origin: setting.file }
  return { key: 'auth.privateKey', origin: setting.origin }
}

function refuse(place: Place, message: string): ConfigurationError {
  return new ConfigurationError([{ ...place, message }])
}

function refusePassphrase(setting: PrivateKeySetting, message: string): ConfigurationError {
  const origin = setting.passphrase?.origin ?? 'missing'
  return new ConfigurationError([{ key: 'auth.privateKeyPassphrase', origin, message }])
}

/** The one private key among the blocks. @throws ConfigurationError */
function choose(content: Buffer, place: Place): PemBlock {
  const blocks = pemBlocks(content.toString('utf8'))
  const whole = blocks.filter((block) => block !== undefined)
  const [key, second] = whole.filter((block) => privateLabels.has(block.label))
  if (second !== undefined) throw refuse(place, 'holds two private keys; leave the one that is to be used')
  if (key !== undefined) return key
  if (whole.length < blocks.length) throw refuse(place, 'holds a PEM block that is damaged: not all of it is Base64')
  const other = whole[0]?.label
  if (other === undefined) throw refuse(place, `${whatElse(content)}; a private key in PEM is needed`)
  throw refuse(place, `holds ${otherLabels[other] ?? `"${other}"; ${giveTheKey}`}`)
}

function decode(block: PemBlock, setting: PrivateKeySetting): KeyObject {
  const passphrase = setting.passphrase?.value ?? ''
  if (block.encrypted && passphrase === '') {
    throw refusePassphrase(setting, `the private key (${placeOf(setting).origin}) is encrypted; give its passphrase`)
  }
  try {
    return createPrivateKey(block.encrypted ? { key: block.pem, passphrase } : block.pem)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (!block.encrypted) throw refuse(placeOf(setting), 'holds a private key that is damaged; copy the file again')
    if (code !== 'ERR_OSSL_EVP_UNSUPPORTED') {
      throw refusePassphrase(
        setting,
        `does not open the private key (${placeOf(setting).origin}): wrong, or the key is damaged`,
      )
    }
    const repair = 'encrypt it again with `openssl pkcs8 -topk8 -v2 aes-256-cbc`'
    throw refuse(placeOf(setting), `is encrypted in a way that is no longer supported; ${repair}`)
  }
}

/** Length in bits of a usable RSA key. @throws ConfigurationError */
function checkedBits(key: KeyObject, place: Place): number {
  const type = key.asymmetricKeyType ?? 'unknown'
  if (type !== 'rsa') throw refuse(place, `holds a key of type ${type}; ${makeOne}`)
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
  if (bits < minBits) throw refuse(place, `holds an RSA key of ${bits} bits; ${specifiedBits} are needed`)
  return bits
}

/** Signs and verifies a sample: a key whose parts don't fit together parses without an error. */
function isWhole(key: KeyObject, publicKey: KeyObject): boolean {
  const sample = Buffer.from('webhook-reconciler')
  try {
    return verify('sha256', sample, publicKey, sign('sha256', sample, key))
  } catch {
    return false
  }
}

function parseKey(content: Buffer, setting: PrivateKeySetting): SigningKey {
  const place = placeOf(setting)
  const key = decode(choose(content, place), setting)
  const bits = checkedBits(key, place)
  const publicKey = createPublicKey(key)
  if (!isWhole(key, publicKey)) throw refuse(place, 'holds a private key that is damaged; copy the file again')
  return {
    sign: (claims) => new SignJWT(claims).setProtectedHeader(assertionHeader).sign(key),
    bits,
    fingerprint: createHash('sha256')
      .update(publicKey.export({ type: 'spki', format: 'der' }))
      .digest('hex'),
  }
}

/**
 * The private key: RSA, PKCS#8 or PKCS#1 in PEM, optionally encrypted. A key given as text stays as it is.
 * @throws ConfigurationError that names the content found instead
 */
export function loadKey(setting: PrivateKeySetting): Promise<Reloadable<SigningKey>> {
  const { key } = placeOf(setting)
  return createReloadable({
    read: () => ('file' in setting ? readCredentialFile(setting.file, key) : Promise.resolve(Buffer.from(setting.pem))),
    parse: (content) => parseKey(content, setting),
    identity: ({ fingerprint }) => fingerprint,
  })
}

/** Problem of a key that works: it has fewer than 4096 bits. */
export function keyWarnings({ bits }: SigningKey, setting: PrivateKeySetting): ConfigurationProblem[] {
  if (bits >= specifiedBits) return []
  const advice = `the RSA key has ${bits} bits; the platform asks for ${specifiedBits}: make a new pair with openssl or \`npm run keygen\``
  return [{ ...placeOf(setting), message: advice }]
}

const certificateLabels = new Set(['CERTIFICATE', 'X509 CERTIFICATE'])

/** @throws ConfigurationError */
function parseCertificate(content: Buffer, place: Place): Certificate {
  const blocks = pemBlocks(content.toString('utf8'))
  // The first of a chain is the certificate itself; its issuers follow.
  const block = blocks.find((found) => found !== undefined && certificateLabels.has(found.label))
  if (block === undefined) {
    const found = blocks[0]
    const what =
      blocks.length === 0
        ? whatElse(content)
        : `holds ${found === undefined ? 'a damaged PEM block' : `"${found.label}"`}`
    throw refuse(place, `${what}; the certificate in PEM is needed (it begins with BEGIN CERTIFICATE)`)
  }
  try {
    const certificate = new X509Certificate(block.pem)
    const publicKey = certificate.publicKey.export({ type: 'spki', format: 'der' })
    return {
      notBefore: certificate.validFromDate.getTime(),
      notAfter: certificate.validToDate.getTime(),
      keyFingerprint: createHash('sha256').update(publicKey).digest('hex'),
      fingerprint: certificate.fingerprint256,
    }
  } catch {
    throw refuse(place, 'holds a certificate that is damaged; copy the file again')
  }
}

/**
 * The certificate that is registered with the platform.
 * @throws ConfigurationError that names the content found instead
 */
export function loadCertificate(file: string): Promise<Reloadable<Certificate>> {
  const place = { key: 'auth.certificateFile', origin: file }
  return createReloadable({
    read: () => readCredentialFile(file, place.key),
    parse: (content) => parseCertificate(content, place),
    identity: ({ fingerprint }) => fingerprint,
  })
}
