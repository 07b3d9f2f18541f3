// Schedule of sweeps: ticks request them, rests and backoffs delay them. @see docs/architecture.md "Sweep"
import type { Clock, Random } from '../../runtime/clock.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import type { PlatformBreaker } from '../retry/platform-breaker.ts'
import type { SweepKind } from './sweep-report.ts'

export interface SweepScheduleOptions {
  /** True while there is room again for records that gave way: then a full sweep need not rest. */
  hasRoomAgain: () => boolean
  rate: Pick<RateLimiter, 'pausedForMs'>
  breaker: Pick<PlatformBreaker, 'answeredAt'>
  clock: Pick<Clock, 'monotonic'>
  random: Random
  /** Called when a sweep was requested. */
  wake: () => void
}

export interface SweepSchedule {
  /** A tick of the schedule: requests the sweep that is due, if one may start. */
  tick(): void
  /** Returns the sweep to make now, and clears the request. */
  next(): SweepKind | undefined
  begin(kind: SweepKind): void
  /** True while a full sweep is under way, once it has taken some seconds. */
  isFullUnderWay(): boolean
  /** The sweep has ended, with the failure of a call or without. */
  end(kind: SweepKind, failure?: unknown): void
  /** True when a tick requested a recent sweep during another sweep, where it comes between two slices; clears the request. */
  takeRecent(): boolean
  /** The newest part was listed; it is part of a full sweep, too. */
  recentDone(workedMs: number): void
  fullDone(workedMs: number): void
  /** When sweeps may come again after the last ones, in ms from now; negative when they may, undefined before the first. */
  restEndsInMs(): number | undefined
}

/** A sweep rests for this many times its own duration, so that listing stays near 5 % of the calls. */
const restFactor = 20
/** Maximum rest, so that a slow sweep does not leave failures unseen for long. */
const maxRestMs: Readonly<Record<SweepKind, number>> = { full: 3_600_000, recent: 300_000 }
/** A full sweep that ends within this time is shown nowhere. */
const momentMs = 5000

export function createSweepSchedule(options: SweepScheduleOptions): SweepSchedule {
  const { breaker, clock, hasRoomAgain, random, rate } = options
  let asked: SweepKind | undefined
  /** A recent sweep may be part of another one. */
  const underWay = new Set<SweepKind>()
  let isRecentWanted = false
  /** When the last full sweep began, monotonic ms. */
  let fullSince = -Infinity
  /** Monotonic ms; undefined before the first sweep of the kind has ended. */
  const restsUntil: Record<SweepKind, number | undefined> = { full: undefined, recent: undefined }
  const backoff = createPlatformBackoff(clock, random)
  let failedAt = -Infinity

  function rest(kind: SweepKind, workedMs: number): void {
    restsUntil[kind] = clock.monotonic() + Math.min(maxRestMs[kind], restFactor * workedMs)
  }

  function hasRested(kind: SweepKind): boolean {
    return clock.monotonic() >= (restsUntil[kind] ?? -Infinity)
  }

  /** A sweep fails when a list call of one row does, so a ping that was answered since ends its backoff. */
  function backsOff(): boolean {
    return clock.monotonic() < backoff.until() && breaker.answeredAt() <= failedAt
  }

  function ask(kind: SweepKind): void {
    asked = kind
    options.wake()
  }

  return {
    tick() {
      // Retry-After is in force: a sweep would only wait, and block the next one.
      if (rate.pausedForMs() > 0) return
      if (asked !== undefined || underWay.size > 0) {
        if (asked === undefined && !underWay.has('recent') && hasRested('recent')) isRecentWanted = true
        return
      }
      if (backsOff()) return
      if (hasRested('full') || hasRoomAgain()) ask('full')
      else if (hasRested('recent')) ask('recent')
    },
    next() {
      const kind = asked
      asked = undefined
      return kind
    },
    begin(kind) {
      underWay.add(kind)
      if (kind === 'full') fullSince = clock.monotonic()
    },
    isFullUnderWay: () => underWay.has('full') && clock.monotonic() - fullSince > momentMs,
    end(kind, failure) {
      underWay.delete(kind)
      if (failure === undefined) {
        backoff.end()
        return
      }
      failedAt = clock.monotonic()
      backoff.failed(failure)
    },
    takeRecent() {
      const wasWanted = isRecentWanted
      isRecentWanted = false
      return wasWanted
    },
    recentDone(workedMs) {
      // A tick that came meanwhile has what it asked for.
      isRecentWanted = false
      rest('recent', workedMs)
    },
    fullDone(workedMs) {
      rest('full', workedMs)
    },
    restEndsInMs() {
      const ends = Object.values(restsUntil).filter((at) => at !== undefined)
      return ends.length === 0 ? undefined : Math.min(...ends) - clock.monotonic()
    },
  }
}
