// Policies, listings and records for the tests of what happens inside the reconcile folder.
import type { RetryAnswer } from '../../src/platform/client.ts'
import { createZone } from '../../src/platform/local-time.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { Ticket } from '../../src/reconcile/retry/circuits.ts'
import type { PendingOutcome } from '../../src/reconcile/confirm/awaited.ts'
import {
  createBacklog,
  type Backlog,
  type BacklogOptions,
  type Learned,
  type Settled,
} from '../../src/reconcile/retry/backlog.ts'
import { decide, type Decision } from '../../src/reconcile/decide.ts'
import type { FailedRecord, TimeOffset } from '../../src/reconcile/failed-record.ts'
import type { Listing } from '../../src/reconcile/sweep/list-slice.ts'
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
  window: { lookbackMs: 7 * dayMs, settleMs: minuteMs, notBefore: undefined, expiryWarningMs: 6 * hourMs },
  select: { eventTypes: [], modules: [], subscriptionIds: [] },
  backoff: { initialMs: minuteMs, multiplier: 2, maxMs: 6 * hourMs, jitter: 0.5 },
  maxAttempts: 30,
  enabled: true,
  orderPerEntity: false,
  outcome: { firstLookMs: 500, doubtMs: 2000, giveUpAfterMs: hourMs, lostAfterMs: 2 * minuteMs },
  periodMs: 30_000,
}

/** The whole window, in UTC. */
export const testWindow: Span = { from: (testNow - 7 * dayMs) / 1000, to: (testNow - minuteMs) / 1000 }

export function testBacklog(
  options: { policy?: Partial<Policy>; zone?: string; maxRecords?: number } & Pick<
    BacklogOptions,
    'isShut' | 'onSettled' | 'onUndecided'
  > = {},
): Backlog {
  const { policy, zone = 'UTC', maxRecords = 1000, ...hooks } = options
  return createBacklog({ ...hooks, policy: { ...defaultPolicy, ...policy }, zone: createZone(zone), maxRecords })
}

export interface WatchedBacklog {
  backlog: Backlog
  /** What it has told so far. */
  settled: Settled[]
  undecided: PendingOutcome[]
  /** Ids and outcomes that it has told so far. */
  outcomes: () => [string, Settled['outcome']][]
}

/** A backlog, and what it tells of outcomes. */
export function watchedBacklog(options: Parameters<typeof testBacklog>[0] = {}): WatchedBacklog {
  const settled: Settled[] = []
  const undecided: PendingOutcome[] = []
  const backlog = testBacklog({
    ...options,
    onSettled: (one) => settled.push(one),
    onUndecided: (one) => undecided.push(one),
  })
  return { backlog, settled, undecided, outcomes: () => settled.map(({ entry, outcome }) => [entry.id, outcome]) }
}

/** A place in an allowance that nobody counts. */
export function ticketOf({ id, subscriptionId }: Pick<WebhookRecord, 'id' | 'subscriptionId'>): Ticket {
  return { id, subscriptionId }
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
export function entryOf(backlog: Backlog, record: Pick<WebhookRecord, 'id'>): FailedRecord {
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

/** Notes a PATCH of this record that was sent, and answered 100 ms later, at `monotonic`. */
export function noted(
  backlog: Backlog,
  record: WebhookRecord,
  answer: RetryAnswer,
  monotonic = 2000,
  sentAt = testNow,
): TimeOffset | undefined {
  const entry = entryOf(backlog, record)
  backlog.begin(entry, ticketOf(record), { sentAt, monotonic: monotonic - 100 })
  return backlog.note(entry, answer, { answeredAt: sentAt + 100, monotonic })
}

/** Monotonic ms at which the PATCHes of `begun` and of `noted` are sent unless a test says otherwise. */
export const patchedAt = 1900

/** Begins a PATCH of this record. */
export function begun(backlog: Backlog, record: WebhookRecord, monotonic = patchedAt, sentAt = testNow): FailedRecord {
  const entry = entryOf(backlog, record)
  backlog.begin(entry, ticketOf(record), { sentAt, monotonic })
  return entry
}

/** Looks at an entry: asked for so many ms after the PATCH that was sent at `patchedAt`, answered 50 ms later. */
export function looked(
  backlog: Backlog,
  entry: FailedRecord,
  record: WebhookRecord | undefined,
  afterMs: number,
): TimeOffset | undefined {
  const askedAt = patchedAt + afterMs
  return backlog.see(entry, record, { askedAt, monotonic: askedAt + 50, seenAt: testNow + afterMs + 50 })
}

/** A retry under way, as the backlog knows it. */
export function awaitedOf(
  record: Pick<WebhookRecord, 'id' | 'subscriptionId'>,
  fields: Partial<PendingOutcome> = {},
): PendingOutcome {
  return {
    ticket: ticketOf(record),
    sentAt: patchedAt,
    inFlight: false,
    lost: false,
    listed: { attempts: 1, lastAttemptLocal: testNow - dayMs },
    failedSince: undefined,
    checkAt: patchedAt + 500,
    missedByEvent: false,
    ...fields,
  }
}
