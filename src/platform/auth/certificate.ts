// The certificate registered with the platform: loads it, and explains what is wrong with it.
import { createHash, X509Certificate, type KeyObject } from 'node:crypto'
import { readPem, whatElse } from './pem.ts'
import { createReloadable, readCredentialFile, refuse, type Place, type Reloadable } from './reloadable.ts'

export interface Certificate {
  /** Epoch ms. */
  readonly notBefore: number
  readonly notAfter: number
  /** SHA-256 of the public key, comparable with `SigningKey.fingerprint`. */
  readonly keyFingerprint: string
  /** SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it. */
  readonly fingerprint: string
}

/** @throws ConfigurationError naming the content found instead */
export function readCertificate(content: Buffer, place: Place): X509Certificate {
  const { blocks, damage } = readPem(content.toString('utf8'))
  // A chain begins with the certificate itself; its issuers follow.
  const block = blocks.find(({ label }) => label === 'CERTIFICATE')
  if (block === undefined) {
    const [other] = blocks
    const what = damage ?? (other === undefined ? whatElse(content) : `holds "${other.label}"`)
    throw refuse(place, `${what}; the certificate in PEM is needed (it begins with BEGIN CERTIFICATE)`)
  }
  try {
    return new X509Certificate(block.pem)
  } catch {
    throw refuse(place, 'holds a certificate that is damaged; copy the file again')
  }
}

/** SHA-256 of a public key (SubjectPublicKeyInfo, DER) in hex. */
export function fingerprintOf(publicKey: KeyObject): string {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}

function parseCertificate(content: Buffer, place: Place): Certificate {
  const certificate = readCertificate(content, place)
  return {
    notBefore: certificate.validFromDate.getTime(),
    notAfter: certificate.validToDate.getTime(),
    keyFingerprint: fingerprintOf(certificate.publicKey),
    fingerprint: certificate.fingerprint256,
  }
}

/**
 * The certificate registered with the platform.
 * @throws ConfigurationError naming the content found instead
 */
export function loadCertificate(file: string): Reloadable<Certificate> {
  const place = { key: 'auth.certificateFile', origin: file }
  return createReloadable({
    read: () => readCredentialFile(file, place.key),
    parse: (content) => parseCertificate(content, place),
    identity: ({ fingerprint }) => fingerprint,
  })
}

/** Why its expiry is irrelevant for the key in use; undefined if it belongs to that key. */
export function mismatchOf(certificate: Certificate, key: { readonly fingerprint: string }): string | undefined {
  if (certificate.keyFingerprint === key.fingerprint) return undefined
  return `its key (SHA-256 ${certificate.keyFingerprint}) is not the signing key (SHA-256 ${key.fingerprint})`
}
