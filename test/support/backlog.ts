// Policies, listings and records for the tests of what happens inside the reconcile folder.
import type { RetryResponse } from '../../src/platform/operations.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { Outcomes } from '../../src/reconcile/confirm/outcomes.ts'
import type { Backlog, Learned } from '../../src/reconcile/retry/backlog.ts'
import type { FailedRecord } from '../../src/reconcile/failed-record.ts'
import type { Listing } from '../../src/reconcile/sweep/list-slice.ts'
import type { Policy } from '../../src/reconcile/policy.ts'
import type { Span } from '../../src/reconcile/window.ts'
import { toPolicy } from '../../src/reconciler.ts'
import { finish } from '../../src/runtime/steps.ts'
import { loadWith } from './configuration.ts'
import { failedRecord } from './records.ts'

export const secondMs = 1000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** The platform's time in tests whose time stands still. */
export const testNow = Date.UTC(2026, 0, 15, 12)

/** The defaults of the configuration. */
export const defaultPolicy: Policy = toPolicy(loadWith({}).config, 30_000)

/** The whole window, in UTC. */
const testWindow: Span = { from: (testNow - 7 * dayMs) / 1000, to: (testNow - minuteMs) / 1000 }

/** A backlog with the outcomes of its records. */
export interface TestBacklog extends Backlog {
  outcomes: Outcomes
}

/** A whole listing of the whole window, asked for at monotonic 1000. */
export function listingOf(records: WebhookRecord[], fields: Partial<Listing> = {}): Listing {
  return {
    span: testWindow,
    askedAt: 1000,
    records,
    unreadable: [],
    unexpected: { time: 0, status: 0 },
    verdict: 'whole',
    total: undefined,
    ...fields,
  }
}

/** Takes a listing in, and into the outcomes, as a full sweep of nothing else does. */
export function learn(backlog: TestBacklog, listing: Listing, now: number): Learned {
  const learned = finish(backlog.learn(listing, now))
  const { askedAt } = listing
  for (const { record, shown } of learned.awaiting) {
    backlog.outcomes.see(record, shown, { askedAt, monotonic: askedAt, seenAt: now })
  }
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

/** Begins a PATCH of this record, sent at monotonic 1900. */
export function begun(backlog: TestBacklog, record: WebhookRecord, monotonic = 1900): FailedRecord {
  const entry = entryOf(backlog, record)
  backlog.outcomes.begin(entry, 0, { sentAt: testNow, monotonic })
  return entry
}

/** Notes a PATCH of this record that was sent, and answered 100 ms later, at `monotonic`. */
export function noted(backlog: TestBacklog, record: WebhookRecord, answer: RetryResponse, monotonic = 2000): void {
  const entry = begun(backlog, record, monotonic - 100)
  backlog.outcomes.note(entry, answer, { respondedAt: testNow + 100, monotonic })
}
