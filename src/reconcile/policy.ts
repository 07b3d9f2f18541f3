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
  /** A failed record that leaves the window sooner than this is expiring. */
  expiryWarningMs: number
}

/** How an outcome is checked. */
export interface OutcomePolicy {
  /** From the PATCH to the first check; each next check comes twice as late. */
  firstCheckMs: number
  /**
   * For so long a new attempt that is shown as failed is doubted: a server may lag behind the others, and a platform may
   * count an attempt when it begins and show the record as failed until it has ended.
   */
  doubtMs: number
  /** A check after so long that shows nothing makes the outcome unknown. */
  giveUpAfterMs: number
  /**
   * `circuit.probeTimeout`: a check after so long that shows no outcome frees the place of the retry. Where its answer was
   * lost and the check shows nothing new, the outcome is unknown: it was not taken.
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

/** Records whose event is younger than this are fresh: they are listed more often and have turns of their own. */
export const recentMs = 3_600_000
