// A clock that goes on by itself like the host's, can be moved on at once, and can be made to go faster: nothing in a test waits for real.
import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { Clock } from '../../src/runtime/clock.ts'

export interface OffsetClock extends Clock {
  /** Moves both clocks on; who sleeps less than that wakes up. */
  advance(ms: number): void
  /** The same time as a host sees it whose wall clock is this far ahead (negative: behind). Durations are the same. */
  seenAhead(ms: number): Clock
}

export interface OffsetClockOptions {
  /** Wall clock at the start, epoch ms; default the host's own. */
  startAt?: number
  /** Milliseconds that pass in one real one. Default 1. */
  speed?: number
}

export function createOffsetClock({ startAt = Date.now(), speed = 1 }: OffsetClockOptions = {}): OffsetClock {
  const startedAt = performance.now()
  let advanced = 0
  let moved = new AbortController()

  const elapsed = (): number => (performance.now() - startedAt) * speed + advanced
  // Neither 0 nor the wall clock: who mixes the two clocks up shall be found out.
  const monotonic = (): number => 5_000_000 + elapsed()

  async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const wakeAt = elapsed() + ms
    for (let left = ms; left > 0; left = wakeAt - elapsed()) {
      await nap(Math.ceil(left / speed), signal)
      signal?.throwIfAborted()
    }
  }

  /** Until the time has passed, somebody moves the clock on, or the signal is aborted. */
  async function nap(realMs: number, signal: AbortSignal | undefined): Promise<void> {
    const ended = new AbortController()
    const end = (): void => {
      ended.abort()
    }
    const { signal: moving } = moved
    moving.addEventListener('abort', end, { once: true })
    signal?.addEventListener('abort', end, { once: true })
    try {
      await delay(Math.min(realMs, 2 ** 31 - 1), undefined, { signal: ended.signal })
    } catch (error) {
      if (!ended.signal.aborted) throw error
    } finally {
      moving.removeEventListener('abort', end)
      signal?.removeEventListener('abort', end)
    }
  }

  const now = (): number => Math.floor(startAt + elapsed())
  return {
    now,
    monotonic,
    sleep,
    advance(ms) {
      advanced += ms
      const before = moved
      moved = new AbortController()
      before.abort()
    },
    seenAhead: (ms) => ({ now: () => now() + ms, monotonic, sleep }),
  }
}
