// The last week by minute, counted from events: missing and recovered deliveries, and what blocked retries.
import { onWallClock, type Clock } from '../runtime/clock.ts'
import type { TelemetryEvent } from './events.ts'

/** The state that the chart of the status page shows. */
export interface ChartedState {
  /** Missing deliveries; null before the end of a full sweep. */
  missing: number | null
  circuits: number
  paused: boolean
}

export interface HistoryOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** Called once a minute, and after each sweep. */
  state: () => ChartedState
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
  /** Recovered deliveries per ms: in the last minute, or in the last five if none recovered then. */
  recoveredPerMs: number
  /** Share of retries that failed again in the last five minutes. */
  failedShare: number
  /** True when the last two minutes had enough recoveries, and similar numbers. */
  isSteady: boolean
}

export interface History {
  /** Counts an event; most only advance the time. */
  note(event: TelemetryEvent): void
  /**
   * From this time of the host's clock, but at least the last hour since the start, and at most a week; at most 120 equal
   * steps, oldest first.
   */
  steps(since?: number): HistoryStep[]
  pace(): RecoveryPace
  /** Recovered deliveries of the last 24 hours, and the time of the last, epoch ms. */
  recovered(): { lastDay: number; lastAt: number | undefined }
}

const minuteMs = 60_000
const hourMinutes = 60
const dayMinutes = 24 * 60
const keptMinutes = 7 * dayMinutes
const maxSteps = 120
/** Small steps, so that the pace follows a change quickly. */
const stepMs = 5000
const paceMs = [minuteMs, 5 * minuteMs] as const
/** Minimum of recoveries in two minutes of a steady pace, and maximum ratio of the two. */
const [minSteady, maxRatio] = [10, 1.5]
const keptSteps = Math.ceil(paceMs[1] / stepMs) + 1

type Minute = ChartedState & typeof noRecords

const noRecords = { recovered: 0 }

function toStep(at: number, minutes: readonly Minute[]): HistoryStep {
  const known = minutes.flatMap(({ missing }) => (missing === null ? [] : [missing]))
  return {
    at: new Date(at),
    missing: known.length === 0 ? null : Math.max(...known),
    circuits: Math.max(...minutes.map(({ circuits }) => circuits)),
    paused: minutes.some(({ paused }) => paused),
    recovered: minutes.reduce((sum, { recovered }) => sum + recovered, 0),
  }
}

/** Minutes are those of the wall clock at the start; if that clock is set later, counts keep their age. */
export function createHistory({ clock, state }: HistoryOptions): History {
  const startedAt = clock.monotonic()
  const intoMinute = ((clock.now() % minuteMs) + minuteMs) % minuteMs
  const minutes: Minute[] = []
  /** Number of the last minute. */
  let last = -1
  const steps = new Map<number, { recovered: number; failed: number }>()
  /** Monotonic ms. */
  let lastAt: number | undefined

  const sinceStart = (): number => clock.monotonic() - startedAt

  /** Nothing changes without an event, so at the first event of a minute the state is still that of its start. */
  function moveOn(): void {
    const now = Math.floor((sinceStart() + intoMinute) / minuteMs)
    const before = minutes.at(-1)
    if (now === last) return
    // After years of suspension, only the kept minutes matter.
    for (let quiet = Math.max(last + 1, now - keptMinutes); before !== undefined && quiet < now; quiet += 1)
      minutes.push({ ...before, ...noRecords })
    last = now
    minutes.push({ ...state(), ...noRecords })
    minutes.splice(0, minutes.length - keptMinutes)
  }

  /** A sweep may find many in the middle of a minute. */
  function countMissing(): void {
    const minute = minutes.at(-1)
    const { missing } = state()
    if (minute !== undefined && missing !== null) minute.missing = Math.max(minute.missing ?? 0, missing)
  }

  function count(of: 'recovered' | 'failed'): void {
    const step = Math.floor(sinceStart() / stepMs)
    steps.getOrInsertComputed(step, () => ({ recovered: 0, failed: 0 }))[of] += 1
    for (const old of steps.keys()) if (old <= step - keptSteps) steps.delete(old)
  }

  function countRecovered(): void {
    const minute = minutes.at(-1)
    if (minute !== undefined) minute.recovered += 1
    lastAt = clock.monotonic()
    count('recovered')
  }

  /** Between two ages, and the length of that time: right after the start at least one step. */
  function sumOf(of: 'recovered' | 'failed', fromMs: number, toMs = 0): { sum: number; ms: number } {
    const now = sinceStart()
    const first = Math.floor((now - fromMs) / stepMs) + 1
    const end = toMs === 0 ? Infinity : Math.floor((now - toMs) / stepMs) + 1
    let sum = 0
    for (const [step, counts] of steps) if (step >= first && step < end) sum += counts[of]
    return { sum, ms: Math.max(stepMs, now - toMs - Math.max(0, first * stepMs)) }
  }

  function paceIn(spanMs: number): number {
    const { ms, sum } = sumOf('recovered', spanMs)
    return sum / ms
  }

  function pace(): RecoveryPace {
    const [recent, all] = paceMs
    const sums = [sumOf('recovered', 2 * recent, recent), sumOf('recovered', recent)].map(({ sum }) => sum)
    const [less = 0, more = 0] = sums.toSorted((a, b) => a - b)
    const failed = sumOf('failed', all).sum
    return {
      recoveredPerMs: paceIn(recent) || paceIn(all),
      failedShare: failed / Math.max(1, failed + sumOf('recovered', all).sum),
      isSteady: less + more >= minSteady && more <= maxRatio * less,
    }
  }

  return {
    note(event) {
      moveOn()
      if (event.type === 'sweep') countMissing()
      if (event.type === 'outcome' && event.outcome === 'recovered') countRecovered()
      if (event.type === 'outcome' && event.outcome === 'failed-again') count('failed')
    },
    steps(since = Infinity) {
      moveOn()
      // The two clocks differ slightly, or more when one is set: a minute starts at second 0.
      const beginsAt = Math.round((clock.now() - sinceStart() - intoMinute) / minuteMs) * minuteMs
      const wanted = Math.max(hourMinutes, Math.ceil((clock.now() - since) / minuteMs) + 1)
      const shown = [...minutes.slice(-wanted, -1), { ...minutes.at(-1), ...state() }] as typeof minutes
      const length = Math.ceil(shown.length / maxSteps)
      const firstAt = beginsAt + (last - shown.length + 1) * minuteMs
      return Array.from({ length: Math.ceil(shown.length / length) }, (_, index) =>
        toStep(firstAt + index * length * minuteMs, shown.slice(index * length, (index + 1) * length)),
      )
    },
    pace,
    recovered() {
      moveOn()
      const lastDay = minutes.slice(-dayMinutes).reduce((sum, { recovered }) => sum + recovered, 0)
      return { lastDay, lastAt: lastAt && onWallClock(clock, lastAt) }
    },
  }
}
