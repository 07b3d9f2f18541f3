// Record numbers in the order of a key, with counts by status: finds the n-th record of a status in a key range without a walk.
// Buckets of some hundred records, each with its counts: at a million records a page costs about 2,000 additions, and an
// insertion anywhere moves one bucket only.

/** How many status codes there are: see store.ts. */
export const statusCodes = 4

/** A set of status codes, one bit each. */
export type StatusMask = number

export interface KeyRange {
  /** Inclusive. */
  from: number
  /** Exclusive. */
  to: number
}

export interface OrderedIndex {
  /** Forgets all and takes these records, in any order. */
  rebuild(records: Uint32Array): void
  insert(record: number): void
  /** Tells of a status change, after it was made. */
  moved(record: number, before: number, after: number): void
  count(mask: StatusMask, range: KeyRange): number
  /** Up to `limit` records from the `offset`-th match on, in order or from the end. */
  slice(mask: StatusMask, range: KeyRange, part: { offset: number; limit: number; descending: boolean }): number[]
  /** All records in order. */
  walk(): Iterable<number>
}

interface Bucket {
  records: number[]
  counts: number[]
}

const bucketLimit = 1024

/** `key` of a record never changes; `statusOf` does, with a call of `moved`. */
export function createOrderedIndex(
  key: (record: number) => number,
  statusOf: (record: number) => number,
): OrderedIndex {
  let buckets: Bucket[] = []

  function compare(a: number, b: number): number {
    return key(a) - key(b) || a - b
  }

  function bucketOf(records: number[]): Bucket {
    const counts = new Array<number>(statusCodes).fill(0)
    for (const record of records) add(counts, statusOf(record), 1)
    return { records, counts }
  }

  /** Number of the first bucket whose last record is not before this one; the last bucket when there is none. */
  function bucketAt(record: number): number {
    let low = 0
    let high = buckets.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      const last = buckets[middle]?.records.at(-1) ?? 0
      if (compare(last, record) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Matches with a key below this one. */
  function rank(mask: StatusMask, limit: number): number {
    let matches = 0
    for (const bucket of buckets) {
      if (key(bucket.records.at(-1) ?? 0) < limit) {
        matches += matching(bucket, mask)
        continue
      }
      for (const record of bucket.records) {
        if (key(record) >= limit) return matches
        if (has(mask, statusOf(record))) matches++
      }
      return matches
    }
    return matches
  }

  function take(mask: StatusMask, first: number, limit: number): number[] {
    const found: number[] = []
    let skip = first
    for (const bucket of buckets) {
      const here = matching(bucket, mask)
      if (skip >= here) {
        skip -= here
        continue
      }
      for (const record of bucket.records) {
        if (!has(mask, statusOf(record))) continue
        if (skip-- > 0) continue
        if (found.push(record) === limit) return found
      }
      skip = 0
    }
    return found
  }

  return {
    rebuild(records) {
      if (!isSorted(records, compare)) records.sort(compare)
      buckets = []
      // Two thirds full, so that the first insertions split nothing.
      const fill = Math.floor((bucketLimit * 2) / 3)
      for (let at = 0; at < records.length; at += fill) buckets.push(bucketOf([...records.subarray(at, at + fill)]))
    },
    insert(record) {
      const at = bucketAt(record)
      const bucket = buckets[at]
      if (bucket === undefined) {
        buckets.push(bucketOf([record]))
        return
      }
      bucket.records.splice(positionIn(bucket.records, record, compare), 0, record)
      add(bucket.counts, statusOf(record), 1)
      if (bucket.records.length <= bucketLimit) return
      const half = bucket.records.length >>> 1
      buckets.splice(at, 1, bucketOf(bucket.records.slice(0, half)), bucketOf(bucket.records.slice(half)))
    },
    moved(record, before, after) {
      const bucket = buckets[bucketAt(record)]
      if (bucket === undefined) return
      add(bucket.counts, before, -1)
      add(bucket.counts, after, 1)
    },
    count: (mask, range) => Math.max(0, rank(mask, range.to) - rank(mask, range.from)),
    slice(mask, range, { offset, limit, descending }) {
      const before = rank(mask, range.from)
      const total = Math.max(0, rank(mask, range.to) - before)
      const rows = Math.min(limit, total - offset)
      if (rows <= 0) return []
      if (!descending) return take(mask, before + offset, rows)
      return take(mask, before + total - offset - rows, rows).reverse()
    },
    *walk() {
      for (const bucket of buckets) yield* bucket.records
    },
  }
}

function has(mask: StatusMask, status: number): boolean {
  return (mask & (1 << status)) !== 0
}

function matching(bucket: Bucket, mask: StatusMask): number {
  let sum = 0
  for (let status = 0; status < statusCodes; status++) if (has(mask, status)) sum += bucket.counts[status] ?? 0
  return sum
}

function add(counts: number[], status: number, by: number): void {
  counts[status] = (counts[status] ?? 0) + by
}

function isSorted(records: Uint32Array, compare: (a: number, b: number) => number): boolean {
  for (let at = 1; at < records.length; at++) {
    if (compare(records[at - 1] ?? 0, records[at] ?? 0) > 0) return false
  }
  return true
}

function positionIn(records: number[], record: number, compare: (a: number, b: number) => number): number {
  let low = 0
  let high = records.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(records[middle] ?? 0, record) < 0) low = middle + 1
    else high = middle
  }
  return low
}
