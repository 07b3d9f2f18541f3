// When all that is missing will have arrived, if it goes on as it does: a pure estimate, and none where it would be a guess.
import type { Decision } from '../reconcile/decide.ts'

export interface DrainState {
  /** Failed records that are retried now, or wait for it: due, held, awaiting. */
  pending: number
  /** Failed records that back off, and when the last of them may be retried (epoch ms); undefined when unknown. */
  backingOff: number
  lastDueAt: number | undefined
  /** Deliveries that were seen to recover, per ms, at present. */
  recoveredPerMs: number
  /** True while nothing may be retried at all. */
  isHeld: boolean
  /** Epoch ms. */
  now: number
}

/**
 * Epoch ms at which the last one arrives, if each arrives at its next retry: all of them at the present pace, and not
 * before the last backoff has ended. `now` when there is nothing left. Undefined when nothing may be retried, or when
 * something is to be retried and nothing is seen to arrive.
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

/** Seconds until what is open is recovered, at a pace; parked and excluded records do not count. 0 when nothing is open. */
export function drainSeconds(failed: Readonly<Record<Decision, number>>, recoveredPerMs: number): number {
  const open = failed.due + failed.held + failed['backing-off'] + failed.awaiting
  return open === 0 ? 0 : open / recoveredPerMs / 1000
}
