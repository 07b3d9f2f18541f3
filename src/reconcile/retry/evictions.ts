// Counts the records evicted from a full backlog, by any listing: they are failed, and only counted.
import { contains, type Span } from '../window.ts'

/** Records evicted beyond `maxRecords`. */
export interface Evicted {
  records: number
  /** Oldest event of those that are not exhausted, epoch ms; Infinity for none. */
  oldestOpenAt: number
  /** Subscriptions that lost due ones. */
  dueOf: Set<string>
}

export interface Evictions {
  /** At least so many failed records are not held, as of the last listing. */
  known(): Readonly<Evicted>
  /** A listing added so many records to the backlog, and others were evicted. */
  add(evicted: Evicted, admitted: number): void
  /** A full sweep begins. */
  begin(): void
  /** A full sweep has listed a span: records that leave the backlog from then on are among those that it listed. */
  listed(span: Span): void
  /** A record of this second has left the backlog other than by eviction. */
  left(localSecond: number): void
  /** The full sweep has ended: so many of the failed records that it listed are not held. Some of them may have left since. */
  end(notHeld: number): void
}

export const noneEvicted = (): Evicted => ({ records: 0, oldestOpenAt: Infinity, dueOf: new Set() })

export function createEvictions(): Evictions {
  let known = noneEvicted()
  /** Since a full sweep last began; what it has listed, and the number of other records that have left that since. */
  let current = noneEvicted()
  let spans: Span[] = []
  let left = 0

  function begin(): void {
    current = noneEvicted()
    spans = []
    left = 0
  }

  return {
    known: () => known,
    add({ dueOf, oldestOpenAt, records }, admitted) {
      // The added ones may be those evicted before, or new: only a full sweep shows that none is left out.
      const rest = Math.max(Math.min(1, known.records), known.records - admitted + records)
      known.records = Math.max(rest, records)
      current.records += records
      for (const sums of [known, current]) {
        sums.oldestOpenAt = Math.min(sums.oldestOpenAt, oldestOpenAt)
        for (const subscriptionId of dueOf) sums.dueOf.add(subscriptionId)
      }
    },
    begin,
    listed(span) {
      spans.push(span)
    },
    left(localSecond) {
      if (spans.some((span) => contains(span, localSecond))) left += 1
    },
    end(notHeld) {
      known = { ...current, records: current.records === 0 ? 0 : Math.max(1, notHeld - left) }
      begin()
    },
  }
}
