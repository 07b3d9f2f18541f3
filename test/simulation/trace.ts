// Everything that happened in a run: the last of it as text for people, all of it as one hash to compare runs by.
import { createHash } from 'node:crypto'

/**
 * What must never be otherwise:
 * - `waits`: nothing that is due and free to go waits for more than 45 s, longer where the backlog is full; and after the last
 *   trouble all that can be recovered is, within a bounded time;
 * - `premature`: no retry before it is due as of what was shown, none of a record whose outcome is awaited, never two of
 *   one record in flight, none in a list that is being read;
 * - `limits`: retries in flight, calls per second, waits that were asked for, failed tries to get a token;
 * - `dead-receiver`: a dead receiver gets, for each subscription, at most `2 * initialLimit - 1` deliveries before the
 *   first pause of that subscription, then one per pause;
 * - `untrue`: `recovered` is reported only of what the platform holds as successful, `failed-again` only after two checks
 *   at least two seconds apart;
 * - `bounds`: what is held in memory;
 * - `books`: what was accepted or lost is recovered, failed again, unknown or awaited; metrics say what happened;
 * - `said`: the page, its notices, gauges and alerts say what is so;
 * - `alive`: no bug ends the daemon, its loops turn, it ends when asked to and leaves nothing behind.
 */
export type Invariant =
  'waits' | 'premature' | 'limits' | 'dead-receiver' | 'untrue' | 'bounds' | 'books' | 'said' | 'alive'

export interface Violation {
  invariant: Invariant
  what: string
  /** ms since the start. */
  at: number
}

export interface Trace {
  note(what: string): void
  /** The first one counts: what comes after it may be its consequence. */
  violate(invariant: Invariant, what: string): void
  violation(): Violation | undefined
  /** The last lines, oldest first. */
  last(): readonly string[]
  /** Ends the trace. */
  digest(): string
}

const kept = 60

/** `tell` gets every line as it comes. */
export function createTrace(now: () => number, tell?: Trace['note']): Trace {
  const hash = createHash('sha256')
  let lines: string[] = []
  /** How many of them are in the hash. */
  let taken = 0
  let found: Violation | undefined

  function take(): void {
    hash.update(lines.slice(taken).join('\n'))
    taken = lines.length
  }

  function note(what: string): void {
    const line = `${(now() / 1000).toFixed(3)} ${what}`
    lines.push(line)
    if (lines.length > 10 * kept) {
      take()
      lines = lines.slice(-kept)
      taken = lines.length
    }
    tell?.(line)
  }

  return {
    note,
    violate(invariant, what) {
      if (found !== undefined) return
      found = { invariant, what, at: now() }
      note(`VIOLATION of "${invariant}": ${what}`)
    },
    violation: () => found,
    last: () => lines.slice(-kept),
    digest() {
      take()
      return hash.digest('hex')
    },
  }
}
