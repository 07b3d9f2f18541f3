// The policy of the reconcile functions: configured values and constants. Durations in ms.
import type { CircuitPolicy } from './retry/circuit-breaker.ts'

/** Backoff between two retries of one record. */
export interface BackoffPolicy {
  initial: number
  max: number
}

/** The records to retry. An empty list selects all. */
export interface Selection {
  eventTypes: readonly string[]
  /** Lower case. */
  subscriptionIds: readonly string[]
}

/** Lists may lag behind by so much. */
export const maxLagMs = 300_000

export interface WindowPolicy {
  lookback: number
  settle: number
  /** Epoch ms: older events are excluded. */
  notBefore?: number | undefined
}

/** How outcomes are checked. @see confirm/evidence.ts */
export interface OutcomePolicy {
  /** A check after this time without a final outcome makes it unknown. */
  giveUpAfter: number
}

export interface SweepPolicy {
  /** Approximate number of records in a slice, the part of the window that is listed at once. */
  sliceRecords: number
  /** Pages requested at the same time. */
  concurrency: number
}

export interface Policy {
  window: WindowPolicy
  select: Selection
  backoff: BackoffPolicy
  /** A record with this many attempts is exhausted. */
  maxAttempts: number
  outcome: OutcomePolicy
  circuit: CircuitPolicy
  sweep: SweepPolicy
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
}

/** More slices or pages at once would gain nothing: the rate is the limit. */
export const sweepNumbers: SweepPolicy = { sliceRecords: 4000, concurrency: 4 }

/** Records of younger events are recent: they are listed more often, and have lanes of their own. */
export const recentMs = 3_600_000
