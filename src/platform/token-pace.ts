// When the next token request may go out: a hard limit on failed tries, a backoff on top of it.
import type { Clock, Random } from '../runtime/clock.ts'

/** At most so many events in any window; all times on the monotonic clock, in ms. */
export interface Budget {
  note(at: number): void
  /** From when on one more is allowed. */
  openAt(): number
}

/** Remembers the last `limit` events only. */
export function createBudget(limit: number, windowMs: number): Budget {
  const noted: number[] = []
  return {
    note(at) {
      noted.push(at)
      if (noted.length > limit) noted.shift()
    },
    openAt() {
      const oldest = noted[0]
      return oldest === undefined || noted.length < limit ? -Infinity : oldest + windowMs
    },
  }
}

export interface Pace {
  /** From when on, on the monotonic clock, the next request may go out. */
  openAt(): number
  /** True when one more try is allowed at once, backoff or not, within the hard limit. */
  allowsOneMore(): boolean
  /** A try failed. `retryAfterMs`: the server asked for this pause. */
  failed(retryAfterMs: number | undefined): void
  succeeded(): void
  /** A token was found to be void. */
  voided(): void
  /** Something has changed that may help: ends the backoff, but neither the hard limit nor a pause that the server asked for. */
  hurry(): void
}

const maxFailures = 2
const maxVoids = 10
const windowMs = 30_000
const firstDelayMs = 1000
const maxDelayMs = 300_000

/**
 * At most 2 failed tries in any 30 s whatever happens, and full jitter from 1 s doubling to 5 min (design section 6).
 * Also at most 10 voided tokens in any 30 s: a platform that issues tokens and refuses them would make us ask for ever.
 */
export function createPace(clock: Clock, random: Random): Pace {
  const failures = createBudget(maxFailures, windowMs)
  const voids = createBudget(maxVoids, windowMs)
  let inARow = 0
  let backoffUntil = -Infinity
  let pauseUntil = -Infinity

  return {
    openAt: () => Math.max(failures.openAt(), voids.openAt(), backoffUntil, pauseUntil),
    allowsOneMore: () => Math.max(failures.openAt(), voids.openAt(), pauseUntil) <= clock.monotonic(),
    failed(retryAfterMs) {
      const now = clock.monotonic()
      failures.note(now)
      backoffUntil = now + random.next() * Math.min(maxDelayMs, firstDelayMs * 2 ** inARow)
      pauseUntil = now + (retryAfterMs ?? 0)
      inARow += 1
    },
    succeeded() {
      inARow = 0
      backoffUntil = -Infinity
      pauseUntil = -Infinity
    },
    voided() {
      voids.note(clock.monotonic())
    },
    hurry() {
      inARow = 0
      backoffUntil = -Infinity
    },
  }
}
