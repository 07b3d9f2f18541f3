// What the parts know, as the status is made of it: a quiet daemon, with the changes that a test wants.
import { leadAlone } from '../../src/leader-election/leadership.ts'
import type { CircuitView } from '../../src/reconcile/retry/subscriptions.ts'
import { gateTable, type Gate } from '../../src/reconcile/retry/gates.ts'
import { noEndless } from '../../src/reconcile/retry/summary.ts'
import type { StatusState } from '../../src/ops/status-document.ts'
import type { Causes } from '../../src/ops/causes.ts'

export const noCauses: Causes = {
  total: 0,
  records: 0,
  list: [],
  oldestExhaustedAt: Infinity,
}

/** A shut gate, with what shows beside it. */
export function shut(
  gate: Gate,
  since?: number,
  more: Partial<StatusState['gates'][number]> = {},
): Partial<StatusState> {
  const subscriptions = gateTable[gate].blocks === 'subscription' ? 1 : undefined
  return { gates: [{ gate, since, subscriptions, ...more }] }
}

/** All calls wait. */
export function throttled(ms: number): Partial<StatusState> {
  return { ...shut('throttled', undefined, { opensInMs: ms }), throttledForMs: ms }
}

/** An open circuit that ten failures have opened. */
export function aCircuit(changes: Partial<CircuitView> = {}): CircuitView {
  return {
    subscriptionId: 'one',
    state: 'open',
    limit: 1,
    isKnownUp: false,
    outstanding: 0,
    pausesForMs: 30_000,
    openForMs: 60_000,
    failingForMs: 60_000,
    failedAgain: 10,
    judged: 10,
    responseStatusCode: 503,
    ...changes,
  }
}

export function aStatusState(changes: Partial<StatusState> = {}): StatusState {
  return {
    instance: 'test',
    version: '1.2.3',
    subscriptions: {},
    now: Date.UTC(2026, 0, 15, 12),
    startedAt: Date.UTC(2026, 0, 15, 11),
    gates: [],
    pauses: [],
    leadership: leadAlone('test', Date.UTC(2026, 0, 15, 11)).state(),
    receiver: undefined,
    throttledForMs: 0,
    books: undefined,
    rateLimit: 20,
    rateMaximum: 20,
    failed: { due: 0, 'backing-off': 0, exhausted: 0, excluded: 0, blocked: 0, awaiting: 0 },
    excluded: {},
    oldestOpenAt: undefined,
    lastDueAt: undefined,
    expiring: { due: 0, 'backing-off': 0, exhausted: 0, blocked: 0, awaiting: 0 },
    ...{ endless: noEndless(), expiringEndless: noEndless() },
    unservedForMs: 0,
    mended: undefined,
    lately: [],
    missingOf: new Map(),
    expired: 0,
    runbookUrl: undefined,
    utcOffsetMs: 0,
    lookbackMs: 7 * 24 * 3_600_000,
    awaiting: 0,
    inFlight: 0,
    stuckProcessing: 0,
    nextSweepInMs: Infinity,
    fullSweepUnderWay: false,
    seenUntil: undefined,
    unreadable: undefined,
    unlisted: undefined,
    knowsTime: true,
    beyondWindow: 0,
    aheadOfClock: 0,
    circuits: [],
    sweeps: [],
    notAccepted: { inARow: 0 },
    unknownInARow: 0,
    lastFullSweepAt: undefined,
    lastCompleteSweepAt: undefined,
    nextTickAt: undefined,
    tokenExpiresAt: undefined,
    tokenTrouble: undefined,
    certificateExpiresAt: undefined,
    causes: noCauses,
    onlyCounted: 0,
    circuitCounts: { closed: 0, 'half-open': 0, open: 0 },
    receivers: { failing: 0, suspected: 0, taking: 0 },
    keyReload: undefined,
    lastIncompleteSweepAt: undefined,
    listsFailing: undefined,
    retriesThrottled: undefined,
    progressDueAt: 0,
    incident: undefined,
    history: [],
    recovered: { lastDay: 0, lastAt: undefined },
    pace: { recoveredPerMinute: 0, failedShare: 0, isSteady: true },
    skewMs: { auth: 0, api: 0 },
    timeZone: 'UTC',
    timeOffsetMs: undefined,
    ...changes,
  }
}
