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
/** Probes after a cooldown, all at once: a receiver that takes a part of its deliveries fails one of them by chance. */
const maxProbes = 3

/** Outcomes that opened a circuit. */
export interface Judgement {
  failedAgain: number
  judged: number
}

export interface OutcomeAt {
  /** The retry's number. */
  sent: number
  now: number
  /** HTTP status of the receiver's answer; null: none. */
  answer: number | null
}

/** Times are monotonic ms. A retry is named by its number, in the order of sending. */
export interface Circuit {
  /** At least 1. */
  limit(): number
  /** Retries that were sent since it last opened, and hold a place of the limit. */
  outstanding(): number
  state(now: number): CircuitState
  /** True once the receiver has taken a delivery, or refused a single record, since the circuit last opened. */
  isKnownUp(): boolean
  /** Numbers the next retry, which takes a place. */
  send(): number
  /** Frees the place of a retry; does nothing when it has none any more. */
  free(sent: number): void
  /** End of its last cooldown. */
  openUntil(): number
  /** Ends its cooldown now. The next one is as long as if this one had run out. */
  endCooldown(now: number): void
  /** Adds an outcome of a record, and frees its place; returns the counts when it opens the circuit. */
  learn(id: string, verdict: ReceiverVerdict, at: OutcomeAt): Judgement | undefined
}

export function createCircuit(policy: CircuitPolicy): Circuit {
  const { cooldown, failureRatio, maxLimit, maxCooldown } = policy
  const initial = Math.min(policy.initialLimit, maxLimit)
  /** Retries that may go out before the receiver is known to be up. It counts as dead when all of them fail again. */
  const firstRetries = initial + Math.min(initial - 1, maxFollowing)
  const probes = Math.min(maxProbes, firstRetries)
  let limit = initial
  let isHalfOpen = false
  let sentSoFar = 0
  const outstanding = new Set<number>()
  /** Number of the last retry that was sent before it last opened. */
  let openedAfter = 0
  let openUntil = -Infinity
  let nextPauseMs = cooldown
  /** Answers of the failures that opened it, since it was closed. */
  const answers = new Set<number | null>()
  /** True once the receiver has taken a delivery, or refused a single record, since it last opened. */
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
    const before = outcomes.findIndex((other) => other.id === id)
    if (before >= 0) outcomes.splice(before, 1)
    outcomes.splice(outcomes.findLastIndex((other) => other.sent < sent) + 1, 0, { id, sent, hasFailed })
    if (outcomes.length > judgedRecords) outcomes.shift()
    known += 1
  }

  function grow(): void {
    limit = Math.min(maxLimit, limit + 1)
    if (limit < initial) return
    isHalfOpen = false
    nextPauseMs = cooldown
    answers.clear()
  }

  function open({ answer, now }: OutcomeAt): void {
    // Another answer than so far shows that something has changed there.
    if (isHalfOpen && !answers.has(answer)) nextPauseMs = cooldown
    answers.add(answer)
    limit = probes
    isHalfOpen = true
    isKnownUp = false
    openedAfter = sentSoFar
    // The probe must not wait for retries that were sent before.
    outstanding.clear()
    openUntil = now + nextPauseMs
    nextPauseMs = Math.min(maxCooldown, 2 * nextPauseMs)
    outcomes = []
    known = 0
  }

  /** Failures that count as a dead receiver while it is not known to be up. */
  const mayFail = (): number => (isHalfOpen ? probes : firstRetries)

  /** The outcomes that count, when they open the circuit. A receiver that fails some deliveries isn't dead. */
  function judge(): Judgement | undefined {
    if (known < (isKnownUp ? judgedRecords : mayFail())) return undefined
    const failedAgain = outcomes.filter(({ hasFailed }) => hasFailed).length
    return failedAgain >= failureRatio * outcomes.length ? { failedAgain, judged: outcomes.length } : undefined
  }

  return {
    limit: () => (isKnownUp ? limit : Math.min(limit, mayFail() - known)),
    outstanding: () => outstanding.size,
    state(now) {
      if (now < openUntil) return 'open'
      return isHalfOpen ? 'half-open' : 'closed'
    },
    isKnownUp: () => isKnownUp,
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
    learn(id, verdict, at) {
      const { sent } = at
      outstanding.delete(sent)
      if (verdict === 'unknown' || sent <= openedAfter) return undefined
      if (verdict !== 'refused') remember(id, sent, verdict === 'failed-again')
      if (verdict !== 'failed-again') {
        isKnownUp = true
        grow()
        return undefined
      }
      const judgement = judge()
      if (judgement !== undefined) open(at)
      return judgement
    },
  }
}
