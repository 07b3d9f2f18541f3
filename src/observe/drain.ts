// Estimate of when all missing deliveries will have arrived at the present pace; none where it would be a guess. Pure functions.
import type { Decision } from '../reconcile/decide.ts'

export interface DrainState {
  /** Failed records that are retried now or wait for it: due, held, awaiting. */
  pending: number
  /** Failed records that back off, and when the last of them may be retried (epoch ms); undefined when it is not known. */
  backingOff: number
  lastDueAt: number | undefined
  /** Recovered deliveries per ms, at present. */
  recoveredPerMs: number
  /** True while nothing may be retried at all. */
  isHeld: boolean
  /** Epoch ms. */
  now: number
}

/**
 * Epoch ms at which the last one arrives, if each arrives at its next retry: all at the present pace, and not before the
 * last backoff has ended. `now` when nothing is left. Undefined when nothing may be retried, or when records are due and
 * none recovers.
 */
export function estimateDrain(state: DrainState): number | undefined {
  const { backingOff, isHeld, lastDueAt, now, pending, recoveredPerMs } = state
  const open = pending + backingOff
  if (open === 0) return now
  if (isHeld || (backingOff > 0 && lastDueAt === undefined)) return undefined
  if (pending > 0 && !(recoveredPerMs > 0)) return undefined
  const atPace = recoveredPerMs > 0 ? now + open / recoveredPerMs : now
  return Math.max(atPace, lastDueAt ?? now)
}

/** Seconds until all open records have recovered at a pace; parked and excluded ones do not count. 0 when none is open. */
export function drainSeconds(failed: Readonly<Record<Decision, number>>, recoveredPerMs: number): number {
  const open = failed.due + failed.held + failed['backing-off'] + failed.awaiting
  return open === 0 ? 0 : open / recoveredPerMs / 1000
}
