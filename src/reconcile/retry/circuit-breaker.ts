// One circuit breaker: how many retries may be without a known outcome at once, by what became of the last ones. No clock, no I/O. @see design section 12

/** The numbers of `circuit.*`; durations in ms. */
export interface CircuitPolicy {
  /** False: everything is allowed, nothing is judged. */
  enabled: boolean
  initialLimit: number
  maxLimit: number
  failureRatio: number
  cooldown: number
  maxCooldown: number
  probeTimeout: number
}

export const circuitStates = ['closed', 'half-open', 'open'] as const
/** `open`: it pauses; `half-open`: its limit is not yet back to the initial one; `closed`: all is well. */
export type CircuitState = (typeof circuitStates)[number]

/** What a known outcome says of the receiver; `neutral` says nothing: it refuses that record, or nobody will ever know. */
export type ReceiverVerdict = 'recovered' | 'failed-again' | 'neutral'

/** Records whose last outcome is judged at most. */
const judgedRecords = 50
/** Outcomes that must be known before they are judged, or as many as the limit gives. */
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
  /** When its pause ends, or has ended. */
  openUntil(): number
  /** Ends its pause now. The next one is as long as if this one had run out. */
  endCooldown(now: number): void
  /** Takes an outcome in; gives what it was judged by when that opens the circuit. */
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
   * The last outcome of each record, oldest first: one that fails again and again counts once, so that a few poisoned
   * records can't outweigh all that arrived.
   */
  const failedById = new Map<string, boolean>()
  let failed = 0
  /** Outcomes since it last opened, repeated ones too: a few records that fail again and again are enough to open it. */
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
