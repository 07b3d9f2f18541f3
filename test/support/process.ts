// The program as a real child process, or a daemon in this one: everything that it writes is kept, and it never outlives the test that started it.
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pLimit from 'p-limit'
import { runCommand } from './command.ts'
import { waitableMs } from './limits.ts'
import { parseSamples, sumOf, type Samples } from './samples.ts'
import type { LogEventId } from '../../src/observe/log/log-events.ts'
import { metricPrefix } from '../../src/observe/metrics.ts'

/** The program as it is shipped; build.ts bundles it before the tests. */
export const mainScript = join(import.meta.dirname, '../../dist/main.cjs')

/** More would only wait for each other. */
const processesAtOnce = 3

/** One line of the program's log. */
export interface LogLine {
  level: string
  event: string
  instance: string
  [field: string]: unknown
}

export interface Ended {
  /** Exit code; null when a signal killed it. */
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface ProgramOptions {
  /** The whole environment besides PATH: nothing of the test runner's gets through. */
  env?: Readonly<Record<string, string>>
  /** Options of Node's own, before the script. */
  nodeArgs?: readonly string[]
  /** Default: the Node that runs the tests, and the bundled program. */
  node?: string
  script?: string
  /** Default: that of the tests. */
  cwd?: string
}

export interface Program extends AsyncDisposable {
  readonly pid: number
  /** Everything that it wrote so far. */
  stdout(): string
  stderr(): string
  /** Log lines on stdout and stderr so far. */
  log(): LogLine[]
  /** The first line of this event (and with these fields); rejects when the program ends, or the test's time is over, without one. */
  said(event: LogEventId, fields?: Readonly<Record<string, unknown>>): Promise<LogLine>
  kill(signal: NodeJS.Signals): void
  /** Stops reading one of its streams: what it writes there then fails. */
  deafen(stream: 'stdout' | 'stderr'): void
  /** Reads nothing of one of its streams, as a slow reader does, until the function that it returns is called. */
  stall(stream: 'stdout' | 'stderr'): () => void
  /** Resolves when it has ended and its output is whole; rejects when the test's time is over before. */
  ended(): Promise<Ended>
}

function isLogLine(value: unknown): value is LogLine {
  return typeof value === 'object' && value !== null && 'event' in value && 'level' in value
}

function parseLine(line: string): LogLine[] {
  try {
    const value: unknown = JSON.parse(line)
    return isLogLine(value) ? [value] : []
  } catch {
    return []
  }
}

/** Rejects with what was awaited, and with all output, shortly before the test's own limit. */
export async function within<T>(promise: Promise<T>, what: string, context = (): string => ''): Promise<T> {
  const late = Promise.withResolvers<never>()
  const limitMs = waitableMs()
  const timer = setTimeout(() => {
    late.reject(new Error(`waited ${limitMs.toFixed(0)} ms without success for: ${what}\n${context()}`))
  }, limitMs)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function isIt(line: LogLine, event: LogEventId, fields: Readonly<Record<string, unknown>>): boolean {
  return line.event === event && Object.entries(fields).every(([name, value]) => line[name] === value)
}

function spawnProgram(args: readonly string[], options: ProgramOptions): ChildProcess {
  const { cwd, node = process.execPath, script = mainScript, nodeArgs = [], env = {} } = options
  return spawn(node, [...nodeArgs, script, ...args], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

const streams = ['stdout', 'stderr'] as const
type Stream = (typeof streams)[number]

/** What a program has written so far. */
interface Written extends Pick<Program, 'log' | 'said'> {
  text(stream: Stream): string
  take(stream: Stream, text: string): void
  /** Nothing more will come. */
  end(): void
}

function keepWritten(): Written {
  const kept = {
    stdout: { text: '', rest: '', log: [] as LogLine[] },
    stderr: { text: '', rest: '', log: [] as LogLine[] },
  }
  const waiting = new Set<() => void>()
  let hasEnded = false
  const all = (): string => streams.map((stream) => `${stream}:\n${kept[stream].text}`).join('\n')
  const log = (): LogLine[] => streams.flatMap((stream) => kept[stream].log)

  function changed(): void {
    for (const search of waiting) search()
  }

  return {
    text: (stream) => kept[stream].text,
    take(stream, text) {
      const own = kept[stream]
      own.text += text
      const lines = (own.rest + text).split('\n')
      own.rest = lines.pop() ?? ''
      own.log.push(...lines.flatMap(parseLine))
      changed()
    },
    end() {
      hasEnded = true
      changed()
    },
    log,
    async said(event, fields = {}) {
      const found = Promise.withResolvers<LogLine>()
      const search = (): void => {
        const line = log().find((candidate) => isIt(candidate, event, fields))
        if (line !== undefined) found.resolve(line)
        else if (hasEnded) found.reject(new Error(`it ended, and never said: ${event}\n${all()}`))
      }
      waiting.add(search)
      search()
      try {
        return await within(found.promise, `the log line "${event}" ${JSON.stringify(fields)}`, all)
      } finally {
        waiting.delete(search)
      }
    },
  }
}

/** Starts the program with these arguments; it is killed, if need be, when the test lets go of it. */
export function startProgram(args: readonly string[], options: ProgramOptions = {}): Program {
  const child = spawnProgram(args, options)
  const written = keepWritten()
  let end: Ended | undefined
  const closed = Promise.withResolvers<Ended>()
  const stdout = (): string => written.text('stdout')
  const stderr = (): string => written.text('stderr')

  for (const stream of streams) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      written.take(stream, text)
    })
  }
  child.once('close', (code, signal) => {
    end = { code, signal, stdout: stdout(), stderr: stderr() }
    closed.resolve(end)
    written.end()
  })

  return {
    pid: child.pid ?? 0,
    stdout,
    stderr,
    log: written.log,
    said: written.said,
    kill(signal) {
      child.kill(signal)
    },
    deafen(stream) {
      child[stream]?.destroy()
    },
    stall(stream) {
      child[stream]?.pause()
      return () => child[stream]?.resume()
    },
    ended: () => within(closed.promise, 'the end of the program', () => `${stdout()}\n${stderr()}`),
    async [Symbol.asyncDispose]() {
      if (end === undefined) child.kill('SIGKILL')
      await closed.promise
    },
  }
}

const slots = pLimit(processesAtOnce)

/** Runs the program to its end. Waits for its turn when many are asked for at once. */
export function runProgram(args: readonly string[], options: ProgramOptions = {}): Promise<Ended> {
  return slots(async () => {
    await using program = startProgram(args, options)
    return await program.ended()
  })
}

/** What is asked of a daemon that listens. */
interface Listening {
  /** Origin of its ops server. */
  readonly url: string
  metrics(): Promise<DaemonMetrics>
}

export interface Daemon extends Program, Listening {}

/** Of `run` with its ops server on a free port of this host. */
export const ofDaemon = {
  RECONCILER_SERVER_HOST: '127.0.0.1',
  RECONCILER_SERVER_PORT: '0',
  RECONCILER_LOG_LEVEL: 'debug',
}

/** Resolves when it listens. */
async function listening({ said }: Pick<Program, 'said'>): Promise<Listening> {
  const { port } = await said('daemon_started')
  const url = `http://127.0.0.1:${String(port)}`
  return {
    url,
    async metrics() {
      const samples = parseSamples((await get(`${url}/metrics`)).body)
      return { samples, sum: (name, labels) => sumOf(samples, metricPrefix + name, labels) }
    },
  }
}

/** Starts `run`, and waits until it listens. */
export async function startDaemon(
  env: Readonly<Record<string, string>>,
  options: Omit<ProgramOptions, 'env'> = {},
): Promise<Daemon> {
  const program = startProgram(['run'], { ...options, env: { ...ofDaemon, ...env } })
  try {
    return Object.assign(program, await listening(program))
  } catch (error) {
    await program[Symbol.asyncDispose]()
    throw error
  }
}

export type DaemonHere = Pick<Program, 'log' | 'said'> & Listening & AsyncDisposable

/** The same in this process, in a tenth of the time: for commands beside a daemon. */
export async function startDaemonHere(env: Readonly<Record<string, string>>): Promise<DaemonHere> {
  const written = keepWritten()
  const stop = new AbortController()
  const onOut = (text: string): void => {
    written.take('stdout', text)
  }
  const running = runCommand(['run'], { env: { ...ofDaemon, ...env }, signal: stop.signal, onOut }).finally(written.end)
  const end = async (): Promise<void> => {
    stop.abort(new Error('SIGTERM'))
    await running
  }
  try {
    return { ...(await listening(written)), log: written.log, said: written.said, [Symbol.asyncDispose]: end }
  } catch (error) {
    await end()
    throw error
  }
}

export interface DaemonMetrics {
  samples: Samples
  /** Sum of the series of one of our metrics, named without its prefix, whose labels contain these. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number
}

export async function get(url: string): Promise<{ status: number; headers: object; body: string }> {
  const response = await within(fetch(url), `GET ${url}`)
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
}

export interface Folder extends AsyncDisposable {
  readonly path: string
  /** Writes a file into it; its path. */
  write(name: string, text: string): Promise<string>
}

/** A temporary folder, removed with all that is in it when the test lets go of it. */
export async function makeFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'webhook-reconciler-e2e-'))
  return {
    path,
    async write(name, text) {
      await mkdir(dirname(join(path, name)), { recursive: true })
      await writeFile(join(path, name), text)
      return join(path, name)
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}
