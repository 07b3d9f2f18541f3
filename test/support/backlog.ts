// Policies, listings and records for the tests of what happens inside the reconcile folder.
import type { RetryAnswer } from '../../src/platform/operations.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import type { Circuits, Ticket } from '../../src/reconcile/retry/circuits.ts'
import { createOutcomes, type OutcomeEvent, type Outcomes } from '../../src/reconcile/confirm/outcomes.ts'
import { createBacklog, type Backlog, type Learned } from '../../src/reconcile/retry/backlog.ts'
import { decide, type Decision } from '../../src/reconcile/decide.ts'
import type { FailedRecord, PendingOutcome } from '../../src/reconcile/failed-record.ts'
import type { Listing } from '../../src/reconcile/sweep/list-slice.ts'
import type { Policy } from '../../src/reconcile/policy.ts'
import type { Span } from '../../src/reconcile/window.ts'
import { finish } from '../../src/runtime/steps.ts'
import { failedRecord } from './fake-platform.ts'

export const secondMs = 1000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** The platform's time in tests whose time stands still. */
export const testNow = Date.UTC(2026, 0, 15, 12)

/** The defaults of the configuration. */
export const defaultPolicy: Policy = {
  window: { lookback: 7 * dayMs, settle: minuteMs, notBefore: undefined, expiryWarning: 6 * hourMs },
  select: { eventTypes: [], modules: [], subscriptionIds: [] },
  backoff: { initial: minuteMs, multiplier: 2, max: 6 * hourMs, jitter: 0.5 },
  maxAttempts: 30,
  outcome: { firstCheck: 500, giveUpAfter: hourMs, probeTimeout: 2 * minuteMs },
  periodMs: 30_000,
}

/** The whole window, in UTC. */
export const testWindow: Span = { from: (testNow - 7 * dayMs) / 1000, to: (testNow - minuteMs) / 1000 }

/** A backlog with the outcomes of its records. */
export interface TestBacklog extends Backlog {
  outcomes: Outcomes
}

interface TestBacklogOptions {
  policy?: Partial<Policy>
  zone?: string
  maxRecords?: number
  /** Default: the platform's clock is not known. */
  knowsTime?: () => boolean
  emit?: (event: OutcomeEvent) => void
  /** Called when a retry gives its place in the circuit back, and with the verdict on its outcome. */
  free?: (ticket: Ticket) => void
  settle?: Circuits['settle']
  /** Monotonic ms, now. Default: 0. */
  monotonic?: () => number
}

export function testBacklog(options: TestBacklogOptions = {}): TestBacklog {
  const { policy: changes, zone: name = 'UTC', maxRecords = 1000 } = options
  const { emit = () => undefined, free = () => undefined, knowsTime = () => false } = options
  const { monotonic = () => 0, settle = () => undefined } = options
  const policy = { ...defaultPolicy, ...changes }
  const zone = createTimeZone(name)
  const backlog = createBacklog({ policy, zone, maxRecords, isClosed: () => true })
  const outcomes = createOutcomes({
    backlog,
    circuits: { settle, free },
    planner: { released: () => undefined },
    policy: policy.outcome,
    zone,
    knowsTime,
    clock: { monotonic },
    emit,
    wake: { confirm: () => undefined, retry: () => undefined },
  })
  return Object.assign(backlog, { outcomes })
}

export interface WatchedBacklog {
  backlog: TestBacklog
  /** Outcomes so far. */
  settled: OutcomeEvent[]
  /** Places in a circuit that were given back without an outcome. */
  freed: Ticket[]
  /** Ids and outcomes so far. */
  outcomes: () => [string, OutcomeEvent['outcome']][]
  /** How far attempts were off, where an outcome shows it. */
  offsets: () => number[]
}

/** A backlog, and the outcomes that it shows. */
export function watchedBacklog(options: TestBacklogOptions = {}): WatchedBacklog {
  const settled: OutcomeEvent[] = []
  const freed: Ticket[] = []
  const backlog = testBacklog({
    ...options,
    emit: (event) => settled.push(event),
    free: (ticket) => freed.push(ticket),
  })
  return {
    backlog,
    settled,
    freed,
    outcomes: () => settled.map(({ webhookId: id, outcome }) => [id, outcome]),
    offsets: () => settled.flatMap(({ timeOffsetMs }) => timeOffsetMs ?? []),
  }
}

/** A place in an allowance that is not counted. */
export function ticketOf({ id, subscriptionId }: Pick<WebhookRecord, 'id' | 'subscriptionId'>): Ticket {
  return { id, subscriptionId, sent: 0 }
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

/** Takes a listing in, and into the outcomes, as a full sweep of nothing else does. */
export function learn(backlog: TestBacklog, listing: Listing, now: number): Learned {
  const end = backlog.leftOut.beginSweep({ from: listing.span.from, expiring: -Infinity })
  const learned = finish(backlog.learn(listing, now))
  const { askedAt } = listing
  for (const { record, shown } of learned.awaiting) {
    backlog.outcomes.see(record, shown, { askedAt, monotonic: askedAt, seenAt: now })
  }
  end('done')
  return learned
}

/** The entry of a record that must be there. */
export function entryOf(backlog: Backlog, record: Pick<WebhookRecord, 'id'>): FailedRecord {
  const entry = backlog.get(record.id)
  if (entry === undefined) throw new Error(`the backlog does not hold ${record.id}`)
  return entry
}

/** A subscription by its number. */
export const subscription = (number: number): string => `aaaaaaaa-0000-4000-8000-${String(number).padStart(12, '0')}`

/** A failed record of yesterday, which is due. */
export function due(fields: Partial<WebhookRecord> = {}): WebhookRecord {
  return failedRecord({ eventLocal: testNow - dayMs, ...fields })
}

export function decisionOf(backlog: Backlog, record: WebhookRecord, at = testNow): Decision {
  return decide(entryOf(backlog, record), defaultPolicy, { now: at }).decision
}

/** Notes a PATCH of this record that was sent, and answered 100 ms later, at `monotonic`. */
export function noted(
  backlog: TestBacklog,
  record: WebhookRecord,
  answer: RetryAnswer,
  monotonic = 2000,
  sentAt = testNow,
): void {
  const entry = entryOf(backlog, record)
  backlog.outcomes.begin(entry, ticketOf(record), { sentAt, monotonic: monotonic - 100 })
  backlog.outcomes.note(entry, answer, { answeredAt: sentAt + 100, monotonic })
}

/** Monotonic ms at which the PATCHes of `begun` and of `noted` are sent unless a test says otherwise. */
export const patchedAt = 1900

/** Begins a PATCH of this record. */
export function begun(
  backlog: TestBacklog,
  record: WebhookRecord,
  monotonic = patchedAt,
  sentAt = testNow,
): FailedRecord {
  const entry = entryOf(backlog, record)
  backlog.outcomes.begin(entry, ticketOf(record), { sentAt, monotonic })
  return entry
}

/** From asking to the answer, in ms. */
export const lookMs = 50

/** Looks at an entry: asked for so many ms after the PATCH that was sent at `patchedAt`, answered `lookMs` later. */
export function looked(
  backlog: TestBacklog,
  entry: FailedRecord,
  record: WebhookRecord | undefined,
  afterMs: number,
): void {
  const askedAt = patchedAt + afterMs
  backlog.outcomes.see(entry, record, { askedAt, monotonic: askedAt + lookMs, seenAt: testNow + afterMs + lookMs })
}

/** A retry under way, as the backlog knows it. */
export function awaitedOf(
  record: Pick<WebhookRecord, 'id' | 'subscriptionId'>,
  fields: Partial<PendingOutcome> = {},
): PendingOutcome {
  return {
    ticket: ticketOf(record),
    sentAt: patchedAt,
    lostAt: undefined,
    baseline: { attempts: 1, lastAttemptLocal: testNow - dayMs },
    failedSince: undefined,
    checkAt: patchedAt + 500,
    plannedMs: 500,
    missedMs: 0,
    missedByEvent: false,
    ...fields,
  }
}
