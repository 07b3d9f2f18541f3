// How to look at many awaited records with few calls: which of them share a listing of their span. Pure functions. @see design section 11
import type { FailedRecord } from '../failed-record.ts'
import type { Span } from '../window.ts'

/** Awaited records that are looked at together, in the order of their events. */
export type Group = readonly FailedRecord[]

/** The event seconds of a group; it must not be empty. */
export function spanOf(group: Group): Span {
  return { from: group[0]?.localSecond ?? 0, to: (group.at(-1)?.localSecond ?? -1) + 1 }
}

export function byEventTime(entries: Iterable<FailedRecord>): FailedRecord[] {
  return [...entries].sort((a, b) => a.localSecond - b.localSecond)
}

/** Calls that looking each up by its event takes. */
export function lookUps(group: Group): number {
  return new Set(group.map(({ eventId }) => eventId)).size
}

/**
 * Splits a group whose span holds too many other records where nothing of it lies for so long that the pages in between
 * would cost more than a listing of its own. `rowsPerSecond` is how dense the span is.
 */
export function splitAtGaps(group: Group, rowsPerSecond: number, pageSize: number): FailedRecord[][] {
  const parts: FailedRecord[][] = []
  let lastSecond = -Infinity
  for (const entry of group) {
    const gap = entry.localSecond - lastSecond
    if (parts.length === 0 || gap * rowsPerSecond > pageSize) parts.push([])
    parts.at(-1)?.push(entry)
    lastSecond = entry.localSecond
  }
  return parts
}
