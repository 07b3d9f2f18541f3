// The state for people, as GET /status gives it: a pure function of what the parts know, which the status page shows too.
import type { CircuitState, CircuitView } from '../reconcile/allowance.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { Trouble } from '../reconcile/guard.ts'
import type { SweepKind, SweepResult } from '../reconcile/sweeper.ts'

/** What keeps retries from going out, in the order in which they are told. */
export const holds = [
  'disabled',
  'paused',
  'receiver-down',
  'unauthorized',
  'platform',
  'throttled',
  'circuit',
] as const
export type Hold = (typeof holds)[number]

/** Records that are excluded, or awaited, don't count as expiring. */
const expiringDecisions = ['due', 'backing-off', 'held', 'parked'] as const satisfies readonly Decision[]
export type Expiring = Readonly<Record<(typeof expiringDecisions)[number], number>>

/** A sweep that has ended. */
export interface SweepEnd {
  kind: SweepKind
  result: SweepResult
  /** Epoch ms. */
  endedAt: number
  seconds: number
  listed: number
}

/** What the parts know at one moment. Times in epoch ms, spans in ms. */
export interface StatusState {
  instance: string
  version: string
  now: number
  startedAt: number
  retriesEnabled: boolean
  pausedSince: number | undefined
  /** Undefined without `receiver.healthUrl`; there `up` is undefined before the first answer. */
  receiver: { up: boolean | undefined } | undefined
  trouble: Trouble | undefined
  throttledForMs: number
  /** Calls a second that are allowed at present. */
  rateLimit: number
  failed: Readonly<Record<Decision, number>>
  oldestOpenAt: number | undefined
  expiring: Expiring
  awaiting: number
  inFlight: number
  stuckProcessing: number
  beyondWindow: number
  /** Those that are not closed, the receiver as a whole first. */
  circuits: readonly CircuitView[]
  /** Oldest first. */
  sweeps: readonly SweepEnd[]
  nextTickAt: number | undefined
  tokenExpiresAt: number | undefined
}

export interface CircuitStatus {
  /** Null for the receiver as a whole. */
  subscriptionId: string | null
  state: CircuitState
  /** How many retries may be without a known outcome at once. */
  allowance: number
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
  /** Failed records of the window by what is decided of them now, as in `failed_webhooks`. */
  failed: Readonly<Record<Decision, number>>
  /** Event time of the oldest failed record that is neither parked nor excluded. */
  oldestOpenEvent: string | null
  /** Failed records that leave the window within `window.expiryWarning`, in all and by decision. */
  expiring: { total: number; byDecision: Expiring }
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
  /**
   * All that keeps retries from going out now; empty when nothing does. `disabled`: `retry.enabled` is false; `paused`:
   * an operator's pause; `receiver-down`: its health address does not answer 2xx; `unauthorized`: token or permission
   * is refused; `platform`: the platform does not answer; `throttled`: the platform's Retry-After goes on; `circuit`:
   * those of the subscriptions in `circuits`, or all when the receiver as a whole is in it.
   */
  holding: Hold[]
  /** Null without `receiver.healthUrl`; `up` is null before the first answer. */
  receiver: { up: boolean | null } | null
  /** Circuits that are not closed: how many, and the first of them (at most 1000). */
  circuits: { notClosed: number; list: CircuitStatus[] }
  /** The rate of calls to the platform. `throttledForSeconds`: how long its Retry-After goes on; 0 when none does. */
  rate: { callsPerSecond: number; throttledForSeconds: number }
  /** The last sweeps that ended, newest first (at most 10). */
  sweeps: SweepStatus[]
  /** When the schedule ticks next. */
  nextTick: string | null
  /** When the access token ends; null without one. */
  tokenExpires: string | null
}

const maxCircuits = 1000
/** How many sweeps that ended are kept and shown. */
export const maxSweeps = 10
/** Largest time that Date knows. @see ECMA-262 section 21.4.1.1 */
const maxTimeMs = 8.64e15

/** A time that Date can't hold is as good as none: it must not keep the rest from being shown. */
function toTime(ms: number | undefined): string | null {
  return ms === undefined || !(Math.abs(ms) <= maxTimeMs) ? null : new Date(ms).toISOString()
}

/** Seconds with one digit; never 0 while something is left. */
function toSeconds(ms: number): number {
  return Math.ceil(Math.max(0, ms) / 100) / 10
}

function holdingOf(state: StatusState): Hold[] {
  const isSo: Readonly<Record<Hold, boolean>> = {
    disabled: !state.retriesEnabled,
    paused: state.pausedSince !== undefined,
    'receiver-down': state.receiver?.up === false,
    unauthorized: state.trouble === 'unauthorized',
    platform: state.trouble === 'platform',
    throttled: state.throttledForMs > 0,
    circuit: state.circuits.length > 0,
  }
  return holds.filter((hold) => isSo[hold])
}

function toCircuit({ subscriptionId, pausesForMs, ...view }: CircuitView): CircuitStatus {
  return {
    subscriptionId: subscriptionId ?? null,
    state: view.state,
    allowance: view.allowance,
    outstanding: view.outstanding,
    pausesForSeconds: toSeconds(pausesForMs),
  }
}

function toSweep({ kind, result, endedAt, seconds, listed }: SweepEnd): SweepStatus {
  return { kind, result, endedAt: toTime(endedAt) ?? '', seconds: Math.round(seconds * 1000) / 1000, listed }
}

/** Only these: what counts them may know of others. */
function toExpiring(expiring: Expiring): StatusDocument['expiring'] {
  const byDecision = {
    due: expiring.due,
    'backing-off': expiring['backing-off'],
    held: expiring.held,
    parked: expiring.parked,
  }
  return { total: expiringDecisions.reduce((sum, decision) => sum + byDecision[decision], 0), byDecision }
}

/** The document that shows this state. */
export function toStatus(state: StatusState): StatusDocument {
  const { circuits, expiring, pausedSince, receiver } = state
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
    paused: pausedSince === undefined ? null : { since: toTime(pausedSince) ?? '' },
    holding: holdingOf(state),
    receiver: receiver === undefined ? null : { up: receiver.up ?? null },
    circuits: { notClosed: circuits.length, list: circuits.slice(0, maxCircuits).map(toCircuit) },
    rate: {
      callsPerSecond: Math.round(state.rateLimit * 10) / 10,
      throttledForSeconds: toSeconds(state.throttledForMs),
    },
    sweeps: state.sweeps.slice(-maxSweeps).reverse().map(toSweep),
    nextTick: toTime(state.nextTickAt),
    tokenExpires: toTime(state.tokenExpiresAt),
  }
}
