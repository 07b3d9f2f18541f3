// When a kind of sweep may go again: not while one is under way, after a rest, and later the more often it failed.
import type { Clock, Random } from '../../runtime/clock.ts'

export interface Rhythm {
  /** `rests` after one that ended, `backs-off` after one that failed. */
  state(): 'ready' | 'running' | 'rests' | 'backs-off'
  /** Counts as running until the returned function is called; more calls of it do nothing. */
  begin(): () => void
  /**
   * Notes that one ended, after `seconds` of work, also where something else did its work. Time in which it could only
   * wait for a Retry-After to pass is no work.
   */
  ended(seconds: number): void
  failed(): void
  /** The last one that ended without failing: how long ago, and how long it was to rest then. Both in ms. */
  last(): { endedAgoMs: number; restMs: number } | undefined
}

export interface RhythmOptions {
  clock: Clock
  random: Random
  /** It rests for this many times its own duration, but no longer than this. */
  restFactor: number
  maxRestMs: number
}

const firstBackoffMs = 1000
const longestBackoffMs = 300_000

export function createRhythm({ clock, maxRestMs, random, restFactor }: RhythmOptions): Rhythm {
  const running = new Set<object>()
  let restsUntil = -Infinity
  let last: { endedAt: number; restMs: number } | undefined
  let failuresInARow = 0

  return {
    state() {
      if (running.size > 0) return 'running'
      if (clock.monotonic() >= restsUntil) return 'ready'
      return failuresInARow > 0 ? 'backs-off' : 'rests'
    },
    begin() {
      const own = {}
      running.add(own)
      return () => {
        running.delete(own)
      }
    },
    ended(seconds) {
      failuresInARow = 0
      last = { endedAt: clock.monotonic(), restMs: Math.min(maxRestMs, restFactor * seconds * 1000) }
      restsUntil = last.endedAt + last.restMs
    },
    failed() {
      const longest = Math.min(longestBackoffMs, firstBackoffMs * 2 ** Math.min(failuresInARow, 20))
      failuresInARow += 1
      restsUntil = clock.monotonic() + longest * (1 - random.next() / 2)
    },
    last: () => last && { endedAgoMs: clock.monotonic() - last.endedAt, restMs: last.restMs },
  }
}
