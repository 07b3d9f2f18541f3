// Schedule of sweeps: when each kind is due, by ticks, rests, failures and pauses. @see docs/architecture.md "Sweep"
import type { Clock, Random } from '../../runtime/clock.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import type { PlatformBreaker } from '../retry/platform-breaker.ts'
import type { SweepKind } from './sweep-report.ts'

export interface SweepScheduleOptions {
  /** True while evicted records would fit again: then a full sweep waits for no tick, and need not rest. */
  hasRoomAgain: () => boolean
  rate: Pick<RateLimiter, 'pausedForMs'>
  breaker: Pick<PlatformBreaker, 'respondedAt'>
  clock: Pick<Clock, 'monotonic'>
  random: Random
}

export interface SweepSchedule {
  /** A tick of the schedule: both kinds are wanted. */
  tick(): void
  /** An operator ends the backoff after a failure; returns whether there was one. */
  probe(): boolean
  /** Milliseconds until a sweep of the kind is due, 0 if it is; Infinity while none is wanted, or a tick in `tickInMs` wants one. */
  dueInMs(kind: SweepKind, tickInMs?: number): number
  begin(kind: SweepKind): void
  /** A full sweep has listed a further slice: the next failure is the first again. */
  progressed(): void
  /** True once a full sweep has run for a second. */
  isFullUnderWay(): boolean
  /** True while a sweep of any kind runs. */
  isUnderWay(): boolean
  /** The kind was listed after `workedMs` of work. The newest part of a full sweep also counts as a recent one. */
  done(kind: SweepKind, workedMs: number): void
  /** The sweep has ended, with the failure of a call or without. */
  end(kind: SweepKind, workedMs?: number, failure?: unknown): void
}

/** A sweep rests for this many times its own duration, so that listing takes about 5 % of the calls. */
const restFactor = 20
/** Maximum rest, from the start of a sweep: keeps an hourly schedule, and leaves no failure unseen for long. */
const maxRestMs: Readonly<Record<SweepKind, number>> = { full: 3_600_000, recent: 180_000 }
/** A full sweep that ends within this time is not reported. */
const momentMs = 1000

/** Monotonic ms. */
interface Job {
  begunAt: number
  /** Since when it is wanted: the first tick that was not served, or a while after a failure; Infinity while it is not. */
  wantedAt: number
  restsUntil: number
}

const wantedNow = { wantedAt: -Infinity, restsUntil: -Infinity }
const newJob = (): Job => ({ begunAt: -Infinity, wantedAt: Infinity, restsUntil: -Infinity })

export function createSweepSchedule(options: SweepScheduleOptions): SweepSchedule {
  const { breaker, clock, hasRoomAgain, random, rate } = options
  const jobs: Readonly<Record<SweepKind, Job>> = { full: newJob(), recent: newJob() }
  const underWay = new Set<SweepKind>()
  // A sweep fails when a list call of one row does, so an answered ping shows that it may go on.
  const backoff = createPlatformBackoff(clock, random, breaker.respondedAt)

  /** At least as long as it worked, up to its maximum from the start. */
  function rest(kind: SweepKind, workedMs: number): void {
    const now = clock.monotonic()
    const longest = jobs[kind].begunAt + maxRestMs[kind]
    jobs[kind].restsUntil = Math.max(now + workedMs, Math.min(longest, now + restFactor * workedMs))
  }

  function tick(): void {
    for (const job of Object.values(jobs)) job.wantedAt = Math.min(job.wantedAt, clock.monotonic())
  }

  return {
    tick,
    probe() {
      const isBackingOff = backoff.until() > clock.monotonic()
      if (isBackingOff) tick()
      backoff.end()
      return isBackingOff
    },
    dueInMs(kind, tickInMs = Infinity) {
      const now = clock.monotonic()
      const { restsUntil, wantedAt } = kind === 'full' && hasRoomAgain() ? wantedNow : jobs[kind]
      const dueAt = Math.max(Math.min(wantedAt, now + tickInMs), restsUntil, backoff.until())
      return Math.max(0, dueAt - now, rate.pausedForMs('list'))
    },
    begin(kind) {
      jobs[kind].wantedAt = Infinity
      jobs.recent.begunAt = clock.monotonic()
      if (kind === 'full') jobs.full.begunAt = clock.monotonic()
      underWay.add(kind)
    },
    progressed: () => backoff.end(),
    isUnderWay: () => underWay.size > 0,
    isFullUnderWay: () => underWay.has('full') && clock.monotonic() - jobs.full.begunAt > momentMs,
    done(kind, workedMs) {
      // A tick that came meanwhile is satisfied.
      if (kind === 'recent') jobs.recent.wantedAt = Infinity
      rest(kind, workedMs)
    },
    end(kind, workedMs = 0, failure) {
      underWay.delete(kind)
      if (failure === undefined) {
        backoff.end()
        return
      }
      backoff.failed(failure)
      // It is still wanted, but listing must not become all that goes on.
      jobs[kind].wantedAt = clock.monotonic() + workedMs
    },
  }
}
