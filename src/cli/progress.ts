// One line on a terminal's stderr that changes while something long goes on; nothing at all where there is no terminal.
import type { Clock } from '../runtime/clock.ts'
import type { Output } from './io.ts'

export interface Progress {
  /** Shows this in place of what stood there. The text is asked for only when it is shown. */
  show(text: () => string): void
  /** Takes the line away. */
  clear(): void
  /** The same stream for whole lines of others, which go above the line. */
  output: Output
}

const leastBetweenMs = 100
const defaultColumns = 80
const takeAway = '\r\u001b[K'

export function createProgress(stream: Output, clock: Pick<Clock, 'monotonic'>): Progress {
  let shownAt = -Infinity
  let standing = false

  function clear(): void {
    if (standing) stream.write(takeAway)
    standing = false
  }

  return {
    show(text) {
      const now = clock.monotonic()
      if (stream.isTTY !== true || now - shownAt < leastBetweenMs) return
      shownAt = now
      standing = true
      stream.write(takeAway + text().slice(0, (stream.columns ?? defaultColumns) - 1))
    },
    clear,
    output: {
      write(text) {
        clear()
        return stream.write(text)
      },
      isTTY: stream.isTTY,
      columns: stream.columns,
    },
  }
}

/** `[######··············]` for a share of 0 to 1. */
export function bar(share: number, width = 20): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width)
  return `[${'#'.repeat(full)}${'.'.repeat(width - full)}]`
}
