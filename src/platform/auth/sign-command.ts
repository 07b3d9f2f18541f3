// Signs with a program, for private keys in an HSM, a KMS or Vault. It runs once per assertion.
import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { verify } from 'node:crypto'
import { once } from 'node:events'
import { deadline, type Clock } from '../../runtime/clock.ts'
import { abortable } from '../../runtime/notifier.ts'
import { foreignText } from '../http/foreign-text.ts'
import { assertionHeader } from '../wire.ts'
import { fingerprintOf, readCertificate } from './certificate.ts'
import { checkedBits, type SigningKey } from './private-key.ts'
import { createReloadable, readCredentialFile, type Reloadable } from './reloadable.ts'

type Code = 'NOT_FOUND' | 'NOT_RUN' | 'FAILED' | 'NO_SIGNATURE' | 'OTHER_KEY' | 'TIMEOUT'

/** The program gave no acceptable signature. The error omits its arguments, which may hold a PIN. */
export class SignCommandError extends Error {
  readonly code: `SIGN_COMMAND_${Code}`
  readonly advice: string

  constructor(code: Code, message: string, advice: string) {
    super(`auth.signCommand ${message}`)
    this.code = `SIGN_COMMAND_${code}`
    this.advice = advice
  }
}

export interface SignCommandOptions {
  /** The program and its arguments. No shell reads them. */
  command: readonly string[]
  /** The certificate's key verifies each signature. */
  certificateFile: string
  clock: Clock
  /** The program gets all of it. */
  env: NodeJS.ProcessEnv
}

export const signLimitMs = 5000
/** A signature of 16,384 bits has 2,732 characters. */
const maxOutput = 16 * 1024
const keptErrors = 4096
const byHand =
  'run it by hand as the user of this process: on standard input it gets the text to sign, and it writes the signature'

const spawnErrors: Readonly<Record<string, [Code, string]>> = {
  ENOENT: ['NOT_FOUND', 'was not found'],
  EACCES: ['NOT_RUN', 'may not be run by this user'],
}

/** Ends the program and all its children. */
function kill({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

interface Ended {
  code: number | null
  killedBy: NodeJS.Signals | null
  output: string
  errors: string
}

/** Collects the output of a program, and how it ended. */
function followed(child: ChildProcessWithoutNullStreams, input: string): Promise<Ended> {
  let [output, errors] = ['', '']
  child.stdout.setEncoding('latin1').on('data', (text: string) => {
    output = (output + text).slice(0, maxOutput)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-keptErrors)
  })
  // It may end before it has read everything.
  child.stdin.on('error', () => undefined).end(input)
  return new Promise((resolve) => {
    child.once('close', (code, killedBy) => {
      resolve({ code, killedBy, output, errors })
    })
  })
}

function notStarted(error: unknown): SignCommandError {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  const [kind, what] = spawnErrors[code] ?? ['NOT_RUN', `could not be run (${code})`]
  return new SignCommandError(
    kind,
    what,
    'give the path of a program that this user may run; in a container it has to be in the image',
  )
}

/**
 * Starts a program in a session without a terminal: it cannot stop to ask for a PIN.
 * @throws SignCommandError: spawn throws some errors and emits others; a child that did not start may have no streams
 */
async function start(
  [program = '', ...words]: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<ChildProcessWithoutNullStreams> {
  try {
    const child = spawn(program, words, { detached: true, env, stdio: ['pipe', 'pipe', 'pipe'] })
    await once(child, 'spawn')
    return child
  } catch (error) {
    throw notStarted(error)
  }
}

/** Shorter ones are no PIN, and would hide words of the message. */
const minHidden = 4

/** A program's line without its arguments and their parts, as in `pkcs11:id=%01?pin-value=1234&module-name=x`. @see RFC 7512 */
function withoutArguments(line: string, [, ...words]: readonly string[]): string {
  const parts = words.flatMap((word) => [word, ...word.split(/[=;:?&]/).slice(1)])
  const hidden = parts.filter(({ length }) => length >= minHidden).sort((a, b) => b.length - a.length)
  return hidden.reduce((text, part) => text.replaceAll(part, '[argument]'), line)
}

/** @throws SignCommandError; the signal's reason */
async function outputOf(
  input: string,
  { clock, command, env }: SignCommandOptions,
  signal?: AbortSignal,
): Promise<string> {
  const child = await start(command, env)
  const tooLate = new SignCommandError('TIMEOUT', `did not end within ${signLimitMs / 1000} s`, byHand)
  using late = deadline(clock, signLimitMs, tooLate)
  try {
    const stops = AbortSignal.any([late.signal, ...(signal === undefined ? [] : [signal])])
    const ended = await abortable(followed(child, input), stops)
    if (ended.code === 0) return ended.output
    const [line = ''] = ended.errors
      .split('\n')
      .filter((text) => text.trim() !== '')
      .slice(-1)
    const how = ended.code === null ? `was ended by ${ended.killedBy ?? 'a signal'}` : `ended with ${ended.code}`
    const said = foreignText(withoutArguments(line, command))
    throw new SignCommandError('FAILED', line === '' ? how : `${how}: "${said}"`, byHand)
  } finally {
    if (child.exitCode === null || child.stdout.readable) kill(child)
    for (const stream of child.stdio) stream?.destroy()
  }
}

/** Base64 in either alphabet, as KMS tools write it, or after the prefix of Vault's transit engine. */
const signatureForm = /^(?:vault:v\d+:)?([\w+/-]+={0,2})$/

function keyOf(content: Buffer, options: SignCommandOptions): SigningKey {
  const place = { key: 'auth.certificateFile', origin: options.certificateFile }
  const { publicKey } = readCertificate(content, place)
  const fingerprint = fingerprintOf(publicKey)
  return {
    bits: checkedBits(publicKey, place),
    fingerprint,
    async sign(claims, signal) {
      const parts = [assertionHeader, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      const input = parts.join('.')
      const output = await outputOf(input, options, signal)
      const [, base64] = signatureForm.exec(output.replaceAll(/\s/g, '')) ?? []
      if (base64 === undefined)
        throw new SignCommandError(
          'NO_SIGNATURE',
          'wrote no signature: the output must be Base64 and nothing else',
          byHand,
        )
      const signature = Buffer.from(base64, 'base64')
      if (!verify('sha256', Buffer.from(input), publicKey, signature)) {
        const advice = `sign with RS256 (RSASSA-PKCS1-v1_5 with SHA-256), the text itself instead of a digest, with the key of SHA-256 ${fingerprint}`
        throw new SignCommandError(
          'OTHER_KEY',
          'wrote a signature that does not verify with auth.certificateFile',
          advice,
        )
      }
      return `${input}.${signature.toString('base64url')}`
    },
  }
}

/**
 * The program's key, identified by its certificate, which is reread when it changes.
 * @throws ConfigurationError naming the content found instead of a certificate
 */
export function loadSignCommand(options: SignCommandOptions): Reloadable<SigningKey> {
  const { certificateFile } = options
  const source = createReloadable({
    read: () => readCredentialFile(certificateFile, 'auth.certificateFile'),
    parse: (content) => keyOf(content, options),
    identity: ({ fingerprint }) => fingerprint,
  })
  return { ...source, reportedAs: 'auth.signCommand' }
}
