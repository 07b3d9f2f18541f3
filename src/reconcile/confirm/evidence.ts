// What a check of a retried record proves, and when the next check comes: pure functions. @see design section 11
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import type { FailedRecord, PendingOutcome } from '../failed-record.ts'
import type { OutcomePolicy } from '../policy.ts'
import type { ReceiverVerdict } from '../retry/circuit-breaker.ts'

export const outcomes = ['recovered', 'failed-again', 'unknown'] as const
export type Outcome = (typeof outcomes)[number]

/** A check shows a final outcome, nothing new, a delivery under way, or a failure that is not sure yet. */
export type Evidence = Extract<Outcome, 'recovered' | 'failed-again'> | 'unchanged' | 'processing' | 'doubtful'

const maxCheckPauseMs = 300_000
/** Attempts are told to the second by some platforms. */
const attemptPrecisionMs = 1000
/** The same, and what the platform's clock may be off. */
export const attemptToleranceMs = 2000

/** That the receiver refuses a record is no news of the receiver: it is up. These answers would meet any record. */
const tellingStatuses: ReadonlySet<number> = new Set([401, 403, 404, 408, 425, 429])

/** What an outcome says of the receiver; `responseStatusCode` is what it answered, null when it did not. @see design section 12 */
export function verdictOf(outcome: Outcome, responseStatusCode: number | null): ReceiverVerdict {
  if (outcome === 'recovered') return 'recovered'
  const isClientError = responseStatusCode !== null && responseStatusCode >= 400 && responseStatusCode < 500
  const refusesRecord = isClientError && !tellingStatuses.has(responseStatusCode)
  return outcome === 'unknown' || refusesRecord ? 'neutral' : 'failed-again'
}

export type Shown = PendingOutcome['baseline']

/** True when `after` shows an attempt that `before` did not, and that may be ours. */
function showsAttempt(after: Shown, before: Shown, mayBeOurs: (lastAttemptLocal: number) => boolean): boolean {
  if (after.attempts > before.attempts) return true
  const [last, lastBefore] = [after.lastAttemptLocal, before.lastAttemptLocal]
  return last !== null && (lastBefore === null || last > lastBefore) && mayBeOurs(last)
}

/**
 * What a check tells that was asked for at `askedAt`, or the answer itself; monotonic ms. A new attempt that is shown as
 * failed is `doubtful` at first: a server may lag behind the others, and a platform may count an attempt when it begins.
 * A check `doubtMs` later that shows a failure too is sure; it may show a still newer attempt, which the platform made by itself.
 * `mayBeOurs` is false of a last attempt before our PATCH: the list that gave the baseline lagged behind.
 */
export function evidenceOf(
  { baseline, failedSince }: Pick<PendingOutcome, 'baseline' | 'failedSince'>,
  shown: Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>,
  askedAt: number,
  { doubtMs, mayBeOurs }: { doubtMs: number; mayBeOurs: (lastAttemptLocal: number) => boolean },
): Evidence {
  if (shown.status === 'successful') return 'recovered'
  if (shown.status === 'processing') return 'processing'
  if (shown.status !== 'failed' || !showsAttempt(shown, baseline, mayBeOurs)) return 'unchanged'
  return failedSince !== undefined && askedAt - failedSince >= doubtMs ? 'failed-again' : 'doubtful'
}

/**
 * When to check again after a check at `askedAt`: checks come at 1, 2, 4, 8 ... times `firstCheck` after the PATCH, at most
 * five minutes apart. One that came late, or by the way, puts the next one off, so that two never follow closely.
 */
export function nextCheckAt(sentAt: number, askedAt: number, policy: OutcomePolicy): number {
  const { firstCheckMs } = policy
  const elapsed = askedAt - sentAt
  if (elapsed < firstCheckMs) return sentAt + firstCheckMs
  const planned = sentAt + firstCheckMs * 2 ** (Math.floor(Math.log2(elapsed / firstCheckMs)) + 1)
  return Math.min(Math.max(planned, askedAt + Math.max(firstCheckMs, elapsed / 2)), askedAt + maxCheckPauseMs)
}

/** Whether a check at `askedAt` that showed nothing final is the last one. */
export function isGivenUp(
  { lost, sentAt }: Pick<PendingOutcome, 'lost' | 'sentAt'>,
  evidence: Evidence | undefined,
  askedAt: number,
  policy: OutcomePolicy,
): boolean {
  const elapsed = askedAt - sentAt
  const wasNotTaken = lost && evidence === 'unchanged' && elapsed >= policy.lostAfterMs
  return wasNotTaken || elapsed >= policy.giveUpAfterMs
}

/** How far a changed last attempt lies outside the time between our PATCH and the check that saw it. */
export function timeOffsetOf(
  record: FailedRecord,
  { lastAttemptLocal }: Shown,
  { seenAt, zone }: { seenAt: number; zone: TimeZone },
): number | undefined {
  if (lastAttemptLocal === null || lastAttemptLocal === record.lastAttemptLocal) return undefined
  const { triedAt } = record
  const offsets = zone
    .toInstants(lastAttemptLocal)
    .map((instant) => (instant < triedAt - attemptPrecisionMs ? instant - triedAt : Math.max(0, instant - seenAt)))
  return offsets.reduce((min, offset) => (Math.abs(offset) < Math.abs(min) ? offset : min))
}
