// Ticks of the schedule: one at the start, then by cron, with jitter so that many sidecars do not call the platform simultaneously.
// There are no other ticks: a schedule limited to certain hours or days is obeyed.
import { createTask, parse } from 'node-cron'
import type { Clock, Random } from './clock.ts'

export interface Schedule {
  /** When the next tick is due, in monotonic ms; undefined before the start and after the end. */
  nextAt(): number | undefined
  /** Shortest time between two ticks, in ms. */
  periodMs: number
  /** Once: ticks immediately, then as scheduled. An error in a later tick ends the process as an uncaught exception. */
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

/** True for a day on which it runs, given as its midnight in UTC: zones are handled here. */
function runDaysOf(cron: string): (day: Date) => boolean {
  // node-cron's first look at a date loads the tables of Intl: 17 ms and 5 MiB.
  if (cron.endsWith(' * * *')) return () => true
  const days = createTask(`* * * ${cron.split(/\s+/).slice(3).join(' ')}`, () => undefined, { timezone: 'UTC' })
  // It is only queried.
  void days.destroy()
  return (day) => days.match(day)
}

/** Two years, from a January: they hold two days of a schedule that names one a year. */
const yearDays = Array.from({ length: 731 }, (_, day) => day)

const between = (times: readonly number[]): number[] => times.slice(1).map((time, index) => time - (times[index] ?? 0))

/**
 * Shortest and longest time between two ticks, in ms, apart from an hour that daylight saving skips. The longest is Infinity for
 * days that come less than once a year, or never.
 */
export function gapsOf(cron: string): { min: number; max: number } {
  const { hour, minute, second } = parse(cron)
  const ofDay = hour.flatMap((h) => minute.flatMap((m) => second.map((s) => 3600 * h + 60 * m + s)))
  // A list may name one twice.
  const runs = [...new Set(ofDay)].toSorted((a, b) => a - b)
  const [first = 0, last = 0] = [runs[0], runs.at(-1)]
  const isRunDay = runDaysOf(cron)
  const days = yearDays.filter((day) => isRunDay(new Date(Date.UTC(2024, 0, 1 + day))))
  const nights = between(days).map((apart) => 86_400 * apart + first - last)
  const gaps = new Set([...between(runs), ...(nights.length > 0 ? nights : [Infinity])])
  return { min: 1000 * Math.min(...gaps), max: 1000 * Math.max(...gaps) }
}

/**
 * The first run after a time; both in epoch ms. Skips time without a run in the largest units that the zone allows, so that the
 * cost does not grow with the distance. Runs in an hour repeated by daylight saving occur twice.
 */
function nextRunOf({ cron, timeZone }: ScheduleOptions): (after: number) => number {
  const { hour, minute, second } = parse(cron)
  const isRunDay = runDaysOf(cron)

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
      const { day, month, year } = at
      const isOver = !isRunDay(new Date(Date.UTC(year, month - 1, day)))
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
 */
export function createSchedule(
  options: ScheduleOptions,
  { clock, random }: { clock: Pick<Clock, 'now' | 'monotonic' | 'timer'>; random: Pick<Random, 'next'> },
): Schedule {
  const periodMs = gapsOf(options.cron).min
  const nextRun = nextRunOf(options)
  const jitterMs = Math.min(maxJitterMs, periodMs * jitterShare)
  /** The awaited run, epoch ms; jitter delays its tick. */
  let run = 0
  /** Monotonic ms of its tick. */
  let dueAt = 0
  /** Wall clock minus monotonic clock when that was computed. */
  let offset = 0
  /** Undefined before the start, and after the end. */
  let cancel: (() => void) | undefined

  function awaitRun(after: number): void {
    const [now, monotonic] = [clock.now(), clock.monotonic()]
    offset = now - monotonic
    run = nextRun(after)
    dueAt = monotonic + run + random.next() * jitterMs - now
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
      awaitRun(clock.now())
      wait(onTick)
      onTick()
    },
    stop() {
      cancel?.()
      cancel = undefined
    },
  }
}
