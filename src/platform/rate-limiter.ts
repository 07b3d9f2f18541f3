// Rate limiter for all API calls: a token bucket that learns the platform's limit, with weighted traffic classes.
import type { Clock } from '../runtime/clock.ts'
import { onAbort } from '../runtime/on-abort.ts'

/** Retries (PATCH), sweeps (list), outcome checks (confirm), records to compare with the ledger (books). */
export const trafficClasses = ['retry', 'list', 'confirm', 'books'] as const
export type TrafficClass = (typeof trafficClasses)[number]

export interface RateLimiterOptions {
  clock: Clock
  /** Maximum calls per second; the burst is one second of calls, until the platform has shown a lower limit. */
  maxPerSecond: number
  /** A Retry-After is obeyed up to this many milliseconds. Default: unlimited. */
  maxRetryAfterMs?: number
  /** Maximum retries per second, to spare the receiver; undefined: unlimited. */
  maxRetriesPerSecond?: number | undefined
  /**
   * True while an outcome check is long overdue: checks then get as much as retries. Receives the time between two calls.
   * Default: never.
   */
  areChecksLate?: (callMs: number) => boolean
}

/** What a response says about the rate. */
export interface RateReport {
  /** `throttled`: a 429. `overloaded`: a 503. `ok`: any other. Calls without a response are not reported. */
  kind: 'ok' | 'throttled' | 'overloaded'
  /** Retry-After in milliseconds, if present. */
  retryAfterMs: number | undefined
  /** When the request was sent, monotonic ms: responses to calls sent before the last cut cause no further cut. */
  sentAt: number
}

export interface RateLimiter {
  /** Resolves when the call may be sent; rejects with the signal's reason. */
  acquire(kind: TrafficClass, signal?: AbortSignal): Promise<void>
  /** Acquires a call without waiting; false if it must wait for the rate or another class. */
  tryAcquire(kind: TrafficClass): boolean
  /** Returns an unused call. */
  release(kind: TrafficClass): void
  reportResponse(report: RateReport): void
  /** Current limit of calls per second. */
  limit(): number
  /** Remaining milliseconds of a Retry-After; 0 if not paused. */
  pausedForMs(): number
  /** Total paused milliseconds so far. */
  pausedMs(): number
}

/**
 * While retries wait, sweeps get 20 % of the rate, checks 3 % (or as much as retries if late), and books 2 %
 * (docs/architecture.md "Retry plan").
 */
const share: Readonly<Record<TrafficClass, number>> = { retry: 0.75, list: 0.2, confirm: 0.03, books: 0.02 }
/** Books never get a larger share. */
const maxBooksShare = 0.1
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
/**
 * A class that was just served counts as waiting for this long: its caller queues the next request only after the promise
 * resolves. Otherwise retries would fall below their share.
 */
const keptPlaceMs = 1

/** A token bucket that holds at least one call. */
interface Bucket {
  level: number
  filledAt: number
}

function fullBucket(perSecond: number, now: number): Bucket {
  return { level: Math.max(1, perSecond), filledAt: now }
}

/** Returns for how long the bucket has been full, in ms. */
function fill(bucket: Bucket, perSecond: number, now: number, burst = perSecond): number {
  const level = bucket.level + (Math.max(0, now - bucket.filledAt) / 1000) * perSecond
  bucket.level = Math.min(Math.max(1, burst), level)
  bucket.filledAt = now
  return ((level - bucket.level) / perSecond) * 1000
}

/** Milliseconds until the bucket holds one call. */
function untilOne(bucket: Bucket, perSecond: number): number {
  return Math.max(0, ((1 - bucket.level) / perSecond) * 1000)
}

export function createRateLimiter(options: RateLimiterOptions): RateLimiter {
  const { areChecksLate = () => false, clock, maxPerSecond, maxRetriesPerSecond, maxRetryAfterMs = Infinity } = options
  const start = clock.monotonic()
  const all = fullBucket(maxPerSecond, start)
  /** Pending grants, first come, first served within a class. */
  const queues: Record<TrafficClass, (() => void)[]> = { retry: [], list: [], confirm: [], books: [] }
  /** Stride scheduling: the class that has used least of its share is next. */
  const used: Record<TrafficClass, number> = { retry: 0, list: 0, confirm: 0, books: 0 }
  let usedByNow = 0
  let lastServed: { kind: TrafficClass; at: number } | undefined
  let perSecond = maxPerSecond
  /** Classes with a maximum of their own. */
  const own: Partial<Record<TrafficClass, { bucket: Bucket; perSecond: () => number }>> = {
    books: { bucket: fullBucket(1, start), perSecond: () => perSecond * maxBooksShare },
    ...(maxRetriesPerSecond !== undefined && {
      retry: { bucket: fullBucket(maxRetriesPerSecond, start), perSecond: () => maxRetriesPerSecond },
    }),
  }
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
  /** All pauses so far, including the rest of the present one. */
  let pausedInAllMs = 0
  let throttledInARow = 0
  let cancelTimer: (() => void) | undefined

  function refill(): void {
    const now = clock.monotonic()
    const since = all.filledAt
    // Below its maximum it allows no burst, because no response shows its permitted size.
    const idleMs = fill(all, perSecond, now, perSecond < maxPerSecond ? 1 : maxPerSecond)
    const pausedMs = Math.max(0, Math.min(now, pausedUntil) - since)
    const workedMs = Math.max(pausedMs, now - since - idleMs)
    busySinceCutMs += workedMs
    busyMs += workedMs
    const tooMuch = busyMs / Math.max(measuredMs, (measuredCalls / perSecond) * 1000)
    if (tooMuch > 1) [good, busyMs] = [good / tooMuch, busyMs / tooMuch]
    for (const { bucket, perSecond: rate } of Object.values(own)) fill(bucket, rate(), now)
  }

  function mayGo(kind: TrafficClass): boolean {
    return (own[kind]?.bucket.level ?? 1) >= 1
  }

  /** The class to serve next; undefined if none, or if the last call is reserved for the class just served. */
  function nextKind(): TrafficClass | undefined {
    forgiveLateChecks()
    const isKept = all.level < 2 && lastServed !== undefined && clock.monotonic() < lastServed.at + keptPlaceMs
    const keptFor = isKept ? lastServed?.kind : undefined
    const [first] = trafficClasses
      .filter((kind) => mayGo(kind) && (queues[kind].length > 0 || kind === keptFor))
      .toSorted((a, b) => used[a] - used[b])
    return first !== undefined && queues[first].length > 0 ? first : undefined
  }

  /** Late checks owe nothing for their small share, so they get as much as retries. */
  function forgiveLateChecks(): void {
    if (areChecksLate(1000 / perSecond)) used.confirm = Math.min(used.confirm, usedByNow + 1 / share.retry)
  }

  function draw(kind: TrafficClass, calls: 1 | -1): void {
    all.level -= calls
    const { bucket } = own[kind] ?? {}
    if (bucket !== undefined) bucket.level -= calls
  }

  function take(kind: TrafficClass): void {
    draw(kind, 1)
    // A class limited by its own maximum uses less than its share, and must not reset this.
    usedByNow = Math.max(usedByNow, used[kind])
    used[kind] += 1 / share[kind]
    lastServed = { kind, at: clock.monotonic() }
  }

  /** Milliseconds until the next grant; undefined if none is pending. */
  function untilNext(): number | undefined {
    const waiting = trafficClasses.filter((kind) => queues[kind].length > 0)
    if (waiting.length === 0) return undefined
    const paused = pausedUntil - clock.monotonic()
    const ofOwn = Math.min(
      ...waiting.flatMap((kind) => own[kind] ?? []).map(({ bucket, perSecond: rate }) => untilOne(bucket, rate())),
    )
    return Math.max(0, paused, untilOne(all, perSecond), waiting.some(mayGo) ? 0 : ofOwn)
  }

  function pump(): void {
    refill()
    if (clock.monotonic() >= pausedUntil) {
      for (let kind = nextKind(); kind !== undefined && all.level >= 1; kind = nextKind()) {
        take(kind)
        queues[kind].shift()?.()
      }
    }
    rearm()
  }

  /** One timer for all pending grants; a change of the rate restarts it. */
  function rearm(): void {
    cancelTimer?.()
    const wait = untilNext()
    // A millisecond longer, so that rounding never wakes it too early.
    cancelTimer = wait === undefined ? undefined : clock.timer(Math.ceil(wait) + 1, pump)
  }

  function pause(ms: number): void {
    const now = clock.monotonic()
    const until = Math.max(pausedUntil, now + ms)
    pausedInAllMs += until - Math.max(pausedUntil, now)
    pausedUntil = until
  }

  function pausedForMs(): number {
    return pausedUntil === -Infinity ? 0 : Math.max(0, pausedUntil - clock.monotonic())
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
    all.level = Math.min(all.level, 0)
    ;[grown, busySinceCutMs, good, busyMs] = [0, 0, 0, 0]
  }

  function grow(): void {
    ;[grown, good] = [grown + 1, good + 1]
    const curve = found * (1 + curvature * (grown / found - plateauSeconds) ** 3)
    const stepped = perSecond + Math.max(found * maxStepShare, maxStep)
    perSecond = Math.min(maxPerSecond, isGuess ? stepped : Math.max(perSecond, Math.min(curve, stepped)))
    if (perSecond === maxPerSecond) [found, isGuess] = [maxPerSecond, true]
  }

  /** Pauses lengthen while no call succeeds, however short the pauses that the platform asks for. */
  function pauseFor({ kind, retryAfterMs }: RateReport): void {
    const own = kind === 'throttled' ? firstPauseMs * 2 ** Math.min(Math.max(0, throttledInARow - 1), 20) : 0
    if (retryAfterMs === undefined) pause(Math.min(maxPauseMs, own))
    else
      pause(Math.max(Math.min(retryAfterMs, maxRetryAfterMs), throttledInARow > 1 ? Math.min(maxPauseMs, own / 2) : 0))
  }

  /** Resolves with the grant, or when the signal is aborted first. */
  function granted(kind: TrafficClass, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = (): void => {
        queues[kind] = queues[kind].filter((other) => other !== grant)
        reject(signal?.reason as Error)
        rearm()
      }
      const grant = (): void => {
        forget?.()
        resolve()
      }
      const forget = signal && onAbort(signal, cancel)
      queues[kind].push(grant)
      pump()
    })
  }

  function release(kind: TrafficClass): void {
    draw(kind, -1)
    used[kind] -= 1 / share[kind]
    pump()
  }

  /** An idle class must not accumulate credit. */
  function join(kind: TrafficClass): void {
    if (queues[kind].length === 0) used[kind] = Math.max(used[kind], usedByNow)
  }

  function tryAcquire(kind: TrafficClass): boolean {
    refill()
    // With two left, none needs to be reserved for the class just served.
    if (all.level < 2 || !mayGo(kind) || pausedForMs() > 0 || trafficClasses.some((other) => queues[other].length > 0))
      return false
    join(kind)
    take(kind)
    return true
  }

  return {
    tryAcquire,
    async acquire(kind, signal) {
      signal?.throwIfAborted()
      if (tryAcquire(kind)) return
      join(kind)
      await granted(kind, signal)
      if (signal?.aborted === true) {
        // Aborted after the grant, before the caller could use it.
        release(kind)
        throw signal.reason as Error
      }
    },
    release,
    reportResponse(report) {
      refill()
      if (report.kind === 'ok') {
        throttledInARow = 0
        grow()
        return
      }
      // A rejection of a request sent before the last cut says nothing about the new rate.
      const isNews = report.sentAt > cutAt
      if (isNews && report.kind === 'throttled') throttledInARow += 1
      pauseFor(report)
      if (isNews) {
        if (report.kind === 'throttled' || report.retryAfterMs !== undefined) cut()
        else perSecond = Math.max(Math.min(perSecond, lowestPerSecond), perSecond / 2)
        cutAt = clock.monotonic()
      }
      rearm()
    },
    limit() {
      refill()
      return perSecond
    },
    pausedForMs,
    pausedMs: () => pausedInAllMs - pausedForMs(),
  }
}
