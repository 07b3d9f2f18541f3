// Virtual time of a run: what is to happen stands in the queue of a virtual clock, and happens in the order of its time.
import { createVirtualClock } from '../support/virtual-clock.ts'

export interface Timeline {
  /** Milliseconds since the start. */
  now(): number
  /** The same as a process's monotonic clock shows it: neither from 0 nor the wall clock, so that no two can be mixed up. */
  monotonic(): number
  /** Lets something happen after `ms` milliseconds (0: after all that stands at this moment). Returns what calls it off. */
  after(ms: number, act: () => void): () => void
  /**
   * Goes on until `isOver` says so, nothing is left to happen, or the time is up; then the time stands there.
   * All that an event sets free in promises is done before the next one.
   */
  run(until: number, isOver: () => boolean): Promise<void>
}

export function createTimeline(): Timeline {
  const { advance, monotonic, timer } = createVirtualClock()
  const startedAt = monotonic()
  const now = (): number => monotonic() - startedAt
  return { now, monotonic, after: timer, run: (until, isOver) => advance(until - now(), isOver) }
}
