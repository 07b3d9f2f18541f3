#!/usr/bin/env node
// The program: gives the command line what it needs of the process, and ends with its exit code when all output is written.
import { hostname, totalmem } from 'node:os'
import packageJson from '../package.json' with { type: 'json' }
import type { Io } from './cli/io.ts'
import type { Clock } from './runtime/clock.ts'

/** Temporal is global, and TypeScript runs, from here on. */
const oldestNode = 26

/** Node tells no limit as 0, or as more than the machine has. */
function memoryLimit(): number | undefined {
  const limit = process.constrainedMemory()
  return limit > 0 && limit < totalmem() ? limit : undefined
}

/** The first SIGTERM or SIGINT asks to stop, the second ends at once. */
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

/** One line typed at the terminal; undefined at its end (Ctrl-D). Ctrl-C is a signal as anywhere. */
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
    // Without an answer the cursor stands behind the question.
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

/** Reader time for what is left of our output, once a signal has asked this program to stop. */
const drainMs = 2000

/**
 * Resolves when the operating system has taken all of a stream. A pipe is written asynchronously, and process.exit drops
 * what still waits in it. Rejects when the reader has left.
 */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  const done = Promise.withResolvers<void>()
  stream.write('', (error) => {
    if (error == null) done.resolve()
    else done.reject(error)
  })
  return done.promise
}

/** True when stdout has been written whole. A reader of stderr is waited for too, but stderr is not what a command is for. */
async function isOutputWritten(): Promise<boolean> {
  const [stdout] = await Promise.allSettled([flushed(process.stdout), flushed(process.stderr)])
  return stdout.status === 'fulfilled'
}

/** False as soon as a reader has had `drainMs` since the signal; a reader that is slow has all the time until then. */
async function isDrainOver(signal: AbortSignal, clock: Clock): Promise<false> {
  const stopped = Promise.withResolvers<void>()
  if (signal.aborted) stopped.resolve()
  signal.addEventListener('abort', () => {
    stopped.resolve()
  })
  await stopped.promise
  await clock.sleep(drainMs)
  return false
}

async function start(): Promise<void> {
  // First of all: while the program is being loaded a signal would kill it, or, as PID 1, be lost.
  const signal = stopSignal()
  let onHangup = (): void => undefined
  // Without a listener SIGHUP kills.
  process.on('SIGHUP', () => {
    onHangup()
  })
  // A diagnostic report, where somebody asks Node for one, tells no variable: a key and a token may stand there.
  process.report.excludeEnv = true
  const { main } = await import('./cli/program.ts')
  const { systemClock, systemRandom } = await import('./runtime/clock.ts')
  const { exitCode } = await import('./runtime/errors.ts')
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
  // Whoever read our output has gone: there is nobody left to tell. What goes to stderr is not what a command is for.
  let onOutputLost = (): void => process.exit(exitCode.incomplete)
  process.stdout.on('error', () => {
    onOutputLost()
  })
  process.stderr.on('error', () => undefined)

  const io: Io = {
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
    ask: process.stdin.isTTY && process.stderr.isTTY ? ask : undefined,
    signal,
    onHangup: (listener) => {
      onHangup = listener
    },
    onOutputLost: (listener) => {
      onOutputLost = listener
    },
  }
  const code = await main(process.argv.slice(2), io)
  const isWritten = await Promise.race([isOutputWritten(), isDrainOver(signal, systemClock)])
  if (!isWritten) onOutputLost()
  // Not process.exitCode: a socket or a timer that is left over must not keep the program alive.
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
