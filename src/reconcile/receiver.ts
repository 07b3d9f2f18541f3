// Asks the receiver's own health address while there is work, so that no attempt is burned on a receiver that is down. @see design section 12
import type { Clock } from '../clock.ts'
import type { Transport } from '../platform/http.ts'

export interface ReceiverFact {
  type: 'receiver'
  up: boolean
  /** What it answered (`HTTP 503`), or why it did not (`connection`). */
  detail: string
}

export interface ReceiverOptions {
  /** `receiver.healthUrl`; undefined: nothing is asked, and nothing is held. */
  healthUrl: string | undefined
  intervalMs: number
  timeoutMs: number
  transport: Transport
  clock: Clock
  /** Called whenever it may have become possible to go on. */
  wake: () => void
  report: (fact: ReceiverFact) => void
}

export interface Receiver {
  /** Whether retries may go out as far as the receiver is concerned: it answered 2xx lately. Always true without a health address. */
  allows(): boolean
  /** Tells that a retry would go out now, were it not for the receiver: it is asked while this is called again and again. */
  want(): void
  /** Undefined without a health address, and before the first answer. */
  up(): boolean | undefined
  /** Asks while there is work. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>
}
