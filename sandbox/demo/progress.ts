// Shows what happens, and how the backlog goes down: a line for each event, and one live line on a terminal or a plain one every second elsewhere.

export interface Output {
  write(text: string): unknown
  /** True on a terminal. */
  isTTY?: boolean | undefined
  columns?: number | undefined
}

export interface ProgressState {
  /** What is left to do. */
  open: number
  /** Retried, and the outcome is not known yet. */
  awaiting: number
  /** What the circuit does, in words. */
  circuit: string
  elapsedMs: number
}

export interface Progress {
  show(state: ProgressState): void
  /** Tells an event, in a line of its own that stays. */
  say(text: string, elapsedMs: number): void
  end(): void
}

const barWidth = 14
const plainEveryMs = 1000
/** Of a terminal that does not tell its width, or tells none. */
const usualColumns = 80

function bar(part: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, part)) * barWidth)
  return `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)}`
}

function timed(elapsedMs: number, text: string): string {
  return `${(elapsedMs / 1000).toFixed(1).padStart(5)} s  ${text}`
}

/** `total` is what there is to do. */
export function createProgress(output: Output, total: number): Progress {
  const isLive = output.isTTY === true
  const told = output.columns ?? 0
  const columns = told > 0 ? told : usualColumns
  let shownAt = -Infinity
  let live = ''

  function line({ awaiting, circuit, elapsedMs, open }: ProgressState): string {
    const done = Math.max(0, total - open)
    return timed(elapsedMs, `${bar(done / total)}  ${done} of ${total} done · ${awaiting} awaited · circuit ${circuit}`)
  }

  /** Over itself; one that is longer than the terminal is wide would leave a part of it behind each time. */
  function draw(): void {
    output.write(`\r${live.slice(0, columns - 1)}\u001b[K`)
  }

  return {
    show(state) {
      if (isLive) {
        live = line(state)
        draw()
      } else if (state.elapsedMs - shownAt >= plainEveryMs) {
        shownAt = state.elapsedMs
        output.write(`${line(state)}\n`)
      }
    },
    say(text, elapsedMs) {
      output.write(`${isLive ? '\r' : ''}${timed(elapsedMs, text)}${isLive ? '\u001b[K' : ''}\n`)
      if (isLive && live !== '') draw()
    },
    end() {
      if (isLive && live !== '') output.write('\n')
    },
  }
}
