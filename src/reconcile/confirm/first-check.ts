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
/** Number of recovered records that decide together, and of first checks that must have shown the outcome. */
const batch = 20
const enoughHits = 18
const shorter = 0.6
const longer = 1.25
/** After a delay proved too short, this many records keep at least the last good one. */
const recordsBeforeNextTry = 5000

export function createFirstCheck(initialMs: number): FirstCheck {
  let delayMs = initialMs
  /** The last delay after which nearly all outcomes were known. */
  let goodMs = 0
  let recordsBeforeTry = 0
  let hits = 0
  let misses: number[] = []

  function change(toMs: number): void {
    delayMs = Math.min(maxMs, Math.max(minMs, toMs))
    hits = 0
    misses = []
  }

  return {
    delayMs: () => delayMs,
    note({ missedMs, plannedMs }) {
      // A record sent with another delay says nothing about this one.
      if (plannedMs !== delayMs) return
      recordsBeforeTry -= 1
      if (missedMs < plannedMs) hits += 1
      else misses.push(missedMs)
      if (misses.length >= batch / 2) {
        recordsBeforeTry = recordsBeforeNextTry
        const [median = delayMs] = misses.toSorted((a, b) => a - b).slice(misses.length / 2)
        change(delayMs < goodMs ? goodMs : longer * median)
      } else if (hits + misses.length >= batch) {
        if (hits >= enoughHits) goodMs = delayMs
        change(hits >= enoughHits && recordsBeforeTry <= 0 ? shorter * delayMs : delayMs)
      }
    },
  }
}
