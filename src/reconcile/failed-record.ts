// A record as the backlog holds it: what decisions need, in the platform's time. @see design sections 7 and 9
import { laterReadingNotAfter, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import type { Known } from './decide.ts'
import type { Ticket } from './retry/circuits.ts'

/** A retry of a record whose outcome is not known yet. Times in monotonic ms. @see design section 11 */
export interface PendingOutcome {
  ticket: Ticket
  /** When the PATCH was sent. */
  sentAt: number
  /** The PATCH had no answer of the platform: it may have been taken, or not. */
  lost: boolean
  /** The record as it was listed before the PATCH. */
  baseline: Pick<WebhookRecord, 'attempts' | 'lastAttemptLocal'>
  /** When a new attempt was first shown as failed. */
  failedSince: number | undefined
  /** When to check next. */
  checkAt: number
  /** True when a look-up by its event did not show it: then its second is listed. */
  missedByEvent: boolean
}

/** A record that the backlog holds. */
export interface FailedRecord extends Known {
  eventId: string
  awaiting: PendingOutcome | undefined
  /** Transfer or account that the event is about; empty when none is told, or nobody asks for an order. */
  entityId: string
  /** True when those behind it of the same entity need not wait for it any more: nobody knows what became of it. */
  letsPass: boolean
  /** Second of the event on the platform's wall clock. */
  localSecond: number
  /** Last attempt on the platform's wall clock as the platform shows it; null when it shows none. */
  lastAttemptLocal: number | null
  responseStatusCode: number | null
}

/** Which attempt of the record the next retry is, by the platform's count and ours: the first is 1. */
export function nextAttempt({ attempts, tries }: Pick<FailedRecord, 'attempts' | 'tries'>): number {
  return Math.max(attempts, tries) + 1
}

/** An attempt this far ahead of the platform's clock is no time that was. */
const toleratedAheadMs = 60_000

/** The later reading of an ambiguous last attempt that is not in the future; the event time when there is none. */
function lastAt(record: WebhookRecord, eventAt: number, { zone, now }: { zone: TimeZone; now: number }): number {
  if (record.lastAttemptLocal === null) return eventAt
  const last = laterReadingNotAfter(zone, record.lastAttemptLocal, now + toleratedAheadMs)
  return last > now + toleratedAheadMs ? eventAt : last
}

/** `now` in epoch ms of the platform's clock. Its entity is the backlog's to keep or not. */
export function createFailedRecord(record: WebhookRecord, when: { zone: TimeZone; now: number }): FailedRecord {
  const eventAt = laterReadingNotAfter(when.zone, record.eventLocal, when.now)
  return {
    id: record.id,
    eventId: record.eventId,
    subscriptionId: record.subscriptionId,
    eventType: record.eventType,
    module: record.module,
    eventAt,
    localSecond: Math.floor(record.eventLocal / 1000),
    attempts: record.attempts,
    lastAt: lastAt(record, eventAt, when),
    lastAttemptLocal: record.lastAttemptLocal,
    responseStatusCode: record.responseStatusCode,
    tries: 0,
    refusals: 0,
    triedAt: 0,
    awaiting: undefined,
    entityId: '',
    letsPass: false,
  }
}

/** Takes in what the platform shows of a record now. */
export function updateFailedRecord(
  entry: FailedRecord,
  record: WebhookRecord,
  when: { zone: TimeZone; now: number },
): void {
  entry.attempts = record.attempts
  entry.lastAttemptLocal = record.lastAttemptLocal
  entry.lastAt = lastAt(record, entry.eventAt, when)
  entry.responseStatusCode = record.responseStatusCode
  // A PATCH that lies ahead was sent before the platform's clock was put back.
  if (entry.triedAt > when.now + toleratedAheadMs) entry.triedAt = 0
}
