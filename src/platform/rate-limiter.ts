// Rate limiter for all API calls: the limits that the platform's responses show, with weighted traffic classes.
import type { Clock } from '../runtime/clock.ts'
import { onAbort } from '../runtime/on-abort.ts'
import {
  createLearnedLimit,
  fill,
  fullBucket,
  untilOne,
  type Bucket,
  type LearnedLimit,
  type RefusedCall,
} from './learned-limit.ts'

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

/** Evidence of a response about the rate. Calls without a response are not reported. */
export interface RateReport extends Omit<RefusedCall, 'kind'> {
  /** `ok`: any response that is no refusal. */
  kind: RefusedCall['kind'] | 'ok'
  /** Class of the call. */
  of: TrafficClass
}

/** True if a limit has refused the call: a 429, or a 503 with Retry-After. */
export function isRefusal(report: RateReport): report is RateReport & RefusedCall {
  return report.kind === 'throttled' || (report.kind === 'overloaded' && report.retryAfterMs !== undefined)
}

export interface RateLimiter {
  /** Resolves when the call may be sent; rejects with the signal's reason. */
  acquire(kind: TrafficClass, signal?: AbortSignal): Promise<void>
  /** Acquires a call without waiting; false if it must wait for the rate or another class. */
  tryAcquire(kind: TrafficClass): boolean
  /** Returns an unused call. */
  release(kind: TrafficClass): void
  reportResponse(report: RateReport): void
  /** Current limit of calls per second, of all classes together. */
  limit(): number
  /** Remaining milliseconds of a pause of this class; 0 if not paused. */
  pausedForMs(kind: TrafficClass): number
  /** Total paused milliseconds of this class so far. */
  pausedMs(kind: TrafficClass): number
}

/**
 * While retries wait, sweeps get 20 % of the rate, checks 3 % (or as much as retries if late), and books 2 %
 * (docs/architecture.md "Retry plan").
 */
const share: Readonly<Record<TrafficClass, number>> = { retry: 0.75, list: 0.2, confirm: 0.03, books: 0.02 }
/** Books never get a larger share. */
const maxBooksShare = 0.1
/** After a refused list, lists wait this much longer than retries. Otherwise the first call after each pause would be a list, which is refused again. */
const retryFirstMs = 1000
/** Lists have a limit of their own after this many refusals, each followed by an accepted retry. */
const refusedAloneOften = 2
/**
 * A longer pause of lists blocks no retry, and one of retries no list, in ms: quotas of a minute end sooner. Retries have a limit of their
 * own after as many refusals that ask for such a pause, each followed by an accepted list.
 */
export const longPauseMs = 65_000
/**
 * A class that was just served counts as waiting for this long: its caller queues the next request only after the promise
 * resolves. Otherwise retries would fall below their share.
 */
const keptPlaceMs = 1

export function createRateLimiter(options: RateLimiterOptions): RateLimiter {
  const { areChecksLate = () => false, clock, maxPerSecond, maxRetriesPerSecond, maxRetryAfterMs = Infinity } = options
  const start = clock.monotonic()
  const newLimit = (): LearnedLimit => createLearnedLimit({ clock, maxPerSecond, maxRetryAfterMs })
  const all = newLimit()
  /** Of all classes but retries; undefined until a list was refused. */
  let ofLists: LearnedLimit | undefined
  /** Refused lists that were each followed by an accepted retry, since a retry was last refused. */
  let refusedAlone = 0
  /** When a list was last refused, monotonic ms; Infinity once a retry was accepted. */
  let listRefusedAt = Infinity
  /** Of retries alone; undefined until they were refused while lists were not. */
  let ofRetries: LearnedLimit | undefined
  /** Refused retries that were each followed by an accepted list, since a list was refused or a retry accepted; and the last one. */
  let [retriesRefusedAlone, retryRefusedAt] = [0, Infinity]
  /** Pending grants, first come, first served within a class. */
  const queues: Record<TrafficClass, (() => void)[]> = { retry: [], list: [], confirm: [], books: [] }
  /** Stride scheduling: the class that has used least of its share is next. */
  const used: Record<TrafficClass, number> = { retry: 0, list: 0, confirm: 0, books: 0 }
  let usedByNow = 0
  let lastServed: { kind: TrafficClass; at: number } | undefined
  /** Classes with a maximum of their own. */
  const own: Partial<Record<TrafficClass, { bucket: Bucket; perSecond: () => number }>> = {
    books: { bucket: fullBucket(1, start), perSecond: () => all.perSecond() * maxBooksShare },
    ...(maxRetriesPerSecond !== undefined && {
      retry: { bucket: fullBucket(maxRetriesPerSecond, start), perSecond: () => maxRetriesPerSecond },
    }),
  }
  /** The end of the last pause, monotonic ms, and the length of all of them. */
  const pauses = { retry: { until: -Infinity, totalMs: 0 }, list: { until: -Infinity, totalMs: 0 } }
  let cancelTimer: (() => void) | undefined

  const ofClass = (kind: TrafficClass): LearnedLimit | undefined => (kind === 'retry' ? ofRetries : ofLists)
  const pausedForMs = (kind: TrafficClass): number => Math.max(all.pausedForMs(), ofClass(kind)?.pausedForMs() ?? 0)

  /** Pauses may overlap. */
  function notePauses(): void {
    const now = clock.monotonic()
    for (const kind of ['retry', 'list'] as const) {
      const pause = pauses[kind]
      const until = Math.max(pause.until, now + pausedForMs(kind))
      pause.totalMs += until - Math.max(pause.until, now)
      pause.until = until
    }
  }

  function refill(): void {
    all.refill()
    ofLists?.refill()
    ofRetries?.refill()
    for (const { bucket, perSecond } of Object.values(own)) fill(bucket, perSecond(), clock.monotonic())
  }

  /** Milliseconds until the limits of this class alone allow a call. */
  function untilOwnMs(kind: TrafficClass): number {
    const maximum = own[kind]
    const ofMaximum = maximum === undefined ? 0 : untilOne(maximum.bucket, maximum.perSecond())
    return Math.max(ofMaximum, ofClass(kind)?.untilNextMs() ?? 0)
  }

  const mayGo = (kind: TrafficClass): boolean => untilOwnMs(kind) === 0

  /** The class to serve next; undefined if none, or if the last call is reserved for the class just served. */
  function nextKind(): TrafficClass | undefined {
    forgiveLateChecks()
    const isKept = all.bucket.level < 2 && lastServed !== undefined && clock.monotonic() < lastServed.at + keptPlaceMs
    const keptFor = isKept ? lastServed?.kind : undefined
    const [first] = trafficClasses
      .filter((kind) => mayGo(kind) && (queues[kind].length > 0 || kind === keptFor))
      .toSorted((a, b) => used[a] - used[b])
    return first !== undefined && queues[first].length > 0 ? first : undefined
  }

  /** Late checks owe nothing for their small share, so they get as much as retries. */
  function forgiveLateChecks(): void {
    const perSecond = Math.min(all.perSecond(), ofLists?.perSecond() ?? Infinity)
    if (areChecksLate(1000 / perSecond)) used.confirm = Math.min(used.confirm, usedByNow + 1 / share.retry)
  }

  function draw(kind: TrafficClass, calls: 1 | -1): void {
    for (const bucket of [all.bucket, own[kind]?.bucket, ofClass(kind)?.bucket]) if (bucket) bucket.level -= calls
  }

  function take(kind: TrafficClass): void {
    draw(kind, 1)
    // A class limited by its own maximum uses less than its share, and must not reset this.
    usedByNow = Math.max(usedByNow, used[kind])
    used[kind] += 1 / share[kind]
    lastServed = { kind, at: clock.monotonic() }
    // Nor does a pause of lists save up calls.
    if ([ofLists, ofRetries].some((limit) => (limit?.pausedForMs() ?? 0) > 0))
      for (const other of trafficClasses) used[other] = Math.max(used[other], usedByNow)
  }

  /** Milliseconds until the next grant; undefined if none is pending. */
  function untilNext(): number | undefined {
    const waiting = trafficClasses.filter((kind) => queues[kind].length > 0)
    if (waiting.length === 0) return undefined
    return Math.max(all.untilNextMs(), Math.min(...waiting.map(untilOwnMs)))
  }

  function pump(): void {
    refill()
    for (let kind = nextKind(); kind !== undefined && all.untilNextMs() === 0; kind = nextKind()) {
      take(kind)
      queues[kind].shift()?.()
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

  /** A platform may limit lists alone: a pause of theirs then is none of retries. */
  function learnLimits(report: RateReport): void {
    const { kind, of, sentAt } = report
    const isRefused = isRefusal(report)
    if (of === 'retry' ? !isRefused : isRefused) [retriesRefusedAlone, retryRefusedAt] = [0, Infinity]
    // A short wait is over soon.
    else if (of === 'retry') retryRefusedAt = (report.retryAfterMs ?? 0) > longPauseMs ? clock.monotonic() : Infinity
    else if (kind === 'ok' && sentAt > retryRefusedAt)
      [retriesRefusedAlone, retryRefusedAt] = [retriesRefusedAlone + 1, Infinity]
    if (of !== 'retry') {
      if (!isRefused) return
      listRefusedAt = clock.monotonic()
    } else if (isRefused) {
      ;[refusedAlone, listRefusedAt] = [refusedAlone < refusedAloneOften ? 0 : refusedAloneOften - 1, Infinity]
    } else if (kind === 'ok' && sentAt > listRefusedAt) {
      ;[refusedAlone, listRefusedAt] = [refusedAlone + 1, Infinity]
    }
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
    if (all.bucket.level < 2 || all.pausedForMs() > 0 || !mayGo(kind)) return false
    if (trafficClasses.some((other) => queues[other].length > 0)) return false
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
      learnLimits(report)
      const { kind, of } = report
      if (kind === 'ok') {
        for (const limit of [all, ofClass(of)]) limit?.succeeded()
        return
      }
      const lists = of === 'retry' ? undefined : (ofLists ??= newLimit())
      if (lists !== undefined && refusedAlone >= refusedAloneOften) lists.refused({ ...report, kind })
      else if (of === 'retry' && retriesRefusedAlone >= refusedAloneOften && (report.retryAfterMs ?? 0) > longPauseMs)
        (ofRetries ??= newLimit()).refused({ ...report, kind })
      else {
        all.refused({ ...report, kind })
        if (all.pausedForMs() > 0) lists?.pause(all.pausedForMs() + retryFirstMs)
        // After a long pause, a list shows first whether retries alone are refused.
        if (of === 'retry' && all.pausedForMs() > longPauseMs)
          used.retry = Math.max(used.retry, used.list + 1 / share.list)
      }
      notePauses()
      rearm()
    },
    limit() {
      refill()
      return all.perSecond()
    },
    pausedForMs,
    pausedMs: (kind) => {
      const { totalMs, until } = pauses[kind === 'retry' ? kind : 'list']
      return totalMs - Math.max(0, until - clock.monotonic())
    },
  }
}
