// What becomes of retries: pending outcomes, the evidence that settles them, and when a record is checked. @see design sections 2 and 11
import type { RetryAnswer, RetryResult } from '../../platform/operations.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { updateFailedRecord, type FailedRecord, type PendingOutcome } from '../failed-record.ts'
import type { OutcomePolicy } from '../policy.ts'
import type { Backlog } from '../retry/backlog.ts'
import type { ReceiverVerdict } from '../retry/circuit-breaker.ts'
import type { Ticket } from '../retry/circuits.ts'

export const outcomes = ['recovered', 'failed-again', 'unknown'] as const
export type Outcome = (typeof outcomes)[number]

/** Told once for every retry that was accepted, or whose answer was lost. */
export interface OutcomeEvent {
  type: 'outcome'
  id: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Which attempt of the record it was, as the event of its retry tells it. */
  attempt: number
  outcome: Outcome
  /** From the event, and from the PATCH, until the outcome was seen; both in ms. */
  sinceEventMs: number
  sinceRetryMs: number
  /** What the receiver answered at the last attempt; null when it did not, or nobody knows. */
  responseStatusCode: number | null
  /**
   * How far the attempt lies before (negative) or after the time between the PATCH and the check that saw it, in ms.
   * Undefined when the platform shows no changed time, or when the answer was lost: the attempt may be anybody's.
   */
  timeOffsetMs: number | undefined
}

/** An outcome that has become known. */
export interface Settled {
  record: FailedRecord
  outcome: Outcome
  /** What was known of the retry until now. */
  pending: PendingOutcome
  /** When it was seen: platform epoch ms, and monotonic ms. */
  seenAt: number
  monotonic: number
  /** @see OutcomeEvent */
  timeOffsetMs: number | undefined
}

/** One check of a record. */
export interface OutcomeCheck {
  /** Monotonic ms just before it was asked for, and now. */
  askedAt: number
  monotonic: number
  /** Platform epoch ms, now. */
  seenAt: number
}

export interface OutcomesOptions {
  backlog: Pick<Backlog, 'remove' | 'setAside' | 'touch'>
  policy: OutcomePolicy
  zone: TimeZone
  /** False while the platform's clock is not known. Default: it never is. */
  knowsTime?: () => boolean
  /** Told of every outcome, once the record shows it. */
  onSettled?: (settled: Settled) => void
  /** Told of checks that still show no outcome `circuit.probeTimeout` after the PATCH: the retry stays pending, its place is free. */
  onUndecided?: (pending: PendingOutcome) => void
  /** Told of a record that became pending, or whose next check is due sooner than before. */
  onCheckDue?: (record: FailedRecord) => void
}

export interface Outcomes {
  /** A PATCH goes out: its record is awaiting from now on. Nothing else happens to it until the answer is noted. */
  begin(record: FailedRecord, ticket: Ticket, at: { sentAt: number; monotonic: number }): void
  /**
   * Notes the answer of a PATCH. One that was accepted, or whose answer was lost, is pending from now on, unless the
   * answer shows its outcome. `answeredAt` in platform epoch ms.
   */
  note(record: FailedRecord, answer: RetryAnswer, at: { answeredAt: number; monotonic: number }): void
  /** Takes in what a check showed of a record; undefined when it did not show it. Only pending records are looked at. */
  see(record: FailedRecord, shown: WebhookRecord | undefined, check: OutcomeCheck): void
  /** The records whose PATCH was answered, or lost, and has no outcome yet. */
  pending(): ReadonlySet<FailedRecord>
}

/** A check shows a final outcome, nothing new, a delivery under way, or a failure that is not sure yet. */
export type Evidence = Extract<Outcome, 'recovered' | 'failed-again'> | 'unchanged' | 'processing' | 'doubtful'

const maxCheckPauseMs = 300_000
/** Attempts are told to the second by some platforms. */
const attemptPrecisionMs = 1000
/** The same, and what the platform's clock may be off. */
const attemptToleranceMs = 2000

/** With these results the platform looked at the record. The others refuse the call, whatever record it is about. */
const triedResults: ReadonlySet<RetryResult> = new Set<RetryResult>([
  'accepted',
  'already-resolved',
  'gone',
  'rejected',
])

/** That the receiver refuses a record is no news of the receiver: it is up. These answers would meet any record. */
const tellingStatuses: ReadonlySet<number> = new Set([401, 403, 404, 408, 425, 429])

/** What an outcome says of the receiver; `responseStatusCode` is what it answered, null when it did not. @see design section 12 */
export function verdictOf(outcome: Outcome, responseStatusCode: number | null): ReceiverVerdict {
  if (outcome === 'recovered') return 'recovered'
  const isClientError = responseStatusCode !== null && responseStatusCode >= 400 && responseStatusCode < 500
  const refusesRecord = isClientError && !tellingStatuses.has(responseStatusCode)
  return outcome === 'unknown' || refusesRecord ? 'neutral' : 'failed-again'
}

/** Whether the platform took the PATCH, or may have taken it. */
function isTry({ lost, result }: RetryAnswer): boolean {
  return lost === true || triedResults.has(result)
}

type Shown = PendingOutcome['baseline']

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
function timeOffsetOf(
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

export function createOutcomes(options: OutcomesOptions): Outcomes {
  const { backlog, policy, zone } = options
  const pending = new Set<FailedRecord>()

  /** The outcome has become known: the record shows it, then it is told. */
  function settle(record: FailedRecord, outcome: Outcome, shown: WebhookRecord | undefined, check: OutcomeCheck): void {
    const { awaiting } = record
    if (awaiting === undefined) return
    const { monotonic, seenAt } = check
    const timeOffsetMs = shown && !awaiting.lost ? timeOffsetOf(record, shown, { seenAt, zone }) : undefined
    record.awaiting = undefined
    backlog.touch(record)
    pending.delete(record)
    if (shown !== undefined) updateFailedRecord(record, shown, { zone, now: seenAt })
    if (outcome === 'unknown') record.letsPass = true
    if (outcome === 'recovered') backlog.remove(record)
    options.onSettled?.({ record, outcome, pending: awaiting, seenAt, monotonic, timeOffsetMs })
  }

  function mayBeOurs(lastAttemptLocal: number, { triedAt }: FailedRecord): boolean {
    if (options.knowsTime?.() !== true) return true
    return zone.toInstants(lastAttemptLocal).some((instant) => instant >= triedAt - attemptToleranceMs)
  }

  function see(record: FailedRecord, shown: WebhookRecord | undefined, check: OutcomeCheck): void {
    const { awaiting } = record
    const { askedAt } = check
    if (awaiting === undefined || !pending.has(record) || askedAt < awaiting.sentAt) return
    const { doubtMs } = policy
    const evidence =
      shown && evidenceOf(awaiting, shown, askedAt, { doubtMs, mayBeOurs: (last) => mayBeOurs(last, record) })
    if (evidence === 'recovered' || evidence === 'failed-again') {
      settle(record, evidence, shown, check)
      return
    }
    const before = awaiting.checkAt
    if (evidence === 'doubtful') awaiting.failedSince ??= askedAt
    const sureAt = (awaiting.failedSince ?? -Infinity) + doubtMs
    awaiting.checkAt = sureAt > askedAt ? sureAt : nextCheckAt(awaiting.sentAt, askedAt, policy)
    if (askedAt - awaiting.sentAt >= policy.lostAfterMs) options.onUndecided?.(awaiting)
    // An attempt that came too late to be its outcome counts in the backoff all the same.
    if (isGivenUp(awaiting, evidence, askedAt, policy)) settle(record, 'unknown', shown, check)
    else if (awaiting.checkAt < before) options.onCheckDue?.(record)
  }

  return {
    begin(record, ticket, { sentAt, monotonic }) {
      backlog.touch(record)
      const { attempts, lastAttemptLocal } = record
      record.awaiting = {
        ticket,
        sentAt: monotonic,
        lost: false,
        baseline: { attempts, lastAttemptLocal },
        failedSince: undefined,
        checkAt: monotonic + policy.firstCheckMs,
        missedByEvent: false,
      }
      record.tries += 1
      record.triedAt = sentAt
    },
    note(record, answer, { answeredAt, monotonic }) {
      const { awaiting } = record
      if (awaiting === undefined) return
      backlog.touch(record)
      if (isTry(answer)) record.refusals = 0
      else {
        record.tries -= 1
        record.refusals += 1
      }
      if (answer.result !== 'accepted' && answer.lost !== true) {
        record.awaiting = undefined
        if (answer.found === 'successful') backlog.setAside(record)
        return
      }
      awaiting.lost = answer.lost === true
      pending.add(record)
      const { checkAt } = awaiting
      if (answer.record !== undefined) {
        see(record, answer.record, { askedAt: monotonic, monotonic, seenAt: answeredAt })
        // The answer itself is no check; but when it may be final, nothing is gained by a check before that is sure.
        if (awaiting.failedSince === undefined) awaiting.checkAt = checkAt
      }
      if (pending.has(record)) options.onCheckDue?.(record)
    },
    see,
    pending: () => pending,
  }
}
