// Counts consecutive sweeps without a response: an instance that cannot reach the platform releases the lease to one that may.
import type { Reason } from '../platform/http/http.ts'
import type { Clock } from '../runtime/clock.ts'
import type { UnansweredSweep } from './leadership.ts'

/** This many consecutive sweeps without a response show that this instance cannot reach the platform. */
const maxUnanswered = 3
/** Minimum time between two releases, so that unconnected instances do not pass the lease around. */
const minBetweenGivingMs = 600_000
/** Time for another instance to take the released lease, in multiples of leaseDuration. */
const abstainFactor = 2
const noResponse: ReadonlySet<Reason> = new Set(['connection', 'timeout', 'tls'])

export interface Reach {
  /** Starts a new term: its sweeps are counted from zero. */
  begin(): void
  /** Counts a sweep; returns why to release the lease now, if at all. */
  swept(result: UnansweredSweep, isLeading: boolean): string | undefined
  /** True while another instance should take the lease. */
  isAbstaining(): boolean
  /** Why it was last released, while that keeps it from being released again. */
  problem(): string | undefined
}

export function createReach(clock: Pick<Clock, 'monotonic'>, leaseDurationMs: number): Reach {
  let unanswered = 0
  /** When it was last released; monotonic ms. */
  let givenAt = -Infinity
  let given: string | undefined
  const isRecent = (ms: number): boolean => clock.monotonic() < givenAt + ms
  return {
    begin() {
      unanswered = 0
    },
    swept(result, isLeading) {
      unanswered = result !== undefined && noResponse.has(result.reason) ? unanswered + 1 : 0
      const isDue = unanswered >= maxUnanswered && !isRecent(minBetweenGivingMs)
      if (result === undefined || !isDue || !isLeading) return undefined
      given = `${unanswered} sweeps in a row got no response (${result.code ?? result.reason}): ${result.advice}`
      givenAt = clock.monotonic()
      return given
    },
    isAbstaining: () => isRecent(abstainFactor * leaseDurationMs),
    problem: () => (isRecent(minBetweenGivingMs) ? given : undefined),
  }
}
