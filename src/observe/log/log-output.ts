// The daemon's output with a bounded queue: a pipe without a reader neither stops retries nor fills memory. Lines beyond the bound, and those that could not be written, are dropped and counted.

export interface DropListener {
  /** Called for each line that is dropped. */
  dropped(): void
  /** Called before the next line that is written, with the number of dropped lines. */
  resumed(lines: number): void
}

export interface LogOutput {
  /** Takes a line; never waits. */
  write(line: string): void
  /** Sets the listener for dropped lines. */
  listen(listener: DropListener): void
}

/** A stream such as process.stdout: a pipe is written asynchronously, and unread data is kept in memory. */
export interface QueueingStream {
  write(text: string, done: (error?: Error | null) => void): unknown
  /** Bytes that wait to be written; absent where nothing can wait. */
  readonly writableLength?: number | undefined
}

/** At about 300 bytes a line, some thousands of lines. */
const maxQueued = 1_048_576

/** After a drop, lines are written again once half of the queue is free: a slow reader gets a few long gaps, not many short ones. */
export function createLogOutput(stream: QueueingStream): LogOutput {
  let listener: DropListener | undefined
  let dropped = 0
  /** True from a line that could not be written, as on a full disk, to the next one that could. */
  let isFailing = false

  function drop(): void {
    dropped += 1
    listener?.dropped()
  }

  function onWritten(error?: Error | null): void {
    isFailing = error != null
    if (isFailing) drop()
  }

  return {
    write(line) {
      const isFull = (stream.writableLength ?? 0) > (dropped > 0 ? maxQueued / 2 : maxQueued)
      if (isFull) {
        drop()
        return
      }
      if (dropped > 0 && !isFailing) {
        const lines = dropped
        dropped = 0
        listener?.resumed(lines)
      }
      stream.write(line, onWritten)
    },
    listen(given) {
      listener = given
    },
  }
}
