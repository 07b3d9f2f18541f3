// Makes the status document, a pure function of the state of the parts.
import type { LeadershipState } from '../leader-election/leadership.ts'
import type { CircuitView } from '../reconcile/retry/circuits.ts'
import { describeGate, type ShutGate } from '../reconcile/retry/gates.ts'
import { drainOf } from '../reconcile/drain.ts'
import type { History, HistoryStep } from '../observe/history.ts'
import type { Incident } from '../observe/incident.ts'
import { maxSweeps } from '../observe/progress.ts'
import { expiringDecisions, type Snapshot } from '../observe/snapshot.ts'
import { showCause, toDate, type Causes } from './causes.ts'
import { summaryOf } from './notices.ts'
import { failureText, type SubscriptionNames } from './words.ts'
import type { CircuitStatus, GateStatus, LeadershipStatus, StatusDocument, StatusFacts } from './status-document.ts'

/** The snapshot, names from the configuration, and the lists that only /status and the page have. */
export interface StatusState extends Snapshot {
  instance: string
  version: string
  /** `subscriptions`. */
  subscriptions: SubscriptionNames
  /** `server.runbookUrl`. */
  runbookUrl: string | undefined
  /** `platform.timeZone`, and its offset from UTC now. */
  timeZone: string
  utcOffsetMs: number
  /** `window.lookback`. */
  lookbackMs: number
  /** Circuits that are not closed. */
  circuits: readonly CircuitView[]
  /** Failed records in memory, grouped; `causes.exhausted.total` of them are exhausted. */
  causes: Causes
  /** The one under way, or the last one. */
  incident: Incident | undefined
  /** Oldest first. */
  history: readonly HistoryStep[]
  recovered: ReturnType<History['recovered']>
}

const maxCircuits = 1000
/** How many causes and exhausted records are listed. */
export const maxCauses = 50
export const maxExhausted = 100

/** With one digit; never 0 while something is left. */
const toSeconds = (ms: number): number => Math.ceil(Math.max(0, ms) / 100) / 10
const roundedSeconds = (ms: number): number => Math.round(ms) / 1000

function toLeadership({ identity, isLeading, kind, leader, problem, since }: LeadershipState): LeadershipStatus | null {
  if (kind === 'none') return null
  return { leading: isLeading, identity, leader: leader ?? null, since: new Date(since), problem: problem ?? null }
}

function toGate({ call, gate, opensInMs, since, subscriptions }: ShutGate): GateStatus {
  const { advice, adviceFor, reason, runbook } = describeGate(gate)
  return {
    gate,
    since: toDate(since),
    subscriptions: subscriptions ?? null,
    opensInSeconds: opensInMs === undefined ? null : toSeconds(opensInMs),
    call: call ?? null,
    reason,
    advice: (call && adviceFor?.[call.reason]) ?? advice,
    runbook: runbook ?? null,
  }
}

function toCircuit({ openForMs, pausesForMs, ...view }: CircuitView, now: number): CircuitStatus {
  return { ...view, pausesForSeconds: toSeconds(pausesForMs), openSince: new Date(now - openForMs) }
}

/** `+02:00` */
function toOffset(ms: number): string {
  const minutes = Math.round(ms / 60_000)
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
}

function toIncident(incident: Incident | undefined): StatusFacts['incident'] {
  if (incident === undefined) return null
  const { endedAt, gates, longestMs, since, ...sums } = incident
  return {
    since: new Date(since),
    endedAt: toDate(endedAt),
    ...sums,
    longestSeconds: longestMs === undefined ? null : toSeconds(longestMs),
    gates: gates.map(({ gate, ms }) => ({ gate, seconds: toSeconds(ms) })),
  }
}

function toExpiring(expiring: Snapshot['expiring']): StatusFacts['expiring'] {
  const byDecision = Object.fromEntries(expiringDecisions.map((name) => [name, expiring[name]] as const))
  const total = expiringDecisions.reduce((sum, name) => sum + expiring[name], 0)
  return { total, byDecision: byDecision as Snapshot['expiring'] }
}

function toNotAccepted({ inARow, reason }: StatusState['notAccepted']): StatusFacts['notAccepted'] {
  return reason === undefined ? null : { inARow, reason }
}

/** An excluded record is not missing: the operator does not want it. */
function missingOf({ expired, failed }: StatusState): number {
  return failed.due + failed.blocked + failed.awaiting + failed['backing-off'] + failed.exhausted + expired
}

function toDrain(state: StatusState): StatusFacts['drain'] {
  const drain = drainOf(state)
  const doneAt = toDate(drain.doneAt)
  return {
    recoveredPerMinute: Math.round(state.recoveredPerMs * 600_000) / 10,
    seconds: doneAt && Math.ceil(Math.max(0, doneAt.getTime() - state.now) / 1000),
    doneAt,
    limitedBy: drain.limitedBy,
  }
}

function toCausesStatus({ causes, circuits, onlyCounted, skewMs }: StatusState): StatusFacts['causes'] {
  const states = new Map(circuits.map(({ state, subscriptionId }) => [subscriptionId, state]))
  const listed = causes.list.reduce((sum, { records }) => sum + records, 0)
  return {
    total: causes.total,
    list: causes.list.map((cause) => ({
      ...showCause(cause, skewMs.api),
      circuit: states.get(cause.subscriptionId) ?? 'closed',
    })),
    more: { causes: causes.total - causes.list.length, records: causes.records - listed },
    onlyCounted,
  }
}

function factsOf(state: StatusState): StatusFacts {
  const { causes, circuits, expiring, failed, gates, now, receiver, skewMs, timeOffsetMs } = state
  const pause = gates.find(({ gate }) => gate === 'paused')
  return {
    instance: state.instance,
    version: state.version,
    subscriptions: state.subscriptions,
    startedAt: new Date(state.startedAt),
    now: new Date(now),
    missing: missingOf(state),
    expired: state.expired,
    refusedAgain: state.endless.refused,
    drain: toDrain(state),
    failed: { ...failed },
    oldestOpenEvent: toDate(state.oldestOpenAt),
    firstExpiry: toDate((state.oldestOpenAt ?? NaN) + state.lookbackMs - skewMs.api),
    expiring: toExpiring(expiring),
    awaiting: state.awaiting,
    inFlight: state.inFlight,
    stuckProcessing: state.stuckProcessing,
    beyondWindow: state.beyondWindow,
    leadership: toLeadership(state.leadership),
    paused: pause === undefined ? null : { since: toDate(pause.since) },
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
      throttledForSeconds: toSeconds(state.throttledForMs),
    },
    sweeps: state.sweeps
      .slice(-maxSweeps)
      .reverse()
      .map(({ failure, ...sweep }) => ({
        ...sweep,
        seconds: Math.round(sweep.seconds * 1000) / 1000,
        ...(failure && { problem: failureText(failure), advice: failure.advice }),
      })),
    notAccepted: toNotAccepted(state.notAccepted),
    resolvedByOthers: state.resolvedByOthers,
    lastFullSweep: toDate(state.lastFullSweepAt),
    lastCompleteSweep: toDate(state.lastCompleteSweepAt),
    nextTick: toDate(state.nextTickAt),
    tokenExpires: toDate(state.tokenExpiresAt),
    certificateExpires: toDate(state.certificateExpiresAt),
    keyProblem: state.keyReload?.problem ?? null,
    clock: { skewSeconds: { auth: roundedSeconds(skewMs.auth), api: roundedSeconds(skewMs.api) } },
    timeZone: {
      platform: state.timeZone,
      offsetSeconds: timeOffsetMs === undefined ? null : roundedSeconds(timeOffsetMs),
      actualOffset: timeOffsetMs === undefined ? null : toOffset(state.utcOffsetMs + timeOffsetMs),
    },
    causes: toCausesStatus(state),
    exhausted: { total: Math.max(failed.exhausted, causes.exhausted.list.length), list: causes.exhausted.list },
    recovered: { lastDay: state.recovered.lastDay, lastAt: toDate(state.recovered.lastAt) },
    incident: toIncident(state.incident),
    history: [...state.history],
  }
}

/** The document of this state. */
export function toStatus(state: StatusState): StatusDocument {
  const facts = factsOf(state)
  return { schemaVersion: 2, summary: summaryOf(facts, state.runbookUrl ?? 'docs/runbook.md'), ...facts }
}
