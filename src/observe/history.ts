// The last week by minute: the state, and the counts of events. Chart, pace and the sums of an incident are read from it.
import { gateTable, type Gate } from '../reconcile/retry/gates.ts'
import { onWallClock, type Clock } from '../runtime/clock.ts'
import type { TelemetryEvent } from './events.ts'

/** The state that the chart of the status page shows. */
export interface ChartedState {
  /** Missing deliveries; null before the end of a full sweep. */
  missing: number | null
  circuits: number
  paused: boolean
}

export type MinuteState = ChartedState & { gates: readonly Gate[] }

export interface HistoryOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** Also called after each sweep and retry. */
  missing: () => MinuteState['missing']
  /** The rest, which iterates over subscriptions: called once a minute. */
  state: () => Omit<MinuteState, 'missing'>
}

/**
 * One minute, or several merged into a step: its maximum of missing deliveries, circuits and pause (the current ones for the
 * last minute), and its count.
 */
export interface HistoryStep extends ChartedState {
  /** Its start, by the host's clock. */
  at: Date
  recovered: number
}

/** The current pace of recovery. */
export interface RecoveryPace {
  /** Recovered deliveries of the last minute. */
  recoveredPerMinute: number
  /** Share of retries that failed again in the last five minutes; in the last hour, if a success in it did not last. */
  failedShare: number
  /** True when the last two minutes had enough recoveries, and similar numbers. */
  isSteady: boolean
}

/** Sums since the minute of a moment, of a week at most. */
export interface HistorySums {
  /** Maximum of missing deliveries. */
  peak: number
  recovered: number
  /** Records that left the list of failed ones, or that a retry found resolved, without a delivery by the daemon. */
  leftWithoutRetry: number
  /** Records that left the window undelivered. */
  expired: number
  /** Longest time from an event until its delivery was seen; null before the first. */
  longestSeconds: number | null
  /** How long each gate was shut: the finished minutes that started with it. The first one began before the process. */
  gates: { gate: Gate; seconds: number }[]
}

export interface History {
  /** The lead has ended: the current state replaces that of its last minute, and lasts until the next event. */
  endTerm(): void
  /** Counts an event; most only advance the time. */
  note(event: TelemetryEvent): void
  /** To be called once a minute: otherwise a minute without an event has the state of the one before. */
  advance(): void
  /**
   * From this time of the host's clock, but at least the last hour since the start, and at most a week; at most 120 equal
   * steps, oldest first.
   */
  steps(since?: number): HistoryStep[]
  pace(): RecoveryPace
  /** Recovered deliveries of the last 24 hours, and the time of the last, epoch ms. */
  recovered(): { lastDay: number; lastAt: number | undefined }
  /** `since`: monotonic ms. */
  sums(since: number): HistorySums
}

const minuteMs = 60_000
const hourMinutes = 60
const dayMinutes = 24 * 60
const keptMinutes = 7 * dayMinutes
/** Maximum age of sums. */
export const keptMs = keptMinutes * minuteMs
const maxSteps = 120
/** Minutes of the share that failed again. */
const failedMinutes = 5
/** Minimum of recoveries in two minutes of a steady pace, and maximum ratio of the two. */
const [minSteady, maxRatio] = [10, 1.5]

const noRecords = { recovered: 0, relapsed: 0, leftWithoutRetry: 0, failedAgain: 0, expired: 0, longestMs: 0 }

type Minute = MinuteState & typeof noRecords

const sumOf = (of: Exclude<keyof typeof noRecords, 'longestMs'>, minutes: readonly Minute[]): number =>
  minutes.reduce((sum, minute) => sum + minute[of], 0)

function maxOf(numbers: readonly (number | null)[]): number | null {
  const known = numbers.filter((one) => one !== null)
  return known.length === 0 ? null : Math.max(...known)
}

const peakOf = (minutes: readonly ChartedState[]): number | null => maxOf(minutes.map(({ missing }) => missing))

function toStep(at: number, minutes: readonly Minute[]): HistoryStep {
  return {
    at: new Date(at),
    missing: peakOf(minutes),
    circuits: Math.max(...minutes.map(({ circuits }) => circuits)),
    paused: minutes.some(({ paused }) => paused),
    recovered: sumOf('recovered', minutes),
  }
}

/** Minutes are those of the wall clock at the start; if that clock is set later, counts keep their age. */
export function createHistory({ clock, missing, state }: HistoryOptions): History {
  const intoMinute = ((clock.now() % minuteMs) + minuteMs) % minuteMs
  const startedAt = clock.monotonic()
  const minutes: Minute[] = []
  /** Number of the last minute. */
  let last = -1
  /** When the last delivery was recovered, monotonic ms. */
  let recoveredAt: number | undefined

  const current = (): MinuteState => ({ ...state(), missing: missing() })

  /** In minutes since the start of the first one. */
  const age = (monotonic = clock.monotonic()): number => (monotonic - startedAt + intoMinute) / minuteMs

  /** Little changes without an event, so at the first event of a minute the state is still that of its start. */
  function present(): Minute {
    const now = Math.floor(age())
    const before = minutes.at(-1)
    if (before !== undefined && now === last) return before
    // After years of suspension, only the kept minutes matter.
    for (let quiet = Math.max(last + 1, now - keptMinutes); before !== undefined && quiet < now; quiet += 1)
      minutes.push({ ...before, ...noRecords })
    last = now
    const minute = { ...current(), ...noRecords }
    minutes.push(minute)
    minutes.splice(0, minutes.length - keptMinutes)
    return minute
  }

  function countRecovered(minute: Minute, sinceEventMs: number): void {
    minute.recovered += 1
    minute.longestMs = Math.max(minute.longestMs, sinceEventMs)
    recoveredAt = clock.monotonic()
  }

  /** A delivery that was counted as recovered has failed since. */
  function takeBack(seenIn: Minute): void {
    seenIn.relapsed += 1
    const minute = minutes.findLast(({ recovered }) => recovered > 0)
    if (minute !== undefined) minute.recovered -= 1
    if (!minutes.some(({ recovered }) => recovered > 0)) recoveredAt = undefined
  }

  /** Of the last minutes, up to now: the oldest minute counts in part. */
  function countIn(of: 'recovered' | 'failedAgain', length: number): number {
    const oldest = sumOf(of, minutes.slice(-length - 1, -length))
    return sumOf(of, minutes.slice(-length)) + oldest * (1 - (age() % 1))
  }

  return {
    endTerm() {
      Object.assign(present(), current())
    },
    note(event) {
      const minute = present()
      // A sweep may find many in the middle of a minute, and they are retried before it ends.
      if (event.type === 'sweep' || event.type === 'retry') minute.missing = maxOf([minute.missing, missing()])
      if (event.type === 'sweep') minute.leftWithoutRetry += event.report.leftWithoutRetry
      // Another client caused its delivery, which no sweep has shown yet.
      if (event.type === 'retry' && event.response.result === 'already-resolved') minute.leftWithoutRetry += 1
      if (event.type === 'expired') minute.expired += event.records
      if (event.type === 'returned') minute.expired -= event.records
      if (event.type !== 'outcome') return
      if (event.outcome === 'recovered') countRecovered(minute, event.sinceEventMs)
      if (event.outcome === 'failed-again') minute.failedAgain += 1
      if (event.isRelapse) takeBack(minute)
    },
    advance() {
      present()
    },
    steps(since = Infinity) {
      const minute = present()
      // The two clocks differ slightly, or more when one is set: a minute starts at second 0.
      const beginsAt = Math.round((clock.now() - age() * minuteMs) / minuteMs) * minuteMs
      const wanted = Math.max(hourMinutes, Math.ceil((clock.now() - since) / minuteMs) + 1)
      const shown = [...minutes.slice(-wanted, -1), { ...minute, ...current() }]
      const length = Math.ceil(shown.length / maxSteps)
      const firstAt = beginsAt + (last - shown.length + 1) * minuteMs
      return Array.from({ length: Math.ceil(shown.length / length) }, (_, index) =>
        toStep(firstAt + index * length * minuteMs, shown.slice(index * length, (index + 1) * length)),
      )
    },
    pace() {
      present()
      const [newer, both] = [countIn('recovered', 1), countIn('recovered', 2)]
      const recent = sumOf('relapsed', minutes.slice(-hourMinutes)) > 0 ? hourMinutes : failedMinutes
      const failed = countIn('failedAgain', recent)
      return {
        recoveredPerMinute: newer,
        failedShare: failed / Math.max(1, failed + countIn('recovered', recent)),
        isSteady: both >= minSteady && Math.max(newer, both - newer) <= maxRatio * Math.min(newer, both - newer),
      }
    },
    recovered() {
      present()
      return {
        lastDay: sumOf('recovered', minutes.slice(-dayMinutes)),
        lastAt: recoveredAt && onWallClock(clock, recoveredAt),
      }
    },
    sums(since) {
      present()
      const within = minutes.slice(Math.min(-1, Math.floor(age(since)) - last - 1))
      const shut = within
        .slice(age(since) < 1 ? 1 : 0, -1)
        .flatMap(({ gates }) => gates.filter((gate) => gateTable[gate].level !== 'working'))
      const recovered = sumOf('recovered', within)
      return {
        peak: maxOf([peakOf(within), missing()]) ?? 0,
        recovered,
        leftWithoutRetry: sumOf('leftWithoutRetry', within),
        expired: Math.max(0, sumOf('expired', within)),
        longestSeconds:
          recovered === 0 ? null : Math.ceil(Math.max(...within.map(({ longestMs }) => longestMs)) / 100) / 10,
        gates: [...Map.groupBy(shut, (gate) => gate)].map(([gate, { length }]) => ({ gate, seconds: 60 * length })),
      }
    },
  }
}
