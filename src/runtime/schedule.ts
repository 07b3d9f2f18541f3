// Ticks of the schedule: one at the start, then by cron, jittered so that many sidecars don't call the platform at the same moment.
// There are no other ticks: a schedule that is limited to hours or days is obeyed.
import { createTask, type ScheduledTask } from 'node-cron'
import type { Clock } from './clock.ts'
import { ConfigurationError } from './errors.ts'

export interface Schedule {
  /** When the next tick is due, in epoch ms; undefined before the start, and when there is none any more. */
  nextAt(): number | undefined
  /**
   * True two minutes after a tick was due that did not come. By the monotonic clock: the schedule goes by the host's wall
   * clock, and no tick comes for as long as that was set back.
   */
  isLate(): boolean
  /** The shortest time between two ticks, in ms. */
  periodMs: number
  /** Ticks immediately, then as scheduled. An error in a later tick ends the process as an uncaught exception. */
  start(onTick: () => void): Promise<void>
  /** Ends the ticks for good. */
  stop(): Promise<void>
}

export interface ScheduleOptions {
  /** Six fields, seconds first. */
  cron: string
  /** IANA name. */
  timeZone: string
}

const jitterShare = 0.1
const maxJitterMs = 60_000
/** A tick may be late by this: jitter, and a process that was busy. */
const maxLateMs = 120_000
/** Number of future runs that show the shortest gap of an uneven schedule. Each costs 0.3 ms at the start. */
const looksAhead = 100
/** Runs that show it when they fill a minute and every minute is alike: as for the default, every 30 s. */
const looksIntoMinute = 5
const minuteMs = 60_000
const halfAYearMs = 183 * 86_400_000
const hourNs = 3_600_000_000_000

const quiet = (): void => undefined
/** node-cron prints the errors of tasks; this logger prints nothing, as stdout is for log lines only. */
const silent = { info: quiet, warn: quiet, error: quiet, debug: quiet }

interface Timing {
  timezone: string
  periodMs: number
}

/** True when the zone's minutes are those of UTC, in summer and winter. */
function hasWholeHours(timeZone: string, at: number): boolean {
  return [at, at + halfAYearMs].every((instant) => {
    const { offsetNanoseconds } = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(timeZone)
    return offsetNanoseconds % hourNs === 0
  })
}

/**
 * The zone to count in. node-cron skips the hour that daylight saving repeats, so a schedule for which the zone makes no
 * difference is counted in UTC.
 */
function zoneOf({ cron, timeZone }: ScheduleOptions, at: number): string {
  const [, minute, ...coarser] = cron.trim().split(/\s+/)
  if (coarser.some((field) => field !== '*')) return timeZone
  return minute === '*' || hasWholeHours(timeZone, at) ? 'UTC' : timeZone
}

/** Epoch ms of runs that show the shortest gap, in order. */
function runsOf(cron: string, task: ScheduledTask): number[] {
  const next = (count: number): number[] => task.getNextRuns(count).map((run) => run.getTime())
  const [, ...coarser] = cron.trim().split(/\s+/)
  if (coarser.some((field) => field !== '*')) return next(looksAhead)
  const runs = next(looksIntoMinute)
  return (runs.at(-1) ?? 0) - (runs[0] ?? 0) < minuteMs ? next(looksAhead) : runs
}

/** Gaps are counted in UTC: the hour that daylight saving skips would shorten one of them. */
function timingOf(options: ScheduleOptions): Timing {
  const unscheduled = createTask(options.cron, quiet, { timezone: 'UTC' })
  const runs = runsOf(options.cron, unscheduled)
  void unscheduled.destroy()
  const [first = 0, ...later] = runs
  const gaps = later.map((run, index) => run - (runs[index] ?? 0))
  return { timezone: zoneOf(options, first), periodMs: Math.min(...gaps) }
}

/** @throws ConfigurationError for a cron without a next run: some combinations of days never come. */
function plan(options: ScheduleOptions): Timing {
  try {
    return timingOf(options)
  } catch {
    const message = `"${options.cron}" names moments that never come; choose others, such as */30 * * * * *`
    throw new ConfigurationError([{ key: 'schedule.cron', origin: 'configuration', message }])
  }
}

/** Merges several calls of the same turn of the event loop into one. */
function once(act: () => void): () => void {
  let isComing = false
  return () => {
    if (isComing) return
    isComing = true
    queueMicrotask(() => {
      isComing = false
      act()
    })
  }
}

/** The shortest time between two ticks, in ms. @throws ConfigurationError when the schedule never ticks */
export function periodOf(options: ScheduleOptions): number {
  return plan(options).periodMs
}

/**
 * Makes a schedule with node-cron, which also draws the jitter.
 * @throws ConfigurationError when the schedule never ticks
 */
export function createSchedule(options: ScheduleOptions, clock: Pick<Clock, 'now' | 'monotonic'>): Schedule {
  const { timezone, periodMs } = plan(options)
  let onTick = quiet
  let state: 'new' | 'started' | 'stopped' = 'new'
  /** When the next tick is due, on the monotonic clock. */
  let tickDueAt = Infinity

  const nextAt = (): number | undefined => (state === 'started' ? task.getNextRun()?.getTime() : undefined)

  function expectNext(): void {
    tickDueAt = clock.monotonic() + (nextAt() ?? Infinity) - clock.now()
  }

  /** node-cron swallows the errors of tasks. */
  function tick(): void {
    if (state !== 'started') return
    expectNext()
    try {
      onTick()
    } catch (error) {
      queueMicrotask(() => {
        throw error as Error
      })
    }
  }

  const task: ScheduledTask = createTask(options.cron, tick, {
    timezone,
    logger: silent,
    // Bounded by the shortest gap, so that no tick comes after the next one: node-cron keeps only the last pending tick.
    maxRandomDelay: Math.floor(Math.min(maxJitterMs, periodMs * jitterShare)),
  })
  // Ticks that a busy process missed are not lost: one comes late for all of them.
  task.on('execution:missed', once(tick))

  return {
    nextAt,
    isLate: () => clock.monotonic() > tickDueAt + maxLateMs,
    periodMs,
    async start(listener) {
      if (state !== 'new') return
      state = 'started'
      onTick = listener
      await task.start()
      expectNext()
      listener()
    },
    async stop() {
      state = 'stopped'
      await task.destroy()
    },
  }
}
