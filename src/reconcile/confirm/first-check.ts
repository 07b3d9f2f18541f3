// Learns the delay of the first check after a PATCH: deliveries take milliseconds on one platform, seconds on another. No clock, no I/O. @see docs/architecture.md "Outcomes"
import type { PendingOutcome } from '../failed-record.ts'

export interface FirstCheck {
  /** Delay of the first check, in ms: between 50 ms and 10 s. */
  delayMs(): number
  /** A recovered record. */
  note(recovery: Pick<PendingOutcome, 'plannedMs' | 'missedMs'>): void
}

const minMs = 50
const maxMs = 10_000
/** Factors after a first check that showed the outcome, and after one that came too early: about one in fourteen does. */
const [shorter, longer] = [0.95, 2]

export function createFirstCheck(initialMs: number): FirstCheck {
  let delayMs = initialMs

  return {
    delayMs: () => delayMs,
    note({ missedMs, plannedMs }) {
      // A record sent with another delay says nothing about this one.
      if (plannedMs !== delayMs) return
      delayMs = Math.min(maxMs, Math.max(minMs, delayMs * (missedMs < plannedMs ? shorter : longer)))
    },
  }
}
