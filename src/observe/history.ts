// The last hour by minute, counted from events: missing deliveries, and outcomes.
import type { Clock } from '../runtime/clock.ts'
import type { TelemetryEvent } from './events.ts'
import type { Outcome } from '../reconcile/confirm/evidence.ts'

export interface HistoryOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** Deliveries that are missing now; undefined before a full sweep has ended. Called once a minute. */
  missing: () => number | undefined
}

/** The counts of one minute. */
export interface MinuteState {
  /** When it began, by the host's clock. */
  at: Date
  /** Deliveries that were missing at its beginning (now, in the minute under way); null before a full sweep has ended. */
  missing: number | null
  /** Outcomes in this minute. */
  recovered: number
  failedAgain: number
  unknown: number
}

export interface History {
  /** Counts an event; most only move the time on. */
  note(event: TelemetryEvent): void
  /** The last 60 minutes, oldest first, the last one under way. */
  minutes(): MinuteState[]
  /** Recovered deliveries per ms: in the last minute, or in the last five when none recovered then. */
  recoveredPerMs(): number
}

const minuteMs = 60_000
const shownMinutes = 60
/** Small steps, so that the pace follows a change soon. */
const stepMs = 5000
const paceMs = [minuteMs, 5 * minuteMs] as const
const keptSteps = Math.ceil(paceMs[1] / stepMs) + 1

interface Minute {
  missing: number | undefined
  outcomes: Record<Outcome, number>
}

/**
 * Keeps an hour of minutes and five minutes of steps. Minutes are those of the wall clock at the start; when that clock is
 * set later, counts keep their age.
 */
export function createHistory({ clock, missing }: HistoryOptions): History {
  const startedAt = clock.monotonic()
  const intoMinute = ((clock.now() % minuteMs) + minuteMs) % minuteMs
  const minutes = new Map<number, Minute>()
  const steps = new Map<number, number>()
  let sampled = -1
  /** The last number of missing deliveries among dropped minutes. */
  let before: number | undefined

  const sinceStart = (): number => clock.monotonic() - startedAt
  const minuteNow = (): number => Math.floor((sinceStart() + intoMinute) / minuteMs)
  const stepNow = (): number => Math.floor(sinceStart() / stepMs)

  function minuteOf(index: number): Minute {
    const known = minutes.get(index)
    if (known !== undefined) return known
    const made: Minute = { missing: undefined, outcomes: { recovered: 0, 'failed-again': 0, unknown: 0 } }
    minutes.set(index, made)
    for (const [old, { missing: then }] of minutes) {
      if (old > index - shownMinutes) break
      minutes.delete(old)
      before = then ?? before
    }
    return made
  }

  function countStep(): void {
    const step = stepNow()
    steps.set(step, (steps.get(step) ?? 0) + 1)
    for (const old of steps.keys()) if (old <= step - keptSteps) steps.delete(old)
  }

  /** Nothing changes without an event, so the first event of a minute finds the count with which the minute began. */
  function sample(): void {
    const index = minuteNow()
    if (index === sampled) return
    const now = missing()
    if (now === undefined) return
    sampled = index
    minuteOf(index).missing = now
  }

  /** In a span that ends now; right after the start the span is one step at least. */
  function paceIn(spanMs: number): number {
    const now = sinceStart()
    const first = Math.floor((now - spanMs) / stepMs) + 1
    let recovered = 0
    for (const [step, count] of steps) if (step >= first) recovered += count
    return recovered / Math.max(stepMs, now - Math.max(0, first * stepMs))
  }

  return {
    note(event) {
      sample()
      if (event.type !== 'outcome') return
      minuteOf(minuteNow()).outcomes[event.outcome] += 1
      if (event.outcome === 'recovered') countStep()
    },
    minutes() {
      sample()
      const last = minuteNow()
      // The two clocks differ a little, or more when one is set: a minute begins at its second 0.
      const beginsAt = Math.round((clock.now() - sinceStart() - intoMinute) / minuteMs) * minuteMs
      const first = last - shownMinutes + 1
      let known = before
      for (const [index, minute] of minutes) if (index < first) known = minute.missing ?? known
      const all = Array.from({ length: shownMinutes }, (_, position): MinuteState => {
        const index = first + position
        const minute = minutes.get(index)
        known = minute?.missing ?? known
        const { recovered = 0, 'failed-again': failedAgain = 0, unknown = 0 } = minute?.outcomes ?? {}
        return { at: new Date(beginsAt + index * minuteMs), missing: known ?? null, recovered, failedAgain, unknown }
      })
      // The minute under way shows the present.
      const [present] = all.slice(-1)
      if (present !== undefined) present.missing = missing() ?? present.missing
      return all
    },
    recoveredPerMs: () => paceIn(paceMs[0]) || paceIn(paceMs[1]),
  }
}
