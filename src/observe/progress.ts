// Progress of the daemon: readiness, the last sweeps, the last progress, and the deadline for the next.
import type { FactOf, TelemetryEvent } from './events.ts'
import type { Reason } from '../platform/http/http.ts'
import { meaningOf, type CallResponse, type RetryResponse } from '../platform/operations.ts'
import type { CallFailure } from '../reconcile/platform-trouble.ts'
import type { SweepKind, SweepReport, SweepResult } from '../reconcile/sweep/sweep-report.ts'

export type SweepFailure = Omit<CallFailure, 'message'>

export interface SweepEnd {
  kind: SweepKind
  result: SweepResult
  endedAt: Date
  seconds: number
  listed: number
  /** With `failed`. Without the message, which may quote another host. */
  failure?: SweepFailure | undefined
}

/** Times in monotonic ms; undefined before the first. */
const nothingSeen = {
  /** The last finished sweeps, oldest first. */
  sweeps: [] as readonly (Omit<SweepEnd, 'endedAt'> & { endedAt: number })[],
  /** When a full sweep last succeeded, whole or not. */
  lastFullSweepAt: undefined as number | undefined,
  /** When a full sweep last saw the whole window, and when one last did not. */
  lastCompleteSweepAt: undefined as number | undefined,
  lastIncompleteSweepAt: undefined as number | undefined,
  /** Consecutive failed list calls, from the start of the first to the end of the last; undefined after a success. */
  listsFailing: undefined as { since: number; until: number; reason: Reason } | undefined,
  /** The retries that were throttled since the platform last responded about a record, each within 15 min of the one before. */
  retriesThrottled: undefined as { since: number; until: number } | undefined,
  /** Number of consecutive retries that the platform did not accept, and the last response. */
  notAccepted: { inARow: 0 } as { inARow: number } & Partial<CallResponse>,
  /** Number of consecutive retries with the outcome `unknown`. */
  unknownInARow: 0,
  /** Failed records that left the window. */
  expired: 0,
  /** How far attempts lay outside the time of their retries, in ms: the smaller of the last two. */
  timeOffsetMs: undefined as number | undefined,
}

export type ProgressState = Omit<typeof nothingSeen, 'sweeps'> & { sweeps: readonly SweepEnd[]; progressDueAt: number }

export interface ProgressOptions {
  /** Monotonic ms, as are all times here. The first tick occurs at the start, and at that of each term. */
  startedAt: number
  /** Shortest time between two ticks of the schedule, in ms. */
  periodMs: number
  nextTickAt: () => number | undefined
  toWallClock: (monotonic: number) => number
}

export interface Progress {
  /** Forgets all but readiness, when this instance begins to stand by. */
  forget(): void
  observe(event: TelemetryEvent, now: number): void
  /** Conditions still missing for readiness, in words. */
  notReady(): string[]
  /** Times in epoch ms. `progressNotBefore`: monotonic ms before which no progress is expected. */
  state(progressNotBefore?: number): ProgressState
}

/** From the earliest zone to the latest, and an hour. */
const maxZoneMs = 27 * 3_600_000
/** Number of finished sweeps that are kept. */
export const maxSweeps = 10
/** Tolerance for a late or skipped tick. */
const slackPeriods = 2
const maxSlackMs = 300_000
/** Throttled retries further apart are separate: nothing was left to retry, or a gate shows the longer pause between them. */
export const throttledGapMs = 900_000

/** True for events that show a working platform: a list, a response about a record, or an outcome. */
function isProgress(event: TelemetryEvent): boolean {
  if (event.type === 'sweep') return event.report.result !== 'failed'
  if (event.type === 'retry') return meaningOf(event.response.result).isOfRecord === true
  return event.type === 'outcome' && event.outcome !== 'unknown'
}

function safePartOf({ message: _, ...safe }: CallFailure): SweepFailure {
  return safe
}

export function createProgress({ startedAt, periodMs, nextTickAt, toWallClock }: ProgressOptions): Progress {
  const slackMs = Math.min(slackPeriods * periodMs, maxSlackMs)
  let [hasToken, hasPage] = [false, false]
  /** The first tick after the last progress. */
  let tickAt = startedAt
  let known = { ...nothingSeen }
  let lastOffsetMs: number | undefined

  /** Advances to the next tick once the awaited one has passed. */
  function moveOn(now: number): void {
    if (now >= tickAt) tickAt = nextTickAt() ?? now + periodMs
  }

  function observeSweep({ failure, kind, listed, result, seconds }: SweepReport, now: number): void {
    const isWhole = kind === 'full'
    const ended = { kind, result, endedAt: now, seconds, listed, failure: failure && safePartOf(failure) }
    known = {
      ...known,
      sweeps: [...known.sweeps, ended].slice(-maxSweeps),
      ...(isWhole && result !== 'failed' && { lastFullSweepAt: now }),
      ...(isWhole && { [result === 'complete' ? 'lastCompleteSweepAt' : 'lastIncompleteSweepAt']: now }),
    }
  }

  function observeRetry({ problem, reason, result, status }: RetryResponse, now: number): void {
    const { isOfRecord, isRefusal } = meaningOf(result)
    const { since, until } = known.retriesThrottled ?? { since: now, until: now }
    if (result === 'throttled')
      known.retriesThrottled = { since: now - until > throttledGapMs ? now : since, until: now }
    else if (isOfRecord) known.retriesThrottled = undefined
    if (result === 'already-resolved') known.unknownInARow = 0
    if (isRefusal) known.notAccepted = { inARow: known.notAccepted.inARow + 1, problem, reason, status }
    else if (isOfRecord) known.notAccepted = { inARow: 0 }
  }

  /** A throttled call only waits. */
  function observeList({ operation, reason, seconds }: FactOf<'platform-request'>, now: number): void {
    if (reason === 'throttled') return
    hasPage ||= operation === 'list' && reason === 'ok'
    const since = known.listsFailing?.since ?? now - seconds * 1000
    known.listsFailing = reason === 'ok' ? undefined : { since, until: now, reason }
  }

  /** A wrong zone shifts every attempt, another client a single one. */
  function observeOffset(ms: number): void {
    // No zone is so far off: the platform shows a placeholder for the time of the attempt.
    if (Math.abs(ms) > maxZoneMs) return
    const isSmaller = lastOffsetMs === undefined || Math.abs(ms) <= Math.abs(lastOffsetMs)
    known.timeOffsetMs = isSmaller ? ms : lastOffsetMs
    lastOffsetMs = ms
  }

  function observeOutcome({ outcome, timeOffsetMs }: FactOf<'outcome'>): void {
    known.unknownInARow = outcome === 'unknown' ? known.unknownInARow + 1 : 0
    // The platform accepted it, even if its response did not say so.
    if (outcome !== 'unknown') known.notAccepted = { inARow: 0 }
    if (timeOffsetMs !== undefined) observeOffset(timeOffsetMs)
  }

  return {
    forget() {
      known = { ...nothingSeen }
    },
    observe(event, now) {
      if (event.type === 'leading') tickAt = now
      if (event.type === 'token-refreshed' && event.result === 'ok') hasToken = true
      if (event.type === 'platform-request' && event.operation !== 'retry') observeList(event, now)
      if (event.type === 'sweep') observeSweep(event.report, now)
      if (event.type === 'retry') observeRetry(event.response, now)
      if (event.type === 'expired') known.expired += event.records
      if (event.type === 'returned') known.expired -= event.records
      if (event.type === 'outcome') observeOutcome(event)
      if (isProgress(event)) moveOn(now)
    },
    notReady: () => [
      ...(hasToken ? [] : ['no access token yet']),
      ...(hasPage ? [] : ['no list page of the platform yet']),
    ],
    state(progressNotBefore = -Infinity) {
      // Read once, so that all times refer to the same moment.
      const ahead = toWallClock(0)
      const shown = (at: number | undefined): number | undefined => at && Math.round(at + ahead)
      const shownRow = <Row extends { since: number; until: number }>(row: Row | undefined): Row | undefined =>
        row && { ...row, since: row.since + ahead, until: row.until + ahead }
      return {
        ...known,
        sweeps: known.sweeps.map((sweep) => ({ ...sweep, endedAt: new Date(sweep.endedAt + ahead) })),
        lastFullSweepAt: shown(known.lastFullSweepAt),
        lastCompleteSweepAt: shown(known.lastCompleteSweepAt),
        lastIncompleteSweepAt: shown(known.lastIncompleteSweepAt),
        listsFailing: shownRow(known.listsFailing),
        retriesThrottled: shownRow(known.retriesThrottled),
        progressDueAt: Math.max(progressNotBefore, tickAt + slackMs) + ahead,
      }
    },
  }
}
