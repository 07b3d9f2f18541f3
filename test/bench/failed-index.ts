// Which of a million records are failed: counted by a Fenwick tree, so that a page is found in microseconds anywhere.

export interface PageAsked {
  /** Half-open range of record numbers. */
  from: number
  to: number
  /** `failed`, `successful`, or null for both; any other status has no records. */
  status: string | null
  offset: number
  limit: number
}

export interface FailedIndex {
  isFailed(record: number): boolean
  /** The record is failed no more. */
  recover(record: number): void
  failed(): number
  page(asked: PageAsked): { found: number[]; total: number }
}

/** All records are failed at first. */
export function createFailedIndex(size: number): FailedIndex {
  const failed = new Uint8Array(size).fill(1)
  // Each node at `at` has the count of the lowest set bit of `at` records below it.
  const tree = Int32Array.from({ length: size + 1 }, (_, at) => at & -at)
  let count = size

  /** Failed records with numbers below this one. */
  function below(record: number): number {
    let sum = 0
    for (let at = record; at > 0; at -= at & -at) sum += tree[at] ?? 0
    return sum
  }

  /** Number of records that match below this one. */
  function matchesBelow(record: number, status: string | null): number {
    if (status === null) return record
    if (status === 'failed') return below(record)
    return status === 'successful' ? record - below(record) : 0
  }

  /** The first record before which more than `rank` match. */
  function select(rank: number, status: string | null): number {
    let [low, high] = [0, size]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (matchesBelow(middle + 1, status) > rank) high = middle
      else low = middle + 1
    }
    return low
  }

  function page({ from, to, status, offset, limit }: PageAsked): { found: number[]; total: number } {
    const before = matchesBelow(from, status)
    const total = Math.max(0, matchesBelow(to, status) - before)
    const wanted = status === null ? undefined : status === 'failed' ? 1 : 0
    const found: number[] = []
    if (offset >= total) return { found, total }
    for (let record = select(before + offset, status); record < to && found.length < limit; record += 1) {
      if (wanted === undefined || failed[record] === wanted) found.push(record)
    }
    return { found, total }
  }

  return {
    isFailed: (record) => failed[record] === 1,
    recover(record) {
      if (failed[record] !== 1) return
      failed[record] = 0
      count -= 1
      for (let at = record + 1; at <= size; at += at & -at) tree[at] = (tree[at] ?? 0) - 1
    },
    failed: () => count,
    page,
  }
}
