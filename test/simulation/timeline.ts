// Virtual time, in milliseconds since the start: the clock of all other tests, which goes on until something has come about.
import { createVirtualClock } from '../support/virtual-clock.ts'

export interface Timeline {
  now(): number
  /** The same as a process's monotonic clock shows it: neither from 0 nor the wall clock, so that no two can be mixed up. */
  monotonic(): number
  /** Lets something happen after `ms` milliseconds (0: after all that stands at this moment). Returns what calls it off. */
  after(ms: number, act: () => void): () => void
  /** Goes on until `isOver` says so, or the time is up; then the time stands there. */
  run(until: number, isOver: () => boolean): Promise<void>
}

export function createTimeline(): Timeline {
  const { advance, monotonic, now, timer } = createVirtualClock(0)
  return { now, monotonic, after: timer, run: (until, isOver) => advance(until - now(), isOver) }
}
