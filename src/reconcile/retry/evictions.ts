// Counts the records evicted from a full backlog, by any listing: they are failed, and only counted.

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
  /** It has ended: so many of its failed records are not held. */
  end(notHeld: number): void
}

export const noneEvicted = (): Evicted => ({ records: 0, oldestOpenAt: Infinity, dueOf: new Set() })

export function createEvictions(): Evictions {
  let known = noneEvicted()
  /** Since a full sweep last began. */
  let current = noneEvicted()
  return {
    known: () => known,
    add({ dueOf, oldestOpenAt, records }, admitted) {
      // The added ones may be those evicted before, or new: only a full sweep shows that none is left.
      const left = Math.max(Math.min(1, known.records), known.records - admitted + records)
      known.records = Math.max(left, records)
      current.records = Math.max(current.records, records)
      for (const sums of [known, current]) {
        sums.oldestOpenAt = Math.min(sums.oldestOpenAt, oldestOpenAt)
        for (const subscriptionId of dueOf) sums.dueOf.add(subscriptionId)
      }
    },
    begin() {
      current = noneEvicted()
    },
    end(notHeld) {
      if (current.records > 0) current.records = Math.max(current.records, notHeld)
      known = current
      current = noneEvicted()
    },
  }
}
