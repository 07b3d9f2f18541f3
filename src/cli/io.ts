// The process as a command sees it: streams, environment, time, shutdown signal. Made in src/main.ts, faked in tests.
import type { Clock, Random } from '../runtime/clock.ts'
import { UsageError } from '../runtime/errors.ts'

export interface Output {
  write(text: string): unknown
  /** True on a terminal. */
  isTTY?: boolean | undefined
  columns?: number | undefined
  /** Bytes that wait to be written; absent where nothing can wait. */
  readonly writableLength?: number | undefined
}

export interface Io {
  stdout: Output
  stderr: Output
  env: Readonly<Record<string, string | undefined>>
  hostName: string
  /** Name in the line of a crash: the host's until the configuration is read, then the instance's. */
  identity: { instance: string }
  nodeVersion: string
  /** Version of this package. */
  version: string
  clock: Clock
  random: Random
  /** Bytes that the container may use; absent without a limit. */
  memoryLimit?: number | undefined
  /** UTF-8 text of a small regular file, without blocking; throws as node:fs does, or FileRefusal. */
  readFile: (path: string) => string
  /** A file's bytes as they come, `-` for standard input; rejects as node:fs does. */
  openInput: (path: string) => AsyncIterable<Uint8Array>
  /** When a file was last written, epoch ms; undefined for `-`; throws as node:fs does. */
  writtenAt: (path: string) => number | undefined
  /** Whether two paths are one file. */
  isSameFile: (a: string, b: string) => boolean
  /**
   * A file that takes the place of an old one when it is closed as whole; throws as node:fs does. A private one is a file that its
   * owner alone may read, whatever the old one was.
   */
  openOutput: (path: string, options?: { isPrivate?: boolean }) => Output & { close(isWhole: boolean): void }
  /**
   * Asks the person at the terminal: returns the line that was typed, undefined when none came. Absent without a terminal.
   * Rejects with the signal's reason.
   */
  ask?: ((question: string, signal: AbortSignal) => Promise<string | undefined>) | undefined
  /** Aborted by the first SIGTERM or SIGINT. */
  signal: AbortSignal
  /** Called in place of the program's end when stdout can't be written any more. */
  onOutputLost: (listener: () => void) => void
}

/** Bytes that may wait for a slow reader, and how often they are looked at. */
const [maxWaiting, drainMs] = [1024 * 1024, 20]

/** Waits while a slow reader leaves much unread. */
export async function drained(output: Output, { clock, signal }: Pick<Io, 'clock' | 'signal'>): Promise<void> {
  while ((output.writableLength ?? 0) > maxWaiting) await clock.sleep(drainMs, signal)
}

/** An unusable file is a usage error. */
export function asUsage(error: unknown, file: string, outputs: readonly (string | undefined)[]): unknown {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return error
  const path = 'path' in error ? String(error.path) : file
  // An output is written beside its place.
  const output = outputs.find((one) => one !== undefined && path.startsWith(one))
  return new UsageError(
    `${output ?? path} can't be ${output === undefined ? 'read' : 'written'}: ${String(error.code)}`,
  )
}
