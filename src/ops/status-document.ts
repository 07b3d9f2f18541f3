// The status document: the response to GET /status, also shown by the page. Its type follows from the code here; docs/status.md explains each field. Pure functions.
import type { LeadershipState } from '../leader-election/leadership.ts'
import type { History, HistoryStep } from '../observe/history.ts'
import type { Incident } from '../observe/incident.ts'
import type { SweepEnd } from '../observe/progress.ts'
import { missingIn, type Snapshot } from '../observe/snapshot.ts'
import type { MissedCause } from '../reconcile/books/hours.ts'
import type { CircuitView } from '../reconcile/retry/subscriptions.ts'
import { drainOf } from '../reconcile/drain.ts'
import { describeGate, type ShutGate } from '../reconcile/retry/gates.ts'
import type { OperatorPause } from '../reconcile/retry/operator-pause.ts'
import { expiryWarningMs } from '../reconcile/window.ts'
import { toDate } from '../runtime/instant.ts'
import { maxCauses, type Causes, type CauseStatus } from './causes.ts'
import { failureText, sentence } from './words.ts'

/** `well`; `working`: recovery proceeds automatically; `waiting`: for something transient or intended; `trouble`: a person is needed. */
export type Level = 'well' | 'working' | 'waiting' | 'trouble'

export interface Notice {
  level: Exclude<Level, 'well'>
  text: string
  advice: string
  /** Address of its runbook section; null without one. */
  runbook: string | null
}

export interface StatusSummary {
  /** Level of the headline. Exhausted records alone are no trouble, because they stay until they leave the window. */
  level: Level
  /** The worst notice or the current activity, and the number of missing deliveries. */
  headline: string
  /** Details and advice of that notice; empty without one. */
  detail: string
  advice: string
  runbook: string | null
  /** The other notices, worst first. */
  notices: Notice[]
}

/** The snapshot, configured names, and the lists that only /status and the page need. */
export interface StatusState extends Snapshot {
  instance: string
  version: string
  /** `server.runbookUrl`. */
  runbookUrl: string | undefined
  /** `platform.timeZone`, and its offset from UTC now. */
  timeZone: string
  utcOffsetMs: number
  /** `window.lookback`. */
  lookbackMs: number
  /** `retry.maxPerSecond`. */
  maxRetriesPerSecond?: number | undefined
  circuits: readonly CircuitView[]
  /** Failed records in memory, grouped. */
  causes: Causes
  /** The current incident, or the last one. */
  incident: Incident | undefined
  /** Oldest first. */
  history: readonly HistoryStep[]
  recovered: ReturnType<History['recovered']>
}

const maxCircuits = 1000

/** With one decimal; never 0 while time is left. */
const toSeconds = (ms: number): number => Math.ceil(Math.max(0, ms) / 100) / 10
const roundedSeconds = (ms: number): number => Math.round(ms) / 1000

/** `+02:00` */
function toOffset(ms: number): string {
  const minutes = Math.round(ms / 60_000)
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
}

const toLeadership = ({ identity, isLeading, lastingProblem, leader, problem, since }: LeadershipState) => ({
  leading: isLeading,
  identity,
  leader: leader ?? null,
  since: new Date(since),
  problem: problem ?? null,
  isLasting: lastingProblem !== undefined,
})

function toGate({ advice: own, call, gate, opensInMs, since, subscriptions }: ShutGate) {
  const { advice, adviceFor, reason, runbook } = describeGate(gate)
  return {
    gate,
    since: toDate(since),
    subscriptions: subscriptions ?? null,
    opensInSeconds: opensInMs === undefined ? null : toSeconds(opensInMs),
    call: call ?? null,
    reason,
    advice: (own && sentence(own)) ?? (call && adviceFor?.[call.reason]) ?? advice,
    runbook: runbook ?? null,
  }
}

export interface PauseStatus {
  /** Null: all retries are paused. */
  subscriptionId: string | null
  since: Date | null
  /** Null: until it is resumed. */
  until: Date | null
  reason: string | null
}

export function toPause({ reason, since, subscriptionId, until }: OperatorPause): PauseStatus {
  return {
    subscriptionId: subscriptionId ?? null,
    since: toDate(since),
    until: toDate(until),
    reason: reason ?? null,
  }
}

const toCircuit = ({ failingForMs, openForMs, pausesForMs, ...view }: CircuitView, now: number) => ({
  ...view,
  pausesForSeconds: toSeconds(pausesForMs),
  openSince: new Date(now - openForMs),
  failingSince: new Date(now - failingForMs),
})

const toSweep = ({ failure, ...sweep }: SweepEnd) => ({
  ...sweep,
  seconds: Math.round(sweep.seconds * 1000) / 1000,
  ...(failure && { stage: failure.stage, problem: failureText(failure), advice: failure.advice }),
})

function drainStatus(state: StatusState) {
  const { limitedBy, ...drain } = drainOf(state)
  const doneAt = toDate(drain.doneAt)
  return {
    recoveredPerMinute: Math.round(10 * state.pace.recoveredPerMinute) / 10,
    seconds: doneAt && Math.ceil(Math.max(0, doneAt.getTime() - state.now) / 1000),
    doneAt,
    limitedBy,
    failedShare: Math.round(1000 * state.pace.failedShare) / 1000,
  }
}

/** Excluded records are left out. */
function expiringStatus({ expiring, expiringEndless: { paused, throttled }, lookbackMs }: StatusState) {
  const { awaiting, 'backing-off': backingOff, blocked, due, exhausted } = expiring
  const byDecision = { due, 'backing-off': backingOff, exhausted, blocked, awaiting }
  const withinSeconds = toSeconds(expiryWarningMs({ lookback: lookbackMs }))
  return { total: due + backingOff + exhausted + blocked + awaiting, byDecision, withinSeconds, paused, throttled }
}

function causesStatus({ causes, circuits, onlyCounted }: StatusState) {
  const states = new Map(circuits.map(({ state, subscriptionId }) => [subscriptionId, state]))
  const listed = causes.list.reduce((sum, { records }) => sum + records, 0)
  return {
    total: causes.total,
    list: causes.list.map((cause): CauseStatus => ({
      ...cause,
      circuit: states.get(cause.subscriptionId) ?? 'closed',
    })),
    more: { causes: causes.total - causes.list.length, records: causes.records - listed },
    onlyCounted,
  }
}

function mendedStatus({ mended, skewMs }: StatusState) {
  if (mended === undefined) return null
  const { lastDueAt, records, since } = mended
  return { records, since: toDate(since - skewMs.api), lastRetry: toDate(lastDueAt - skewMs.api) }
}

function throttledStatus({ endless: { throttled }, now, unservedForMs }: StatusState) {
  return throttled === 0 ? null : { deliveries: throttled, unservedSince: new Date(now - unservedForMs) }
}

const toMissedCause = ({ firstAt, lastAt, ...cause }: MissedCause) => ({
  ...cause,
  firstDelivery: new Date(firstAt),
  lastDelivery: new Date(lastAt),
})

/** Null without `ledger.url`. Event times are the platform's, as in requests to the ledger. */
function booksStatus({ books, skewMs }: StatusState) {
  if (books === undefined) return null
  const { comparedUntil, dueAt, missed, problem, withoutKey } = books
  const { causes = [], delivered = 0, eventTypes = 0, isConfirmed = false, subscriptions = 0, total = 0 } = missed ?? {}
  return {
    comparedUntil: new Date(comparedUntil),
    due: new Date(dueAt),
    problem: problem === undefined ? null : { text: problem.text, since: new Date(problem.since - skewMs.api) },
    withoutKey,
    unprocessed: {
      ...{ total, delivered, subscriptions, eventTypes, isConfirmed },
      since: missed === undefined ? null : new Date(missed.firstAt),
      // The end of the last hour of `delivered`.
      until: missed === undefined ? null : new Date(missed.untilAt),
      causes: { total: causes.length, list: causes.slice(0, maxCauses).map(toMissedCause) },
    },
  }
}

/** The number of missing deliveries, causes, start and estimated end. */
function deliveriesOf(state: StatusState) {
  const { causes, expired, failed, skewMs } = state
  return {
    missing: missingIn(state),
    expired,
    refusedAgain: state.endless.refused,
    pausedDeliveries: state.endless.paused,
    throttled: throttledStatus(state),
    unattempted: state.endless.unattempted,
    unproven: state.endless.unattempted + state.endless.unproven,
    drain: drainStatus(state),
    failed: { ...failed },
    excluded: { ...state.excluded },
    lastBackoff: toDate((state.lastDueAt ?? NaN) - skewMs.api),
    mended: mendedStatus(state),
    oldestOpenEvent: toDate(state.oldestOpenAt),
    firstExpiry: toDate((state.oldestOpenAt ?? NaN) + state.lookbackMs - skewMs.api),
    expiring: expiringStatus(state),
    stuckProcessing: state.stuckProcessing,
    beyondWindow: state.beyondWindow,
    aheadOfClock: state.aheadOfClock,
    causes: causesStatus(state),
    exhausted: { total: failed.exhausted, oldest: toDate(causes.oldestExhaustedAt) },
    recovered: { lastDay: state.recovered.lastDay, lastAt: toDate(state.recovered.lastAt) },
    incident: state.incident ?? null,
    books: booksStatus(state),
    history: [...state.history],
  }
}

function toRow<Row extends { since: number; until: number }>(row: Row | undefined) {
  return row === undefined ? null : { ...row, since: new Date(row.since), until: new Date(row.until) }
}

/** Retries, and what blocks them. */
function retriesOf(state: StatusState) {
  const { circuits, gates, leadership, notAccepted, now, receiver } = state
  const { reason } = notAccepted
  return {
    awaiting: state.awaiting,
    inFlight: state.inFlight,
    leadership: leadership.lease === undefined ? null : toLeadership(leadership),
    pauses: state.pauses.map(toPause),
    holding: gates.map(({ gate }) => gate),
    gates: gates.map(toGate),
    receiver: receiver === undefined ? null : { up: receiver.up ?? null, detail: receiver.detail ?? null },
    circuits: {
      notClosed: circuits.length,
      deliveries: state.endless.circuit,
      list: circuits.slice(0, maxCircuits).map((circuit) => toCircuit(circuit, now)),
    },
    rate: {
      callsPerSecond: Math.round(state.rateLimit * 10) / 10,
      maxCallsPerSecond: state.rateMaximum,
      maxRetriesPerSecond: state.maxRetriesPerSecond ?? null,
      throttledForSeconds: toSeconds(state.throttledForMs),
      retriesThrottled: toRow(state.retriesThrottled),
    },
    notAccepted: reason === undefined ? null : { ...notAccepted, reason },
    unknownInARow: state.unknownInARow,
    lately: state.lately.map(({ failingForMs, ...one }) => ({
      ...one,
      failingSince: one.failedInARow === 0 ? null : new Date(now - failingForMs),
    })),
  }
}

function unlistedStatus({ now, unlisted }: StatusState) {
  if (unlisted === undefined) return null
  const { forMs, ...sum } = unlisted
  return { ...sum, since: new Date(now - forMs) }
}

function tokenStatus({ tokenTrouble: trouble }: StatusState) {
  if (trouble === undefined) return null
  const { nextTryAt, since, ...why } = trouble
  return { ...why, since: new Date(since), nextTry: new Date(nextTryAt) }
}

/** None begins on a standby, nor without a token. */
function nextSweepOf({ leadership, nextSweepInMs, now, tokenExpiresAt = 0, tokenTrouble }: StatusState): Date | null {
  const nextTokenAt = tokenTrouble === undefined || tokenExpiresAt > now ? now : tokenTrouble.nextTryAt
  return leadership.isLeading && nextSweepInMs < Infinity ? new Date(Math.max(nextTokenAt, now + nextSweepInMs)) : null
}

/** General state: sweeps, token, certificate, key, clocks. */
function conditionsOf(state: StatusState) {
  const { skewMs, timeOffsetMs } = state
  return {
    sweeps: state.sweeps.toReversed().map(toSweep),
    unreadable: state.unreadable ?? null,
    unlisted: unlistedStatus(state),
    fullSweepUnderWay: state.fullSweepUnderWay,
    seenUntil: toDate((state.seenUntil ?? NaN) - skewMs.api),
    lastFullSweep: toDate(state.lastFullSweepAt),
    lastCompleteSweep: toDate(state.lastCompleteSweepAt),
    listsFailing: toRow(state.listsFailing),
    nextTick: toDate(state.nextTickAt),
    nextSweep: nextSweepOf(state),
    progressDue: new Date(state.progressDueAt),
    tokenExpires: toDate(state.tokenExpiresAt),
    tokenTrouble: tokenStatus(state),
    certificateExpires: toDate(state.certificateExpiresAt),
    keyProblem: state.keyReload?.problem ?? null,
    clock: {
      isKnown: state.knowsTime,
      skewSeconds: { auth: roundedSeconds(skewMs.auth), api: roundedSeconds(skewMs.api) },
    },
    timeZone: {
      platform: state.timeZone,
      offsetSeconds: timeOffsetMs === undefined ? null : roundedSeconds(timeOffsetMs),
      actualOffset: timeOffsetMs === undefined ? null : toOffset(state.utcOffsetMs + timeOffsetMs),
    },
  }
}

/** The measured part, from which the summary is derived. */
export interface StatusFacts
  extends
    Pick<StatusState, 'instance' | 'version' | 'subscriptions'>,
    ReturnType<typeof deliveriesOf>,
    ReturnType<typeof retriesOf>,
    ReturnType<typeof conditionsOf> {
  startedAt: Date
  now: Date
}

export type GateStatus = StatusFacts['gates'][number]
export type CircuitStatus = StatusFacts['circuits']['list'][number]
export type BooksStatus = NonNullable<StatusFacts['books']>

export function factsOf(state: StatusState): StatusFacts {
  const { instance, now, startedAt, subscriptions, version } = state
  return {
    ...{ instance, version, subscriptions, startedAt: new Date(startedAt), now: new Date(now) },
    ...deliveriesOf(state),
    ...retriesOf(state),
    ...conditionsOf(state),
  }
}

/**
 * Follows SemVer: fields may be added, but none is removed or changes its meaning while `schemaVersion` is 2. Times are ISO
 * 8601 in UTC by this host's clock. Contains only ids, types, codes, counts, times and the program's own sentences, never a webhook's
 * content.
 */
export interface StatusDocument extends StatusFacts {
  schemaVersion: 2
  summary: StatusSummary
}
