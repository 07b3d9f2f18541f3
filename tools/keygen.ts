// `npm run keygen -- --out <folder>`: makes the key pair of the service account and says which file goes where.
import { Command, CommanderError } from 'commander'
import { systemClock, systemRandom, type Clock, type Random } from '../src/runtime/clock.ts'
import { exitCode, UsageError } from '../src/runtime/errors.ts'
import {
  maxCommonName,
  makeCredentials,
  prepareFolder,
  writeCredentials,
  type CredentialFiles,
  type Credentials,
} from './credentials.ts'

export interface KeygenIo {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
  clock: Clock
  random: Random
}

interface KeygenOptions {
  clientId: string
  out: string
  days: string
}

const dayMs = 24 * 60 * 60 * 1000
const maxDays = 3650
const defaultDays = '730'
/** The platform's operator returns the client id only after having got the certificate (docs/platform-api.md "Service account"). */
const defaultName = 'webhook-reconciler'
/** For servers whose clock is a little behind. */
const validBeforeMs = 60_000

/** @throws UsageError */
function parseDays(text: string): number {
  const days = /^\d{1,4}$/.test(text) ? Number(text) : NaN
  if (days >= 1 && days <= maxDays) return days
  throw new UsageError(`--days: a whole number from 1 to ${maxDays}, not "${text}"`)
}

/** @throws UsageError when it doesn't fit into a certificate */
function checkName(name: string): string {
  if (name !== '' && name.length <= maxCommonName && !/\p{Cc}/u.test(name)) return name
  throw new UsageError(
    `--client-id: 1 to ${maxCommonName} characters and no control characters (it is the certificate's name)`,
  )
}

function explanation(files: CredentialFiles, credentials: Credentials, notAfter: number): string {
  return [
    `Private key:  ${files.privateKeyFile} (RSA-4096, mode 0600)`,
    '              Secret of the daemon: keep it in the secret store, mount it, and name it in auth.privateKeyFile.',
    '              Do not give it to anyone, not even to the operator of the platform.',
    `Certificate:  ${files.certificateFile}`,
    "              Not secret: send it to the platform's operator, who registers it for the service account and",
    '              returns its client id (auth.clientId). Name it in auth.certificateFile too: its expiry is watched.',
    `Expires:      ${new Date(notAfter).toISOString()} (make a new pair and have it registered before)`,
    'Fingerprints, SHA-256:',
    `  certificate ${credentials.certificateFingerprint}`,
    `  public key  ${credentials.keyFingerprint}`,
    '',
  ].join('\n')
}

async function keygen(options: KeygenOptions, io: KeygenIo): Promise<void> {
  const days = parseDays(options.days)
  const commonName = checkName(options.clientId)
  const files = await prepareFolder(options.out)
  const now = io.clock.now()
  // Whole seconds: X.509 has no fractions.
  const notAfter = Math.floor((now + days * dayMs) / 1000) * 1000
  io.stderr.write('Making an RSA-4096 key; this takes a few seconds ...\n')
  const credentials = await makeCredentials({
    commonName,
    notBefore: now - validBeforeMs,
    notAfter,
    // 01 keeps the number positive; at most 20 bytes are allowed.
    serialNumber: `01${io.random.uuid().replaceAll('-', '')}`,
  })
  await writeCredentials(files, credentials)
  io.stdout.write(explanation(files, credentials, notAfter))
}

/** The command. Rejects with UsageError when an option or a file stands in the way; then nothing was written. */
export function keygenCommand(io: KeygenIo): Command {
  return new Command('keygen')
    .description('make an RSA-4096 private key and a self-signed certificate for the service account')
    .option(
      '--client-id <id>',
      "the certificate's name: the client id, or any name while there is none yet",
      defaultName,
    )
    .requiredOption('--out <folder>', 'where to put private-key.pem and certificate.pem; nothing is overwritten')
    .option('--days <number>', `how long the certificate is valid, 1 to ${maxDays}`, defaultDays)
    .action((options: KeygenOptions) => keygen(options, io))
}

if (import.meta.main) {
  const { stdout, stderr } = process
  try {
    const command = keygenCommand({ stdout, stderr, clock: systemClock, random: systemRandom })
    await command.exitOverride().parseAsync()
  } catch (error) {
    const isOfParser = error instanceof CommanderError
    if (!isOfParser && !(error instanceof UsageError)) throw error
    // The parser has written its own messages; asking for help is one of its errors.
    if (!isOfParser) stderr.write(`${error.message}\n`)
    process.exitCode = isOfParser && error.exitCode === 0 ? exitCode.done : exitCode.usage
  }
}
