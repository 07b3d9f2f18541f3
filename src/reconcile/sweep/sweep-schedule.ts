// Schedule of sweeps: when each kind is due. Ticks, rests, failures and pauses move that, and nothing else decides. @see docs/architecture.md "Sweep"
import type { Clock, Random } from '../../runtime/clock.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import { createPlatformBackoff } from '../platform-backoff.ts'
import type { PlatformBreaker } from '../retry/platform-breaker.ts'
import type { SweepKind } from './sweep-report.ts'

export interface SweepScheduleOptions {
  /** True while there is room again for records that gave way: then a full sweep need not rest. */
  hasRoomAgain: () => boolean
  rate: Pick<RateLimiter, 'pausedForMs'>
  breaker: Pick<PlatformBreaker, 'respondedAt'>
  clock: Pick<Clock, 'monotonic'>
  random: Random
}

export interface SweepSchedule {
  /** A tick of the schedule: both kinds are wanted. */
  tick(): void
  /** Milliseconds until a sweep of the kind is due, 0 when it is; Infinity while none is wanted. */
  dueInMs(kind: SweepKind): number
  begin(kind: SweepKind): void
  /** True while a full sweep is under way, once it has taken some seconds. */
  isFullUnderWay(): boolean
  /** The kind was listed after `workedMs` of work. The newest part is recent, also as a part of a full sweep. */
  done(kind: SweepKind, workedMs: number): void
  /** The sweep has ended, with the failure of a call or without. */
  end(kind: SweepKind, workedMs: number, failure?: unknown): void
  /** When sweeps may come again after the last ones, in ms from now; negative when they may, undefined before the first. */
  restEndsInMs(): number | undefined
}

/** A sweep rests for this many times its own duration, so that listing stays near 5 % of the calls. */
const restFactor = 20
/** Maximum rest, counted from the begin of a sweep: an hourly schedule is kept, and no failure stays unseen for long. */
const maxRestMs: Readonly<Record<SweepKind, number>> = { full: 3_600_000, recent: 180_000 }
/** A full sweep that ends within this time is shown nowhere. */
const momentMs = 5000

/** Monotonic ms. */
interface Job {
  begunAt: number
  /** When a tick last asked for it; Infinity while none is wanted. */
  wantedAt: number
  /** Undefined before the first sweep of the kind has ended. */
  restsUntil: number | undefined
}

const newJob = (): Job => ({ begunAt: -Infinity, wantedAt: Infinity, restsUntil: undefined })

export function createSweepSchedule(options: SweepScheduleOptions): SweepSchedule {
  const { breaker, clock, hasRoomAgain, random, rate } = options
  const jobs: Readonly<Record<SweepKind, Job>> = { full: newJob(), recent: newJob() }
  let isFullUnderWay = false
  const backoff = createPlatformBackoff(clock, random)
  let failedAt = -Infinity

  /** At least as long as it worked, and up to its maximum from its begin. */
  function rest(kind: SweepKind, workedMs: number): void {
    const now = clock.monotonic()
    const longest = jobs[kind].begunAt + maxRestMs[kind]
    jobs[kind].restsUntil = Math.max(now + workedMs, Math.min(longest, now + restFactor * workedMs))
  }

  const restOf = (kind: SweepKind): number =>
    kind === 'full' && hasRoomAgain() ? -Infinity : (jobs[kind].restsUntil ?? -Infinity)

  /** A sweep fails when a list call of one row does, so a ping that was answered since ends its backoff. */
  const backsOffUntil = (): number => (breaker.respondedAt() > failedAt ? -Infinity : backoff.until())

  return {
    tick() {
      for (const job of Object.values(jobs)) job.wantedAt = Math.min(job.wantedAt, clock.monotonic())
    },
    dueInMs(kind) {
      const dueAt = Math.max(jobs[kind].wantedAt, restOf(kind), backsOffUntil())
      return Math.max(0, dueAt - clock.monotonic(), rate.pausedForMs())
    },
    begin(kind) {
      jobs[kind].wantedAt = Infinity
      jobs.recent.begunAt = clock.monotonic()
      if (kind === 'recent') return
      jobs.full.begunAt = clock.monotonic()
      isFullUnderWay = true
    },
    isFullUnderWay: () => isFullUnderWay && clock.monotonic() - jobs.full.begunAt > momentMs,
    done(kind, workedMs) {
      // A tick that came meanwhile has what it asked for.
      if (kind === 'recent') jobs.recent.wantedAt = Infinity
      rest(kind, workedMs)
    },
    end(kind, workedMs, failure) {
      if (kind === 'full') isFullUnderWay = false
      if (failure === undefined) {
        backoff.end()
        return
      }
      failedAt = clock.monotonic()
      backoff.failed(failure)
      // It is still wanted, but listing must not become all that goes on.
      jobs[kind].wantedAt = failedAt + workedMs
    },
    restEndsInMs() {
      const ends = Object.values(jobs).flatMap(({ restsUntil }) => restsUntil ?? [])
      return ends.length === 0 ? undefined : Math.min(...ends) - clock.monotonic()
    },
  }
}
