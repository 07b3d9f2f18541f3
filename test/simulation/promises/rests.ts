// Sweeps rest for twenty times their duration, up to an hour and three minutes from their begin, so that listing stays a small part of the calls. @see docs/architecture.md "Sweep"
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

type SweepFact = Extract<TelemetryEvent, { type: 'sweep' }>

export const restFactor = 20
const longestRestMs = { full: 3_600_000, recent: 180_000 }
const toleranceMs = 50

export function createRestsWatcher({ exercise, timeline, violate }: WatcherOptions): Watcher {
  const restsUntil = { full: -Infinity, recent: -Infinity }
  /** When the platform last asked for a wait: a sweep of about that time worked less long than it took. */
  let waitedAt = -Infinity
  /** When a record last had no room. If that was since the last full sweep began, the next one comes as soon as there is some. */
  let evictedAt = -Infinity
  let fullStartedAt = -Infinity
  /** When the sweep before ended. */
  let endedAt = -Infinity
  /** Of the last full sweep: one that failed goes on. */
  let fullId = ''
  /** A recent sweep that came early: the newest hour of a full one may have been the last that it rests after. */
  let early: { startedAt: number; what: string } | undefined

  /** Of a sweep that ended just now. */
  function check({ report }: SweepFact): void {
    const kind = report.kind === 'full' ? 'full' : 'recent'
    const now = timeline.now()
    const startedAt = now - report.seconds * 1000
    const hasWaited = waitedAt >= Math.min(startedAt, endedAt)
    endedAt = now
    if (kind === 'full' && early !== undefined && startedAt > early.startedAt) violate('limits', early.what)
    if (kind === 'full') {
      early = undefined
      restsUntil.recent = -Infinity
    }
    const goesOn = report.sweepId === fullId
    if (kind === 'full') fullId = report.sweepId
    const hasRoomAgain = kind === 'full' && evictedAt >= fullStartedAt
    if (report.evicted > 0) evictedAt = now
    if (kind === 'full') fullStartedAt = startedAt
    if (startedAt + toleranceMs < restsUntil[kind] && !hasRoomAgain && !goesOn) {
      const ms = Math.round(restsUntil[kind] - startedAt)
      early = { startedAt, what: `begins a ${kind} sweep ${ms} ms before its rest is over` }
      if (kind === 'full') violate('limits', early.what)
    }
    if (restsUntil[kind] > -Infinity) exercise(`${kind} sweeps rest`)
    // Waiting for a Retry-After to pass is no work, and one that failed backs off instead.
    const worked = report.result === 'failed' || hasWaited || goesOn ? 0 : report.seconds * 1000
    restsUntil[kind] = Math.min(startedAt + longestRestMs[kind], now + restFactor * worked)
  }

  return {
    told(_call, { retryAfterMs, status }) {
      if (status === 429 || retryAfterMs !== undefined) waitedAt = timeline.now()
    },
    fact(fact) {
      // Records that a job adds may take the room of others.
      if (fact.type === 'operator' && fact.command === 'retry') evictedAt = timeline.now()
      if (fact.type === 'sweep') check(fact)
    },
  }
}
