// An incident as the status shows it: thousands of deliveries missing for three causes, an hour of history, some exhausted.
import type { Incident } from '../../src/observe/incident.ts'
import type { HistoryStep } from '../../src/observe/history.ts'
import { noEndless } from '../../src/reconcile/retry/summary.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import type { Cause, Causes } from '../../src/ops/causes.ts'
import { aCircuit, aStatusState } from './status.ts'

export const incidentNow = Date.UTC(2026, 0, 15, 12)
const [minuteMs, hourMs] = [60_000, 3_600_000]

/** The n-th made-up UUID. */
export function uuid(n: number): string {
  return `${((n * 2_654_435_761) >>> 0).toString(16).padStart(8, '0')}-7c1e-4b5a-9d3f-${n.toString(16).padStart(12, '0')}`
}

export const noDecisions = { due: 0, 'backing-off': 0, exhausted: 0, excluded: 0, blocked: 0, awaiting: 0 }

export const refusing = (refused: number): StatusState['endless'] => ({ ...noEndless(), refused })

export function ofOneType(eventType: string, records = 1): Cause['eventTypes'] {
  return { total: 1, list: [{ eventType, records }] }
}

export function aCause(changes: Partial<Cause> = {}): Cause {
  return {
    subscriptionId: uuid(1),
    responseStatusCode: 503,
    records: 1,
    refusedAgain: 0,
    unattempted: 0,
    firstExhausted: null,
    eventTypes: ofOneType('outgoing-transfer-completed', changes.records ?? 1),
    byDecision: { ...noDecisions, due: 1 },
    lastAttempt: new Date(incidentNow - 5 * minuteMs),
    oldestEvent: new Date(incidentNow - 3 * hourMs),
    nextRetry: new Date(incidentNow),
    nextRetryBy: 'time',
    ...changes,
  }
}

/** Nothing was missing until the receiver went down; it is coming back since twenty minutes. */
function anHour(): HistoryStep[] {
  return Array.from({ length: 60 }, (_, minute) => {
    const back = Math.max(0, minute - 38)
    const missing =
      minute < 4 ? 12 : Math.max(7000, 7950 - Math.round(back ** 2 * 2.155)) - (minute < 20 ? (20 - minute) * 480 : 0)
    return {
      at: new Date(incidentNow - (59 - minute) * minuteMs),
      missing: minute < 2 ? null : missing,
      recovered: back === 0 ? 0 : Math.min(95, Math.round(back ** 1.6)),
      circuits: minute > 12 ? 1 : 0,
      paused: minute > 30 && minute < 36,
    }
  })
}

/** 7,000 missing deliveries in three causes, nine of them exhausted. */
export function incidentCauses(): Causes {
  return {
    total: 3,
    records: 7000,
    list: [
      aCause({
        records: 5200,
        eventTypes: {
          total: 2,
          list: [
            { eventType: 'outgoing-transfer-completed', records: 4100 },
            { eventType: 'incoming-transfer-completed', records: 1100 },
          ],
        },
        byDecision: { ...noDecisions, due: 4300, blocked: 0, awaiting: 24, 'backing-off': 876 },
      }),
      aCause({
        eventTypes: ofOneType('incoming-transfer-completed', 1791),
        subscriptionId: uuid(2),
        responseStatusCode: null,
        records: 1791,
        byDecision: { ...noDecisions, blocked: 1791 },
        nextRetry: new Date(incidentNow + 83_000),
        nextRetryBy: 'probe',
        oldestEvent: new Date(incidentNow - 170 * minuteMs),
      }),
      aCause({
        eventTypes: ofOneType('account-activated', 9),
        subscriptionId: uuid(3),
        responseStatusCode: 422,
        records: 9,
        byDecision: { ...noDecisions, exhausted: 9 },
        nextRetry: null,
        nextRetryBy: 'never',
        oldestEvent: new Date(incidentNow - 90 * hourMs),
      }),
    ],
    oldestExhaustedAt: incidentNow - 90 * hourMs,
  }
}

/** An incident that has just begun. */
export const begunIncident: Incident = {
  ...{ since: new Date(incidentNow), endedAt: null, begunBefore: false, oldestEvent: null, unlistedUntil: null },
  ...{ peak: 0, recovered: 0, leftWithoutRetry: 0, expired: 0, longestSeconds: null, gates: [] },
  ...{ failedAgain: 0, causes: [], exhausted: 0, backingOff: 0 },
}

export function anIncident(changes: Partial<StatusState> = {}): StatusState {
  return aStatusState({
    instance: 'payments-eu',
    failed: { due: 4300, 'backing-off': 876, exhausted: 9, excluded: 40, blocked: 1791, awaiting: 24 },
    excluded: { 'event-type': 40 },
    oldestOpenAt: incidentNow - 3 * hourMs,
    lastDueAt: incidentNow + 9 * minuteMs,
    startedAt: incidentNow - 76 * hourMs,
    awaiting: 16,
    inFlight: 8,
    rateLimit: 20,
    rateMaximum: 20,
    gates: [{ gate: 'circuit', since: undefined, subscriptions: 1 }],
    endless: { ...noEndless(), circuit: 1791 },
    circuits: [
      aCircuit({ subscriptionId: uuid(2), pausesForMs: 83_000, openForMs: 47 * minuteMs, responseStatusCode: null }),
    ],
    receiver: { up: true },
    sweeps: [
      { kind: 'full', result: 'complete', endedAt: new Date(incidentNow - 190_000), seconds: 6.2, listed: 7412 },
      { kind: 'recent', result: 'complete', endedAt: new Date(incidentNow - 72_000), seconds: 0.4, listed: 311 },
      { kind: 'full', result: 'incomplete', endedAt: new Date(incidentNow - 61_000), seconds: 6.8, listed: 7199 },
      { kind: 'full', result: 'complete', endedAt: new Date(incidentNow - 12_000), seconds: 5.9, listed: 7000 },
    ],
    lastFullSweepAt: incidentNow - 12_000,
    lastCompleteSweepAt: incidentNow - 12_000,
    seenUntil: incidentNow - 72_000,
    nextTickAt: incidentNow + 18_000,
    nextSweepInMs: 18_000,
    tokenExpiresAt: incidentNow + 44 * minuteMs,
    certificateExpiresAt: incidentNow + 212 * 24 * hourMs,
    causes: incidentCauses(),
    history: anHour(),
    recovered: { lastDay: 1240, lastAt: incidentNow - 2000 },
    pace: { recoveredPerMinute: 95, failedShare: 0, isSteady: true },
    skewMs: { auth: 20, api: -310 },
    timeOffsetMs: 0,
    ...changes,
  })
}
