// What became of a retry, as the parts tell it. @see design sections 2 and 11
export const outcomes = ['recovered', 'failed-again', 'unknown'] as const
export type Outcome = (typeof outcomes)[number]

/** Told once for every retry that was accepted, or whose answer was lost. */
export interface OutcomeFact {
  type: 'outcome'
  id: string
  eventId: string
  subscriptionId: string
  eventType: string
  outcome: Outcome
  /** From the event, and from the PATCH, until the outcome was seen; both in ms. */
  sinceEventMs: number
  sinceRetryMs: number
  /** What the receiver answered at the last attempt; null when it did not, or nobody knows. */
  responseStatusCode: number | null
}
