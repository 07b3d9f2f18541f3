// Shows how the backlog goes down: one live line on a terminal, a plain line every second elsewhere.
import type { Output } from '../cli/io.ts'

export interface ProgressState {
  /** What is left to do. */
  open: number
  parked: number
  elapsedMs: number
}

export interface Progress {
  show(state: ProgressState): void
  end(): void
}

const barWidth = 30
const plainEveryMs = 1000

function bar(part: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, part)) * barWidth)
  return `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)}`
}

/** `total` is what there is to do. */
export function createProgress(output: Output, total: number): Progress {
  const isLive = output.isTTY === true
  let shownAt = -Infinity

  function line({ open, parked, elapsedMs }: ProgressState): string {
    const done = Math.max(0, total - open)
    const seconds = (elapsedMs / 1000).toFixed(1).padStart(5)
    return `${seconds} s  ${bar(done / total)}  ${done} of ${total} done, ${open} open, ${parked} parked`
  }

  return {
    show(state) {
      if (!isLive && state.elapsedMs - shownAt < plainEveryMs) return
      shownAt = state.elapsedMs
      // On a terminal the line is written over itself.
      output.write(isLive ? `\r${line(state)}\u001b[K` : `${line(state)}\n`)
    },
    end() {
      if (isLive) output.write('\n')
    },
  }
}
