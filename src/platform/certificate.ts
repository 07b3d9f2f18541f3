// When the certificate that is registered with the platform expires: an expired one stops everything.
import { createHash, X509Certificate } from 'node:crypto'
import { ConfigurationError } from '../runtime/errors.ts'
import { readCredentialFile } from './credential-file.ts'
import { createFollowedFile, type FollowedFile } from './followed-file.ts'
import { pemBlocks, whatElse } from './pem.ts'

export interface Certificate {
  /** Validity, epoch ms. */
  readonly notBefore: number
  readonly notAfter: number
  /** SHA-256 of the public key, as in `SigningKey.fingerprint`: when they differ, it is another key's certificate. */
  readonly keyFingerprint: string
  /** SHA-256 of the certificate itself, as `openssl x509 -fingerprint -sha256` prints it. */
  readonly fingerprint: string
}

/** The certificate as it is now. `refresh` throws ConfigurationError when the new content can't be used: the last one stays. */
export type CertificateSource = FollowedFile<Certificate>

const settingKey = 'auth.certificateFile'
const labels = new Set(['CERTIFICATE', 'X509 CERTIFICATE'])

function refuse(file: string, message: string): ConfigurationError {
  return new ConfigurationError([{ key: settingKey, origin: file, message }])
}

/** @throws ConfigurationError */
function parse(content: Buffer, file: string): Certificate {
  const blocks = pemBlocks(content.toString('utf8'))
  // Of a chain the first: the certificate itself comes before those that signed it.
  const block = blocks.find((found) => found !== undefined && labels.has(found.label))
  if (block === undefined) {
    const found = blocks[0]
    const what =
      blocks.length === 0
        ? whatElse(content)
        : `holds ${found === undefined ? 'a damaged PEM block' : `"${found.label}"`}`
    throw refuse(file, `${what}; the certificate in PEM is needed (it begins with BEGIN CERTIFICATE)`)
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
    throw refuse(file, 'holds a certificate that is damaged; copy the file again')
  }
}

/**
 * The certificate of a file, read again when asked.
 * @throws ConfigurationError that says what is there instead
 */
export function createCertificateSource(file: string): Promise<CertificateSource> {
  return createFollowedFile({
    read: () => readCredentialFile(file, settingKey),
    parse: (content) => parse(content, file),
    identity: (certificate) => certificate.fingerprint,
  })
}
