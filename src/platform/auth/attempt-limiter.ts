// Limits failing token requests: a budget, a backoff and the server's Retry-After. @see docs/architecture.md "Access token"
import type { Clock, Random } from '../../runtime/clock.ts'

const maxFailures = 2
/** At most `maxFailures` tries fail in any such span, except those for which the server named a pause. */
const failureWindowMs = 30_000
const firstDelayMs = 1000
/** A rejection needs a person; after any other failure the next token is wanted soon. */
const maxDelayMs = { rejected: 300_000, transient: 60_000 }

export interface AttemptLimiter {
  /** Time on the monotonic clock from which the next request may be sent. */
  openAt(): number
  /** Notes a failed try. `retryAfterMs`: the pause that the server asked for, which limits the tries instead of the budget. */
  failed(kind: 'rejected' | 'transient', retryAfterMs: number | undefined): void
  /** Takes one failure from the budget, without a backoff. */
  spend(): void
  /** Ends the backoff and the server's pause, after a token, a key change, a clock correction or an operator's probe. */
  reset(): void
}

/** At most 2 failures in any 30 s, not counting those with a Retry-After; full jitter from 1 s, doubling to 1 min, or 5 min if rejected. */
export function createAttemptLimiter(clock: Clock, random: Random): AttemptLimiter {
  let failures: number[] = []
  let failedInARow = 0
  let waitsUntil = -Infinity

  const budgetAt = (): number => (failures.at(-maxFailures) ?? -Infinity) + failureWindowMs

  function spend(): void {
    failures = [...failures, clock.monotonic()].slice(-maxFailures)
  }

  return {
    openAt: () => Math.max(budgetAt(), waitsUntil),
    failed(kind, retryAfterMs) {
      if (retryAfterMs === undefined) spend()
      const backoffMs = random.next() * Math.min(maxDelayMs[kind], firstDelayMs * 2 ** failedInARow)
      waitsUntil = clock.monotonic() + Math.max(backoffMs, retryAfterMs ?? 0)
      failedInARow += 1
    },
    spend,
    reset() {
      failedInARow = 0
      waitsUntil = -Infinity
    },
  }
}
