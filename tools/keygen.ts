// `npm run keygen -- --out FOLDER`: makes the service account's RSA-4096 key and its self-signed certificate. @see docs/platform-api.md "Service account"
import 'reflect-metadata'
import { webcrypto, X509Certificate } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import * as x509 from '@peculiar/x509'

const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', publicExponent: new Uint8Array([1, 0, 1]) }
const dayMs = 86_400_000
type Pair = Record<'privateKey' | 'certificate', string>

/** Makes a pair, as PEM, that is valid between two times (epoch ms). Takes seconds. */
export async function makePair(name: string, from: number, to: number): Promise<Pair> {
  const keys = await webcrypto.subtle.generateKey({ ...algorithm, modulusLength: 4096 }, true, ['sign', 'verify'])
  const options = {
    serialNumber: `01${webcrypto.randomUUID().replaceAll('-', '')}`,
    // Not as a string: a comma in it would begin another attribute, a # another type.
    name: new x509.Name([{ CN: [{ utf8String: name }] }]),
    notBefore: new Date(from),
    notAfter: new Date(to),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    ],
  }
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(options, webcrypto)
  const privateKey = x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY')
  return { privateKey: `${privateKey}\n`, certificate: `${certificate.toString('pem')}\n` }
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

if (import.meta.main) {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ options: { out: text, name: text, days: text } })
  const { days = '730', name = 'webhook-reconciler', out } = values
  const isUsable = out !== undefined && /^[1-9]\d{0,3}$/.test(days) && /^\P{Cc}{1,64}$/u.test(name)
  if (!isUsable) fail('npm run keygen -- --out FOLDER [--name CERTIFICATE_NAME (at most 64 characters)] [--days 730]')
  // From a minute ago: a server's clock may be a little behind.
  const { certificate, privateKey } = await makePair(name, Date.now() - 60_000, Date.now() + Number(days) * dayMs)
  try {
    mkdirSync(out, { recursive: true, mode: 0o700 })
    // `wx` fails where a file or a link is.
    writeFileSync(join(out, 'private-key.pem'), privateKey, { flag: 'wx', mode: 0o600 })
    writeFileSync(join(out, 'certificate.pem'), certificate, { flag: 'wx' })
  } catch (error) {
    fail(`${String(error)}\nNothing is overwritten: name another folder with --out, or move the files away.`)
  }
  process.stdout.write(
    `${out}/private-key.pem: the daemon's secret (auth.privateKeyFile). Give it to nobody, not even to the platform's operator.\n` +
      `${out}/certificate.pem: send it to the platform's operator, who returns the client id (auth.clientId). Name it in\n` +
      `auth.certificateFile too: its expiry, ${new X509Certificate(certificate).validTo}, is watched.\n`,
  )
}
