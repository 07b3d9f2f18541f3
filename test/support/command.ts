// Runs one command line in this process, with streams, environment, terminal and signal of its own.
import { Readable } from 'node:stream'
import { main } from '../../src/cli/program.ts'
import { systemClock, systemRandom, type Clock } from '../../src/runtime/clock.ts'
import type { ExitCode } from '../../src/runtime/errors.ts'
import { isSameFile, openInput, openOutput, writtenAt } from '../../src/runtime/files.ts'
import { readSmallText } from '../../src/runtime/small-file.ts'

export interface Ran {
  code: ExitCode
  out: string
  err: string
  /** What was asked at the terminal. */
  questions: string[]
}

export interface CommandOptions {
  env?: Readonly<Record<string, string | undefined>>
  /** Sits at the terminal and answers so; without it there is no terminal. */
  answer?: string | (() => Promise<string | undefined>)
  /** True for a terminal behind stdout and stderr. */
  isTTY?: boolean
  columns?: number
  /** Of the container, in bytes. Default: none. */
  memoryLimit?: number
  signal?: AbortSignal
  /** Default: the system's. */
  clock?: Clock
  /** Standard input. Default: it is empty. */
  input?: AsyncIterable<Uint8Array>
  /** Called with all that is written to stdout at once. */
  onOut?: (text: string) => void
}

/** What was written as one JSON document per line. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return Array.from(text.matchAll(/.+/g), ([line]) => JSON.parse(line) as Record<string, unknown>)
}

export async function runCommand(args: readonly string[], options: CommandOptions = {}): Promise<Ran> {
  const { answer, columns, env = {}, isTTY } = options
  let [out, err] = ['', '']
  const questions: string[] = []
  async function ask(question: string): Promise<string | undefined> {
    questions.push(question)
    return typeof answer === 'function' ? answer() : answer
  }
  const code = await main(args, {
    stdout: {
      write(text) {
        out += text
        options.onOut?.(text)
      },
      isTTY,
      columns,
    },
    stderr: {
      write(text) {
        err += text
      },
      isTTY,
      columns,
    },
    env,
    hostName: 'test',
    identity: { instance: 'test' },
    nodeVersion: process.version,
    version: '0.0.0',
    clock: options.clock ?? systemClock,
    random: systemRandom,
    memoryLimit: options.memoryLimit,
    readFile: readSmallText,
    openInput: (path) => (path === '-' ? (options.input ?? Readable.from([])) : openInput(path)),
    writtenAt: (path) => (path === '-' ? undefined : writtenAt(path)),
    isSameFile,
    openOutput,
    ask: answer === undefined ? undefined : ask,
    signal: options.signal ?? new AbortController().signal,
    onOutputLost: () => undefined,
  })
  return { code, out, err, questions }
}
