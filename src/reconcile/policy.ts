// The policy: sections of the configuration as they are, for the reconcile functions. Durations in ms.

/** Backoff between two retries of one record. */
export interface BackoffPolicy {
  initial: number
  multiplier: number
  max: number
  /** 0 to 1: the maximum share of a delay that the jitter cuts. */
  jitter: number
}

/** The records to retry. An empty list selects all. */
export interface Selection {
  eventTypes: readonly string[]
  modules: readonly string[]
  /** Lower case. */
  subscriptionIds: readonly string[]
}

export interface WindowPolicy {
  lookback: number
  settle: number
  /** Epoch ms: older events are never retried. */
  notBefore?: number | undefined
  /** A failed record that leaves the window sooner than this is expiring. */
  expiryWarning: number
}

/** How an outcome is checked. @see confirm/evidence.ts */
export interface OutcomePolicy {
  /** From the PATCH to the first check; each next check comes twice as late. */
  firstCheck: number
  /** A check after this time without a final outcome makes it unknown. */
  giveUpAfter: number
  /** `circuit.probeTimeout`: a check after this time without an outcome frees the retry's place in its circuit. */
  probeTimeout: number
}

export interface Policy {
  window: WindowPolicy
  select: Selection
  backoff: BackoffPolicy
  /** A record with this many attempts is exhausted. */
  maxAttempts: number
  outcome: OutcomePolicy
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
}

/** Records with a younger event are recent: they are listed more often, and have lanes of their own. */
export const recentMs = 3_600_000
