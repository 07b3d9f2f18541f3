// What the operator decided, in the units that the reconcile functions use. Made once from the configuration.

/** Backoff between two retries of one record. */
export interface BackoffPolicy {
  initialMs: number
  multiplier: number
  maxMs: number
  /** 0 to 1: the part of a delay that the jitter may take away. */
  jitter: number
}

/** Which records are ours to retry. An empty list selects all. */
export interface Selection {
  eventTypes: readonly string[]
  modules: readonly string[]
  /** Lower case. */
  subscriptionIds: readonly string[]
}

export interface WindowPolicy {
  lookbackMs: number
  settleMs: number
  /** Epoch ms: nothing older is ever touched. */
  notBefore: number | undefined
}

export interface Policy {
  window: WindowPolicy
  select: Selection
  backoff: BackoffPolicy
  /** A record with this many attempts is parked. */
  maxAttempts: number
  /** False: observe, touch nothing. */
  enabled: boolean
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
}

/** Records whose event is younger than this are fresh: they are listed more often and have turns of their own. */
export const freshMs = 3_600_000
