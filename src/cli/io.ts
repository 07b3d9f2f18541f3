// What a command gets from the process: streams, environment, time, and the wish to stop. Made in src/main.ts, faked in tests.
import type { Clock, Random } from '../runtime/clock.ts'

export interface Output {
  write(text: string): unknown
  /** True on a terminal. */
  isTTY?: boolean | undefined
  columns?: number | undefined
  /** What waits to be written; absent where nothing can wait. */
  readonly writableLength?: number | undefined
}

export interface Io {
  stdout: Output
  stderr: Output
  env: Readonly<Record<string, string | undefined>>
  hostName: string
  /** What a crash line names: the host until the configuration has told the instance's name. */
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
  /**
   * Asks whoever sits at the terminal: the line that was typed, undefined when none came. Absent where nobody sits there.
   * Rejects with the signal's reason.
   */
  ask?: ((question: string, signal: AbortSignal) => Promise<string | undefined>) | undefined
  /** Aborted by the first SIGTERM or SIGINT. */
  signal: AbortSignal
  /** Called at SIGHUP. */
  onHangup: (listener: () => void) => void
  /** Called in place of the program's end when stdout can't be written any more. */
  onOutputLost: (listener: () => void) => void
}
