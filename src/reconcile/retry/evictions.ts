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
  /** A record has left the backlog, evicted or not; or a stale row shows one that had. */
  left(): void
  /** The full sweep has ended: so many of the failed records that it listed are not held. Some of them may have left since. */
  end(notHeld: number): void
}

export const noneEvicted = (): Evicted => ({ records: 0, oldestOpenAt: Infinity, dueOf: new Set() })

export function createEvictions(): Evictions {
  let known = noneEvicted()
  /** Since a full sweep last began; and the number of other records that have left since. */
  let current = noneEvicted()
  let left = 0
  return {
    known: () => known,
    add({ dueOf, oldestOpenAt, records }, admitted) {
      // The added ones may be those evicted before, or new: only a full sweep shows that none is left out.
      const rest = Math.max(Math.min(1, known.records), known.records - admitted + records)
      known.records = Math.max(rest, records)
      current.records += records
      left -= records
      for (const sums of [known, current]) {
        sums.oldestOpenAt = Math.min(sums.oldestOpenAt, oldestOpenAt)
        for (const subscriptionId of dueOf) sums.dueOf.add(subscriptionId)
      }
    },
    begin() {
      current = noneEvicted()
      left = 0
    },
    left() {
      left += 1
    },
    end(notHeld) {
      known = { ...current, records: current.records === 0 ? 0 : Math.max(1, notHeld - left) }
      current = noneEvicted()
    },
  }
}
