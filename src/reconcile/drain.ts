// The one estimate of when all open records will have arrived, for the metric, /status and `plan`; none where it would be a guess. Pure functions.
import type { Counts } from './decide.ts'
import type { Gate, ShutGate } from './retry/gates.ts'

export interface DrainState {
  /** Failed records that are retried now or wait for it: due, blocked, awaiting. */
  pending: number
  /** Failed records that back off. */
  backingOff: number
  /** The last record can't arrive before then, epoch ms: the last backoff ends, or retries start slowly. Undefined: not known. */
  notBefore: number | undefined
  /** Recovered deliveries per ms. */
  recoveredPerMs: number
  /** Epoch ms. */
  now: number
}

export interface Drain {
  /** Epoch ms at which the last one arrives, if each arrives at its next retry; `now` when nothing is left. */
  doneAt: number
  /** What decides: the pace, or `notBefore`, which for the daemon is the end of the last backoff. */
  limitedBy: 'pace' | 'backoff'
}

/** Undefined when records are due and none recovers, or when the end of the backoffs is not known. */
export function estimateDrain({ backingOff, notBefore, now, pending, recoveredPerMs }: DrainState): Drain | undefined {
  const open = pending + backingOff
  if (open === 0) return { doneAt: now, limitedBy: 'pace' }
  if (backingOff > 0 && notBefore === undefined) return undefined
  if (pending > 0 && !(recoveredPerMs > 0)) return undefined
  const atPace = recoveredPerMs > 0 ? now + open / recoveredPerMs : now
  return notBefore !== undefined && notBefore > atPace
    ? { doneAt: notBefore, limitedBy: 'backoff' }
    : { doneAt: atPace, limitedBy: 'pace' }
}

/** Gates that stop every retry, and open again within minutes. */
const passing: ReadonlySet<Gate> = new Set<Gate>(['throttled', 'outcomes'])

function stopForUnknownTime(shut: readonly ShutGate[]): boolean {
  return shut.some(({ gate, subscriptions }) => subscriptions === undefined && !passing.has(gate))
}

/** What the daemon knows of it. */
export interface DrainSource {
  failed: Readonly<Counts>
  gates: readonly ShutGate[]
  /** When the last backoff ends, by the platform's clock; undefined when it is not known. */
  lastDueAt: number | undefined
  now: number
  recoveredPerMs: number
  skewMs: Readonly<Record<'api', number>>
}

/** The daemon's estimate, at its present pace; also undefined while a gate stops all retries for an unknown time. */
export function drainOf({ failed, gates, lastDueAt, now, recoveredPerMs, skewMs }: DrainSource): Drain | undefined {
  const pending = failed.due + failed.blocked + failed.awaiting
  const backingOff = failed['backing-off']
  if (pending + backingOff > 0 && stopForUnknownTime(gates)) return undefined
  const notBefore = lastDueAt === undefined ? undefined : lastDueAt - skewMs.api
  return estimateDrain({ pending, backingOff, notBefore, recoveredPerMs, now })
}
