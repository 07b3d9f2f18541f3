// The policy: the operator's settings in the units of the reconcile functions. Made once from the configuration.

/** Backoff between two retries of one record. */
export interface BackoffPolicy {
  initialMs: number
  multiplier: number
  maxMs: number
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
  lookbackMs: number
  settleMs: number
  /** Epoch ms: older events are never retried. */
  notBefore: number | undefined
  /** A failed record that leaves the window sooner than this is expiring. */
  expiryWarningMs: number
}

/** How an outcome is checked. */
export interface OutcomePolicy {
  /** From the PATCH to the first check; each next check comes twice as late. */
  firstCheckMs: number
  /**
   * Time after which a second check confirms a failure. One is not enough: a server may lag behind the others, and a
   * platform may count an attempt at its start and show the record as failed until it has ended.
   */
  doubtMs: number
  /** A check after this time that shows nothing new makes the outcome unknown. */
  giveUpAfterMs: number
  /**
   * `circuit.probeTimeout`, at most `giveUpAfterMs`. A check after this time without an outcome frees the retry's place in its
   * circuit. A retry whose answer was lost is then given up as unknown if the check shows nothing new: probably the platform
   * never accepted it.
   */
  lostAfterMs: number
}

export interface Policy {
  window: WindowPolicy
  select: Selection
  backoff: BackoffPolicy
  /** A record with this many attempts is parked. */
  maxAttempts: number
  /** Events of one entity are retried in their order. */
  orderPerEntity: boolean
  outcome: OutcomePolicy
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
}

/** Records with a younger event are recent: they are listed more often, and have lanes of their own. */
export const recentMs = 3_600_000
