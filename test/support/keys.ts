// RSA-4096 key pairs with a self-signed certificate for tests: made at run time, kept in the temp folder, never in the repository.
import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import * as x509 from '@peculiar/x509'

export interface TestKeys {
  /** PKCS#8. */
  privateKeyPem: string
  /** Valid from 2000 to 2100, so that tests may live at any time. */
  certificatePem: string
  privateKeyFile: string
  certificateFile: string
}

const privateKeyName = 'private-key.pem'
const certificateName = 'certificate.pem'

/**
 * The key pair of this name; the same files for every test worker. The first call on a machine makes it (seconds), later ones read it.
 * Another name gives another key pair.
 */
export async function testKeys(name = 'default'): Promise<TestKeys> {
  const folder = join(tmpdir(), `webhook-reconciler-test-keys-${userInfo().uid}-${name}`)
  const cached = await read(folder)
  if (cached !== undefined) return cached
  await make(folder)
  const made = await read(folder)
  if (made === undefined) throw new Error(`No usable test keys in ${folder}: remove the folder and run again.`)
  return made
}

async function read(folder: string): Promise<TestKeys | undefined> {
  const privateKeyFile = join(folder, privateKeyName)
  const certificateFile = join(folder, certificateName)
  try {
    const [privateKeyPem, certificatePem] = await Promise.all([
      readFile(privateKeyFile, 'utf8'),
      readFile(certificateFile, 'utf8'),
    ])
    return { privateKeyPem, certificatePem, privateKeyFile, certificateFile }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Workers may race: each fills a folder of its own, the first rename wins, the others drop theirs. */
async function make(folder: string): Promise<void> {
  const draft = await mkdtemp(`${folder}-`)
  const { privateKeyPem, certificatePem } = await keyPair()
  await writeFile(join(draft, privateKeyName), privateKeyPem, { mode: 0o600 })
  await writeFile(join(draft, certificateName), certificatePem)
  try {
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true })
    const code = (error as NodeJS.ErrnoException).code
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
  }
}

async function keyPair(): Promise<{ privateKeyPem: string; certificatePem: string }> {
  x509.cryptoProvider.set(webcrypto)
  const algorithm = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength: 4096,
  }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=test service account',
    notBefore: new Date('2000-01-01T00:00:00Z'),
    notAfter: new Date('2100-01-01T00:00:00Z'),
    signingAlgorithm: algorithm,
    keys,
  })
  const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)
  return { privateKeyPem: x509.PemConverter.encode(pkcs8, 'PRIVATE KEY'), certificatePem: certificate.toString('pem') }
}
