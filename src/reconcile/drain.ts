// The one estimate of when all open records will have arrived, for metric and /status; none if it would be a guess. Pure functions.
import { isZoneWrong } from '../platform/time-zone.ts'
import type { Counts } from './decide.ts'
import { endlessReasons, type Summary } from './retry/summary.ts'
import { blockForUnknownTime, type ShutGate } from './retry/gates.ts'

export interface Drain {
  /** Epoch ms of the last arrival, if each record arrives at its next retry; `now` if none is left. Undefined: unknown. */
  doneAt: number | undefined
  /**
   * The reason for that end: the `pace` of recoveries, or the end of the last `backoff`. Or why it is unknown: a `gate` that
   * blocks all retries for an unknown time, `outcomes` that are awaited, `paused` subscriptions, `circuit`s that are not closed, subscriptions `throttled` alone, records repeatedly
   * `refused`, `unproven` retries, a receiver `failing` some of them, or a wrong `zone`, which hides records.
   */
  limitedBy: 'pace' | 'backoff' | 'outcomes' | 'gate' | 'failing' | 'zone' | (typeof endlessReasons)[number]
}

/** The facts for an estimate. */
export interface DrainSource {
  failed: Readonly<Counts>
  onlyCounted: number
  gates: readonly ShutGate[]
  endless: Summary['endless']
  /** End of the last backoff, by the platform's clock; undefined if none backs off. */
  lastDueAt: number | undefined
  now: number
  pace: { recoveredPerMinute: number; failedShare: number; isSteady: boolean }
  skewMs: Readonly<Record<'api', number>>
  timeOffsetMs: number | undefined
  /** Remaining pause of lists, as after a Retry-After. */
  throttledForMs: number
}

/** With more failures, the rest will not arrive at this pace. */
const maxFailedShare = 0.1
const minuteMs = 60_000

/** Why the end of open records is unknown, apart from the pace. */
function obstacleOf({ endless, gates, pace }: DrainSource): Drain['limitedBy'] | undefined {
  if (blockForUnknownTime(gates)) return 'gate'
  const endlessReason = endlessReasons.find((reason) => endless[reason] > 0)
  return endlessReason ?? (pace.failedShare > maxFailedShare ? 'failing' : undefined)
}

/** The daemon's estimate at its present pace. It is given only with evidence that it will come true. */
export function drainOf(source: DrainSource): Drain {
  const { failed, lastDueAt = -Infinity, now, onlyCounted, pace, skewMs, throttledForMs, timeOffsetMs } = source
  const { failedShare, isSteady, recoveredPerMinute } = pace
  const pending = failed.due + failed.blocked + failed.awaiting + onlyCounted
  const open = pending + failed['backing-off']
  if (isZoneWrong(timeOffsetMs)) return { doneAt: undefined, limitedBy: 'zone' }
  if (open === 0) return { doneAt: now, limitedBy: 'pace' }
  const obstacle = obstacleOf(source)
  if (obstacle !== undefined) return { doneAt: undefined, limitedBy: obstacle }
  const hasPace = recoveredPerMinute > 0
  const atPace = hasPace ? now + throttledForMs + (open * minuteMs) / recoveredPerMinute : pending > 0 ? Infinity : now
  const backoffEndsAt = lastDueAt - skewMs.api
  const limitedBy = backoffEndsAt > atPace ? 'backoff' : 'pace'
  // Each record backing off has failed, and may fail again while others do.
  const isSure = limitedBy === 'pace' || failedShare === 0
  // Where outcomes alone are left, these are the ones that take longest, or fail. Where more than a minute's are awaited, they take
  // longer, or what was sent since arrives at another pace.
  const { awaiting } = failed
  const isOfPace = awaiting === 0 || (awaiting < pending && awaiting <= recoveredPerMinute)
  if (hasPace && limitedBy === 'pace' && !isOfPace) return { doneAt: undefined, limitedBy: 'outcomes' }
  const isKnown = hasPace && isSure && isOfPace && isSteady
  return { doneAt: isKnown ? Math.max(atPace, backoffEndsAt) : undefined, limitedBy }
}
