// A retry whose outcome is not known yet: what is evidence of it, and when to look next. Pure functions. @see design section 11
import type { WebhookRecord } from '../platform/record.ts'
import type { Ticket } from './allowance.ts'
import type { Outcome } from './outcome.ts'
import type { OutcomePolicy } from './policy.ts'

/** A record as it was shown at some moment. */
type Shown = Pick<WebhookRecord, 'attempts' | 'lastAttemptLocal'>

export interface Awaited {
  ticket: Ticket
  /** Monotonic ms: when the PATCH was sent. */
  sentAt: number
  /** No answer has come yet. */
  inFlight: boolean
  /** The PATCH had no answer of the platform: nobody knows whether it was taken. */
  lost: boolean
  /** Its connection broke, or none could be had: unlike one that took too long, it may well have come to nothing. */
  wasCut: boolean
  /** As it was listed before the PATCH. */
  listed: Shown
  /** Monotonic ms: when the PATCH was answered, or its answer given up. */
  answeredAt: number
  /** As the answer showed it. */
  answered: Shown | undefined
  /** Whether the answer or a look showed it as being delivered. */
  wasProcessing: boolean
  /** A new attempt that was shown as failed, and since when (monotonic ms). */
  doubt: (Shown & { since: number }) | undefined
  /** Monotonic ms: when to look next. */
  lookAt: number
  /** True when a look-up by its event did not show it: then its second is listed. */
  missedByEvent: boolean
}

/** What evidence depends on. */
export type Watched = Pick<Awaited, 'listed' | 'answered' | 'answeredAt' | 'doubt' | 'wasProcessing'>

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
 * What a look tells that was asked for at `askedAt`, or the answer itself; monotonic ms. `doubtMs` as in OutcomePolicy. A new attempt that is shown as
 * failed is `doubtful` until a later look shows the same; at once it counts only where the record was seen to be
 * processing, and no server can lag so far behind any more, or shows numbers that the answer did not.
 */
export function evidenceOf(
  { answered, answeredAt, doubt, listed, wasProcessing }: Watched,
  record: Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>,
  askedAt: number,
  doubtMs: number,
): Evidence {
  if (record.status === 'successful') return 'recovered'
  if (record.status === 'processing') return 'processing'
  if (record.status !== 'failed' || !showsAttempt(record, listed)) return 'unchanged'
  const isFresh = answered === undefined || showsAttempt(record, answered)
  if (wasProcessing && (isFresh || askedAt - answeredAt >= doubtMs)) return 'failed-again'
  const isSame = doubt?.attempts === record.attempts && doubt.lastAttemptLocal === record.lastAttemptLocal
  return isSame && askedAt - doubt.since >= doubtMs ? 'failed-again' : 'doubtful'
}

/** Remembers of a look what later ones are compared with. */
export function watch(awaited: Awaited, evidence: Evidence, record: Shown, since: number): void {
  const { attempts, lastAttemptLocal } = record
  if (evidence === 'processing') awaited.wasProcessing = true
  const isSame = awaited.doubt?.attempts === attempts && awaited.doubt.lastAttemptLocal === lastAttemptLocal
  if (evidence !== 'doubtful') awaited.doubt = undefined
  else if (!isSame) awaited.doubt = { attempts, lastAttemptLocal, since }
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

/** Looks up to this many times `firstLook` may come before a retry has begun to show. */
const notTakenAfterLooks = 4

/**
 * Whether a retry whose answer was lost looks as if it had never reached the platform. It is awaited all the same. One
 * that had no answer in time may hang in a receiver that is down: its place is kept.
 */
export function seemsNotTaken(
  { lost, sentAt, wasCut }: Awaited,
  evidence: Evidence | undefined,
  askedAt: number,
  policy: OutcomePolicy,
): boolean {
  return lost && wasCut && evidence === 'unchanged' && askedAt - sentAt >= notTakenAfterLooks * policy.firstLookMs
}

/** Whether a look at `askedAt` that showed nothing final is the last one. */
export function isGivenUp(
  awaited: Awaited,
  evidence: Evidence | undefined,
  askedAt: number,
  policy: OutcomePolicy,
): boolean {
  const elapsed = askedAt - awaited.sentAt
  const wasNotTaken = awaited.lost && evidence === 'unchanged' && elapsed >= policy.lostAfterMs
  return wasNotTaken || elapsed >= policy.giveUpAfterMs
}
