// `npm run keygen -- --out FOLDER`: makes the service account's RSA-4096 key and its self-signed certificate. @see docs/platform-api.md "Service account"
import 'reflect-metadata'
import { webcrypto, X509Certificate } from 'node:crypto'
import { lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as x509 from '@peculiar/x509'
import { Command, CommanderError, InvalidArgumentError } from 'commander'

const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', publicExponent: new Uint8Array([1, 0, 1]) }
const dayMs = 86_400_000
type Pair = Record<'privateKey' | 'certificate', string>

/** Creates a pair in PEM, valid between two times (epoch ms). Takes seconds. */
export async function makePair(name: string, from: number, to: number): Promise<Pair> {
  const keys = await webcrypto.subtle.generateKey({ ...algorithm, modulusLength: 4096 }, true, ['sign', 'verify'])
  const options = {
    serialNumber: `01${webcrypto.randomUUID().replaceAll('-', '')}`,
    // Not as a string, where a comma would start another attribute, and a # another type.
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

const checked =
  (pattern: RegExp, must: string) =>
  (value: string): string => {
    if (pattern.test(value)) return value
    throw new InvalidArgumentError(must)
  }

interface KeygenIo {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

async function make(args: readonly string[], { stderr, stdout }: KeygenIo): Promise<void> {
  const program = new Command('keygen')
    .description('make an RSA-4096 private key and a self-signed certificate for the service account')
    .requiredOption('--out <folder>', 'where to put private-key.pem and certificate.pem; nothing is overwritten')
    .option(
      '--name <name>',
      "the certificate's",
      checked(/^\P{Cc}{1,64}$/u, 'Give 1 to 64 characters.'),
      'webhook-reconciler',
    )
    .option('--days <number>', 'its validity', checked(/^[1-9]\d{0,3}$/, 'Give a whole number from 1 to 9999.'), '730')
    .exitOverride()
    .configureOutput({ writeOut: (text) => stdout.write(text), writeErr: (text) => stderr.write(text) })
    .parse(args, { from: 'user' })
  const { days, name, out } = program.opts<Record<'days' | 'name' | 'out', string>>()
  const [keyFile, certificateFile] = [join(out, 'private-key.pem'), join(out, 'certificate.pem')]
  const refuse = (problem: string): never =>
    program.error(`${problem}\nNothing is overwritten: name another folder with --out, or move the files away.`)
  const orRefuse = <Result>(act: () => Result): Result => {
    try {
      return act()
    } catch (error) {
      return refuse(String(error))
    }
  }
  // Before either is written: a new key beside an old certificate would look like a pair.
  for (const file of [keyFile, certificateFile])
    if (orRefuse(() => lstatSync(file, { throwIfNoEntry: false })) !== undefined) refuse(`${file} exists.`)
  // From a minute ago, because a server's clock may be slightly behind.
  const { certificate, privateKey } = await makePair(name, Date.now() - 60_000, Date.now() + Number(days) * dayMs)
  orRefuse(() => {
    mkdirSync(out, { recursive: true, mode: 0o700 })
    // `wx` fails for an existing file or link.
    writeFileSync(keyFile, privateKey, { flag: 'wx', mode: 0o600 })
    writeFileSync(certificateFile, certificate, { flag: 'wx' })
  })
  stdout.write(
    `${keyFile}: the daemon's secret (auth.privateKeyFile). Give it to no one, not even to the platform's operator.\n` +
      `${certificateFile}: send it to the platform's operator, who returns the client id (auth.clientId). Also name it in\n` +
      `auth.certificateFile: its expiry, ${new X509Certificate(certificate).validTo}, is monitored.\n`,
  )
}

/** The exit code. */
export async function keygen(args: readonly string[], io: KeygenIo): Promise<0 | 2> {
  try {
    await make(args, io)
    return 0
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? 0 : 2
  }
}

if (import.meta.main) process.exitCode = await keygen(process.argv.slice(2), process)
