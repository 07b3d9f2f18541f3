// All events as one closed union, the source of counters, log lines, audit and history.
import type { LeadershipEvent } from '../leader-election/leadership.ts'
import type { RequestEvent } from '../platform/client.ts'
import type { TokenEvent } from '../platform/auth/token.ts'
import type { HourEvent, LedgerEvent } from '../reconcile/books/books.ts'
import type { CircuitEvent } from '../reconcile/retry/subscriptions.ts'
import type { RetryEvent } from '../reconcile/retry/dispatcher.ts'
import type { TroubleEvent } from '../reconcile/retry/platform-breaker.ts'
import type { OutcomeEvent } from '../reconcile/confirm/outcomes.ts'
import type { OperatorEvent } from '../reconcile/retry/operator-pause.ts'
import type { ReceiverEvent } from '../reconcile/retry/receiver-health.ts'
import type { SweeperEvent } from '../reconcile/sweep/sweep-report.ts'

export type TelemetryEvent =
  | TokenEvent
  | RequestEvent
  | RetryEvent
  | OutcomeEvent
  | CircuitEvent
  | ReceiverEvent
  | OperatorEvent
  | TroubleEvent
  | SweeperEvent
  | LeadershipEvent
  | LedgerEvent
  | HourEvent

export type FactOf<Type extends TelemetryEvent['type']> = Extract<TelemetryEvent, { type: Type }>

export type Emit = (event: TelemetryEvent) => void
