// Small instruments that say when something goes beyond its limit.

/** A token bucket seen from outside: it holds what one second gives, at least one. */
export interface Bucket {
  /** Takes one at `now` (ms); false when there was none. */
  take(now: number): boolean
  /** Calls that had taken theirs before can only go now, or within `ms`. */
  allow(calls: number, now: number, ms?: number): void
  /** How much is in it at least, 0 to 1 of what it can hold: all may have taken theirs when they went. */
  level(now: number): number
}

/** Rounding, and timers that fire within a millisecond. */
const tolerance = 0.05

export function createBucket(perSecond: number): Bucket {
  const size = Math.max(1, perSecond)
  let [level, least] = [size, size]
  let filledAt = 0
  /** What is allowed beyond it, and until when. */
  let [allowed, allowedUntil] = [0, -Infinity]
  function fill(now: number): void {
    const gained = ((now - filledAt) / 1000) * perSecond
    ;[level, least] = [Math.min(size, level + gained), Math.min(size, least + gained)]
    filledAt = now
    if (now > allowedUntil) allowed = 0
  }
  return {
    take(now) {
      fill(now)
      const borrowed = Math.min(allowed, 1)
      allowed -= borrowed
      level += borrowed - 1
      least = Math.max(0, least - 1)
      return level > -tolerance
    },
    allow(calls, now, ms = 0) {
      fill(now)
      allowed += calls
      allowedUntil = Math.max(allowedUntil, now + ms)
    },
    level(now) {
      fill(now)
      return least / size
    },
  }
}

/** True when the last `count` of these times, in order, lie closer together than `spanMs`. */
export function isTooMany(times: readonly number[], count: number, spanMs: number): boolean {
  const first = times[times.length - count]
  const last = times.at(-1)
  return first !== undefined && last !== undefined && last - first < spanMs
}
