// A limit of the platform, as its responses show it: a token bucket that refusals cut and pause, and successful responses raise again.
import type { Clock } from '../runtime/clock.ts'

/** A token bucket that holds at least one call. */
export interface Bucket {
  level: number
  filledAt: number
}

export function fullBucket(perSecond: number, now: number): Bucket {
  return { level: Math.max(1, perSecond), filledAt: now }
}

/** Returns for how long the bucket has been full, in ms. */
export function fill(bucket: Bucket, perSecond: number, now: number, burst = perSecond): number {
  const level = bucket.level + (Math.max(0, now - bucket.filledAt) / 1000) * perSecond
  bucket.level = Math.min(Math.max(1, burst), level)
  bucket.filledAt = now
  return ((level - bucket.level) / perSecond) * 1000
}

/** Milliseconds until the bucket holds one call. */
export function untilOne(bucket: Bucket, perSecond: number): number {
  return Math.max(0, ((1 - bucket.level) / perSecond) * 1000)
}

/** Evidence of a refusal about the rate. */
export interface RefusedCall {
  /** `throttled`: a 429. `overloaded`: a 503. */
  kind: 'throttled' | 'overloaded'
  /** Retry-After in milliseconds, if present. */
  retryAfterMs: number | undefined
  /** When the request was sent, monotonic ms: responses to calls sent before the last cut cause no further cut. */
  sentAt: number
}

export interface LearnedLimit {
  bucket: Bucket
  perSecond(): number
  /** Fills the bucket, and measures for how long its calls waited. */
  refill(): void
  succeeded(): void
  refused(refusal: RefusedCall): void
  /** Allows no call for so many milliseconds. */
  pause(ms: number): void
  /** Milliseconds until a call is allowed. */
  untilNextMs(): number
  /** Remaining milliseconds of a pause; 0 if not paused. */
  pausedForMs(): number
}

/**
 * Growth after a cut: the cubic curve of RFC 9438, over successful responses instead of time. It stays near the found limit for
 * about `plateauSeconds`, counted as calls at that limit, then leaves it faster and faster.
 */
const [plateauSeconds, curvature] = [15, 3e-5]
/** The curve begins at this share of the found limit. */
const cutShare = 1 - curvature * plateauSeconds ** 3
/** Maximum increase by a successful response: this share of the found limit, or this many calls per second. */
const [maxStepShare, maxStep] = [1 / 40, 0.1]
/** The granted rate is measured over about this time, or this many calls. */
const [measuredMs, measuredCalls] = [5000, 5]
const firstPauseMs = 1000
/** Maximum pause if the platform names none. */
const maxPauseMs = 300_000
/**
 * Minimum rate (or the maximum, if lower): after grants, and without any successful response. Without calls it could not
 * recover.
 */
const [lowestGranted, lowestPerSecond] = [0.1, 1]

export interface LearnedLimitOptions {
  clock: Pick<Clock, 'monotonic'>
  maxPerSecond: number
  maxRetryAfterMs: number
}

/** Begins at the maximum. */
export function createLearnedLimit({ clock, maxPerSecond, maxRetryAfterMs }: LearnedLimitOptions): LearnedLimit {
  const bucket = fullBucket(maxPerSecond, clock.monotonic())
  let perSecond = maxPerSecond
  /** The platform's limit, as the last cut found it. */
  let found = maxPerSecond
  /** A cut from the maximum, with its burst, says little about the limit: the rate then follows no curve. */
  let isGuess = true
  let cutAt = -Infinity
  /** Since the last cut: successful responses, and the time that calls waited for the rate or a pause. */
  let [grown, busySinceCutMs] = [0, 0]
  /** The same for the last seconds. */
  let [good, busyMs] = [0, 0]
  let pausedUntil = -Infinity
  let throttledInARow = 0

  function pausedForMs(): number {
    return pausedUntil === -Infinity ? 0 : Math.max(0, pausedUntil - clock.monotonic())
  }

  function pause(ms: number): void {
    pausedUntil = Math.max(pausedUntil, clock.monotonic() + ms)
  }

  /** Pauses lengthen while no call succeeds, however short the pauses that the platform asks for. */
  function pauseFor({ kind, retryAfterMs }: RefusedCall): void {
    const own = kind === 'throttled' ? firstPauseMs * 2 ** Math.min(Math.max(0, throttledInARow - 1), 20) : 0
    if (retryAfterMs === undefined) pause(Math.min(maxPauseMs, own))
    else
      pause(Math.max(Math.min(retryAfterMs, maxRetryAfterMs), throttledInARow > 1 ? Math.min(maxPauseMs, own / 2) : 0))
  }

  /** Cuts the rate to slightly less than the platform granted; to half, if nothing was granted since the last cut. */
  function cut(): void {
    const pausedMs = pausedForMs()
    const sinceCutMs = busySinceCutMs + pausedMs
    // A pause longer than the work before it means a quota: its calls are spread over the whole time.
    const granted =
      pausedMs > busySinceCutMs ? (1000 * grown) / Math.max(1000, sinceCutMs) : (1000 * good) / Math.max(1000, busyMs)
    isGuess = perSecond === maxPerSecond
    if (grown > 0) found = Math.min(perSecond, Math.max(lowestGranted, granted))
    else found = Math.min(perSecond / cutShare, Math.max(lowestPerSecond, perSecond / 2))
    perSecond = found * cutShare
    bucket.level = Math.min(bucket.level, 0)
    ;[grown, busySinceCutMs, good, busyMs] = [0, 0, 0, 0]
  }

  return {
    bucket,
    perSecond: () => perSecond,
    refill() {
      const now = clock.monotonic()
      const since = bucket.filledAt
      // Below its maximum it allows no burst, because no response shows its permitted size.
      const idleMs = fill(bucket, perSecond, now, perSecond < maxPerSecond ? 1 : maxPerSecond)
      const pausedMs = Math.max(0, Math.min(now, pausedUntil) - since)
      const workedMs = Math.max(pausedMs, now - since - idleMs)
      busySinceCutMs += workedMs
      busyMs += workedMs
      const tooMuch = busyMs / Math.max(measuredMs, (measuredCalls / perSecond) * 1000)
      if (tooMuch > 1) [good, busyMs] = [good / tooMuch, busyMs / tooMuch]
    },
    succeeded() {
      throttledInARow = 0
      ;[grown, good] = [grown + 1, good + 1]
      const curve = found * (1 + curvature * (grown / found - plateauSeconds) ** 3)
      const stepped = perSecond + Math.max(found * maxStepShare, maxStep)
      perSecond = Math.min(maxPerSecond, isGuess ? stepped : Math.max(perSecond, Math.min(curve, stepped)))
      if (perSecond === maxPerSecond) [found, isGuess] = [maxPerSecond, true]
    },
    refused(refusal) {
      // A rejection of a request sent before the last cut says nothing about the new rate.
      const isNews = refusal.sentAt > cutAt
      if (isNews && refusal.kind === 'throttled') throttledInARow += 1
      pauseFor(refusal)
      if (!isNews) return
      if (refusal.kind === 'throttled' || refusal.retryAfterMs !== undefined) cut()
      else perSecond = Math.max(Math.min(perSecond, lowestPerSecond), perSecond / 2)
      cutAt = clock.monotonic()
    },
    untilNextMs: () => Math.max(pausedForMs(), untilOne(bucket, perSecond)),
    pause,
    pausedForMs,
  }
}
