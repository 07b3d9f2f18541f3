// One circuit breaker: derives from the outcomes of a subscription how many of its retries may be under way. Pure functions. @see docs/architecture.md "Circuits"

/** Durations in ms. */
export interface CircuitPolicy {
  /** `circuit.*`: the initial limit of unconfirmed retries, and the first cooldown, which doubles while it stays open. */
  initialLimit: number
  cooldown: number
  maxLimit: number
  /** Share of failed outcomes that opens it. */
  failureRatio: number
}

/** A wrong value starves or floods a receiver. */
export const circuitNumbers = { maxLimit: 10_000, failureRatio: 0.9 }
export const maxCooldownMs = 300_000
/** A retry without an outcome frees its place after this time. */
export const probeTimeoutMs = 120_000

export const circuitStates = ['closed', 'half-open', 'open'] as const
/** `open`: in its cooldown; `half-open`: its cooldown has ended, and it has not closed yet; `closed`: normal. */
export type CircuitState = (typeof circuitStates)[number]

/**
 * Verdict of an outcome on the receiver. `refused`: it is up, and rejects that record; `unknown`: no outcome, or no delivery.
 */
export type ReceiverVerdict = 'recovered' | 'refused' | 'failed-again' | 'unknown'

/** Number of records whose last outcome counts: the most recently sent. */
const judgedRecords = 50
/** While the receiver is not known to be up, one retry fewer than the initial limit follows it, at most so many: by default 5 + 4 = 9 in all. */
const maxFollowing = 9
/** Probes after a cooldown, all at once: a receiver that accepts some deliveries may fail one of them by chance. */
export const maxProbes = 3

/** The outcomes that opened a circuit. */
export interface Judgement {
  failedAgain: number
  judged: number
}

/** Why a circuit is not closed: all outcomes since it first opened, including its probes. */
export interface Opening extends Judgement {
  /** When it first opened, and when the first of these failures became known; monotonic ms. */
  at: number
  failedAt: number
  /** The receiver's last response; null: none. */
  responseStatusCode: number | null
}

/** The outcome of a retry sent after the circuit last opened. */
export interface RetryOutcome {
  verdict: ReceiverVerdict
  /** Hash of the record's id: comparing texts is several times slower. */
  record: number
  /** The retry's number, in the order of sending. */
  sent: number
  /** Monotonic ms. */
  now: number
  /** HTTP status of the receiver's response; null: none. */
  response: number | null
}

/**
 * The last outcome of each record since it last opened, in the order of sending: failures become known later than recoveries,
 * so the last to arrive may all be failures. A repeatedly failing record counts once, so that a few poisoned records cannot
 * outweigh all recovered ones.
 */
interface LastOutcomes {
  last: readonly { record: number; sent: number; failedAt: number | undefined }[]
  /** Their number with repetitions: a few repeatedly failing records can open it. */
  known: number
}

/** It has opened, and was not closed since. Times in monotonic ms. */
interface NotClosed {
  opening: Opening
  /** The outcomes that last opened it. */
  judgement: Judgement
  openUntil: number
  cooldownMs: number
}

/** Changed only by its receiver's outcomes, and by the clock, which ends a cooldown. */
export type Circuit = { outcomes: LastOutcomes } &
  /** Closed, and no delivery was accepted or rejected yet. */
  (
    | { name: 'new' }
    /** Closed, and the receiver is up. */
    | { name: 'up'; limit: number }
    /** Open during its cooldown, then half-open: probes find out. */
    | ({ name: 'down' } & NotClosed)
    /** Half-open: a probe was accepted or rejected, and the limit is below the initial one. */
    | ({ name: 'recovering'; limit: number } & NotClosed)
  )

const none: LastOutcomes = { last: [], known: 0 }
export const newCircuit: Circuit = { name: 'new', outcomes: none }

/** Number of retries sent before the receiver is known to be up. It counts as dead if all of them fail again. */
function firstRetriesOf({ initialLimit }: CircuitPolicy): number {
  return initialLimit + Math.min(initialLimit - 1, maxFollowing)
}

const probesOf = (policy: CircuitPolicy): number => Math.min(maxProbes, firstRetriesOf(policy))

/** Its limit of unconfirmed retries, at least 1. */
export function limitOf(circuit: Circuit, policy: CircuitPolicy): number {
  const { known } = circuit.outcomes
  switch (circuit.name) {
    case 'new':
      return Math.min(policy.initialLimit, firstRetriesOf(policy) - known)
    case 'down':
      return probesOf(policy) - known
    case 'up':
    case 'recovering':
      return circuit.limit
  }
}

/** True once its receiver has accepted a delivery, or rejected a single record, since it last opened. */
export const isUp = ({ name }: Circuit): boolean => name === 'up' || name === 'recovering'

/** Failures of its receiver since it was last known to be up; 0 while it is. */
export function failuresOf(circuit: Circuit): number {
  if (isUp(circuit)) return 0
  return circuit.outcomes.known + (circuit.name === 'down' ? circuit.opening.failedAgain : 0)
}

/** `now` in monotonic ms. */
export function stateOf(circuit: Circuit, now: number): CircuitState {
  if (circuit.name === 'new' || circuit.name === 'up') return 'closed'
  return circuit.name === 'down' && now < circuit.openUntil ? 'open' : 'half-open'
}

function remember({ known, last }: LastOutcomes, { now, record, sent, verdict }: RetryOutcome): LastOutcomes {
  if (verdict === 'refused') return { known, last }
  const all = last.filter((other) => other.record !== record)
  const place = all.findLastIndex((other) => other.sent < sent) + 1
  all.splice(place, 0, { record, sent, failedAt: verdict === 'failed-again' ? now : undefined })
  if (all.length > judgedRecords) all.shift()
  return { known: known + 1, last: all }
}

/** The circuit after a success: the receiver is up. */
function grown(circuit: Circuit, policy: CircuitPolicy): Circuit {
  const { initialLimit: initial } = policy
  const { outcomes } = circuit
  const before = circuit.name === 'new' ? initial : circuit.name === 'down' ? probesOf(policy) : circuit.limit
  const limit = Math.min(policy.maxLimit, before + 1)
  return 'opening' in circuit && limit < initial
    ? { ...circuit, name: 'recovering', limit }
    : { name: 'up', outcomes, limit }
}

/** The outcomes that count, if they open it. A receiver that fails some deliveries isn't dead. */
function judge({ name, outcomes: { known, last } }: Circuit, policy: CircuitPolicy): Judgement | undefined {
  const enough = name === 'new' ? firstRetriesOf(policy) : name === 'down' ? probesOf(policy) : judgedRecords
  const failedAgain = last.filter(({ failedAt }) => failedAt !== undefined).length
  return known >= enough && failedAgain >= policy.failureRatio * last.length
    ? { failedAgain, judged: last.length }
    : undefined
}

function opened(
  circuit: Circuit,
  judgement: Judgement,
  { response, now }: RetryOutcome,
  policy: CircuitPolicy,
): Circuit {
  const before = 'opening' in circuit ? circuit : undefined
  const cooldownMs = before === undefined ? policy.cooldown : Math.min(maxCooldownMs, 2 * before.cooldownMs)
  const firstFailedAt = Math.min(...circuit.outcomes.last.map(({ failedAt = Infinity }) => failedAt))
  const { at = now, failedAgain = 0, failedAt = firstFailedAt, judged = 0 } = before?.opening ?? {}
  return {
    name: 'down',
    outcomes: none,
    judgement,
    opening: {
      at,
      failedAt,
      failedAgain: failedAgain + judgement.failedAgain,
      judged: judged + judgement.judged,
      responseStatusCode: response,
    },
    openUntil: now + cooldownMs,
    cooldownMs,
  }
}

/** The circuit after an outcome. */
export function learn(before: Circuit, outcome: RetryOutcome, policy: CircuitPolicy): Circuit {
  if (outcome.verdict === 'unknown') return before
  const circuit = { ...before, outcomes: remember(before.outcomes, outcome) }
  if (outcome.verdict !== 'failed-again') return grown(circuit, policy)
  const judgement = judge(circuit, policy)
  return judgement === undefined ? circuit : opened(circuit, judgement, outcome, policy)
}
