// The incident: from the first missing delivery after a calm until the last one arrived, with its sums. @see docs/glossary.md
import type { Counts } from '../reconcile/decide.ts'
import { gateTable, type Gate } from '../reconcile/retry/gates.ts'
import type { SweepKind } from '../reconcile/sweep/sweep-report.ts'
import { onWallClock, type Clock } from '../runtime/clock.ts'
import type { FactOf, TelemetryEvent } from './events.ts'

/** A cause: the response of a receiver to events of one type, and the number of retries that got it. */
export type IncidentCause = Pick<FactOf<'outcome'>, 'eventType' | 'responseStatusCode' | 'subscriptionId'> & {
  failedAgain: number
}

export interface IncidentOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  gates: () => readonly { gate: Gate }[]
  /** Called when an incident starts or ends, and when the process ends during one. */
  report: (what: 'started' | 'ended' | 'open', incident: Incident) => void
}

export interface Incidents {
  note(event: TelemetryEvent): void
  /** The current incident, or the last one; undefined before the first. */
  last(): Incident | undefined
  /** Reports the current incident at the end of the process. */
  end(): void
}

/** An incident ends when nothing was due, blocked, awaited or repeatedly rejected for this long. */
const calmMs = 300_000
/** Fewer repeatedly rejected records do not keep an incident open. */
export const minRefused = 10
/** Number of causes shown, and counted. */
const [maxCauses, maxCounted] = [5, 1000]

/** Events that may open or shut a gate. */
const gateEvents: ReadonlySet<TelemetryEvent['type']> = new Set(['sweep', 'operator', 'receiver', 'trouble'])
const isBlocking = (gate: Gate): boolean => gateTable[gate].level !== 'working'

type Open = NonNullable<FactOf<'sweep'>['open']>

const urgentOf = ({ awaiting, blocked, due }: Counts): number => awaiting + blocked + due
const openOf = (counts: Counts): number => urgentOf(counts) + counts['backing-off']

/** The sums of a current incident, or of one that the next full sweep may find. Monotonic ms. */
function empty() {
  const sums = {
    /** True if the first sweep of this process or term found it: it may have started earlier. */
    begunBefore: false,
    /** The oldest missing event at its start; epoch ms. */
    oldestAt: undefined as number | undefined,
    /** Until when sweeps failed, from its start; null if none did. */
    unlistedUntil: null as number | null,
    /** Maximum of open records at the end of a full sweep. */
    peak: 0,
    /** Outcomes of retries since then. */
    recovered: 0,
    failedAgain: 0,
    /** Records that reached the attempt limit, and those that left the window undelivered. */
    exhausted: 0,
    expired: 0,
    /** Open records still backing off at the last full sweep. */
    backingOff: 0,
  }
  return {
    sums,
    /** By subscription, response and event type. */
    causes: new Map<string, IncidentCause>(),
    since: 0,
    shutMs: new Map<Gate, number>(),
    exhaustedBefore: 0,
    lastArrivalAt: undefined as number | undefined,
    /** Longest time from an event until its delivery was seen. */
    longestMs: undefined as number | undefined,
  }
}

type Running = ReturnType<typeof empty>

const toSeconds = (ms: number): number => Math.ceil(Math.max(0, ms) / 100) / 10

function toIncident(clock: IncidentOptions['clock'], running: Running, endedAt?: number) {
  const {
    causes,
    longestMs,
    shutMs,
    since,
    sums: { oldestAt, ...sums },
  } = running
  const toDate = (monotonic: number | null): Date | null =>
    monotonic === null ? null : new Date(onWallClock(clock, monotonic))
  return {
    since: new Date(onWallClock(clock, since)),
    /** When the last delivery arrived or was resolved otherwise; null during the incident. */
    endedAt: toDate(endedAt ?? null),
    ...sums,
    unlistedUntil: toDate(sums.unlistedUntil),
    oldestEvent: oldestAt === undefined ? null : new Date(oldestAt),
    /** Largest first; with the others they add up to `failedAgain`. */
    causes: [...causes.values()].sort((a, b) => b.failedAgain - a.failedAgain).slice(0, maxCauses),
    /** Null before the first delivery. */
    longestSeconds: longestMs === undefined ? null : toSeconds(longestMs),
    /** How long each gate was shut, as seen by sweeps and commands. */
    gates: [...shutMs].map(([gate, ms]) => ({ gate, seconds: toSeconds(ms) })),
  }
}

/** As /status shows it. Times are by this host's clock. */
export type Incident = ReturnType<typeof toIncident>

export function createIncidents({ clock, gates, report }: IncidentOptions): Incidents {
  let running: Running | undefined
  /** Since the last sweep: retries may be sent and arrive before the sweep that finds the incident ends. */
  let next = empty()
  /** Open records that the last incident left backing off: falling due, they start no new one. */
  let leftOver = 0
  /** The last finished incident, and its end. */
  let last: [Running, endedAt: number] | undefined
  let isFirstSweep = true
  let exhausted = 0
  /** Since when sweeps of a kind fail: the failures that they missed belong to the incident that starts after them. */
  const failingSince = new Map<SweepKind, number>()
  /** Since when nothing is urgent. */
  let calmSince: number | undefined
  let shut: readonly Gate[] = []
  let seenAt = clock.monotonic()

  function noteGates(): void {
    const now = clock.monotonic()
    for (const gate of shut) running?.shutMs.set(gate, (running.shutMs.get(gate) ?? 0) + now - seenAt)
    seenAt = now
    shut = running === undefined ? [] : gates().flatMap(({ gate }) => (isBlocking(gate) ? [gate] : []))
  }

  function begin({ oldestAt }: Open, counts: Counts, seconds: number): Running {
    const sweptAt = clock.monotonic() - seconds * 1000
    next.sums.begunBefore = isFirstSweep
    next.sums.oldestAt = oldestAt
    next.sums.unlistedUntil = failingSince.size === 0 ? null : sweptAt
    const exhaustedBefore = isFirstSweep ? counts.exhausted : exhausted
    return Object.assign(next, { since: Math.min(sweptAt, ...failingSince.values()), exhaustedBefore })
  }

  function noteCounts(incident: Running, counts: Counts): void {
    incident.sums.backingOff = counts['backing-off']
    incident.sums.exhausted = Math.max(0, counts.exhausted - incident.exhaustedBefore)
    incident.sums.peak = Math.max(incident.sums.peak, openOf(counts))
  }

  /** True while enough records keep being rejected, although others succeed, for the incident to continue. */
  function isRefused({ refusedAgain }: Open): boolean {
    return running !== undefined && refusedAgain >= minRefused
  }

  function noteSweep({ open, report: { failed: counts, kind, result, seconds } }: FactOf<'sweep'>): void {
    if (result === 'failed') failingSince.getOrInsert(kind, clock.monotonic() - seconds * 1000)
    else if (kind === 'recent') failingSince.delete(kind)
    if (counts === undefined || open === undefined) return
    const isUrgent = urgentOf(counts) > 0
    if (running === undefined) leftOver = Math.min(leftOver, openOf(counts))
    const isNew = isUrgent && running === undefined && openOf(counts) > leftOver
    if (isNew) running = begin(open, counts, seconds)
    next = empty()
    failingSince.clear()
    isFirstSweep = false
    exhausted = counts.exhausted
    calmSince = isUrgent || isRefused(open) ? undefined : (calmSince ?? clock.monotonic())
    if (running === undefined) return
    noteCounts(running, counts)
    noteGates()
    if (isNew) report('started', toIncident(clock, running))
    if (calmSince === undefined || clock.monotonic() - calmSince < calmMs) return
    last = [running, running.lastArrivalAt ?? calmSince]
    running = undefined
    leftOver = openOf(counts)
    report('ended', toIncident(clock, ...last))
  }

  function noteFailure({ causes, sums }: Running, fact: FactOf<'outcome'>): void {
    const { eventType, responseStatusCode, subscriptionId } = fact
    sums.failedAgain += 1
    const key = [subscriptionId, responseStatusCode, eventType].join(' ')
    if (causes.size >= maxCounted && !causes.has(key)) return
    causes.getOrInsertComputed(key, () => ({
      subscriptionId,
      responseStatusCode,
      eventType,
      failedAgain: 0,
    })).failedAgain += 1
  }

  function noteOutcome(incident: Running, fact: FactOf<'outcome'>): void {
    const { outcome, sinceEventMs } = fact
    if (outcome === 'failed-again') noteFailure(incident, fact)
    if (outcome !== 'recovered') return
    incident.sums.recovered += 1
    incident.lastArrivalAt = clock.monotonic()
    incident.longestMs = Math.max(incident.longestMs ?? 0, sinceEventMs)
  }

  return {
    note(event) {
      const { sums } = running ?? next
      if (event.type === 'expired') sums.expired += event.records
      if (event.type === 'returned') sums.expired = Math.max(0, sums.expired - event.records)
      if (event.type === 'sweep') noteSweep(event)
      if (event.type === 'outcome') noteOutcome(running ?? next, event)
      if (gateEvents.has(event.type)) noteGates()
      if (event.type !== 'leading') return
      // Another instance has worked since.
      running = undefined
      next = empty()
      leftOver = 0
      failingSince.clear()
      isFirstSweep = true
    },
    last() {
      noteGates()
      if (running !== undefined) return toIncident(clock, running)
      return last && toIncident(clock, ...last)
    },
    end() {
      noteGates()
      if (running !== undefined) report('open', toIncident(clock, running))
    },
  }
}
