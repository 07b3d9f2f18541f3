// Rows in the order of their events, for platforms in memory: where a span of event seconds begins and ends among them.

/** The position of the first of `count` rows whose event second is not below `second`; `secondAt` gives that of a position. */
export function firstFrom(second: number, count: number, secondAt: (position: number) => number): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (secondAt(middle) < second) low = middle + 1
    else high = middle
  }
  return low
}
