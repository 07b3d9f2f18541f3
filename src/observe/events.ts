// Everything that the parts tell while they work: one closed union. Metrics and log lines are made from it, and from nothing else.
import type { RequestFact } from '../platform/client.ts'
import type { TokenFact } from '../platform/token.ts'
import type { CircuitFact } from '../reconcile/retry/circuits.ts'
import type { RetryFact } from '../reconcile/retry/dispatcher.ts'
import type { TroubleFact } from '../reconcile/retry/platform-breaker.ts'
import type { OutcomeFact } from '../reconcile/confirm/outcomes.ts'
import type { PauseFact } from '../reconcile/retry/operator-pause.ts'
import type { ReceiverFact } from '../reconcile/retry/receiver-health.ts'
import type { SweeperFact } from '../reconcile/sweep/sweep-report.ts'

export type Fact =
  TokenFact | RequestFact | RetryFact | OutcomeFact | CircuitFact | ReceiverFact | PauseFact | TroubleFact | SweeperFact

export type Report = (fact: Fact) => void
