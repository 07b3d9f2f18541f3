// Small instruments that say when something goes beyond its limit.

/** A token bucket seen from outside: it holds what one second gives, at least one. */
export interface Bucket {
  /** Takes one at `now` (ms); false when there was none. */
  take(now: number): boolean
  /** How much is in it, 0 to 1 of what it can hold. */
  level(now: number): number
}

/** Rounding, and timers that fire within a millisecond. */
const tolerance = 0.05

export function createBucket(perSecond: number): Bucket {
  const size = Math.max(1, perSecond)
  let level = size
  let filledAt = 0
  function fill(now: number): void {
    level = Math.min(size, level + ((now - filledAt) / 1000) * perSecond)
    filledAt = now
  }
  return {
    take(now) {
      fill(now)
      level -= 1
      return level > -tolerance
    },
    level(now) {
      fill(now)
      return level / size
    },
  }
}

/** True when the last `count` of these times, in order, lie closer together than `spanMs`. */
export function isTooMany(times: readonly number[], count: number, spanMs: number): boolean {
  const first = times[times.length - count]
  const last = times.at(-1)
  return first !== undefined && last !== undefined && last - first < spanMs
}
