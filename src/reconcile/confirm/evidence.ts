// Judges outcomes: evidence of a check, how long a failure is doubted, when a lost response is given up. Pure functions. @see docs/architecture.md "Outcomes"
import type { TimeZone } from '../../platform/time-zone.ts'
import { refusesRecord, type WebhookRecord } from '../../platform/record.ts'
import type { Attempts, FailedRecord, PendingOutcome } from '../failed-record.ts'
import type { OutcomePolicy } from '../policy.ts'
import { probeTimeoutMs, type ReceiverVerdict } from '../retry/circuit-breaker.ts'

export const outcomes = ['recovered', 'failed-again', 'unknown'] as const
export type Outcome = (typeof outcomes)[number]

/** A final outcome, nothing new, a delivery under way, or a failure still in doubt. */
export type Evidence = Extract<Outcome, 'recovered' | 'failed-again'> | 'unchanged' | 'processing' | 'doubtful'

const maxCheckPauseMs = 300_000
/** Tolerance, because some platforms write attempt times to the second. */
const attemptPrecisionMs = 1000
/** The same, plus the error of the platform's clock. */
export const attemptToleranceMs = 2000
/** The first check comes so long after the PATCH; the unit of the times of all checks. */
export const firstCheckMs = 500
/**
 * How long a failure is doubted: from the first check that shows it to the one that confirms it. One check is not enough: a
 * server may lag behind others, and a platform may count an attempt at its start and show the record as failed until it ends.
 * Up to the maximum, it grows after each believed failure that turned into a success.
 */
export const [firstDoubtMs, maxDoubtMs] = [2000, 32_000]

/**
 * Verdict of an outcome on the receiver; `responseStatusCode` is its response, null without one. @see docs/architecture.md
 * "Circuits"
 */
export function verdictOf(outcome: Outcome, responseStatusCode: number | null): ReceiverVerdict {
  if (outcome === 'recovered') return 'recovered'
  if (outcome === 'unknown') return 'unknown'
  return refusesRecord(responseStatusCode) ? 'refused' : 'failed-again'
}

/**
 * A retry with a lost response is given up by a check this long after the loss that shows the record unchanged, because the
 * platform probably never accepted it: 2 min. A record that is absent or processing waits until `giveUpAfter`. Not counted from
 * the PATCH: that of a suspended process is sent when it resumes, just before its deadline.
 */
export function lostAfterMsOf({ giveUpAfter }: OutcomePolicy): number {
  return Math.min(giveUpAfter, probeTimeoutMs)
}

/** Durations in ms. */
export interface EvidenceRules {
  policy: OutcomePolicy
  doubtMs: number
  /** True for an attempt dated after the PATCH, or less than `attemptToleranceMs` before. */
  isSince: (lastAttemptLocal: number) => boolean
}

/** A retry with a pending outcome, and its record as listed before. */
export type Awaited = Pick<PendingOutcome, 'failedSince' | 'lostAt' | 'sentAt'> & { before: Attempts }

/**
 * True if `after` shows a new attempt that the daemon may have caused. One dated before the PATCH may be another client's, which
 * a stale list did not show. If its count grew and it stays the only one, another clock or zone dates the attempts; but with a
 * lost response, nothing shows that the PATCH was accepted.
 */
function showsAttempt(after: Attempts, askedAt: number, { before, lostAt, sentAt }: Awaited, rules: EvidenceRules) {
  const isCounted = after.attempts > before.attempts
  const [last, lastBefore] = [after.lastAttemptLocal, before.lastAttemptLocal]
  if (!isCounted && (last ?? -Infinity) <= (lastBefore ?? -Infinity)) return false
  if (last === null || last === lastBefore) return true
  const isForLong = isCounted && lostAt === undefined && askedAt - sentAt >= lostAfterMsOf(rules.policy)
  return isForLong || rules.isSince(last)
}

/**
 * Evidence of a check requested at `askedAt` (monotonic ms), or of the PATCH's response itself. A failed new attempt is
 * `doubtful` at first. A check `doubtMs` later that shows a failure confirms it, even with a newer attempt, which the platform
 * made on its own.
 */
export function evidenceOf(
  awaited: Awaited,
  shown: Attempts & Pick<WebhookRecord, 'status'>,
  askedAt: number,
  rules: EvidenceRules,
): Evidence {
  if (shown.status === 'successful') return 'recovered'
  if (shown.status === 'processing') return 'processing'
  if (shown.status !== 'failed' || !showsAttempt(shown, askedAt, awaited, rules)) return 'unchanged'
  return askedAt - (awaited.failedSince ?? Infinity) >= rules.doubtMs ? 'failed-again' : 'doubtful'
}

/**
 * When to check again after a check at `askedAt`: at 1, 2, 4, 8 ... times `firstCheckMs` after the PATCH, at most five minutes
 * apart. A late or extra check postpones the next one, so that two are never close together.
 */
export function nextCheckAt(sentAt: number, askedAt: number): number {
  const elapsed = askedAt - sentAt
  if (elapsed < firstCheckMs) return sentAt + firstCheckMs
  const planned = sentAt + firstCheckMs * 2 ** (Math.floor(Math.log2(elapsed / firstCheckMs)) + 1)
  return Math.min(Math.max(planned, askedAt + Math.max(firstCheckMs, elapsed / 2)), askedAt + maxCheckPauseMs)
}

/** A final outcome (`wasNotTaken`: the PATCH was no try), or the new state of the retry. */
export type Conclusion =
  { outcome: Outcome; wasNotTaken: boolean } | ({ outcome?: never } & Pick<PendingOutcome, 'checkAt' | 'failedSince'>)

/** Judges a check, requested at `askedAt` and finished at `monotonic`, by its evidence; undefined if it did not show the record. */
export function judge(
  awaited: Omit<Awaited, 'before'>,
  evidence: Evidence | undefined,
  { askedAt, monotonic }: Record<'askedAt' | 'monotonic', number>,
  rules: Pick<EvidenceRules, 'doubtMs' | 'policy'>,
): Conclusion {
  const { lostAt, sentAt } = awaited
  const { policy } = rules
  if (evidence === 'recovered' || evidence === 'failed-again') return { outcome: evidence, wasNotTaken: false }
  const isDoubtful = evidence === 'doubtful'
  const wasNotTaken = lostAt !== undefined && evidence === 'unchanged'
  const waitsMs = wasNotTaken ? lostAfterMsOf(policy) : policy.giveUpAfter
  // A doubt ends on its own.
  if (!isDoubtful && askedAt - (lostAt ?? sentAt) >= waitsMs) return { outcome: 'unknown', wasNotTaken }
  // Not from `askedAt`: the call may have waited for the rate since then.
  const failedSince = awaited.failedSince ?? (isDoubtful ? monotonic : undefined)
  const next = nextCheckAt(sentAt, askedAt)
  const sureAt = (failedSince ?? -Infinity) + rules.doubtMs
  return {
    failedSince,
    // A long doubt has checks in between: most of these deliveries arrive.
    checkAt: sureAt > askedAt ? Math.min(sureAt, Math.max(next, monotonic + firstDoubtMs)) : next,
  }
}

/** The time between a PATCH and the check that saw its outcome, in epoch ms of the platform's clock. */
export interface AttemptTime {
  since: number
  until: number
}

/** How far a changed last attempt lies outside that time. */
export function timeOffsetOf(
  record: FailedRecord,
  { lastAttemptLocal }: Pick<Attempts, 'lastAttemptLocal'>,
  { since, until, zone }: AttemptTime & { zone: TimeZone },
): number | undefined {
  if (lastAttemptLocal === null || lastAttemptLocal === record.lastAttemptLocal) return undefined
  const offsets = zone
    .toInstants(lastAttemptLocal)
    .map((instant) => (instant < since - attemptPrecisionMs ? instant - since : Math.max(0, instant - until)))
  return offsets.reduce((min, offset) => (Math.abs(offset) < Math.abs(min) ? offset : min))
}
