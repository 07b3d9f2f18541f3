// The daemon's output: a pipe that nobody reads must neither stop the retries nor fill the memory, so lines beyond a bound are dropped and counted.

export interface DropListener {
  /** Called for each line that is dropped. */
  dropped(): void
  /** Called before the next line that is written, with how many were dropped. */
  resumed(lines: number): void
}

export interface LogOutput {
  /** Takes a line; never waits. */
  write(line: string): void
  /** Who is told of lines that are dropped. */
  listen(listener: DropListener): void
}

/** A stream such as process.stdout: a pipe is written asynchronously, and what its reader has not taken is kept in memory. */
export interface QueueingStream {
  write(text: string): unknown
  /** What waits to be written; absent where nothing can wait. */
  readonly writableLength?: number | undefined
}

/** At about 300 bytes a line, some thousands of lines. */
const maxQueued = 1_048_576

/** Once a line was dropped, lines are written again when half of the queue is gone: a slow reader gets few gaps, not many. */
export function createLogOutput(stream: QueueingStream): LogOutput {
  let listener: DropListener | undefined
  let dropped = 0

  return {
    write(line) {
      const isFull = (stream.writableLength ?? 0) > (dropped > 0 ? maxQueued / 2 : maxQueued)
      if (isFull) {
        dropped += 1
        listener?.dropped()
        return
      }
      const lines = dropped
      dropped = 0
      if (lines > 0) listener?.resumed(lines)
      stream.write(line)
    },
    listen(given) {
      listener = given
    },
  }
}
