// One rate for all calls to the platform's API: a token bucket whose rate adapts (AIMD), with shares for who waits.
import type { Clock } from '../clock.ts'

/** Who asks: retries (PATCH), sweeps (list), confirmations (reads of what was retried). */
export type RateClass = 'retry' | 'list' | 'confirm'

export interface RateOptions {
  clock: Clock
  /** Upper bound of calls a second; the burst is what the rate gives in one second. */
  maxPerSecond: number
  /** Upper bound of retries a second, for the receiver's sake; undefined for none. */
  maxRetriesPerSecond?: number | undefined
}

/** What an answer says of the rate. */
export interface RateFeedback {
  /** `throttled` by a 429, `overloaded` by a 503, `ok` for an answer that shows neither; failures without an answer say nothing. */
  kind: 'ok' | 'throttled' | 'overloaded'
  /** Retry-After in milliseconds, when the answer had one. */
  retryAfterMs: number | undefined
  /** When the request was sent, on the monotonic clock: answers to calls sent before the last cut don't cut again. */
  sentAt: number
}

export interface Rate {
  /** Resolves when the call may be sent; rejects with the signal's reason when aborted. */
  acquire(kind: RateClass, signal?: AbortSignal): Promise<void>
  /** Gives back what was acquired and not used. */
  release(kind: RateClass): void
  feedback(answer: RateFeedback): void
  /** Calls a second allowed now. */
  limit(): number
  /** Milliseconds until a Retry-After has passed; 0 when not paused. */
  pausedForMs(): number
}

/** While retries wait, sweeps get 20 % of the rate and confirmations 3 % (design section 10). */
const share: Readonly<Record<RateClass, number>> = { retry: 0.77, list: 0.2, confirm: 0.03 }
/** The rate comes back by this part of the maximum a second. */
const recoveryPerSecond = 0.05
const firstPauseMs = 1000
const maxPauseMs = 300_000
/** The rate is never cut below one call a second (or the maximum, when that is lower): a stopped clock learns nothing. */
const lowestPerSecond = 1

interface Waiter {
  kind: RateClass
  grant: () => void
}

/** A bucket that fills at a rate and holds what one second gives, at least one. */
interface Bucket {
  level: number
  filledAt: number
}

function fill(bucket: Bucket, perSecond: number, now: number): void {
  const gained = (Math.max(0, now - bucket.filledAt) / 1000) * perSecond
  bucket.level = Math.min(Math.max(1, perSecond), bucket.level + gained)
  bucket.filledAt = now
}

export function createRate(options: RateOptions): Rate {
  const { clock, maxPerSecond } = options
  const maxRetries = options.maxRetriesPerSecond ?? Infinity
  const lowest = Math.min(lowestPerSecond, maxPerSecond)
  const start = clock.monotonic()
  const all: Bucket = { level: Math.max(1, maxPerSecond), filledAt: start }
  const retries: Bucket = { level: Math.min(Math.max(1, maxRetries), 1e9), filledAt: start }
  const queues: Record<RateClass, Waiter[]> = { retry: [], list: [], confirm: [] }
  /** Stride scheduling: who has used the least of its share goes next. */
  const used: Record<RateClass, number> = { retry: 0, list: 0, confirm: 0 }
  let usedByNow = 0
  let perSecond = maxPerSecond
  let adaptedAt = start
  let cutAt = -Infinity
  let pausedUntil = -Infinity
  let throttledInARow = 0
  let wakeUp: AbortController | undefined

  function refill(): void {
    const now = clock.monotonic()
    perSecond = Math.min(
      maxPerSecond,
      perSecond + (Math.max(0, now - adaptedAt) / 1000) * recoveryPerSecond * maxPerSecond,
    )
    adaptedAt = now
    fill(all, perSecond, now)
    if (maxRetries !== Infinity) fill(retries, maxRetries, now)
  }

  function mayGo(kind: RateClass): boolean {
    return queues[kind].length > 0 && (kind !== 'retry' || maxRetries === Infinity || retries.level >= 1)
  }

  function nextKind(): RateClass | undefined {
    const waiting = (['retry', 'list', 'confirm'] as const).filter(mayGo)
    return waiting.toSorted((a, b) => used[a] - used[b])[0]
  }

  function take(kind: RateClass): void {
    all.level -= 1
    if (kind === 'retry' && maxRetries !== Infinity) retries.level -= 1
    usedByNow = used[kind]
    used[kind] += 1 / share[kind]
  }

  /** Milliseconds until the next grant is possible; undefined when nobody waits. */
  function untilNext(): number | undefined {
    const waiting = queues.list.length + queues.confirm.length + queues.retry.length
    if (waiting === 0) return undefined
    const paused = Math.max(0, pausedUntil - clock.monotonic())
    const forAll = all.level >= 1 ? 0 : ((1 - all.level) / perSecond) * 1000
    const onlyRetries = queues.retry.length === waiting && maxRetries !== Infinity && retries.level < 1
    const forRetries = onlyRetries ? ((1 - retries.level) / maxRetries) * 1000 : 0
    return Math.max(paused, forAll, forRetries)
  }

  function pump(): void {
    refill()
    if (clock.monotonic() >= pausedUntil) {
      for (let kind = nextKind(); kind !== undefined && all.level >= 1; kind = nextKind()) {
        take(kind)
        queues[kind].shift()?.grant()
      }
    }
    rearm()
  }

  /** One sleeper for all who wait; a change of the rate sends it to sleep anew. */
  function rearm(): void {
    wakeUp?.abort()
    wakeUp = undefined
    const wait = untilNext()
    if (wait === undefined) return
    const own = new AbortController()
    wakeUp = own
    // A millisecond more than computed, so that rounding never wakes it just before its time.
    clock.sleep(Math.ceil(wait) + 1, own.signal).then(pump, () => undefined)
  }

  function pause(ms: number): void {
    pausedUntil = Math.max(pausedUntil, clock.monotonic() + Math.min(ms, maxPauseMs))
  }

  return {
    async acquire(kind, signal) {
      signal?.throwIfAborted()
      // Somebody who comes back after a rest must not be owed all that it did not use meanwhile.
      if (queues[kind].length === 0) used[kind] = Math.max(used[kind], usedByNow)
      await new Promise<void>((resolve, reject) => {
        const cancel = (): void => {
          queues[kind] = queues[kind].filter((other) => other !== waiter)
          reject(signal?.reason as Error)
        }
        const waiter: Waiter = {
          kind,
          grant: () => {
            signal?.removeEventListener('abort', cancel)
            resolve()
          },
        }
        signal?.addEventListener('abort', cancel, { once: true })
        queues[kind].push(waiter)
        pump()
      })
    },
    release(kind) {
      all.level += 1
      if (kind === 'retry' && maxRetries !== Infinity) retries.level += 1
      used[kind] -= 1 / share[kind]
      pump()
    },
    feedback(answer) {
      refill()
      if (answer.kind === 'ok') {
        throttledInARow = 0
        return
      }
      if (answer.sentAt > cutAt) {
        perSecond = Math.max(lowest, perSecond / 2)
        all.level = Math.min(all.level, Math.max(1, perSecond))
        cutAt = clock.monotonic()
        if (answer.kind === 'throttled') throttledInARow += 1
      }
      if (answer.retryAfterMs !== undefined) pause(answer.retryAfterMs)
      else if (answer.kind === 'throttled') pause(firstPauseMs * 2 ** Math.min(Math.max(0, throttledInARow - 1), 20))
      rearm()
    },
    limit() {
      refill()
      return perSecond
    },
    pausedForMs: () => Math.max(0, pausedUntil - clock.monotonic()),
  }
}
