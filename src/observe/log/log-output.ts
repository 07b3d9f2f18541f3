// The daemon's output with a bounded queue: a blocked pipe neither stops retries nor fills memory. Lines that exceed the queue or cannot be written are dropped and counted.

export interface DropListener {
  /** Called for each dropped line. */
  dropped(): void
  /** Called before the next line is written, with the number of dropped lines. */
  resumed(lines: number): void
}

export interface LogOutput {
  /** Writes a line without waiting. */
  write(line: string): void
  listen(listener: DropListener): void
}

/** A stream such as process.stdout: a pipe is written asynchronously, and keeps unread data in memory. */
export interface QueueingStream {
  write(text: string, done: (error?: Error | null) => void): unknown
  /** Bytes waiting to be written; absent if writes never queue. */
  readonly writableLength?: number | undefined
}

/** Thousands of lines, at about 300 bytes each. */
const maxQueued = 1_048_576

/**
 * After a drop, writing resumes once half of the queue is free: a slow reader sees a few long gaps instead of many short ones.
 */
export function createLogOutput(stream: QueueingStream): LogOutput {
  let listener: DropListener | undefined
  let dropped = 0
  /** True from a failed write, as on a full disk, until the next successful one. */
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
