// A failed record in the backlog: the fields that decisions need, in the platform's time. @see docs/architecture.md "Time", "Backlog and decisions"
import { laterReadingNotAfter, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { jitterSeed } from './backoff.ts'
import type { Known } from './decide.ts'
import type { Ticket } from './retry/circuits.ts'

/** A retry of a record whose outcome is not known yet. Times in monotonic ms. @see docs/architecture.md "Outcomes" */
export interface PendingOutcome {
  ticket: Ticket
  /** When the PATCH was sent. */
  sentAt: number
  /** When the wait for an answer of the platform ended without one: it may have accepted the PATCH or not, as late as this. */
  lostAt: number | undefined
  /** The record as it was listed before the PATCH. */
  baseline: Pick<WebhookRecord, 'attempts' | 'lastAttemptLocal'>
  /** When a check, or the PATCH's answer, first showed a new attempt as failed: the doubt (`doubtMsOf`) runs from here. */
  failedSince: number | undefined
  /** When to check next. */
  checkAt: number
  /** Delay of its first check, and of the last check that showed no outcome (0 for none), in ms after the PATCH. */
  plannedMs: number
  missedMs: number
  /** True when a search by its event did not show it: then its second is searched. */
  missedByEvent: boolean
}

/** A record that the backlog holds. */
export interface FailedRecord extends Known {
  eventId: string
  awaiting: PendingOutcome | undefined
  /** Second of the event on the platform's wall clock. */
  localSecond: number
  /** Last attempt on the platform's wall clock as the platform shows it; null when it shows none. */
  lastAttemptLocal: number | null
  responseStatusCode: number | null
}

/** Second of the event on the platform's wall clock, with its fraction: zones differ by whole seconds. */
export function eventSecondOf({ eventAt, localSecond }: Pick<FailedRecord, 'eventAt' | 'localSecond'>): number {
  return localSecond + (eventAt - 1000 * Math.floor(eventAt / 1000)) / 1000
}

/** Number of the attempt that the next retry makes, by the larger count; the first is 1. */
export function nextAttempt({ attempts, tries }: Pick<FailedRecord, 'attempts' | 'tries'>): number {
  return Math.max(attempts, tries) + 1
}

/** An attempt this far ahead of the platform's clock is not believed. */
const toleratedAheadMs = 60_000

/** The later reading of an ambiguous last attempt that is not in the future; the event time when there is none. */
function lastAt(record: WebhookRecord, eventAt: number, { zone, now }: { zone: TimeZone; now: number }): number {
  if (record.lastAttemptLocal === null) return eventAt
  const last = laterReadingNotAfter(zone, record.lastAttemptLocal, now + toleratedAheadMs)
  return last > now + toleratedAheadMs ? eventAt : last
}

/** `now` in epoch ms of the platform's clock. */
export function createFailedRecord(record: WebhookRecord, when: { zone: TimeZone; now: number }): FailedRecord {
  const eventAt = laterReadingNotAfter(when.zone, record.eventLocal, when.now)
  return {
    id: record.id,
    jitterSeed: jitterSeed(record.id),
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
  }
}

/** Updates a record from a row of the platform. */
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
