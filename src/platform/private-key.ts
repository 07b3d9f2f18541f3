// The service account's private key: reads it, tells what is wrong with it, signs with it, and follows its file.
import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import { ConfigurationError, type ConfigurationProblem } from '../runtime/errors.ts'
import { readCredentialFile } from './credential-file.ts'
import { createFollowedFile } from './followed-file.ts'
import { pemBlocks, whatElse, type PemBlock } from './pem.ts'
import { assertionHeader } from './wire.ts'

export interface SigningKey {
  /** Signs the claims, in the order given, into a JWT (RS256). @see platform-api.md 5.3 */
  sign(claims: Readonly<Record<string, string | number>>): Promise<string>
  /** Length of the modulus. */
  readonly bits: number
  /** SHA-256 of the public key (SubjectPublicKeyInfo, DER) in hex. Safe to log. */
  readonly fingerprint: string
}

/** The key as it is now. */
export interface KeySource {
  current(): SigningKey
  /**
   * Reads the file again; true when it holds another key, which is used from now on.
   * @throws ConfigurationError when the new content can't be used: the old key stays. The same content, or the same
   * trouble in reading it, throws only once.
   */
  refresh(): Promise<boolean>
  /** Whether the file could be used when it was last read after a change; undefined while it has not changed. */
  lastReload?(): boolean | undefined
}

/** Where the key comes from: a file that is followed, or a text that stays. */
export type PrivateKeySetting = (
  | { file: string }
  | {
      pem: string
      /** Where the text came from: the environment variable's name, or the configuration file's path. */
      origin: string
    }
) & { passphrase?: { value: string; origin: string } | undefined }

export interface LoadedKey {
  key: SigningKey
  /** What works, but should be put right: a key under 4096 bits. */
  warnings: readonly ConfigurationProblem[]
}

/** @see platform-api.md 8 */
const specifiedBits = 4096
/** What RS256 allows at least. @see RFC 7518 section 3.3 */
const leastBits = 2048

const privateLabels = new Set(['PRIVATE KEY', 'RSA PRIVATE KEY', 'ENCRYPTED PRIVATE KEY'])
const giveTheKey = 'give the private key that belongs to the certificate registered with the platform'
const makeOne = 'the platform takes RSA only; make a pair with `webhook-reconciler keygen`'

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

/** Tells of problems under the right configuration key. */
interface Teller {
  key: string
  origin: string
}

function tellerOf(setting: PrivateKeySetting): Teller {
  if ('file' in setting) return { key: 'auth.privateKeyFile', origin: setting.file }
  return { key: 'auth.privateKey', origin: setting.origin }
}

function refuse(teller: Teller, message: string): ConfigurationError {
  return new ConfigurationError([{ ...teller, message }])
}

function refusePassphrase(setting: PrivateKeySetting, message: string): ConfigurationError {
  const origin = setting.passphrase?.origin ?? 'missing'
  return new ConfigurationError([{ key: 'auth.privateKeyPassphrase', origin, message }])
}

/** The one private key among the blocks. @throws ConfigurationError */
function choose(content: Buffer, teller: Teller): PemBlock {
  const blocks = pemBlocks(content.toString('utf8'))
  const whole = blocks.filter((block) => block !== undefined)
  const [key, second] = whole.filter((block) => privateLabels.has(block.label))
  if (second !== undefined) throw refuse(teller, 'holds two private keys; leave the one that is to be used')
  if (key !== undefined) return key
  if (whole.length < blocks.length) throw refuse(teller, 'holds a PEM block that is damaged: not all of it is Base64')
  const other = whole[0]?.label
  if (other === undefined) throw refuse(teller, `${whatElse(content)}; a private key in PEM is needed`)
  throw refuse(teller, `holds ${otherLabels[other] ?? `"${other}"; ${giveTheKey}`}`)
}

function decode(block: PemBlock, setting: PrivateKeySetting): KeyObject {
  const passphrase = setting.passphrase?.value ?? ''
  if (block.encrypted && passphrase === '') {
    throw refusePassphrase(setting, `the private key (${tellerOf(setting).origin}) is encrypted; give its passphrase`)
  }
  try {
    return createPrivateKey(block.encrypted ? { key: block.pem, passphrase } : block.pem)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (!block.encrypted) throw refuse(tellerOf(setting), 'holds a private key that is damaged; copy the file again')
    if (code !== 'ERR_OSSL_EVP_UNSUPPORTED') {
      throw refusePassphrase(
        setting,
        `does not open the private key (${tellerOf(setting).origin}): wrong, or the key is damaged`,
      )
    }
    const repair = 'encrypt it anew with `openssl pkcs8 -topk8 -v2 aes-256-cbc`'
    throw refuse(tellerOf(setting), `is encrypted in a way that is no longer supported; ${repair}`)
  }
}

/** Length in bits of an RSA key that may be used. @throws ConfigurationError */
function checkedBits(key: KeyObject, teller: Teller): number {
  const type = key.asymmetricKeyType ?? 'unknown'
  if (type !== 'rsa') throw refuse(teller, `holds a key of type ${type}; ${makeOne}`)
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
  if (bits < leastBits) throw refuse(teller, `holds an RSA key of ${bits} bits; ${specifiedBits} are needed`)
  return bits
}

/** A key whose parts don't fit together parses, and is found out by the platform only: sign and verify something first. */
function probe(key: KeyObject, publicKey: KeyObject): boolean {
  const something = Buffer.from('webhook-reconciler probe')
  try {
    return verify('sha256', something, publicKey, sign('sha256', something, key))
  } catch {
    return false
  }
}

function parse(content: Buffer, setting: PrivateKeySetting): LoadedKey {
  const teller = tellerOf(setting)
  const key = decode(choose(content, teller), setting)
  const bits = checkedBits(key, teller)
  const publicKey = createPublicKey(key)
  if (!probe(key, publicKey)) throw refuse(teller, 'holds a private key that is damaged; copy the file again')
  const advice = `the RSA key has ${bits} bits; the platform asks for ${specifiedBits}: make a new pair with \`webhook-reconciler keygen\``
  return {
    key: {
      sign: (claims) => new SignJWT(claims).setProtectedHeader(assertionHeader).sign(key),
      bits,
      fingerprint: createHash('sha256')
        .update(publicKey.export({ type: 'spki', format: 'der' }))
        .digest('hex'),
    },
    warnings: bits < specifiedBits ? [{ ...teller, message: advice }] : [],
  }
}

async function read(setting: PrivateKeySetting): Promise<Buffer> {
  if ('file' in setting) return readCredentialFile(setting.file, 'auth.privateKeyFile')
  return Buffer.from(setting.pem)
}

/**
 * Reads the key and signs a probe with it: RSA, PKCS#8 or PKCS#1 in PEM, optionally encrypted.
 * @throws ConfigurationError that says what is there instead
 */
export async function loadPrivateKey(setting: PrivateKeySetting): Promise<LoadedKey> {
  return parse(await read(setting), setting)
}

/**
 * The key of a setting; a file is read again when asked, a text stays.
 * @throws ConfigurationError when there is no usable key to begin with
 */
export async function createKeySource(
  setting: PrivateKeySetting,
): Promise<{ source: KeySource; warnings: LoadedKey['warnings'] }> {
  const followed = await createFollowedFile({
    read: () => read(setting),
    parse: (content) => parse(content, setting),
    identity: ({ key }) => key.fingerprint,
  })
  const source: KeySource = {
    current: () => followed.current().key,
    refresh: () => followed.refresh(),
    lastReload: () => followed.lastReload(),
  }
  return { source, warnings: followed.current().warnings }
}
