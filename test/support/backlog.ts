// Policies, listings and records for the tests of what happens inside the reconcile folder.
import type { RetryAnswer } from '../../src/platform/client.ts'
import { createZone } from '../../src/platform/local-time.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import { createBacklog, type Backlog, type Learned, type Noted } from '../../src/reconcile/backlog.ts'
import { decide, type Decision } from '../../src/reconcile/decide.ts'
import type { Entry } from '../../src/reconcile/entry.ts'
import type { Listing } from '../../src/reconcile/listing.ts'
import type { Policy } from '../../src/reconcile/policy.ts'
import type { Span } from '../../src/reconcile/window.ts'
import { failedRecord } from './fake-platform.ts'

export const secondMs = 1000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** The platform's time in tests whose time stands still. */
export const testNow = Date.UTC(2026, 0, 15, 12)

/** The defaults of the configuration. */
export const defaultPolicy: Policy = {
  window: { lookbackMs: 7 * dayMs, settleMs: minuteMs, notBefore: undefined },
  select: { eventTypes: [], modules: [], subscriptionIds: [] },
  backoff: { initialMs: minuteMs, multiplier: 2, maxMs: 6 * hourMs, jitter: 0.5 },
  maxAttempts: 30,
  enabled: true,
  periodMs: 30_000,
}

/** The whole window, in UTC. */
export const testWindow: Span = { from: (testNow - 7 * dayMs) / 1000, to: (testNow - minuteMs) / 1000 }

export function testBacklog(options: { policy?: Partial<Policy>; zone?: string; maxRecords?: number } = {}): Backlog {
  const { policy, zone = 'UTC', maxRecords = 1000 } = options
  return createBacklog({ policy: { ...defaultPolicy, ...policy }, zone: createZone(zone), maxRecords })
}

/** A complete listing of the whole window, asked for at monotonic 1000. */
export function listingOf(records: WebhookRecord[], fields: Partial<Listing> = {}): Listing {
  return {
    span: testWindow,
    askedAt: 1000,
    records,
    unreadable: [],
    unexpected: { time: 0, status: 0 },
    complete: true,
    missedTotal: undefined,
    ...fields,
  }
}

/** Takes a listing in, and into the count of its span, as a sweep does. */
export function learn(backlog: Backlog, listing: Listing, now: number): Learned {
  const count = backlog.census.begin(listing.span)
  const learned = backlog.learn(listing, now, count)
  count.commit()
  return learned
}

/** The entry of a record that must be there. */
export function entryOf(backlog: Backlog, record: Pick<WebhookRecord, 'id'>): Entry {
  const entry = backlog.get(record.id)
  if (entry === undefined) throw new Error(`the backlog does not hold ${record.id}`)
  return entry
}

/** A failed record of yesterday, which is due. */
export function due(fields: Partial<WebhookRecord> = {}): WebhookRecord {
  return failedRecord({ eventLocal: testNow - dayMs, ...fields })
}

export function decisionOf(backlog: Backlog, record: WebhookRecord, at = testNow): Decision {
  return decide(entryOf(backlog, record), defaultPolicy, { now: at, held: false }).decision
}

/** What is noted of a PATCH of this record that was answered 100 ms after it was sent. */
export function noted(
  backlog: Backlog,
  record: WebhookRecord,
  answer: RetryAnswer,
  monotonic = 2000,
  sentAt = testNow,
): Noted {
  return backlog.note(entryOf(backlog, record), answer, { sentAt, answeredAt: sentAt + 100, monotonic })
}
