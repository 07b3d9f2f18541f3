// Whether what a soak run sampled stays flat: its last third against its first, after the warm-up.
import { median } from '../bench/process-figures.ts'

/** One look at the daemon's process. */
export interface SoakSample {
  rssMiB: number
  /** Open file descriptors: sockets, mostly. */
  descriptors: number
  /** Timers that keep the process alive. */
  timers: number
}

/** How much more the last third may have. */
const allowed: Record<keyof SoakSample, { share: number; more: number; unit: string }> = {
  rssMiB: { share: 0.15, more: 0, unit: ' MiB' },
  // Both go up and down with what is in flight.
  descriptors: { share: 0.15, more: 10, unit: ' descriptors' },
  timers: { share: 0.15, more: 10, unit: ' timers' },
}

export interface Trend {
  name: keyof SoakSample
  /** Medians. */
  first: number
  last: number
  isFlat: boolean
  /** Such as `rssMiB: 101.0 -> 103.0 MiB (+2.0 %)`. */
  text: string
}

/** @param samples those after the warm-up, in the order in which they were taken @throws RangeError when there are fewer than 6 */
export function trendsOf(samples: readonly SoakSample[]): Trend[] {
  if (samples.length < 6) throw new RangeError(`${samples.length} samples are too few to compare: run longer`)
  const third = Math.floor(samples.length / 3)
  return (['rssMiB', 'descriptors', 'timers'] as const).map((name) => {
    const of = (some: readonly SoakSample[]): number => median(some.map((sample) => sample[name]))
    const [first, last] = [of(samples.slice(0, third)), of(samples.slice(-third))]
    const { more, share, unit } = allowed[name]
    const growth = `${last >= first ? '+' : ''}${((100 * (last - first)) / first).toFixed(1)} %`
    const text = `${name}: ${first.toFixed(1)} -> ${last.toFixed(1)}${unit} (${growth})`
    return { name, first, last, isFlat: last <= first * (1 + share) + more, text }
  })
}
