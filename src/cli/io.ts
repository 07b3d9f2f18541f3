// The process from a command's view: streams, environment, time, shutdown signal. Created in src/main.ts, faked in tests.
import type { Clock, Random } from '../runtime/clock.ts'
import { UsageError } from '../runtime/errors.ts'

export interface Output {
  write(text: string): unknown
  isTTY?: boolean | undefined
  columns?: number | undefined
  /** Bytes waiting to be written; absent if writes never queue. */
  readonly writableLength?: number | undefined
}

/** What the commands get. */
export interface Io extends ProcessIo {
  /** Shows the progress of long work in place of the last one, on a terminal. The text is computed only when shown. */
  progress: (text: () => string) => void
}

export interface ProcessIo {
  stdout: Output
  stderr: Output
  env: Readonly<Record<string, string | undefined>>
  hostName: string
  /** Instance name in a crash line: the host's until the configuration is read. */
  identity: { instance: string }
  nodeVersion: string
  version: string
  clock: Clock
  random: Random
  /** Memory limit of the container, bytes; absent without one. */
  memoryLimit?: number | undefined
  /** UTF-8 text of a small regular file, read without blocking; throws as node:fs does, or FileRefusal. */
  readFile: (path: string) => string
  /** Streams a file, or standard input for `-`; throws or rejects as node:fs does, and rejects when the signal is aborted. */
  openInput: (path: string) => AsyncIterable<Uint8Array>
  /** Modification time of a regular file, epoch ms; undefined for a pipe, as `-`; throws as node:fs does. */
  writtenAt: (path: string) => number | undefined
  isSameFile: (a: string, b: string) => boolean
  /**
   * A file that replaces the old one when it is closed complete; throws as node:fs does. Only its owner may read a private one.
   */
  openOutput: (path: string, options?: { isPrivate?: boolean }) => Output & { close(isWhole: boolean): void }
  /**
   * Prompts on the terminal and returns the typed line; undefined at end of input. Absent without a terminal. Rejects with the
   * signal's reason.
   */
  ask?: ((question: string, signal: AbortSignal) => Promise<string | undefined>) | undefined
  /** Aborted by the first SIGTERM or SIGINT. */
  signal: AbortSignal
  /** Called when stdout can't be written any more, instead of ending the program. */
  onOutputLost: (listener: () => void) => void
}

/** Bytes that may wait for a slow reader, and the poll interval. */
const [maxWaiting, drainMs] = [1024 * 1024, 20]

/** Waits while a slow reader has much to read. */
export async function drained(output: Output, { clock, signal }: Pick<Io, 'clock' | 'signal'>): Promise<void> {
  while ((output.writableLength ?? 0) > maxWaiting) await clock.sleep(drainMs, signal)
}

export function asUsage(error: unknown, file: string, outputs: readonly (string | undefined)[]): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error
  const path = 'path' in error ? String(error.path) : file
  return new UsageError(`${path} can't be ${outputs.includes(path) ? 'written' : 'read'}: ${String(error.code)}`)
}
