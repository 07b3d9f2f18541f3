// The incident: from the first missing delivery after a calm to the last one that arrived, with its sums. @see docs/glossary.md
import type { Counts } from '../reconcile/decide.ts'
import { gateTable, type Gate } from '../reconcile/retry/gates.ts'
import type { SweepKind } from '../reconcile/sweep/sweep-report.ts'
import { onWallClock, type Clock } from '../runtime/clock.ts'
import type { FactOf, TelemetryEvent } from './events.ts'

/** A cause that kept deliveries from arriving: a response of a receiver to events of one type, and how many retries got it. */
export type IncidentCause = Pick<FactOf<'outcome'>, 'eventType' | 'responseStatusCode' | 'subscriptionId'> & {
  failedAgain: number
}

export interface IncidentOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** Gates that are shut now. */
  gates: () => readonly { gate: Gate }[]
  /** Repeatedly rejected records, and the oldest open event, epoch ms: it iterates over all records. */
  open: () => { refusedAgain: number; oldestAt: number | undefined }
  /** Called when one begins, when it is over, and for the one that is `open` when the process ends. */
  report: (what: 'started' | 'ended' | 'open', incident: Incident) => void
}

export interface Incidents {
  note(event: TelemetryEvent): void
  /** The one under way, or the last one; undefined before the first. */
  last(): Incident | undefined
  /** Reports the one under way, as the process ends. */
  end(): void
}

/** For this long nothing may be due, blocked, awaited or repeatedly rejected before an incident is over. */
const calmMs = 300_000
/** Fewer repeatedly rejected ones keep no incident open: they matter as little as exhausted ones. */
export const minRefused = 10
/** Causes that are shown, and that are counted. */
const [maxCauses, maxCounted] = [5, 1000]

/** Events with which a gate may open or shut. */
const gateEvents: ReadonlySet<TelemetryEvent['type']> = new Set(['sweep', 'operator', 'receiver', 'trouble'])
const isBlocking = (gate: Gate): boolean => gateTable[gate].level !== 'working'

const urgentOf = ({ awaiting, blocked, due }: Counts): number => awaiting + blocked + due
const openOf = (counts: Counts): number => urgentOf(counts) + counts['backing-off']

/** What an incident is made from, while it goes on, or before the full sweep that may find it. Moments in monotonic ms. */
function empty() {
  const sums = {
    /** True when the first sweep of this process, or of its lead, found it: it may have begun earlier. */
    begunBefore: false,
    /** The oldest event that was missing when it began; epoch ms. */
    oldestAt: undefined as number | undefined,
    /** Until when sweeps had failed, from its beginning on; null when none had. */
    unlistedUntil: null as number | null,
    /** The most open records at the end of a full sweep. */
    peak: 0,
    /** Outcomes of retries since then. */
    recovered: 0,
    failedAgain: 0,
    /** Records that reached the attempt limit, and those that left the window undelivered. */
    exhausted: 0,
    expired: 0,
    /** Open records that still backed off at the last full sweep. */
    backingOff: 0,
  }
  return {
    sums,
    /** By subscription, answer and event type. */
    causes: new Map<string, IncidentCause>(),
    since: 0,
    shutMs: new Map<Gate, number>(),
    exhaustedBefore: 0,
    lastArrivalAt: undefined as number | undefined,
    /** The longest time from an event until its delivery was seen. */
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
    /** When the last delivery arrived, or was resolved otherwise; null while it goes on. */
    endedAt: toDate(endedAt ?? null),
    ...sums,
    unlistedUntil: toDate(sums.unlistedUntil),
    oldestEvent: oldestAt === undefined ? null : new Date(oldestAt),
    /** The largest first; with those of the others they add up to `failedAgain`. */
    causes: [...causes.values()].sort((a, b) => b.failedAgain - a.failedAgain).slice(0, maxCauses),
    /** Null before the first delivery was seen. */
    longestSeconds: longestMs === undefined ? null : toSeconds(longestMs),
    /** How long each gate was shut, as sweeps and commands saw it. */
    gates: [...shutMs].map(([gate, ms]) => ({ gate, seconds: toSeconds(ms) })),
  }
}

/** As /status has it. Times are by this host's clock. */
export type Incident = ReturnType<typeof toIncident>

export function createIncidents({ clock, gates, open, report }: IncidentOptions): Incidents {
  let running: Running | undefined
  /** Since the last sweep: retries go out, and arrive, before the sweep that finds the incident has ended. */
  let next = empty()
  /** The most open records that the last incident left to their backoff: they begin none when they fall due. */
  let leftOver = 0
  /** The last one that is over, and when it was. */
  let last: [Running, endedAt: number] | undefined
  let isFirstSweep = true
  let exhausted = 0
  /** Since when sweeps of a kind fail: what they would have found is part of the incident that begins after them. */
  const failingSince = new Map<SweepKind, number>()
  /** Since when nothing is urgent. */
  let calmSince: number | undefined
  let shut: readonly Gate[] = []
  let seenAt = clock.monotonic()

  /** Adds the time since the gates were last seen. */
  function noteGates(): void {
    const now = clock.monotonic()
    for (const gate of shut) running?.shutMs.set(gate, (running.shutMs.get(gate) ?? 0) + now - seenAt)
    seenAt = now
    shut = running === undefined ? [] : gates().flatMap(({ gate }) => (isBlocking(gate) ? [gate] : []))
  }

  function begin(counts: Counts, seconds: number): Running {
    const sweptAt = clock.monotonic() - seconds * 1000
    next.sums.begunBefore = isFirstSweep
    next.sums.oldestAt = open().oldestAt
    next.sums.unlistedUntil = failingSince.size === 0 ? null : sweptAt
    const exhaustedBefore = isFirstSweep ? counts.exhausted : exhausted
    return Object.assign(next, { since: Math.min(sweptAt, ...failingSince.values()), exhaustedBefore })
  }

  function noteCounts(incident: Running, counts: Counts): void {
    incident.sums.backingOff = counts['backing-off']
    incident.sums.exhausted = Math.max(0, counts.exhausted - incident.exhaustedBefore)
    incident.sums.peak = Math.max(incident.sums.peak, openOf(counts))
  }

  /** True while so many keep being rejected, although others succeed, that the incident continues. */
  function isRefused(counts: Counts): boolean {
    if (running === undefined || counts['backing-off'] < minRefused) return false
    return open().refusedAgain >= minRefused
  }

  function noteSweep({ failed: counts, kind, result, seconds }: FactOf<'sweep'>['report']): void {
    if (result === 'failed') failingSince.getOrInsert(kind, clock.monotonic() - seconds * 1000)
    else if (kind === 'recent') failingSince.delete(kind)
    if (counts === undefined) return
    const isUrgent = urgentOf(counts) > 0
    if (running === undefined) leftOver = Math.min(leftOver, openOf(counts))
    const isNew = isUrgent && running === undefined && openOf(counts) > leftOver
    if (isNew) running = begin(counts, seconds)
    next = empty()
    failingSince.clear()
    isFirstSweep = false
    exhausted = counts.exhausted
    calmSince = isUrgent || isRefused(counts) ? undefined : (calmSince ?? clock.monotonic())
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
      if (event.type === 'sweep') noteSweep(event.report)
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
