// Sweeps in a row without any response: an instance that cannot reach the platform gives the lease away, as another one may.
import type { Reason } from '../platform/http/http.ts'
import type { Clock } from '../runtime/clock.ts'
import type { UnansweredSweep } from './leadership.ts'

/** So many sweeps in a row without any response show that this instance cannot reach the platform. */
const maxUnanswered = 3
/** So that instances that all cannot reach it don't pass the lease around. */
const minBetweenGivingMs = 600_000
/** In which another instance takes the lease that was given away; in numbers of leaseDuration. */
const abstainFactor = 2
const noResponse: ReadonlySet<Reason> = new Set(['connection', 'timeout', 'tls'])

export interface Reach {
  /** A new term: its sweeps count from the first. */
  begin(): void
  /** Counts a sweep; why the lease is to be given away now, if it is. */
  swept(result: UnansweredSweep, isLeading: boolean): string | undefined
  /** True while another instance is to take the lease. */
  isAbstaining(): boolean
  /** Why it was last given away. */
  problem(): string | undefined
}

export function createReach(clock: Pick<Clock, 'monotonic'>, leaseDurationMs: number): Reach {
  let unanswered = 0
  /** When it was last given away, and why; monotonic ms. */
  let given: { problem: string; at: number } | undefined
  return {
    begin() {
      unanswered = 0
    },
    swept(result, isLeading) {
      unanswered = result !== undefined && noResponse.has(result.reason) ? unanswered + 1 : 0
      const { at = -Infinity } = given ?? {}
      const isDue = unanswered >= maxUnanswered && clock.monotonic() >= at + minBetweenGivingMs
      if (result === undefined || !isDue || !isLeading) return undefined
      const problem = `${unanswered} sweeps in a row got no response (${result.code ?? result.reason}): ${result.advice}`
      given = { problem, at: clock.monotonic() }
      return problem
    },
    isAbstaining: () => given !== undefined && clock.monotonic() < given.at + abstainFactor * leaseDurationMs,
    problem: () => given?.problem,
  }
}
