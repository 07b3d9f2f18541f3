// How the cost of a piece of work grows with its size, in CPU time of this thread: other work on the machine does not count.

const rounds = 5
/** Work that is over sooner is repeated: less can't be measured. */
const leastMs = 2
/** Of `process.threadCpuUsage`. */
const resolutionMs = 0.001

function threadMs(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { system, user } = process.threadCpuUsage(before)
  return (system + user) / 1000
}

function best(work: () => void): number {
  return Math.min(...Array.from({ length: rounds }, () => threadMs(work)))
}

/** Cost of `large` by that of `small`: about the ratio of their sizes when it is linear, the square of that when it is quadratic. */
export function growth(small: () => void, large: () => void): number {
  small()
  const repeats = Math.ceil(leastMs / Math.max(threadMs(small), 0.001))
  const smallMs = best(() => {
    for (let turn = 0; turn < repeats; turn += 1) small()
  })
  // A cost below the clock's resolution counts as that resolution.
  return Math.max(best(large), resolutionMs) / Math.max(smallMs / repeats, resolutionMs)
}
