// The program: passes streams, environment and signals to the command line, and exits with its code after all output is written.
import { once } from 'node:events'
import { fstatSync, writeFileSync } from 'node:fs'
import { hostname, totalmem } from 'node:os'
import { addAbortSignal } from 'node:stream'
import packageJson from '../package.json' with { type: 'json' }
import type { ProcessIo } from './cli/io.ts'
import type { Clock } from './runtime/clock.ts'

/** Oldest Node version that has a global Temporal and runs TypeScript. */
const oldestNode = 26

/** Without a limit, Node returns 0, or more than the machine has. */
function memoryLimit(): number | undefined {
  const limit = process.constrainedMemory()
  return limit > 0 && limit < totalmem() ? limit : undefined
}

/** The first SIGTERM or SIGINT requests a shutdown, the second ends the process immediately. */
function stopSignal(): AbortSignal {
  const stop = new AbortController()
  const onSignal = (name: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(1)
    stop.abort(new Error(name))
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return stop.signal
}

/** One line typed at the terminal; undefined at end of input (Ctrl-D). Ctrl-C is a signal as elsewhere. */
async function ask(question: string, signal: AbortSignal): Promise<string | undefined> {
  const { createInterface } = await import('node:readline')
  const answer = Promise.withResolvers<string | undefined>()
  const lines = createInterface({ input: process.stdin, terminal: false })
  let isAnswered = false
  lines.once('line', (line) => {
    isAnswered = true
    answer.resolve(line)
  })
  lines.once('close', () => {
    // Without an answer the cursor is still behind the question.
    if (!isAnswered) process.stderr.write('\n')
    answer.resolve(undefined)
  })
  const onAbort = (): void => {
    answer.reject(signal.reason)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  process.stderr.write(question)
  try {
    return await answer.promise
  } finally {
    signal.removeEventListener('abort', onAbort)
    lines.close()
  }
}

const stdoutFile = 1

/** Node's own write to a file behind stdout may write only a part of the text, without an error. */
function writeWhole(stdout: NodeJS.WriteStream): void {
  if (!fstatSync(stdoutFile).isFile()) return
  stdout._write = (chunk: Uint8Array, _, done) => {
    try {
      writeFileSync(stdoutFile, chunk)
      done()
    } catch (error) {
      done(error as Error)
    }
  }
}

/** Time for the reader to take the remaining output after a shutdown signal. */
const drainMs = 2000

/**
 * Resolves when the operating system has taken all output of a stream. A pipe is written asynchronously, and process.exit drops
 * the rest. Rejects if the reader has closed it.
 */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  const done = Promise.withResolvers<void>()
  stream.write('', (error) => {
    if (error == null) done.resolve()
    else done.reject(error)
  })
  return done.promise
}

/** True if all of stdout was written. Also waits for the reader of stderr, whose loss is no failure of the command. */
async function isOutputWritten(): Promise<boolean> {
  const [stdout] = await Promise.allSettled([flushed(process.stdout), flushed(process.stderr)])
  return stdout.status === 'fulfilled'
}

/** False once `drainMs` have passed since the signal; without a signal a slow reader has unlimited time. */
async function isDrainOver(signal: AbortSignal, clock: Clock): Promise<false> {
  if (!signal.aborted) await once(signal, 'abort')
  await clock.sleep(drainMs)
  return false
}

async function start(): Promise<void> {
  // First: while modules load, a signal would kill the process, or be lost for PID 1.
  const signal = stopSignal()
  // Without a listener, each kills the process or opens Node's inspector. With --disable-sigusr1 Node ignores SIGUSR1.
  for (const name of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) {
    process.on(name, () => undefined)
  }
  // Excludes the environment from Node's diagnostic reports: it may hold a key or a token.
  process.report.excludeEnv = true
  const { main } = await import('./cli/program.ts')
  const { systemClock, systemRandom } = await import('./runtime/clock.ts')
  const { exitCode } = await import('./runtime/errors.ts')
  const { isSameFile, openInput, openOutput, writtenAt } = await import('./runtime/files.ts')
  const { readSmallText } = await import('./runtime/small-file.ts')

  const identity = { instance: hostname() }
  const onBug = (error: unknown): void => {
    void import('./cli/bug.ts')
      .then(({ reportBug }) => {
        reportBug(error, { clock: systemClock, identity, stderr: process.stderr })
      })
      .finally(() => process.exit(exitCode.bug))
  }
  process.on('uncaughtException', onBug)
  process.on('unhandledRejection', onBug)
  // Loss of stderr is ignored.
  let onOutputLost = (problem?: string): void => {
    // EPIPE: the reader has left.
    if (problem !== undefined && problem !== 'EPIPE')
      process.stderr.write(`The output could not be written: ${problem}\n`)
    process.exit(exitCode.incomplete)
  }
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    onOutputLost(code)
  })
  process.stderr.on('error', () => undefined)
  writeWhole(process.stdout)

  const io: ProcessIo = {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    hostName: hostname(),
    identity,
    nodeVersion: process.version,
    version: packageJson.version,
    memoryLimit: memoryLimit(),
    clock: systemClock,
    random: systemRandom,
    readFile: readSmallText,
    openInput: (path) => addAbortSignal(signal, path === '-' ? process.stdin : openInput(path)),
    writtenAt: (path) => (path === '-' ? undefined : writtenAt(path)),
    isSameFile,
    openOutput,
    // stderr first: the first access to stdin opens it, which takes 7 ms.
    ask: process.stderr.isTTY && process.stdin.isTTY ? ask : undefined,
    signal,
    onOutputLost: (listener) => {
      onOutputLost = listener
    },
  }
  const code = await main(process.argv.slice(2), io)
  const isWritten = await Promise.race([isOutputWritten(), isDrainOver(signal, systemClock)])
  if (!isWritten) onOutputLost()
  // Not process.exitCode: a remaining socket or timer must not keep the process alive.
  process.exit(code)
}

if (Number(process.versions.node.split('.')[0]) < oldestNode) {
  process.stderr.write(
    `webhook-reconciler needs Node ${oldestNode} or newer, this is ${process.version}. ` +
      'In its own folder, `npm run` and `npx` use the right one; elsewhere install it, or use the container image.\n',
  )
  process.exit(78)
} else {
  void start()
}
