// How the cost of a piece of work grows with its size, in CPU time of this thread: other work on the machine does not count.

const rounds = 2
/** The clock of CPU time may tick only every few milliseconds: work is repeated until it takes this long. */
const measurableMs = 8

function threadMs(work: () => void, repeats: number): number {
  const before = process.threadCpuUsage()
  for (let turn = 0; turn < repeats; turn += 1) work()
  const { system, user } = process.threadCpuUsage(before)
  return (system + user) / 1000
}

/** CPU time of the work in milliseconds, the best of some measurements. */
function costOf(work: () => void): number {
  work()
  let repeats = 1
  while (threadMs(work, repeats) < measurableMs) repeats *= 2
  return Math.min(...Array.from({ length: rounds }, () => threadMs(work, repeats))) / repeats
}

/** Cost of `large` by that of `small`: about the ratio of their sizes when it is linear, the square of that when it is quadratic. */
export function growth(small: () => void, large: () => void): number {
  return costOf(large) / costOf(small)
}
