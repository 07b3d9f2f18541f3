// Ticks of the schedule: one at the start, then by cron, with jitter so that many sidecars do not call the platform simultaneously.
// There are no other ticks: a schedule limited to certain hours or days is obeyed.
import { createTask, parse, type ScheduledTask } from 'node-cron'
import type { Clock, Random } from './clock.ts'
import { ConfigurationError } from './errors.ts'

export interface Schedule {
  /** When the next tick is due, in monotonic ms; undefined before the start and after the end. */
  nextAt(): number | undefined
  /** Shortest time between two ticks, in ms. */
  periodMs: number
  /** Ticks immediately, then as scheduled. An error in a later tick ends the process as an uncaught exception. */
  start(onTick: () => void): void
  /** Ends the ticks permanently. */
  stop(): void
}

export interface ScheduleOptions {
  /** Six fields, seconds first. */
  cron: string
  /** IANA name. */
  timeZone: string
}

const jitterShare = 0.1
const maxJitterMs = 60_000
/** The wall clock is compared with the monotonic one at least this often, */
const lookMs = 10_000
/** and counts as set when the two have diverged by more than this. Drift and slewing cause less. */
const minStepMs = 5000
/** Number of future runs that determine the shortest gap of an uneven schedule. Each costs 0.3 ms at the start. */
const looksAhead = 100

const nothing = (): void => undefined

/** Only queried, never started. It counts in UTC: zones are handled here. */
function askable(cron: string): ScheduledTask {
  const task = createTask(cron, nothing, { timezone: 'UTC' })
  void task.destroy()
  return task
}

/** Runs that show the shortest gap, in order, in ms. In UTC: the hour skipped by daylight saving would shorten a gap. */
function sampleRuns(cron: string): number[] {
  const [, ...coarser] = cron.trim().split(/\s+/)
  if (coarser.some((field) => field !== '*'))
    return askable(cron)
      .getNextRuns(looksAhead)
      .map((run) => run.getTime())
  // With equal minutes, as by default (every 30 s), two of them show each gap.
  const { second } = parse(cron)
  return Array.from({ length: 120 }, (_, at) => at * 1000).filter((at) => second.includes((at / 1000) % 60))
}

/**
 * Shortest time between two ticks, in ms.
 * @throws ConfigurationError for a cron without a next run: some combinations of days never occur
 */
export function periodOf({ cron }: ScheduleOptions): number {
  try {
    return Math.min(...sampleRuns(cron).map((run, index, runs) => run - (runs[index - 1] ?? -Infinity)))
  } catch {
    const message = `"${cron}" names moments that never come; choose others, such as */30 * * * * *`
    throw new ConfigurationError([{ key: 'schedule.cron', origin: 'configuration', message }])
  }
}

/** Two years, from a January: they hold two days of a schedule that names one a year. */
const daysAhead = 731

/** Longest time from a run day to the next one, in days. */
function maxDays(cron: string): number {
  const dayFields = cron.trim().split(/\s+/).slice(3)
  if (dayFields.every((field) => field === '*')) return 1
  const days = askable(['*', '*', '*', ...dayFields].join(' '))
  let [max, last] = [0, 0]
  for (let day = 0; day <= daysAhead; day += 1) {
    if (day < daysAhead && !days.match(new Date(Date.UTC(2024, 0, 1 + day)))) continue
    max = Math.max(max, day - last)
    last = day
  }
  return max
}

/** Longest time between two ticks, in ms, apart from an hour that daylight saving skips. At most two years. */
export function maxGapOf(cron: string): number {
  const { hour, minute, second } = parse(cron)
  const runs = hour
    .flatMap((h) => minute.flatMap((m) => second.map((s) => 3600 * h + 60 * m + s)))
    .toSorted((a, b) => a - b)
  const [first = 0, last = 0] = [runs[0], runs.at(-1)]
  const overDays = 86_400 * maxDays(cron) + first - last
  return 1000 * runs.reduce((max, run, index) => Math.max(max, run - (runs[index - 1] ?? run)), overDays)
}

/**
 * The first run after a time; both in epoch ms. Skips time without a run in the largest units that the zone allows, so that the
 * cost does not grow with the distance. Runs in an hour repeated by daylight saving occur twice.
 */
function nextRunOf({ cron, timeZone }: ScheduleOptions): (after: number) => number {
  const { hour, minute, second } = parse(cron)
  const days = askable(['*', '*', '*', ...cron.trim().split(/\s+/).slice(3)].join(' '))
  const isRunDay = ({ day, month, year }: Temporal.ZonedDateTime): boolean =>
    days.match(new Date(Date.UTC(year, month - 1, day)))

  /** The first time at which this hour, minute or second is over; the same time if it has a run. */
  function afterMismatch(at: Temporal.ZonedDateTime): Temporal.ZonedDateTime {
    if (!hour.includes(at.hour)) return at.add({ seconds: 3600 - 60 * at.minute - at.second })
    if (!minute.includes(at.minute)) return at.add({ seconds: 60 - at.second })
    return second.includes(at.second) ? at : at.add({ seconds: 1 })
  }

  return (after) => {
    const instant = Temporal.Instant.fromEpochMilliseconds(1000 * (Math.floor(after / 1000) + 1))
    let at = instant.toZonedDateTimeISO(timeZone)
    for (;;) {
      const { day } = at
      const isOver = !isRunDay(at)
      if (isOver) at = at.add({ days: 1 }).startOfDay()
      while (!isOver && at.day === day) {
        const next = afterMismatch(at)
        if (next === at) return at.epochMilliseconds
        at = next
      }
    }
  }
}

/**
 * Creates a schedule. Its ticks follow the monotonic clock, and are rescheduled when the host's wall clock was set: no tick
 * waits for a clock that was set back, and one tick covers all that were skipped.
 * @throws ConfigurationError if the schedule never ticks
 */
export function createSchedule(
  options: ScheduleOptions,
  { clock, random }: { clock: Pick<Clock, 'now' | 'monotonic' | 'timer'>; random: Pick<Random, 'next'> },
): Schedule {
  const periodMs = periodOf(options)
  const nextRun = nextRunOf(options)
  const jitterMs = Math.min(maxJitterMs, periodMs * jitterShare)
  /** The awaited run, epoch ms; jitter delays its tick. */
  let run = 0
  let delayMs = 0
  /** Monotonic ms of its tick. */
  let dueAt = 0
  /** Wall clock minus monotonic clock when that was computed. */
  let offset = 0
  /** Undefined before the start, and after the end. */
  let cancel: (() => void) | undefined
  let isOver = false

  function awaitRun(after: number): void {
    const [now, monotonic] = [clock.now(), clock.monotonic()]
    offset = now - monotonic
    run = nextRun(after)
    delayMs = random.next() * jitterMs
    dueAt = monotonic + run + delayMs - now
  }

  /** A clock that was set back must not delay the tick; one that was set past it has missed it. */
  function followWallClock(now: number): void {
    if (Math.abs(now - clock.monotonic() - offset) <= minStepMs) return
    const before = now >= run ? clock.monotonic() : dueAt
    awaitRun(now)
    dueAt = Math.min(before, dueAt)
  }

  function look(onTick: () => void): void {
    const now = clock.now()
    followWallClock(now)
    const isDue = clock.monotonic() >= dueAt
    // The two clocks differ slightly: the run of this tick may lie slightly ahead.
    if (isDue) awaitRun(Math.abs(run - now) < minStepMs ? Math.max(now, run) : now)
    wait(onTick)
    if (isDue) onTick()
  }

  function wait(onTick: () => void): void {
    cancel = clock.timer(Math.min(dueAt - clock.monotonic(), lookMs), () => {
      look(onTick)
    })
  }

  return {
    nextAt: () => (cancel === undefined ? undefined : dueAt),
    periodMs,
    start(onTick) {
      if (isOver || cancel !== undefined) return
      awaitRun(clock.now())
      wait(onTick)
      onTick()
    },
    stop() {
      isOver = true
      cancel?.()
      cancel = undefined
    },
  }
}
