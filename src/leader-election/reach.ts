// Counts consecutive sweeps without a response: an instance that cannot reach the platform leaves the lease to another one, which may.
import type { Reason } from '../platform/http/http.ts'
import type { Clock } from '../runtime/clock.ts'
import type { UnansweredSweep } from './leadership.ts'

/** This many consecutive sweeps without a response show that this instance cannot reach the platform. */
const maxUnanswered = 3
/** Minimum time between two such ends of a term, so that unconnected instances do not pass the lease around. */
const minBetweenGivingMs = 600_000
/** Time for the lease to expire, and for another instance to take it, in multiples of leaseDuration. */
const abstainFactor = 2
const noResponse: ReadonlySet<Reason> = new Set(['connection', 'timeout', 'tls'])

export interface Reach {
  /** Counts a sweep; returns why to leave the lease to another instance now, if at all. */
  swept(result: UnansweredSweep): string | undefined
  /** True while another instance should take the lease. */
  isAbstaining(): boolean
  /** Why it was last left, while that keeps it from being left again, and until a sweep gets a response. */
  problem(): string | undefined
}

export function createReach(clock: Pick<Clock, 'monotonic'>, leaseDurationMs: number): Reach {
  /** In a row, of all terms. */
  let unanswered = 0
  /** When it was last left; monotonic ms. */
  let givenAt = -Infinity
  let given: string | undefined
  const isRecent = (ms: number): boolean => clock.monotonic() < givenAt + ms
  return {
    swept(result) {
      if (result === undefined || !noResponse.has(result.reason)) {
        unanswered = 0
        given = undefined
        return undefined
      }
      unanswered += 1
      if (unanswered < maxUnanswered || isRecent(minBetweenGivingMs)) return undefined
      given = `${unanswered} sweeps in a row got no response (${result.code ?? result.reason}): ${result.advice}`
      givenAt = clock.monotonic()
      return given
    },
    isAbstaining: () => isRecent(abstainFactor * leaseDurationMs),
    problem: () => (isRecent(minBetweenGivingMs) ? given : undefined),
  }
}
