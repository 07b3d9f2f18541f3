// The present moment: everything that metrics, status and heartbeat show, read when somebody asks.
import type { Decision } from '../reconcile/decide.ts'
import type { CircuitState } from '../reconcile/retry/circuits.ts'
import type { ShutGate } from '../reconcile/retry/gates.ts'
import type { Trouble } from '../reconcile/retry/platform-breaker.ts'
import type { ProgressState } from './progress.ts'

/** Decisions of records that expire: an excluded one is not ours, an awaited one may have arrived. */
export const expiringDecisions = ['due', 'backing-off', 'parked', 'held'] as const satisfies readonly Decision[]

/** What the reconciler knows. Times in epoch ms of this host's clock, spans in ms. */
export interface ReconcilerState {
  /** Failed records of the window by decision, those without room in the backlog too. */
  failed: Readonly<Record<Decision, number>>
  /** Event time of the oldest one that is neither parked nor excluded. */
  oldestOpenAt: number | undefined
  /** Those within `window.expiryWarning` of leaving the window. */
  expiring: Readonly<Record<(typeof expiringDecisions)[number], number>>
  /** Records in memory, and failed records of which only the number is known. */
  backlogRecords: number
  onlyCounted: number
  /** Retried records without a known outcome, and retries without an answer. */
  awaiting: number
  inFlight: number
  /** As the last full sweep saw them. */
  stuckProcessing: number
  beyondWindow: number
  circuitCounts: Readonly<Record<CircuitState, number>>
  /** What blocks retries now, in the table's order. */
  gates: readonly ShutGate[]
  /** Undefined without `receiver.healthUrl`; `up` is undefined before the first answer. */
  receiver: { up: boolean | undefined } | undefined
  pausedSince: number | undefined
  trouble: Trouble | undefined
  /** Calls a second that are allowed at present. */
  rateLimit: number
  /** How long a Retry-After goes on; 0 when none does. */
  throttledForMs: number
}

/** What is known of token, key, certificate and the servers' clocks. Times in epoch ms of this host's clock, spans in ms. */
export interface CredentialState {
  tokenExpiresAt: number | undefined
  certificateExpiresAt: number | undefined
  /** Undefined while the key file has not changed. */
  keyReloadSuccessful: boolean | undefined
  /** How far each server's clock is ahead of this host's. */
  skewMs: Readonly<Record<'auth' | 'api', number>>
}

export interface Snapshot extends ReconcilerState, CredentialState, ProgressState {
  now: number
  nextTickAt: number | undefined
  /** Deliveries seen to recover, at present. */
  recoveredPerMs: number
  /** `recovery.target`. */
  recoveryTargetMs: number
}
