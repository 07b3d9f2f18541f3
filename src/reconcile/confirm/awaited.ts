// A retry whose outcome is not known yet: what is evidence of it, and when to look next. Pure functions. @see design section 11
import type { WebhookRecord } from '../../platform/record.ts'
import type { Ticket } from '../retry/circuits.ts'
import type { Outcome } from './outcome.ts'
import type { OutcomePolicy } from '../policy.ts'

/** A record as it was shown at some moment. */
type Shown = Pick<WebhookRecord, 'attempts' | 'lastAttemptLocal'>

export interface PendingOutcome {
  ticket: Ticket
  /** Monotonic ms: when the PATCH was sent. */
  sentAt: number
  /** No answer has come yet. */
  inFlight: boolean
  /** The PATCH had no answer of the platform: nobody knows whether it was taken. */
  lost: boolean
  /** As it was listed before the PATCH. */
  listed: Shown
  /** Monotonic ms: when a new attempt was first shown as failed. */
  failedSince: number | undefined
  /** Monotonic ms: when to look next. */
  checkAt: number
  /** True when a look-up by its event did not show it: then its second is listed. */
  missedByEvent: boolean
}

/** What a look showed: a final outcome, nothing new, or a record that is being delivered. */
export type Evidence = Extract<Outcome, 'recovered' | 'failed-again'> | 'unchanged' | 'processing' | 'doubtful'

const longestPauseMs = 300_000
/** True when `after` shows an attempt that `before` did not. */
function showsAttempt(after: Shown, before: Shown): boolean {
  if (after.attempts > before.attempts) return true
  if (after.lastAttemptLocal === null) return false
  return before.lastAttemptLocal === null || after.lastAttemptLocal > before.lastAttemptLocal
}

/**
 * What a look tells that was asked for at `askedAt`, or the answer itself; monotonic ms. A new attempt that is shown as
 * failed is `doubtful` at first: a server may lag behind the others, and a platform may count an attempt when it begins.
 * A look `doubtMs` later that shows a failure too is sure; it may show a still newer attempt, which the platform made by itself.
 */
export function evidenceOf(
  { failedSince, listed }: Pick<PendingOutcome, 'failedSince' | 'listed'>,
  record: Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>,
  askedAt: number,
  doubtMs: number,
): Evidence {
  if (record.status === 'successful') return 'recovered'
  if (record.status === 'processing') return 'processing'
  if (record.status !== 'failed' || !showsAttempt(record, listed)) return 'unchanged'
  return failedSince !== undefined && askedAt - failedSince >= doubtMs ? 'failed-again' : 'doubtful'
}

/**
 * When to look again after a look at `askedAt`: the looks come at 1, 2, 4, 8 ... times `firstLook` after the PATCH, at most
 * five minutes apart. One that came late, or by the way, puts the next one off, so that two never follow closely.
 */
export function nextLookAt(sentAt: number, askedAt: number, policy: OutcomePolicy): number {
  const { firstLookMs } = policy
  const elapsed = askedAt - sentAt
  if (elapsed < firstLookMs) return sentAt + firstLookMs
  const planned = sentAt + firstLookMs * 2 ** (Math.floor(Math.log2(elapsed / firstLookMs)) + 1)
  return Math.min(Math.max(planned, askedAt + Math.max(firstLookMs, elapsed / 2)), askedAt + longestPauseMs)
}

/** Whether a look at `askedAt` that showed nothing final frees the place of the retry, which stays awaited. */
export function freesPlace({ sentAt }: PendingOutcome, askedAt: number, policy: OutcomePolicy): boolean {
  return askedAt - sentAt >= policy.lostAfterMs
}

/** Whether a look at `askedAt` that showed nothing final is the last one. */
export function isGivenUp(
  awaited: PendingOutcome,
  evidence: Evidence | undefined,
  askedAt: number,
  policy: OutcomePolicy,
): boolean {
  const elapsed = askedAt - awaited.sentAt
  const wasNotTaken = awaited.lost && evidence === 'unchanged' && elapsed >= policy.lostAfterMs
  return wasNotTaken || elapsed >= policy.giveUpAfterMs
}
