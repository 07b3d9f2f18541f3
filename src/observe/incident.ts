// The incident: from the first missing delivery after a calm until the last one arrived. Its sums are read from the minutes. @see docs/glossary.md
import type { Counts } from '../reconcile/decide.ts'
import type { SweepKind } from '../reconcile/sweep/sweep-report.ts'
import { onWallClock, type Clock } from '../runtime/clock.ts'
import type { FactOf, TelemetryEvent } from './events.ts'
import type { History, HistorySums } from './history.ts'

/** A cause: the response of a receiver to events of one type, and the number of retries that got it. */
export type IncidentCause = Pick<FactOf<'outcome'>, 'eventType' | 'responseStatusCode' | 'subscriptionId'> & {
  failedAgain: number
}

/** As /status shows it. Times are by this host's clock. */
export interface Incident extends HistorySums {
  since: Date
  /** When the last delivery arrived or was resolved otherwise; null during the incident. */
  endedAt: Date | null
  /** True if the first sweep of this process or term found it: it may have started earlier. */
  begunBefore: boolean
  /** The oldest missing event at its start. */
  oldestEvent: Date | null
  /** Until when sweeps failed, from its start; null if none did. */
  unlistedUntil: Date | null
  failedAgain: number
  /** Largest first; with the others they add up to `failedAgain`. */
  causes: IncidentCause[]
  /** Records that reached the attempt limit. */
  exhausted: number
  /** Open records still backing off at the last full sweep. */
  backingOff: number
}

export interface IncidentOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** Receives each event first. */
  history: Pick<History, 'recovered' | 'sums'>
  /** Called when an incident starts or ends, and when the process or its lead ends during one. */
  report: (what: 'started' | 'ended' | 'open', incident: Incident) => void
}

export interface Incidents {
  note(event: TelemetryEvent): void
  /** The current incident, or the last one; undefined before the first. */
  last(): Incident | undefined
  /** Reports the current incident at the end of the process or of its lead, and forgets it: another instance works on. */
  end(): void
}

/** An incident ends when nothing was open for this long, but a few repeatedly rejected records. */
const calmMs = 300_000
/** Fewer repeatedly rejected records neither start an incident nor keep it open. */
export const minRefused = 10
/** Number of causes shown, and counted. */
const [maxCauses, maxCounted] = [5, 1000]

const urgentOf = ({ awaiting, blocked, due }: Counts): number => awaiting + blocked + due
const openOf = (counts: Counts): number => urgentOf(counts) + counts['backing-off']

type Open = NonNullable<FactOf<'sweep'>['open']>

export function createIncidents({ clock, history, report }: IncidentOptions): Incidents {
  type Beginning = ReturnType<typeof begin>
  let running: Beginning | undefined
  let last: Incident | undefined
  /** Of the last full sweep; undefined before the first of this term. */
  let counts: Counts | undefined
  /** Open records that the last incident left: they start no new one when they fall due. */
  let leftOver = 0
  /** When a full sweep last found open records that start or hold it, and since when none holds it. */
  let openAt = -Infinity
  let calmSince: number | undefined
  /** Since when sweeps of a kind fail: the failures that they missed belong to the incident that starts after them. */
  const failingSince = new Map<SweepKind, number>()
  /** By subscription, response and event type, since the last sweep that started no incident. Too many to keep for each minute. */
  const causes = new Map<string, IncidentCause>()
  let failedAgain = 0

  const toDate = (monotonic: number): Date => new Date(onWallClock(clock, monotonic))

  function shown(
    { exhaustedBefore, since, unlistedUntil, ...others }: Beginning,
    endedAt: Date | null = null,
  ): Incident {
    const { exhausted = 0, 'backing-off': backingOff = 0 } = counts ?? {}
    return {
      ...others,
      ...history.sums(since),
      since: toDate(since),
      endedAt,
      unlistedUntil: unlistedUntil === undefined ? null : toDate(unlistedUntil),
      failedAgain,
      causes: [...causes.values()].sort((a, b) => b.failedAgain - a.failedAgain).slice(0, maxCauses),
      exhausted: Math.max(0, exhausted - exhaustedBefore),
      backingOff,
    }
  }

  /** Times are monotonic ms. */
  function begin({ oldestAt }: Open, found: Counts, sweptAt: number) {
    return {
      since: Math.min(sweptAt, ...failingSince.values()),
      begunBefore: counts === undefined,
      oldestEvent: oldestAt === undefined ? null : new Date(oldestAt),
      unlistedUntil: failingSince.size === 0 ? undefined : sweptAt,
      exhaustedBefore: (counts ?? found).exhausted,
    }
  }

  /** The last arrival ends it, or else the sweep that found the others resolved. */
  function end(incident: Beginning, calmSince: number): void {
    const { lastAt = -Infinity } = history.recovered()
    const hasArrived = lastAt >= onWallClock(clock, openAt)
    last = shown(incident, hasArrived ? new Date(lastAt) : toDate(calmSince))
    running = undefined
    report('ended', last)
  }

  function noteCounts(open: Open, found: Counts, sweptAt: number): void {
    // Records that the receiver rejects are no incident.
    const ignored = Math.max(leftOver, Math.min(open.refused, minRefused - 1))
    const begins = running === undefined && urgentOf(found) > 0 && openOf(found) > ignored
    const isOpen = begins || openOf(found) > Math.min(open.refusedAgain, minRefused - 1)
    const begun = begins ? begin(open, found, sweptAt) : undefined
    running ??= begun
    leftOver = running === undefined ? Math.min(leftOver, openOf(found)) : openOf(found)
    failingSince.clear()
    counts = found
    if (isOpen) openAt = clock.monotonic()
    calmSince = isOpen ? undefined : (calmSince ?? clock.monotonic())
    if (begun !== undefined) report('started', shown(begun))
    if (running !== undefined && calmSince !== undefined && clock.monotonic() - calmSince >= calmMs)
      end(running, calmSince)
  }

  function noteSweep({ open, report: { failed, kind, result, seconds } }: FactOf<'sweep'>): void {
    const sweptAt = clock.monotonic() - seconds * 1000
    if (result === 'failed') return void failingSince.getOrInsert(kind, sweptAt)
    if (kind === 'recent') failingSince.delete(kind)
    if (failed !== undefined && open !== undefined) noteCounts(open, failed, sweptAt)
    if (running === undefined) forgetFailures()
  }

  function forgetFailures(): void {
    causes.clear()
    failedAgain = 0
  }

  function noteFailure({ eventType, responseStatusCode, subscriptionId }: FactOf<'outcome'>): void {
    failedAgain += 1
    const key = [subscriptionId, responseStatusCode, eventType].join(' ')
    if (causes.size >= maxCounted && !causes.has(key)) return
    const none = { subscriptionId, responseStatusCode, eventType, failedAgain: 0 }
    causes.getOrInsert(key, none).failedAgain += 1
  }

  return {
    note(event) {
      if (event.type === 'sweep') noteSweep(event)
      if (event.type === 'outcome' && event.outcome === 'failed-again') noteFailure(event)
    },
    last: () => (running === undefined ? last : shown(running)),
    end() {
      if (running !== undefined) report('open', shown(running))
      running = counts = calmSince = undefined
      leftOver = 0
      failingSince.clear()
      forgetFailures()
    },
  }
}
