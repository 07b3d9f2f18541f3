// Records of the backlog in the order of their events, a page at a time. Pure functions, in steps.
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Steps } from '../runtime/steps.ts'

/** The place of a record in a list: the second of its event on the platform's wall clock, then its key in the backlog. */
export type ListPlace = Pick<FailedRecord, 'key' | 'localSecond'>

/** Records per step, which takes a few milliseconds. */
const recordsPerStep = 4000

export function inOrder(a: ListPlace, b: ListPlace): number {
  if (a.localSecond !== b.localSecond) return a.localSecond - b.localSecond
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0
}

export interface PageWish {
  fits: (record: FailedRecord) => boolean
  /** The last place of the previous page. */
  after: ListPlace | undefined
  limit: number
}

/**
 * The first `limit` matching records in order, and whether there are more. A page iterates once over all records, and needs
 * memory only for its own.
 */
export function* pageOf(
  records: Iterable<FailedRecord>,
  { after, fits, limit }: PageWish,
): Steps<{ page: FailedRecord[]; isLast: boolean }> {
  let kept: FailedRecord[] = []
  let seen = 0
  function cut(): void {
    kept = kept.toSorted(inOrder).slice(0, limit + 1)
  }
  for (const record of records) {
    seen += 1
    if (seen % recordsPerStep === 0) yield
    if (after !== undefined && inOrder(record, after) <= 0) continue
    if (!fits(record)) continue
    kept.push(record)
    if (kept.length >= 2 * limit + recordsPerStep) cut()
  }
  cut()
  return { page: kept.slice(0, limit), isLast: kept.length <= limit }
}
