// All values that gauges and /status show, read at one moment, and the number of missing deliveries in them.
import type { LeadershipState } from '../leader-election/leadership.ts'
import type { TokenTrouble } from '../platform/auth/token.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { BooksState } from '../reconcile/books/books.ts'
import type { CircuitState } from '../reconcile/retry/circuit-breaker.ts'
import type { ReceiverKind } from '../reconcile/retry/subscriptions.ts'
import type { Summary } from '../reconcile/retry/summary.ts'
import type { Lately } from '../reconcile/retry/receiver-responses.ts'
import type { ShutGate } from '../reconcile/retry/gates.ts'
import type { Pauses } from '../reconcile/retry/operator-pause.ts'
import type { SweepFindings } from '../reconcile/sweep/sweeper.ts'
import type { UnlistedSum } from '../reconcile/sweep/unlistable.ts'
import type { RecoveryPace } from './history.ts'
import type { ProgressState } from './progress.ts'

/** Decisions that count as missing, and as expiring: the operator does not want excluded records. */
export const expiringDecisions = [
  'due',
  'backing-off',
  'exhausted',
  'blocked',
  'awaiting',
] as const satisfies readonly Decision[]

/** State of the reconciler, read by `state` in reconciler.ts. Times in epoch ms of this host's clock, durations in ms. */
export interface ReconcilerState extends SweepFindings, Omit<Summary, 'counts' | 'expiring'> {
  /** Failed records of the window by decision; excluded ones as of the last full sweep. */
  failed: Readonly<Record<Decision, number>>
  /** Evicted records: further failed ones, beyond the limit of the backlog. */
  onlyCounted: number
  /** Recent deliveries by receiver. */
  lately: readonly Lately[]
  /** Records that leave the window soon. */
  expiring: Readonly<Record<(typeof expiringDecisions)[number], number>>
  /** Accepted retries with a pending outcome. `failed.awaiting` has those in flight, too. */
  awaiting: number
  /** Retries without a response. */
  inFlight: number
  /** Parts of the window that the platform does not list, and for how long. */
  unlisted: (UnlistedSum & { forMs: number }) | undefined
  /** False until a response has shown the platform's time. */
  knowsTime: boolean
  /** Until the next sweep begins, at the earliest; Infinity if no tick is known. */
  nextSweepInMs: number
  /** True while more may be missing than is known. */
  fullSweepUnderWay: boolean
  circuitCounts: Readonly<Record<CircuitState, number>>
  /** Subscriptions with recent retries, by their receiver. */
  receivers: Readonly<Record<ReceiverKind, number>>
  /** Shut gates, in the order of the table. */
  gates: readonly ShutGate[]
  pauses: Pauses
  /** Undefined without `receiver.healthUrl`; its fields are undefined before the first response. */
  receiver: { up: boolean | undefined; detail?: string | undefined } | undefined
  rateLimit: number
  rateMaximum: number
  throttledForMs: number
  /** Undefined without `ledger.url`. */
  books: BooksState | undefined
}

/**
 * State of token, key, certificate and server clocks, read in daemon-parts.ts. Times in epoch ms of this host's clock,
 * durations in ms.
 */
export interface CredentialState {
  tokenExpiresAt: number | undefined
  /** Why no new token is available; undefined if the last request got one. */
  tokenTrouble: TokenTrouble | undefined
  certificateExpiresAt: number | undefined
  /** Undefined until the key file changes; then whether it could be used. */
  keyReload: { problem: string | undefined } | undefined
  skewMs: Readonly<Record<'auth' | 'api', number>>
}

/** Read in daemon-parts.ts; progress.ts has the counts. */
export interface Snapshot extends ReconcilerState, CredentialState, ProgressState {
  now: number
  startedAt: number
  leadership: LeadershipState
  nextTickAt: number | undefined
  pace: RecoveryPace
  subscriptions: Readonly<Record<string, string>>
}

/** The number of missing deliveries, for metric, /status and page. */
export function missingIn({
  expired,
  failed,
  onlyCounted,
}: Pick<Snapshot, 'expired' | 'failed' | 'onlyCounted'>): number {
  return expiringDecisions.reduce((sum, decision) => sum + failed[decision], onlyCounted + expired)
}
