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
  /** In or since the last full sweep. */
  known(): Readonly<Evicted>
  add(one: Evicted): void
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
    add({ dueOf, oldestOpenAt, records }) {
      for (const sums of [known, current]) {
        // Only a full sweep shows their number: evicted records return, and are evicted again.
        sums.records = Math.max(sums.records, records)
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
    },
  }
}
