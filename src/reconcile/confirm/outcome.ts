// What became of a retry, as the parts tell it. @see design sections 2 and 11
import type { Verdict } from '../retry/circuit-breaker.ts'

export const outcomes = ['recovered', 'failed-again', 'unknown'] as const
export type Outcome = (typeof outcomes)[number]

/** Told once for every retry that was accepted, or whose answer was lost. */
export interface OutcomeFact {
  type: 'outcome'
  id: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Which attempt of the record it was, as the fact of its retry tells it. */
  attempt: number
  outcome: Outcome
  /** From the event, and from the PATCH, until the outcome was seen; both in ms. */
  sinceEventMs: number
  sinceRetryMs: number
  /** What the receiver answered at the last attempt; null when it did not, or nobody knows. */
  responseStatusCode: number | null
}

/** That the receiver refuses a record is no news of the receiver: it is up. These answers would meet any record. */
const tellingStatuses: ReadonlySet<number> = new Set([401, 403, 404, 408, 425, 429])

/** What an outcome says of the receiver; `responseStatusCode` is what it answered, null when it did not. @see design section 12 */
export function verdictOf(outcome: Outcome, responseStatusCode: number | null): Verdict {
  if (outcome === 'recovered') return 'recovered'
  const isClientError = responseStatusCode !== null && responseStatusCode >= 400 && responseStatusCode < 500
  const refusesRecord = isClientError && !tellingStatuses.has(responseStatusCode)
  return outcome === 'unknown' || refusesRecord ? 'neutral' : 'failed-again'
}
