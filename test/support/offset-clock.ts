// A clock that goes on by itself like the host's and can be moved on at once: nothing in a test waits for real.
import { performance } from 'node:perf_hooks'
import { sleepBy, type Clock } from '../../src/runtime/clock.ts'

export interface OffsetClock extends Clock {
  /** Moves both clocks on; who sleeps less than that wakes up. */
  advance(ms: number): void
  /** The same time as a host sees it whose wall clock is this far ahead (negative: behind). Durations are the same. */
  seenAhead(ms: number): Clock
}

/** @param startAt wall clock at the start, epoch ms; default the host's own */
export function createOffsetClock(startAt = Date.now()): OffsetClock {
  const startedAt = performance.now()
  let advanced = 0
  /** One for each timer that runs: the clock has been moved on. */
  const rearming = new Set<() => void>()

  const elapsed = (): number => performance.now() - startedAt + advanced
  const realMsUntil = (at: number): number => Math.min(Math.max(0, Math.ceil(at - elapsed())), 2 ** 31 - 1)
  // Neither 0 nor the wall clock: who mixes the two clocks up shall be found out.
  const monotonic = (): number => 5_000_000 + elapsed()

  function timer(ms: number, act: () => void): () => void {
    const at = elapsed() + ms
    let pending: NodeJS.Timeout
    const rearm = (): void => {
      clearTimeout(pending)
      pending = setTimeout(() => (elapsed() < at ? rearm() : end()), realMsUntil(at))
    }
    const end = (): void => {
      cancel()
      act()
    }
    const cancel = (): void => {
      clearTimeout(pending)
      rearming.delete(rearm)
    }
    rearming.add(rearm)
    rearm()
    return cancel
  }

  const sleep = sleepBy(timer)
  const now = (): number => Math.floor(startAt + elapsed())
  return {
    now,
    monotonic,
    timer,
    sleep,
    advance(ms) {
      advanced += ms
      for (const rearm of [...rearming]) rearm()
    },
    seenAhead: (ms) => ({ now: () => now() + ms, monotonic, timer, sleep }),
  }
}
