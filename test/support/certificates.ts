// TLS certificates for tests, made at run time: an authority that this process is made to trust, and what it issues.
import { webcrypto } from 'node:crypto'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
  type X509Certificate,
} from '@peculiar/x509'

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const dayMs = 86_400_000

/** Why a certificate is not fit for a server. */
const flaws = {
  'for clients': new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth]),
  'with an unknown critical extension': new Extension('1.2.3.4', true, Uint8Array.of(5, 0)),
}

export interface ServerCredentials {
  key: string
  cert: string
}

export interface Authority extends Disposable {
  /** Its own certificate (PEM). */
  pem: string
  /** A certificate for a host; it ends `endsInDays` from now, which may be past. */
  issue(host: string, endsInDays?: number, flaw?: keyof typeof flaws): Promise<ServerCredentials>
}

async function keyPair(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const bytes = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key))
  return `-----BEGIN PRIVATE KEY-----\n${bytes.toString('base64')}\n-----END PRIVATE KEY-----\n`
}

/** This process trusts it until it is disposed of. */
export async function trustedAuthority(): Promise<Authority> {
  const keys = await keyPair()
  const name = 'CN=Test authority'
  const root: X509Certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name,
    notBefore: new Date(Date.now() - 1000 * dayMs),
    notAfter: new Date(Date.now() + 1000 * dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  })
  const before = getCACertificates('default')
  setDefaultCACertificates([...before, root.toString('pem')])
  return {
    pem: root.toString('pem'),
    async issue(host, endsInDays = 10, flaw) {
      const own = await keyPair()
      const certificate = await X509CertificateGenerator.create({
        serialNumber: '02',
        subject: `CN=${host}`,
        issuer: name,
        notBefore: new Date(Date.now() - 100 * dayMs),
        notAfter: new Date(Date.now() + endsInDays * dayMs),
        signingAlgorithm: algorithm,
        publicKey: own.publicKey,
        signingKey: keys.privateKey,
        extensions: [
          new SubjectAlternativeNameExtension([{ type: 'dns', value: host }]),
          ...(flaw === undefined ? [] : [flaws[flaw]]),
        ],
      })
      return { key: await pemOf(own.privateKey), cert: certificate.toString('pem') }
    },
    [Symbol.dispose]: () => {
      setDefaultCACertificates(before)
    },
  }
}
