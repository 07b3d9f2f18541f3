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

export function createEvictions(): Evictions {
  const none = (): Evicted => ({ records: 0, oldestOpenAt: Infinity, dueOf: new Set() })
  let known = none()
  /** Of what was listed since a full sweep last began. */
  let current = none()
  let spans: Span[] = []
  const sumsWith = (localSecond: number): Evicted[] =>
    spans.some((span) => contains(span, localSecond)) ? [known, current] : [known]

  function begin(): void {
    current = none()
    spans = []
  }

  return {
    known: () => known,
    begin,
    listed(span) {
      if (!isEmpty(span)) spans.push(span)
    },
    admitted(localSecond) {
      if (known.records + current.records === 0) return
      // It may be one that was evicted, or new: only a full sweep shows that none is left out.
      for (const sums of sumsWith(localSecond)) if (sums.records > 1) sums.records -= 1
    },
    evicted({ eventAt, localSecond, subscriptionId }, { isDue, isOpen }) {
      for (const sums of sumsWith(localSecond)) {
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
