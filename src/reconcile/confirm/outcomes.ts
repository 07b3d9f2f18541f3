// Pending outcomes, from the PATCH until a check settles them. @see docs/architecture.md "Outcomes"
// A PATCH with a lost response may have been accepted (platform/operations.ts). It is not sent again while its outcome
// is pending: it counts as a try, and is checked like an accepted one. A check after 2 min that shows the record unchanged makes
// the outcome `unknown`, and the PATCH no try; otherwise that waits until `giveUpAfter` (evidence.ts). The record then backs off
// like any other (decide.ts), and its circuit counts nothing.
import type { Clock } from '../../runtime/clock.ts'
import { meaningOf, type RetryResponse } from '../../platform/operations.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { nextAttempt, readingNotAhead, wantedByNone, type FailedRecord, type PendingOutcome } from '../failed-record.ts'
import type { FailedBefore } from '../decide.ts'
import type { OutcomePolicy } from '../policy.ts'
import type { Backlog } from '../retry/backlog.ts'
import type { Relapse } from '../retry/dropped-records.ts'
import type { Planner } from '../retry/retry-plan.ts'
import type { Subscriptions } from '../retry/subscriptions.ts'
import {
  attemptToleranceMs,
  evidenceOf,
  firstCheckMs,
  firstDoubtMs,
  judge,
  maxDoubtMs,
  timeOffsetOf,
  verdictOf,
  type AttemptTime,
  type EvidenceRules,
  type Conclusion,
  type Outcome,
} from './evidence.ts'

/** Emitted once for every retry that was accepted, or whose response was lost; and again if its record has recovered, and failed later. */
export interface OutcomeEvent {
  type: 'outcome'
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** Number of the attempt, as in the event of its retry. */
  attempt: number
  outcome: Outcome
  /** True if it was tried before. */
  isRepeated: boolean
  /** True if it had recovered by this retry. */
  isRelapse: boolean
  /** From the event, and from the PATCH, until the outcome was seen; both in ms. */
  sinceEventMs: number
  sinceRetryMs: number
  /** The receiver's response to the last attempt; null without one, or if unknown. */
  responseStatusCode: number | null
  /**
   * How far the attempt lies before (negative) or after the time between the PATCH and the check that saw it, in ms. Undefined
   * if the platform shows no changed time, or if the response was lost: another client may have caused it.
   */
  timeOffsetMs: number | undefined
}

export interface OutcomeCheck {
  /** Monotonic ms just before the request, and now. */
  askedAt: number
  monotonic: number
  /** Platform epoch ms, now. */
  seenAt: number
}

/** Result of a check; `shown` is undefined if it did not show the record. */
interface Seen {
  awaiting: PendingOutcome
  check: OutcomeCheck
  shown: WebhookRecord | undefined
}

/** What is reported of an outcome, and when: its retry sent and the outcome seen, monotonic ms; seen, platform epoch ms. */
type Reported = Pick<OutcomeEvent, 'attempt' | 'isRelapse' | 'outcome' | 'timeOffsetMs'> &
  Record<'monotonic' | 'seenAt' | 'sent' | 'sentAt', number>

/** Of an outcome: when it was seen and its retry sent, monotonic ms; and the jitter seed of the retried record. */
export type SeenAt = Readonly<Record<'record' | 'seenAt' | 'sentAt', number>>

export interface OutcomesOptions {
  backlog: Pick<Backlog, 'release'>
  planner: Pick<Planner, 'changed'>
  subscriptions: Pick<Subscriptions, 'of' | 'relapsedMs' | 'settle'>
  policy: OutcomePolicy
  zone: TimeZone
  /** False while the platform's clock is unknown: its times then prove nothing. */
  knowsTime: () => boolean
  clock: Pick<Clock, 'monotonic'>
  /**
   * With the monotonic times of sending and of the first sight of the outcome, as a failure is doubted for seconds; and how the
   * record had failed before.
   */
  emit: (event: OutcomeEvent, at: SeenAt, before: FailedBefore) => void
  /** A PATCH sent at this time, monotonic ms, was accepted, though its response was lost. */
  arrived: (sentAt: number) => void
  /** Called when a check is due sooner than all others. */
  wake: () => void
}

export interface Outcomes {
  /** A PATCH is being sent, with this number in its subscription: its record is awaiting until the response is reported. */
  begin(record: FailedRecord, sent: number, at: { sentAt: number; monotonic: number }): void
  /**
   * Reports the response to a PATCH. A retry that was accepted, or whose response was lost, becomes pending, unless the
   * response shows its outcome. `respondedAt` in platform epoch ms. `report` emits the event of the retry: after the change of
   * its record, which a listener may drop, and before the event of an outcome.
   */
  note(
    record: FailedRecord,
    response: RetryResponse,
    at: { respondedAt: number; monotonic: number; isTrial?: boolean; report?: () => void },
  ): void
  /** Reports a check of a record; undefined if it did not show the record. Affects only pending records. */
  see(record: FailedRecord, shown: WebhookRecord | undefined, check: OutcomeCheck): void
  /** A record that had failed again is successful, as a list or a rejected PATCH shows: its delivery may have ended later. */
  turned(record: FailedRecord): void
  /** A record that had recovered has failed by a later attempt, as seen at `seenAt`, in platform epoch ms. */
  relapsed(relapse: Relapse, seenAt: number): void
  /** Records with a PATCH that was answered or lost, and a pending outcome. */
  pending(): ReadonlySet<FailedRecord>
  /** True while a failure of the subscription is in doubt, and for an hour after a success turned out as a failure. */
  isDoubted(subscriptionId: string): boolean
  /** When the soonest check of any record is due, monotonic ms; Infinity for none. Iterates over pending records. */
  soonestCheckAt(): number
  /** Delay of the most overdue check, in ms; 0 if none is due. */
  overdueMs(): number
}

/** A retry without the platform's verdict is no try. It rests longer than after the last such one, as long, or as after a first. */
function noTry({ refusals, tries }: FailedRecord, rests: 'longer' | 'as before' | 'anew' = 'longer') {
  const inARow = { longer: refusals + 1, 'as before': Math.max(1, refusals), anew: 1 }
  return { tries: tries - 1, refusals: inARow[rests] }
}

/** For so long after a success that did not last, others may not last either. */
const relapsesMs = 3_600_000

/** The platform's clock may have been set since the PATCH: an attempt may be dated by either. */
function attemptTimeOf(triedAt: number, { sentAt }: PendingOutcome, { monotonic, seenAt }: OutcomeCheck): AttemptTime {
  const elapsedMs = monotonic - sentAt
  return { since: Math.min(triedAt, seenAt - elapsedMs), until: Math.max(seenAt, triedAt + elapsedMs) }
}

export function createOutcomes(options: OutcomesOptions): Outcomes {
  const { backlog, clock, planner, policy, subscriptions, zone } = options
  let doubtMs = firstDoubtMs
  /** Monotonic ms. */
  let doubtLongerSince = -Infinity
  const pending = new Set<FailedRecord>()
  /** Records with a failure in doubt, by subscription. */
  const doubted = new Map<string, Set<FailedRecord>>()
  let soonestCheckAt = Infinity

  /** The next check of an outcome is due sooner than before. */
  function follow({ checkAt }: PendingOutcome): void {
    if (checkAt >= soonestCheckAt) return
    soonestCheckAt = checkAt
    options.wake()
  }

  /** Settles the outcome: updates the record first, then the circuit, then emits the event. */
  function settle(
    record: FailedRecord,
    { outcome, wasNotTaken }: Extract<Conclusion, { outcome: Outcome }>,
    { awaiting, check, shown }: Seen,
  ): void {
    const { monotonic, seenAt } = check
    const attempt = nextAttempt({ attempts: record.attempts, tries: record.tries - 1 })
    const timeOffsetMs =
      shown && awaiting.lostAt === undefined
        ? timeOffsetOf(record, shown, { ...attemptTimeOf(record.triedAt, awaiting, check), zone })
        : undefined
    const { eventType, responseStatusCode: responseBefore } = record
    const before = { eventType, responseStatusCode: responseBefore, failures: record.tries - 1 }
    const failedAgainAt = outcome === 'failed-again' ? monotonic : -Infinity
    // An attempt too late for the outcome still counts in the backoff.
    const counts = wasNotTaken ? noTry(record) : { refusals: 0 }
    record.note({ awaiting: undefined, changedAt: monotonic, failedAgainAt, ...counts })
    if (outcome === 'failed-again' || awaiting.failedSince !== undefined) record.prove()
    pending.delete(record)
    const doubts = doubted.get(record.subscriptionId)
    doubts?.delete(record)
    if (doubts?.size === 0) doubted.delete(record.subscriptionId)
    const { attempts: attemptsBefore } = record
    if (shown !== undefined) record.show(shown, { zone, now: seenAt })
    // A failure that no check could confirm was an attempt all the same, though the last list may lag behind.
    if (outcome === 'unknown' && awaiting.failedSince !== undefined)
      record.attempts = Math.max(record.attempts, attemptsBefore + 1)
    if (outcome === 'recovered') {
      const { attempts, lastAt } = record
      backlog.release(record, { attempts, lastAt, sent: awaiting.sent })
    }
    const { failedSince = monotonic, sent, sentAt } = awaiting
    const firstSeenAt = outcome === 'failed-again' ? failedSince : monotonic
    const result = { outcome, isRelapse: false, attempt, timeOffsetMs }
    report(record, { ...result, sent, sentAt, seenAt, monotonic }, firstSeenAt, before)
  }

  /** Reports an outcome to the circuit, and then to all others. */
  function report(
    record: FailedRecord,
    { monotonic, seenAt, sent, sentAt, ...result }: Reported,
    firstSeenAt: number,
    before: FailedBefore,
    jitterSeed = record.jitterSeed,
  ): void {
    const { eventId, id: webhookId, responseStatusCode, subscriptionId } = record
    // The time is now, not askedAt: retries sent in between count as sent before the circuit opened.
    subscriptions.settle(
      { jitterSeed, subscriptionId, sent, responseStatusCode },
      verdictOf(result.outcome, responseStatusCode),
      clock.monotonic(),
    )
    const event: OutcomeEvent = {
      ...{ type: 'outcome', webhookId, eventId, subscriptionId, eventType: before.eventType },
      ...result,
      isRepeated: before.failures > 0,
      sinceEventMs: seenAt - record.eventAt,
      sinceRetryMs: monotonic - sentAt,
      responseStatusCode: result.outcome === 'unknown' ? null : responseStatusCode,
    }
    options.emit(event, { sentAt, seenAt: firstSeenAt, record: jitterSeed }, before)
  }

  function rulesOf(triedAt: number, awaiting: PendingOutcome, check: OutcomeCheck): EvidenceRules {
    const { seenAt } = check
    const { since } = attemptTimeOf(triedAt, awaiting, check)
    return {
      policy,
      doubtMs,
      isSince: (lastAttemptLocal) =>
        !options.knowsTime() || readingNotAhead(zone, lastAttemptLocal, seenAt) >= since - attemptToleranceMs,
    }
  }

  function turned({ failedAgainAt }: FailedRecord): void {
    // Others of the same time add nothing.
    if (failedAgainAt <= doubtLongerSince) return
    doubtMs = Math.min(4 * doubtMs, maxDoubtMs)
    doubtLongerSince = clock.monotonic()
  }

  /** Returns whether the check settled the outcome. */
  function learn(record: FailedRecord, shown: WebhookRecord | undefined, check: OutcomeCheck): boolean {
    const awaiting = pending.has(record) ? record.awaiting : undefined
    if (awaiting === undefined || check.askedAt < awaiting.sentAt) return false
    const rules = rulesOf(record.triedAt, awaiting, check)
    const evidence = shown && evidenceOf({ ...awaiting, before: record }, shown, check.askedAt, rules)
    if (awaiting.lostAt !== undefined && evidence !== undefined && evidence !== 'unchanged')
      options.arrived(awaiting.sentAt)
    const conclusion = judge(awaiting, evidence, check, rules)
    if (conclusion.outcome !== undefined) {
      settle(record, conclusion, { awaiting, check, shown })
      return true
    }
    const isSooner = conclusion.checkAt < awaiting.checkAt
    if (conclusion.failedSince !== undefined)
      doubted.getOrInsertComputed(record.subscriptionId, () => new Set()).add(record)
    Object.assign(awaiting, conclusion)
    if (isSooner) follow(awaiting)
    return false
  }

  return {
    begin(record, sent, { sentAt, monotonic }) {
      const awaiting = {
        sent,
        sentAt: monotonic,
        lostAt: undefined,
        failedSince: undefined,
        checkAt: monotonic + firstCheckMs,
        missedByEvent: false,
      }
      record.note({
        tries: record.tries + 1,
        triedAt: sentAt,
        ...wantedByNone,
        awaiting,
        changedAt: monotonic,
      })
    },
    note(record, response, { respondedAt, monotonic, isTrial = false, report }) {
      const { awaiting } = record
      if (awaiting === undefined) return
      // By the platform's clock as now known: the response may have shown that it was set.
      const triedAt = respondedAt - (monotonic - awaiting.sentAt)
      // The platform breaker has a backoff of its own for trials. A limit refuses any record: that says nothing about this one.
      const rests = isTrial ? 'as before' : response.result === 'throttled' ? 'anew' : 'longer'
      const ofResponse = meaningOf(response.result).isOfRecord ? { refusals: 0 } : noTry(record, rests)
      const counts = response.lost !== true && ofResponse
      const isOpen = response.result === 'accepted' || response.lost === true
      record.note({ triedAt, changedAt: monotonic, ...counts, ...(!isOpen && { awaiting: undefined }) })
      if (response.found === 'successful') {
        turned(record)
        // Its attempts all precede the PATCH; their number is unknown.
        backlog.release(record, { attempts: Infinity, lastAt: triedAt, sent: awaiting.sent })
      }
      report?.()
      if (!isOpen) return
      if (response.lost) awaiting.lostAt = monotonic
      pending.add(record)
      const { checkAt } = awaiting
      if (response.record !== undefined) {
        learn(record, response.record, { askedAt: monotonic, monotonic, seenAt: respondedAt })
        // `learn` has moved the next check. Restores it, unless the response shows a failure, which must be confirmed first.
        if (awaiting.failedSince === undefined) awaiting.checkAt = checkAt
      }
      if (pending.has(record)) follow(awaiting)
    },
    see(record, shown, check) {
      // One that its retry's own response settles is planned again when that call has ended.
      if (learn(record, shown, check)) planner.changed([record])
    },
    turned,
    relapsed({ jitterSeed, record, sent }, seenAt) {
      const { eventType, responseStatusCode, triedAt, tries } = record
      const monotonic = clock.monotonic()
      record.note({ failedAgainAt: monotonic })
      record.prove()
      subscriptions.of(record.subscriptionId).relapsedAt = monotonic
      const sentAt = monotonic - (seenAt - triedAt)
      const { attempts: attempt } = record
      const result = { outcome: 'failed-again', isRelapse: true, attempt, timeOffsetMs: undefined } as const
      const before = { eventType, responseStatusCode, failures: tries - 1 }
      report(record, { ...result, sent, sentAt, seenAt, monotonic }, monotonic, before, jitterSeed)
    },
    pending: () => pending,
    isDoubted: (id) => doubted.has(id) || subscriptions.relapsedMs(id, clock.monotonic()) < relapsesMs,
    soonestCheckAt() {
      soonestCheckAt = Infinity
      for (const { awaiting } of pending) soonestCheckAt = Math.min(soonestCheckAt, awaiting?.checkAt ?? Infinity)
      return soonestCheckAt
    },
    overdueMs: () => Math.max(0, clock.monotonic() - soonestCheckAt),
  }
}
