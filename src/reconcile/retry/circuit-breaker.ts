// One circuit breaker: limits the retries without a known outcome, by the last outcomes. No clock, no I/O. @see docs/architecture.md "Circuits"

/** The numbers of `circuit.*`; durations in ms. */
export interface CircuitPolicy {
  /** False: no limit, and the circuit never opens. */
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

/** Verdict of an outcome about the receiver; `neutral`: it refuses that record, or the outcome stays unknown. */
export type ReceiverVerdict = 'recovered' | 'failed-again' | 'neutral'

/** Maximum number of records whose last outcome counts. */
const judgedRecords = 50
/** Minimum number of outcomes before the circuit can open, or the limit if that is lower. */
const minJudged = 10

/** Outcomes that opened a circuit. */
export interface Judgement {
  failedAgain: number
  judged: number
}

/** Times are monotonic ms. */
export interface Circuit {
  /** At least 1. */
  limit(): number
  state(now: number): CircuitState
  /** When it last opened; -Infinity when it never did. Outcomes of retries that were sent before don't count. */
  openedAt(): number
  /** End of its last cooldown. */
  openUntil(): number
  /** Ends its cooldown now. The next one is as long as if this one had run out. */
  endCooldown(now: number): void
  /** Adds an outcome; returns the counts when it opens the circuit. */
  learn(id: string, verdict: ReceiverVerdict, at: { sentAt: number; now: number }): Judgement | undefined
}

export function createCircuit(policy: CircuitPolicy): Circuit {
  const { cooldown, failureRatio, maxLimit, maxCooldown } = policy
  const initial = Math.min(policy.initialLimit, maxLimit)
  let limit = initial
  let isHalfOpen = false
  let openedAt = -Infinity
  let openUntil = -Infinity
  let nextPauseMs = cooldown
  /**
   * The last outcome of each record, oldest first. A record that fails repeatedly counts once, so that a few poisoned
   * records can't outweigh all recovered ones.
   */
  const failedById = new Map<string, boolean>()
  let failed = 0
  /** Number of outcomes since it last opened, repeated ones included: a few records that fail repeatedly can open it. */
  let known = 0

  function drop(id: string): void {
    if (failedById.get(id) === true) failed -= 1
    failedById.delete(id)
  }

  function remember(id: string, hasFailed: boolean): void {
    drop(id)
    failedById.set(id, hasFailed)
    failed += hasFailed ? 1 : 0
    known += 1
    if (failedById.size > judgedRecords) drop(failedById.keys().next().value ?? id)
  }

  function grow(): void {
    limit = Math.min(maxLimit, limit + 1)
    if (limit < initial) return
    isHalfOpen = false
    nextPauseMs = cooldown
  }

  function open(now: number): Judgement {
    const judgement = { failedAgain: failed, judged: failedById.size }
    limit = 1
    isHalfOpen = true
    openedAt = now
    openUntil = now + nextPauseMs
    nextPauseMs = Math.min(maxCooldown, 2 * nextPauseMs)
    failedById.clear()
    failed = 0
    known = 0
    return judgement
  }

  function isFailing(): boolean {
    return known >= Math.min(minJudged, limit) && failed >= failureRatio * failedById.size
  }

  return {
    limit: () => limit,
    state(now) {
      if (now < openUntil) return 'open'
      return isHalfOpen ? 'half-open' : 'closed'
    },
    openedAt: () => openedAt,
    openUntil: () => openUntil,
    endCooldown(now) {
      openUntil = Math.min(openUntil, now)
    },
    learn(id, verdict, { now, sentAt }) {
      if (verdict === 'neutral' || sentAt <= openedAt) return undefined
      remember(id, verdict === 'failed-again')
      if (verdict === 'failed-again') return isFailing() ? open(now) : undefined
      grow()
      return undefined
    },
  }
}
