// Makes the service account's credentials: an RSA key and a self-signed certificate of its public key. @see docs/platform-api.md "Service account"
import 'reflect-metadata'
import * as x509 from '@peculiar/x509'
import { createHash, webcrypto, X509Certificate } from 'node:crypto'
import { mkdir, open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../src/runtime/errors.ts'

export interface CredentialsOptions {
  /** Common name of the certificate, 1 to `maxCommonName` characters. */
  commonName: string
  /** Validity, epoch ms. */
  notBefore: number
  notAfter: number
  /** Positive, in hex. */
  serialNumber: string
}

export interface Credentials {
  /** PKCS#8. */
  privateKeyPem: string
  certificatePem: string
  /** SHA-256 of the public key in hex, as the daemon logs it. */
  keyFingerprint: string
  /** SHA-256 of the certificate, as openssl prints it. */
  certificateFingerprint: string
}

/** @see docs/platform-api.md "Limits" */
const keyBits = 4096
/** @see RFC 5280 appendix A.1, ub-common-name */
export const maxCommonName = 64

const algorithm = {
  name: 'RSASSA-PKCS1-v1_5',
  hash: 'SHA-256',
  publicExponent: new Uint8Array([1, 0, 1]),
  modulusLength: keyBits,
}

function pem(label: string, der: ArrayBuffer): string {
  const lines = Buffer.from(der)
    .toString('base64')
    .replaceAll(/.{64}(?=.)/g, '$&\n')
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}

/** A new RSA-4096 key and its X.509 v3 certificate, signed with SHA-256. Takes seconds. */
export async function makeCredentials(options: CredentialsOptions): Promise<Credentials> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: options.serialNumber,
      // Not as a string: a comma in it would begin another attribute, a # another type.
      name: new x509.Name([{ CN: [{ utf8String: options.commonName }] }]),
      notBefore: new Date(options.notBefore),
      notAfter: new Date(options.notAfter),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  const spki = await webcrypto.subtle.exportKey('spki', keys.publicKey)
  const certificatePem = pem('CERTIFICATE', certificate.rawData)
  return {
    privateKeyPem: pem('PRIVATE KEY', await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)),
    certificatePem,
    keyFingerprint: createHash('sha256').update(Buffer.from(spki)).digest('hex'),
    certificateFingerprint: new X509Certificate(certificatePem).fingerprint256,
  }
}

export interface CredentialFiles {
  privateKeyFile: string
  certificateFile: string
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error'
}

function exists(file: string): UsageError {
  return new UsageError(`${file} exists and is not overwritten; name another folder with --out, or move the file away`)
}

/**
 * The files in a folder, which is made (mode 0700) when it is missing.
 * @throws UsageError when one of them exists already, or the folder can't be used
 */
export async function prepareFolder(folder: string): Promise<CredentialFiles> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new UsageError(`--out ${folder}: the folder can't be made (${codeOf(error)}); name another one`)
  }
  const files = { privateKeyFile: join(folder, 'private-key.pem'), certificateFile: join(folder, 'certificate.pem') }
  for (const file of Object.values(files)) {
    const found = await stat(file).catch(() => undefined)
    if (found !== undefined) throw exists(file)
  }
  return files
}

/** Creates the file with its final mode; never overwrites, and leaves no half of it behind. @throws UsageError */
async function writeNew(file: string, content: string, mode: number): Promise<void> {
  let created = false
  try {
    await using handle = await open(file, 'wx', mode)
    created = true
    await handle.writeFile(content)
    await handle.sync()
  } catch (error) {
    if (created) await rm(file, { force: true })
    if (codeOf(error) === 'EEXIST') throw exists(file)
    throw new UsageError(`${file} can't be written (${codeOf(error)}); name another folder with --out`)
  }
}

/**
 * Writes both files or none: the key readable for its owner alone from the first byte, the certificate for all.
 * @throws UsageError when one exists, also when it came into being meanwhile
 */
export async function writeCredentials(files: CredentialFiles, credentials: Credentials): Promise<void> {
  await writeNew(files.privateKeyFile, credentials.privateKeyPem, 0o600)
  try {
    await writeNew(files.certificateFile, credentials.certificatePem, 0o644)
  } catch (error) {
    await rm(files.privateKeyFile, { force: true })
    throw error
  }
}
