// Records as they were a while ago, for lists that lag behind.
import type { Sequence } from './hash.ts'
import type { StoredRecord } from './store.ts'

export interface Past {
  /** Called before a record changes. */
  keep(record: StoredRecord): void
  /** The records as one response shows them: all as of the same moment. */
  view(): (record: StoredRecord) => StoredRecord
}

export interface PastOptions {
  monotonic: () => number
  /** Maximum lag of lists, in ms. */
  maxLagMs: () => number
  random: Sequence
}

export function createPast({ maxLagMs, monotonic, random }: PastOptions): Past {
  /** Each with its end time, oldest first. */
  const states = new WeakMap<StoredRecord, { until: number; state: StoredRecord }[]>()
  return {
    keep(record) {
      if (maxLagMs() === 0) return
      const until = monotonic()
      const before = (states.get(record) ?? []).filter((past) => past.until > until - maxLagMs())
      states.set(record, [...before, { until, state: { ...record } }])
    },
    view() {
      const at = monotonic() - random.next() * maxLagMs()
      return (record) => states.get(record)?.find(({ until }) => until > at)?.state ?? record
    },
  }
}
