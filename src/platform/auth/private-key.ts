// The service account's private key: loads it, explains what is wrong with it, and signs with it.
import { createPrivateKey, createPublicKey, hkdfSync, sign, verify, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import { ConfigurationError, type ConfigurationProblem } from '../../runtime/errors.ts'
import { assertionHeader } from '../wire.ts'
import { fingerprintOf } from './certificate.ts'
import { readPem, whatElse, type PemBlock } from './pem.ts'
import { createReloadable, readCredentialFile, refuse, type Place, type Reloadable } from './reloadable.ts'

export interface SigningKey {
  /** Signs the claims, in this order, as a JWT (RS256). @see docs/platform-api.md "Assertion" */
  sign(claims: Readonly<Record<string, string | number>>, signal?: AbortSignal): Promise<string>
  /**
   * A 32-byte secret (Base64url) derived from the key for this purpose; absent if the key is not in this process. @see RFC 5869
   * (HKDF)
   */
  derive?(purpose: string): string
  readonly bits: number
  /** SHA-256 of the public key (SubjectPublicKeyInfo, DER) in hex. Safe to log. */
  readonly fingerprint: string
}

/** A key in this process. */
export type PrivateKey = SigningKey & Required<Pick<SigningKey, 'derive'>>

/** A reloadable file, or a fixed text. */
export type PrivateKeySetting = (
  | { file: string }
  | {
      pem: string
      /** The environment variable's name, or the configuration file's path. */
      origin: string
    }
) & {
  /** @throws ConfigurationError if its file is no longer readable */
  passphrase?: { read: () => string; origin: string } | undefined
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

function refusePassphrase(setting: PrivateKeySetting, message: string): ConfigurationError {
  const origin = setting.passphrase?.origin ?? 'missing'
  return new ConfigurationError([{ key: 'auth.privateKeyPassphrase', origin, message }])
}

/** The only private key among the blocks. @throws ConfigurationError */
function choose(content: Buffer, place: Place): PemBlock {
  const { blocks, damage } = readPem(content.toString('utf8'))
  const [key, second] = blocks.filter(({ label }) => privateLabels.has(label))
  if (second !== undefined) throw refuse(place, 'holds two private keys; keep the one to use')
  if (key !== undefined) return key
  if (damage !== undefined) throw refuse(place, damage)
  const other = blocks[0]?.label
  if (other === undefined) throw refuse(place, `${whatElse(content)}; a private key in PEM is needed`)
  throw refuse(place, `holds ${otherLabels[other] ?? `"${other}"; ${giveTheKey}`}`)
}

function decode(block: PemBlock, setting: PrivateKeySetting): KeyObject {
  // Reread with each key: a new key may have a new one.
  const passphrase = block.encrypted ? (setting.passphrase?.read() ?? '') : ''
  if (block.encrypted && passphrase === '') {
    throw refusePassphrase(setting, `the private key (${placeOf(setting).origin}) is encrypted; give its passphrase`)
  }
  try {
    return createPrivateKey(block.encrypted ? { key: block.pem, passphrase } : block.pem)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (!block.encrypted) {
      const what = 'holds a private key that is damaged, or not what its BEGIN line says; copy the file again'
      throw refuse(placeOf(setting), what)
    }
    if (code !== 'ERR_OSSL_EVP_UNSUPPORTED') {
      throw refusePassphrase(
        setting,
        `does not open the private key (${placeOf(setting).origin}): wrong, or the key is damaged`,
      )
    }
    const repair = 're-encrypt it with `openssl pkcs8 -topk8 -v2 aes-256-cbc`'
    throw refuse(placeOf(setting), `uses an encryption that is no longer supported; ${repair}`)
  }
}

/** Length in bits of a usable RSA key. @throws ConfigurationError */
export function checkedBits(key: KeyObject, place: Place): number {
  const type = key.asymmetricKeyType ?? 'unknown'
  if (type !== 'rsa') throw refuse(place, `holds a key of type ${type}; ${makeOne}`)
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
  if (bits < minBits) throw refuse(place, `holds an RSA key of ${bits} bits; ${specifiedBits} are needed`)
  return bits
}

/** A damaged key may parse without an error. OpenSSL compensates for some damage; such a key still signs correctly. */
function signsWell(key: KeyObject, publicKey: KeyObject): boolean {
  const text = Buffer.from('a trial signature')
  try {
    return verify('sha256', text, publicKey, sign('sha256', text, key))
  } catch {
    return false
  }
}

function parseKey(content: Buffer, setting: PrivateKeySetting): PrivateKey {
  const place = placeOf(setting)
  const key = decode(choose(content, place), setting)
  const bits = checkedBits(key, place)
  const publicKey = createPublicKey(key)
  if (!signsWell(key, publicKey)) throw refuse(place, 'holds a private key that is damaged; copy the file again')
  return {
    sign: (claims) => new SignJWT(claims).setProtectedHeader(assertionHeader).sign(key),
    derive(purpose) {
      const der = key.export({ type: 'pkcs8', format: 'der' })
      return Buffer.from(hkdfSync('sha256', der, '', purpose, 32)).toString('base64url')
    },
    bits,
    fingerprint: fingerprintOf(publicKey),
  }
}

/**
 * The private key: RSA, PKCS#8 or PKCS#1 in PEM, optionally encrypted. A key given as text never changes.
 * @throws ConfigurationError naming the content found instead
 */
export function loadKey(setting: PrivateKeySetting): Reloadable<PrivateKey> {
  const { key } = placeOf(setting)
  return createReloadable({
    read: () => ('file' in setting ? readCredentialFile(setting.file, key) : Buffer.from(setting.pem)),
    parse: (content) => parseKey(content, setting),
    identity: ({ fingerprint }) => fingerprint,
  })
}

/** Reports a working key of fewer than 4096 bits. */
export function keyWarnings({ bits }: SigningKey, source: PrivateKeySetting | Place): ConfigurationProblem[] {
  if (bits >= specifiedBits) return []
  const advice = `the RSA key has ${bits} bits; the platform asks for ${specifiedBits}: make a new pair with openssl or \`npm run keygen\``
  return [{ ...('key' in source ? source : placeOf(source)), message: advice }]
}
