// Snapshot: all values that gauges and /status show, read at one moment, on request.
import type { LeadershipState } from '../leader-election/leadership.ts'
import type { TokenTrouble } from '../platform/auth/token.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { BooksState } from '../reconcile/books/books.ts'
import type { CircuitState } from '../reconcile/retry/circuit-breaker.ts'
import type { ReceiverKind } from '../reconcile/retry/subscriptions.ts'
import type { Summary } from '../reconcile/retry/backlog.ts'
import type { Lately } from '../reconcile/retry/receiver-responses.ts'
import type { ShutGate } from '../reconcile/retry/gates.ts'
import type { Pauses } from '../reconcile/retry/operator-pause.ts'
import type { SweepFindings } from '../reconcile/sweep/sweeper.ts'
import type { UnlistedSum } from '../reconcile/sweep/unlistable.ts'
import type { RecoveryPace } from './history.ts'
import type { ProgressState } from './progress.ts'

/** Decisions that count as expiring: excluded records are not retried anyway, awaited ones may have arrived. */
export const expiringDecisions = ['due', 'backing-off', 'exhausted', 'blocked'] as const satisfies readonly Decision[]

/** State of the reconciler, read by `state` in reconciler.ts. Times in epoch ms of this host's clock, spans in ms. */
export interface ReconcilerState extends SweepFindings {
  /** Failed records of the window by decision; excluded ones as of the last full sweep. */
  failed: Readonly<Record<Decision, number>>
  /** Event time of the oldest one that is neither exhausted nor excluded. */
  oldestOpenAt: number | undefined
  /** When the last backoff ends, as far as it is known, by the platform's clock; undefined when none is. */
  lastDueAt: number | undefined
  /** Held ones that are missing, by subscription. */
  missingOf: Summary['missingOf']
  /** Open records without an arrival estimate: of circuits that are not closed, and repeatedly rejected ones. */
  endless: Summary['endless']
  /** Records that wait since before their receiver was mended. */
  mended: Summary['mended']
  /** How many deliveries each receiver accepted lately. */
  lately: readonly Lately[]
  /** Those that leave the window soon. */
  expiring: Readonly<Record<(typeof expiringDecisions)[number], number>>
  /** Retried records without a known outcome, and retries without a response. */
  awaiting: number
  inFlight: number
  /** Parts of the window that the platform does not list, and for how long. */
  unlisted: (UnlistedSum & { forMs: number }) | undefined
  /** False while no response of the platform has shown its time. */
  knowsTime: boolean
  /** Then more may be missing than is known. */
  fullSweepUnderWay: boolean
  circuitCounts: Readonly<Record<CircuitState, number>>
  /** Subscriptions with retries lately, by their receiver. */
  receivers: Readonly<Record<ReceiverKind, number>>
  /** Gates that are shut now, in the table's order. */
  gates: readonly ShutGate[]
  /** The operator's. */
  pauses: Pauses
  /** Undefined without `receiver.healthUrl`; both are undefined before the first response. */
  receiver: { up: boolean | undefined; detail?: string | undefined } | undefined
  /** Current limit of calls per second. */
  rateLimit: number
  /** Calls per second that the configuration allows. */
  rateMaximum: number
  /** Time until the pause after a 429 or a Retry-After ends; 0 without one. */
  throttledForMs: number
  /** Undefined without `ledger.url`. */
  books: BooksState | undefined
}

/** What is known of token, key, certificate and the servers' clocks, read in daemon-parts.ts. Times in epoch ms of this host's clock, spans in ms. */
export interface CredentialState {
  tokenExpiresAt: number | undefined
  /** Why no new token comes; undefined while the last request got one. */
  tokenTrouble: TokenTrouble | undefined
  certificateExpiresAt: number | undefined
  /** Undefined while the key file has not changed; else why it could not be used. */
  keyReload: { problem: string | undefined } | undefined
  /** How far each server's clock is ahead of this host's. */
  skewMs: Readonly<Record<'auth' | 'api', number>>
}

/** Read in daemon-parts.ts; what was counted so far comes from progress.ts. */
export interface Snapshot extends ReconcilerState, CredentialState, ProgressState {
  now: number
  startedAt: number
  leadership: LeadershipState
  nextTickAt: number | undefined
  pace: RecoveryPace
  /** `subscriptions`: names by id. */
  subscriptions: Readonly<Record<string, string>>
}
