// Everything that the parts tell while they work: one closed union. Metrics and log lines are made from it, and from nothing else.
import type { RequestFact } from './platform/client.ts'
import type { TokenFact } from './platform/token.ts'
import type { CircuitFact } from './reconcile/allowance.ts'
import type { RetryFact } from './reconcile/dispatch.ts'
import type { TroubleFact } from './reconcile/guard.ts'
import type { OutcomeFact } from './reconcile/outcome.ts'
import type { PauseFact } from './reconcile/pause.ts'
import type { ReceiverFact } from './reconcile/receiver.ts'
import type { SweeperFact } from './reconcile/sweeper.ts'

export type Fact =
  TokenFact | RequestFact | RetryFact | OutcomeFact | CircuitFact | ReceiverFact | PauseFact | TroubleFact | SweeperFact

export type Report = (fact: Fact) => void
