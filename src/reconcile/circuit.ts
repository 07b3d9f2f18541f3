// One circuit: how many retries may be without a known outcome at once, by what became of the last ones. A pure state machine. @see design section 12

/** The numbers of `circuit.*`; durations in ms. */
export interface CircuitPolicy {
  /** False: everything is allowed, nothing is judged. */
  enabled: boolean
  initialAllowance: number
  maxAllowance: number
  failureRatio: number
  cooldownMs: number
  maxCooldownMs: number
  probeTimeoutMs: number
}

export const circuitStates = ['closed', 'probing', 'open'] as const
/** `open`: it pauses; `probing`: its allowance is not yet back to where it began; `closed`: all is well. */
export type CircuitState = (typeof circuitStates)[number]

/** What a known outcome says of the receiver; `neutral` says nothing: it refuses that record, or nobody will ever know. */
export type Verdict = 'recovered' | 'failed-again' | 'neutral'

/** Outcomes that are judged at most. */
const judgedOutcomes = 50
/** So many outcomes must be known before they are judged, or as many as the allowance gives. */
const fewestJudged = 10

/** What the outcomes since the last pause say. */
export interface Judgement {
  failedAgain: number
  judged: number
}

export interface Circuit {
  /** At least 1. */
  allowance(): number
  state(): CircuitState
  /** Counts pauses: outcomes of retries sent before the last one began move nothing. */
  epoch(): number
  /** Monotonic ms; in the past when it does not pause. */
  pausedUntil(): number
  /** Failures that keep their place because too few outcomes are known to be judged. */
  unjudged(): number
  /** Takes an outcome in. Gives the judgement when nearly all have failed again: who owns it shrinks it then, or not. */
  learn(id: string, verdict: Verdict): Judgement | undefined
  /** Allowance 1 (2 when the last ten outcomes were not all bad), and a pause, each time twice as long. */
  pause(now: number): void
  /** The same without a pause. */
  shrink(): void
  /** Ends a pause that is over. True when one has ended. */
  resume(now: number): boolean
}

export function createCircuit(policy: CircuitPolicy): Circuit {
  const { cooldownMs, failureRatio, initialAllowance, maxAllowance, maxCooldownMs } = policy
  let allowance = Math.min(initialAllowance, maxAllowance)
  let epoch = 0
  let nextPauseMs = cooldownMs
  let pausedUntil = -Infinity
  let isPaused = false
  /**
   * The last outcome of each record, oldest first: one that fails again and again counts once, so that a few poisoned
   * records can't outweigh all that arrived.
   */
  let last = new Map<string, boolean>()
  let failed = 0
  /** Outcomes since the last pause, and failures among them, repeated ones too. */
  let known = 0
  let failures = 0
  /** Anything recovered since the last pause, or there was none yet. */
  let hasRecovered = true

  /** One probe is next; two where the last outcomes were not all bad: one may be the last of a few poisoned records. */
  function forgetOutcomes(): void {
    epoch += 1
    const didAnyArrive = [...last.values()].slice(-fewestJudged).includes(false)
    allowance = Math.min(maxAllowance, didAnyArrive ? 2 : 1)
    last = new Map()
    failed = 0
    known = 0
    failures = 0
    hasRecovered = false
  }

  function drop(id: string): void {
    if (last.get(id) === true) failed -= 1
    last.delete(id)
  }

  function remember(id: string, hasFailed: boolean): void {
    drop(id)
    last.set(id, hasFailed)
    if (hasFailed) failed += 1
    known += 1
    failures += hasFailed ? 1 : 0
    if (last.size > judgedOutcomes) drop(last.keys().next().value ?? id)
  }

  const isJudged = (): boolean => known >= Math.min(fewestJudged, allowance)

  return {
    allowance: () => allowance,
    state() {
      if (isPaused) return 'open'
      return hasRecovered && allowance >= Math.min(initialAllowance, maxAllowance) ? 'closed' : 'probing'
    },
    epoch: () => epoch,
    pausedUntil: () => pausedUntil,
    unjudged: () => (isJudged() ? 0 : failures),
    learn(id, verdict) {
      if (verdict === 'neutral') return undefined
      remember(id, verdict === 'failed-again')
      if (verdict === 'recovered') {
        allowance = Math.min(maxAllowance, allowance + 1)
        hasRecovered = true
        if (allowance >= Math.min(initialAllowance, maxAllowance)) nextPauseMs = cooldownMs
        return undefined
      }
      return isJudged() && failed >= failureRatio * last.size ? { failedAgain: failed, judged: last.size } : undefined
    },
    pause(now) {
      forgetOutcomes()
      isPaused = true
      pausedUntil = now + nextPauseMs
      nextPauseMs = Math.min(maxCooldownMs, 2 * nextPauseMs)
    },
    shrink: forgetOutcomes,
    resume(now) {
      if (!isPaused || now < pausedUntil) return false
      isPaused = false
      return true
    },
  }
}
