// The state for people, as GET /status gives it: a pure function of what the parts know, which the status page shows too.
import type { CircuitState, CircuitView } from '../reconcile/retry/circuits.ts'
import type { Causes } from './causes.ts'
import type { Decision } from '../reconcile/decide.ts'
import { estimateDrain } from '../observe/drain.ts'
import { gateTable, type Gate, type ShutGate } from '../reconcile/retry/gates.ts'
import type { SweepKind, SweepResult } from '../reconcile/sweep/sweep-report.ts'
import { toCauses, toParkedList, type CausesStatus, type ParkedListStatus } from './cause-status.ts'
import type { MinuteState } from '../observe/history.ts'
import { maxSweeps, type SweepEnd } from '../observe/progress.ts'
import { expiringDecisions, type Snapshot } from '../observe/snapshot.ts'
import { toDrain, toMinute, type DrainStatus, type MinuteStatus } from './history-status.ts'
import { toSeconds, toTime } from './time.ts'

/** What is shown: the snapshot, what the configuration says, and what only people need. */
export interface StatusState extends Snapshot {
  instance: string
  version: string
  /** `platform.timeZone`. */
  timeZone: string
  /** Those that are not closed. */
  circuits: readonly CircuitView[]
  /** Failed records that are held in memory, grouped; `causes.parked.total` of them are parked. */
  causes: Causes
  /** The last 60 minutes, oldest first. */
  history: readonly MinuteState[]
}

export interface CircuitStatus {
  subscriptionId: string
  state: CircuitState
  /** How many retries may be without a known outcome at once. */
  limit: number
  /** How many are. */
  outstanding: number
  /** How long its pause goes on, 0 when it does not pause. */
  pausesForSeconds: number
}

export interface SweepStatus {
  kind: SweepKind
  result: SweepResult
  endedAt: string
  seconds: number
  /** Rows that it listed. */
  listed: number
  /** With `failed`: what failed and why, such as `list: tls (CERT_HAS_EXPIRED)`. */
  problem?: string
}

/** A gate that is shut. */
export interface GateStatus {
  gate: Gate
  /** Null where nobody records it. */
  since: string | null
  /** How many subscriptions it blocks; null when it blocks everything. */
  subscriptions: number | null
  reason: string
  advice: string
}

/**
 * The answer to GET /status, which follows SemVer: fields come, but none goes or changes its meaning while
 * `schemaVersion` is 1. Times are ISO 8601 in UTC on this host's clock, and null when there is none. Only ids, types,
 * codes, counts and times; nothing of what a webhook carries.
 */
export interface StatusDocument {
  schemaVersion: 1
  instance: string
  version: string
  startedAt: string
  /** When this was so. */
  now: string
  /** Deliveries that are missing: failed records of the window, but for excluded ones. At least so many while `lastFullSweep` is null. */
  missing: number
  /** How fast it goes on, and when all will have arrived. */
  drain: DrainStatus
  /** Failed records of the window by what is decided of them now, as in `failed_webhooks`. */
  failed: Readonly<Record<Decision, number>>
  /** Event time of the oldest failed record that is neither parked nor excluded. */
  oldestOpenEvent: string | null
  /** Failed records that leave the window within `window.expiryWarning`, in all and by decision. */
  expiring: { total: number; byDecision: Snapshot['expiring'] }
  /** Retried records whose outcome is not known yet. */
  awaiting: number
  /** Retries that wait for the platform's answer. */
  inFlight: number
  /** Records that the platform has shown as processing for too long (`outcome.stuckAfter`), as the last full sweep saw them. */
  stuckProcessing: number
  /** Failed records older than the window, as the last full sweep saw them: nobody retries them any more. */
  beyondWindow: number
  /** Since when an operator's pause goes on; null when none does. */
  paused: { since: string } | null
  /** Names of the gates that are shut now: what keeps retries from going out; empty when nothing does. */
  holding: Gate[]
  /** The same, with since when, what they block, and what to do. */
  gates: GateStatus[]
  /** Null without `receiver.healthUrl`; `up` is null before the first answer. */
  receiver: { up: boolean | null } | null
  /** Circuits that are not closed: how many, and the first of them (at most 1000). */
  circuits: { notClosed: number; list: CircuitStatus[] }
  /** The rate of calls to the platform. `throttledForSeconds`: how long its Retry-After goes on; 0 when none does. */
  rate: { callsPerSecond: number; throttledForSeconds: number }
  /** The last sweeps that ended, newest first (at most 10). */
  sweeps: SweepStatus[]
  /** When a full sweep last ended without failing; null before the first. */
  lastFullSweep: string | null
  /** When a full sweep last saw the whole window; null before the first. */
  lastCompleteSweep: string | null
  /** When the schedule ticks next. */
  nextTick: string | null
  /** From when on the access token counts as expired; null without one. */
  tokenExpires: string | null
  /** When the certificate of the signing key ends; null without `auth.certificateFile`. */
  certificateExpires: string | null
  /** How far the servers' clocks are ahead of this host's. */
  clock: { skewSeconds: { auth: number; api: number } }
  /**
   * `platform.timeZone`, and how far the attempt times of retried records lie outside the time in which they were made:
   * far from 0 means that the zone is wrong. Null before a retry was seen.
   */
  timeZone: { platform: string; offsetSeconds: number | null }
  /** Why deliveries are missing; made anew at most once a second. */
  causes: CausesStatus
  /** Records at `retry.maxAttempts`: nobody retries them any more. */
  parked: ParkedListStatus
  /** The last hour by minutes (60), oldest first; the last one is under way. */
  history: MinuteStatus[]
}

const maxCircuits = 1000
/** How many causes and parked records are listed. */
export const maxCauses = 50
export const maxParked = 100

function toGate({ gate, since, subscriptions }: ShutGate): GateStatus {
  const { advice, reason } = gateTable[gate]
  return { gate, since: toTime(since), subscriptions: subscriptions ?? null, reason, advice }
}

/** Gates that stop every retry, for a time that nobody can tell. */
const stops: ReadonlySet<Gate> = new Set<Gate>(['disabled', 'paused', 'receiver-down', 'unauthorized', 'platform'])

function toCircuit({ pausesForMs, ...view }: CircuitView): CircuitStatus {
  return {
    subscriptionId: view.subscriptionId,
    state: view.state,
    limit: view.limit,
    outstanding: view.outstanding,
    pausesForSeconds: toSeconds(pausesForMs),
  }
}

function toSweep({ kind, result, endedAt, seconds, listed, problem }: SweepEnd): SweepStatus {
  const told = { kind, result, endedAt: toTime(endedAt) ?? '', seconds: Math.round(seconds * 1000) / 1000, listed }
  return { ...told, ...(problem !== undefined && { problem }) }
}

/** Only these: what counts them may know of others. */
function toExpiring(expiring: Snapshot['expiring']): StatusDocument['expiring'] {
  const byDecision = {
    due: expiring.due,
    'backing-off': expiring['backing-off'],
    held: expiring.held,
    parked: expiring.parked,
  }
  return { total: expiringDecisions.reduce((sum, decision) => sum + byDecision[decision], 0), byDecision }
}

/** What a webhook's subscriber misses: what is excluded is not ours to bring. */
function missingOf(failed: StatusState['failed']): number {
  return failed.due + failed.held + failed.awaiting + failed['backing-off'] + failed.parked
}

function drainOf(state: StatusState, isHeld: boolean): DrainStatus {
  const { causes, failed, now, recoveredPerMs, skewMs } = state
  const doneAt = estimateDrain({
    pending: failed.due + failed.held + failed.awaiting,
    backingOff: failed['backing-off'],
    lastDueAt: causes.lastDueAt === undefined ? undefined : causes.lastDueAt - skewMs.api,
    recoveredPerMs,
    isHeld,
    now,
  })
  return toDrain(recoveredPerMs, doneAt, now)
}

type IncidentStatus = Pick<StatusDocument, 'missing' | 'drain' | 'causes' | 'parked' | 'history'>

/** What is missing, why, and when it will have arrived. */
function toIncident(state: StatusState): IncidentStatus {
  const { causes, circuits, gates, failed, now, onlyCounted, skewMs, throttledForMs } = state
  const isHeld = gates.some(({ gate }) => stops.has(gate))
  return {
    missing: missingOf(failed),
    drain: drainOf(state, isHeld),
    causes: toCauses(causes, onlyCounted, { now, skewMs: skewMs.api, isHeld, throttledForMs, circuits }),
    parked: toParkedList(causes, failed.parked),
    history: state.history.map(toMinute),
  }
}

type SurroundingsStatus = Pick<StatusDocument, 'certificateExpires' | 'clock' | 'timeZone' | 'tokenExpires'>

const roundedSeconds = (ms: number): number => Math.round(ms) / 1000

/** What must be right for anything to work: token, certificate, clocks, zone. */
function toSurroundings(state: StatusState): SurroundingsStatus {
  const { skewMs, timeOffsetMs, timeZone } = state
  return {
    tokenExpires: toTime(state.tokenExpiresAt),
    certificateExpires: toTime(state.certificateExpiresAt),
    clock: { skewSeconds: { auth: roundedSeconds(skewMs.auth), api: roundedSeconds(skewMs.api) } },
    timeZone: {
      platform: timeZone,
      offsetSeconds: timeOffsetMs === undefined ? null : roundedSeconds(timeOffsetMs),
    },
  }
}

/** The document that shows this state. */
export function toStatus(state: StatusState): StatusDocument {
  const { circuits, expiring, gates, receiver } = state
  const pause = gates.find(({ gate }) => gate === 'paused')
  return {
    schemaVersion: 1,
    instance: state.instance,
    version: state.version,
    startedAt: toTime(state.startedAt) ?? '',
    now: toTime(state.now) ?? '',
    failed: { ...state.failed },
    oldestOpenEvent: toTime(state.oldestOpenAt),
    expiring: toExpiring(expiring),
    awaiting: state.awaiting,
    inFlight: state.inFlight,
    stuckProcessing: state.stuckProcessing,
    beyondWindow: state.beyondWindow,
    paused: pause === undefined ? null : { since: toTime(pause.since) ?? '' },
    holding: gates.map(({ gate }) => gate),
    gates: gates.map(toGate),
    receiver: receiver === undefined ? null : { up: receiver.up ?? null },
    circuits: { notClosed: circuits.length, list: circuits.slice(0, maxCircuits).map(toCircuit) },
    rate: {
      callsPerSecond: Math.round(state.rateLimit * 10) / 10,
      throttledForSeconds: toSeconds(state.throttledForMs),
    },
    sweeps: state.sweeps.slice(-maxSweeps).reverse().map(toSweep),
    lastFullSweep: toTime(state.lastFullSweepAt),
    lastCompleteSweep: toTime(state.lastCompleteSweepAt),
    nextTick: toTime(state.nextTickAt),
    ...toSurroundings(state),
    ...toIncident(state),
  }
}
