// One circuit breaker: limits the retries without a known outcome, by the last outcomes. No clock, no I/O. @see docs/architecture.md "Circuits"

/** The numbers of `circuit.*`; durations in ms. */
export interface CircuitPolicy {
  /** False: no limit, and no circuit ever opens. */
  enabled: boolean
  initialLimit: number
  maxLimit: number
  failureRatio: number
  cooldown: number
  maxCooldown: number
  probeTimeout: number
}

export const circuitStates = ['closed', 'half-open', 'open'] as const
/** `open`: in its cooldown; `half-open`: its limit is not back at the initial one; `closed`: normal. */
export type CircuitState = (typeof circuitStates)[number]

/**
 * Verdict of an outcome about the receiver. `refused`: it is up, and refuses that record; `unknown`: the outcome stays
 * unknown, or there was no delivery.
 */
export type ReceiverVerdict = 'recovered' | 'refused' | 'failed-again' | 'unknown'

/** Number of records whose last outcome counts: those that were sent last. */
const judgedRecords = 50
/** Maximum number of retries that may follow the first failures, while the receiver isn't known to be up. */
const maxFollowing = 9

/** Outcomes that opened a circuit. */
export interface Judgement {
  failedAgain: number
  judged: number
}

/** Times are monotonic ms. A retry is named by its number, in the order of sending. */
export interface Circuit {
  /** At least 1. */
  limit(): number
  /** Retries that were sent since it last opened, and hold a place of the limit. */
  outstanding(): number
  state(now: number): CircuitState
  /** Numbers the next retry, which takes a place. */
  send(): number
  /** Frees the place of a retry; does nothing when it has none any more. */
  free(sent: number): void
  /** End of its last cooldown. */
  openUntil(): number
  /** Ends its cooldown now. The next one is as long as if this one had run out. */
  endCooldown(now: number): void
  /** Adds an outcome of a record, and frees its place; returns the counts when it opens the circuit. */
  learn(id: string, verdict: ReceiverVerdict, at: { sent: number; now: number }): Judgement | undefined
}

export function createCircuit(policy: CircuitPolicy): Circuit {
  const { cooldown, failureRatio, maxLimit, maxCooldown } = policy
  const initial = Math.min(policy.initialLimit, maxLimit)
  /** Retries that may go out before the receiver is known to be up. It counts as dead when all of them fail again. */
  const firstRetries = initial + Math.min(initial - 1, maxFollowing)
  let limit = initial
  let isHalfOpen = false
  let sentSoFar = 0
  const outstanding = new Set<number>()
  /** Number of the last retry that was sent before it last opened. */
  let openedAfter = 0
  let openUntil = -Infinity
  let nextPauseMs = cooldown
  /** True once the receiver has taken a delivery, or refused a single record. */
  let isKnownUp = false
  /**
   * The last outcome of each record, in the order of sending: a failure is known later than a recovery, so the last outcomes
   * to arrive may all be failures. A record that fails repeatedly counts once, so that a few poisoned records can't outweigh
   * all recovered ones.
   */
  let outcomes: { id: string; sent: number; hasFailed: boolean }[] = []
  /** Number of outcomes since it last opened, repeated ones included: a few records that fail repeatedly can open it. */
  let known = 0

  function remember(id: string, sent: number, hasFailed: boolean): void {
    const others = outcomes.filter((other) => other.id !== id)
    const position = others.findLastIndex((other) => other.sent < sent) + 1
    outcomes = others.toSpliced(position, 0, { id, sent, hasFailed }).slice(-judgedRecords)
    known += 1
  }

  function grow(): void {
    limit = Math.min(maxLimit, limit + 1)
    if (limit < initial) return
    isHalfOpen = false
    nextPauseMs = cooldown
  }

  function open(now: number): void {
    limit = 1
    isHalfOpen = true
    openedAfter = sentSoFar
    // The probe must not wait for retries that were sent before.
    outstanding.clear()
    openUntil = now + nextPauseMs
    nextPauseMs = Math.min(maxCooldown, 2 * nextPauseMs)
    outcomes = []
    known = 0
  }

  /** The outcomes that count, when they open the circuit. A receiver that fails some deliveries isn't dead. */
  function judge(): Judgement | undefined {
    const needed = isKnownUp ? judgedRecords : firstRetries
    const failedAgain = outcomes.filter(({ hasFailed }) => hasFailed).length
    const isFailing = failedAgain >= failureRatio * outcomes.length && (isHalfOpen || known >= needed)
    return isFailing ? { failedAgain, judged: outcomes.length } : undefined
  }

  return {
    limit: () => (isKnownUp || isHalfOpen ? limit : Math.min(limit, firstRetries - known)),
    outstanding: () => outstanding.size,
    state(now) {
      if (now < openUntil) return 'open'
      return isHalfOpen ? 'half-open' : 'closed'
    },
    send() {
      sentSoFar += 1
      outstanding.add(sentSoFar)
      return sentSoFar
    },
    free: (sent) => void outstanding.delete(sent),
    openUntil: () => openUntil,
    endCooldown(now) {
      openUntil = Math.min(openUntil, now)
    },
    learn(id, verdict, { now, sent }) {
      outstanding.delete(sent)
      if (verdict === 'unknown' || sent <= openedAfter) return undefined
      if (verdict !== 'refused') remember(id, sent, verdict === 'failed-again')
      if (verdict !== 'failed-again') {
        isKnownUp = true
        if (verdict === 'recovered' || !isHalfOpen) grow()
        return undefined
      }
      const judgement = judge()
      if (judgement !== undefined) open(now)
      return judgement
    },
  }
}
