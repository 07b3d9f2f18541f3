// Counts the records evicted from a full backlog: they are failed, and only counted.
import type { FailedRecord } from '../failed-record.ts'
import { contains, isEmpty, type Span } from '../window.ts'

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
  /** A full sweep begins. */
  begin(): void
  /** A span was listed, and its records are held. */
  listed(span: Span): void
  /** A record of this second was added to the backlog. */
  admitted(localSecond: number): void
  /** `isOpen`: it is in the window, and not exhausted. */
  evicted(record: FailedRecord, is: Readonly<Record<'isDue' | 'isOpen', boolean>>): void
  /** The full sweep has ended: the records evicted from what it had listed are all that are not held. */
  end(): void
}

/** `isAny`: only a full sweep shows that none is left out. */
interface Sums extends Evicted {
  isAny: boolean
}

export function createEvictions(): Evictions {
  const none = (): Sums => ({ isAny: false, records: 0, oldestOpenAt: Infinity, dueOf: new Set() })
  let known = none()
  /** Of what was listed since a full sweep last began. */
  let current = none()
  let spans: Span[] = []
  const sumsWith = (localSecond: number): Sums[] =>
    spans.some((span) => contains(span, localSecond)) ? [known, current] : [known]

  function begin(): void {
    current = none()
    spans = []
  }

  return {
    known: () => ({ ...known, records: known.isAny ? Math.max(1, known.records) : 0 }),
    begin,
    listed(span) {
      if (!isEmpty(span)) spans.push(span)
    },
    admitted(localSecond) {
      if (!known.isAny && !current.isAny) return
      // It may be one that was evicted, or new.
      for (const sums of sumsWith(localSecond)) sums.records = Math.max(0, sums.records - 1)
    },
    evicted({ eventAt, localSecond, subscriptionId }, { isDue, isOpen }) {
      for (const sums of sumsWith(localSecond)) {
        sums.isAny = true
        sums.records += 1
        if (isOpen) sums.oldestOpenAt = Math.min(sums.oldestOpenAt, eventAt)
        if (isDue) sums.dueOf.add(subscriptionId)
      }
    },
    end() {
      known = current
      begin()
    },
  }
}
