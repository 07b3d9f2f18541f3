// Finds the records that `retry` is asked for, and puts them into an reconciler's backlog.
import type { PlatformClient } from '../platform/client.ts'
import { createTimeZone, laterReadingNotAfter, type TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import type { Recount } from '../reconcile/retry/left-out.ts'
import { sweep } from '../reconcile/sweep/sweep.ts'
import { slidingWindow, type Span } from '../reconcile/window.ts'
import { recordsOfEvent } from './event-records.ts'
import type { Choice } from './retry-choice.ts'
import type { Session } from './session.ts'

export interface Gathered {
  /** Failed records that were asked for, whether they may be retried or not. */
  found: number
  /** Records of the event that are not failed: nothing is to be done for them. */
  notFailed: number
  /** Ids that are not among the failed records: the platform is asked for these by id alone. */
  onlyById: ReadonlySet<string>
  /** False when a part of what was asked for could not be listed. */
  complete: boolean
  /** True when the list became shorter while it was read: all that is left was listed. */
  moved: boolean
  /** Values of --type and --subscription of which there is no failed record. */
  notFound: readonly string[]
}

type Heard = (found: number) => void

const hourMs = 3_600_000
const dayMs = 86_400_000
/** Nothing the platform holds is older. */
const beginningOfTime = Date.UTC(2000, 0, 1)

/** A span of event time on the platform's wall clock, widened where daylight saving repeats an hour. */
function spanOf(from: number, until: number, now: number, zone: TimeZone): Span {
  const policy = { lookbackMs: now - from, settleMs: now - until, notBefore: undefined, expiryWarningMs: 0 }
  return slidingWindow(now, policy, zone)
}

/** Puts records into the backlog, as if a sweep had listed them. */
function take(records: WebhookRecord[], { reconciler }: Session, askedAt: number, recount: Recount): void {
  if (records.length === 0) return
  const span: Span = { from: 0, to: 0 }
  // Not complete: it says nothing of what it does not show.
  const listing = {
    span,
    askedAt,
    records,
    unreadable: [],
    unexpected: { time: 0, status: 0 },
    complete: false,
    missedTotal: undefined,
  }
  reconciler.backlog.learn(listing, reconciler.client.now(), recount)
  reconciler.planner.changed()
}

interface Search {
  session: Session
  recount: Recount
  /** Which of the listed records are meant. */
  isMeant: (record: WebhookRecord) => boolean
  /** Ends the search when it has found all. */
  isDone: () => boolean
  heard: Heard
}

/** Lists the failed records of spans, in their order. */
async function search(
  spans: readonly Span[],
  { session, ...by }: Search,
): Promise<{ found: number; complete: boolean; moved: boolean }> {
  const { config, reconciler, service, stop } = session
  const { concurrency, sliceRecords } = config.sweep
  const fence = (span: Span, signal: AbortSignal): Promise<() => void> => reconciler.dispatcher.fence(span, signal)
  const seen = new Set<string>()
  const { monotonic } = session.clock
  let complete = true
  let moved = false
  const options = { client: reconciler.client, monotonic, concurrency, sliceRecords, fence }
  for await (const step of sweep(spans, options, stop)) {
    if ('skipped' in step) {
      complete = false
      service.log.event('retry_slice_skipped', { reason: step.skipped.reason })
      continue
    }
    const { listed } = step
    complete &&= listed.complete || listed.shrank === true
    moved ||= listed.shrank === true
    const meant = listed.records.filter((record) => !seen.has(record.id.toLowerCase()) && by.isMeant(record))
    for (const { id } of meant) seen.add(id.toLowerCase())
    take(meant, session, listed.askedAt, by.recount)
    by.heard(seen.size)
    if (by.isDone()) break
  }
  return { found: seen.size, complete, moved }
}

/** The platform's time comes with its answers. */
async function learnTime(client: PlatformClient, stop: AbortSignal): Promise<number> {
  if (!client.knowsTime()) await client.list({ status: 'failed', page: 0, size: 1 }, stop)
  return client.now()
}

async function bySpan(
  choice: Extract<Choice, { kind: 'span' }>,
  session: Session,
  recount: Recount,
  heard: Heard,
): Promise<Gathered> {
  const zone = createTimeZone(session.config.platform.timeZone)
  const now = await learnTime(session.reconciler.client, session.stop)
  const until = Math.min(choice.until, now)
  const missing = new Map([
    ...(choice.types ?? []).map((type) => [type, `type ${type}`] as const),
    ...(choice.subscriptions ?? []).map((id) => [id, `subscription ${id}`] as const),
  ])
  // The flags choose, as the span does: the records of others were not asked for, and are not told as excluded.
  const isMeant = ({ eventLocal, eventType, subscriptionId }: WebhookRecord): boolean => {
    const eventAt = laterReadingNotAfter(zone, eventLocal, now)
    if (eventAt < choice.from || eventAt >= until) return false
    const subscription = subscriptionId.toLowerCase()
    missing.delete(eventType)
    missing.delete(subscription)
    return (
      (choice.types ?? [eventType]).includes(eventType) &&
      (choice.subscriptions ?? [subscription]).includes(subscription)
    )
  }
  const { from, to } = spanOf(choice.from, until, now, zone)
  // A second more, as `until` may lie within one: what is not meant is sorted out by its own time.
  const spans = [{ from, to: to + 1 }]
  const done = await search(spans, { session, recount, isMeant, isDone: () => false, heard })
  return { ...done, notFailed: 0, onlyById: new Set(), notFound: [...missing.values()] }
}

/** Some platforms tell attempts to the second. */
const attemptPrecisionMs = 2000
/** Later than any attempt. */
const endOfTime = Date.UTC(9999, 0, 1)

/**
 * A record of which nothing is known but its id. What its answer shows must not pass for an attempt that we made: so it
 * begins with as many as it may have, and a last one that nothing comes after.
 */
function bareRecord(id: string, eventLocal: number, { policy }: Session): WebhookRecord {
  return {
    id,
    eventId: '',
    subscriptionId: '',
    status: 'failed',
    attempts: policy.maxAttempts - 1,
    eventLocal,
    lastAttemptLocal: endOfTime,
    eventType: '',
    module: '',
    responseStatusCode: null,
  }
}

/** Looks among the newest first: who names a record mostly means one of today. */
async function byIds(ids: readonly string[], session: Session, recount: Recount, heard: Heard): Promise<Gathered> {
  const zone = createTimeZone(session.config.platform.timeZone)
  const { client } = session.reconciler
  const now = await learnTime(client, session.stop)
  const missing = new Set(ids)
  const edges = [now + dayMs, now - hourMs, now - dayMs, now - 7 * dayMs, beginningOfTime]
  const second = (at: number): number => Math.floor(zone.toLocal(at) / 1000)
  const spans = edges.slice(1).map((from, index) => ({ from: second(from), to: second(edges[index] ?? now) }))
  const isMeant = ({ id }: WebhookRecord): boolean => missing.delete(id.toLowerCase())
  const done = await search(spans, { session, recount, isMeant, isDone: () => missing.size === 0, heard })
  const askedAt = session.clock.monotonic()
  const bare = [...missing].map((id) => bareRecord(id, zone.toLocal(now - hourMs), session))
  take(bare, session, askedAt, recount)
  return { ...done, notFailed: 0, onlyById: missing, notFound: [] }
}

async function byEvent(eventId: string, session: Session, recount: Recount, heard: Heard): Promise<Gathered> {
  const askedAt = session.clock.monotonic()
  const { records } = await recordsOfEvent(session.reconciler.client, eventId, session.stop)
  const failed = records.filter(({ status }) => status === 'failed')
  take(failed, session, askedAt, recount)
  heard(failed.length)
  const notFailed = records.length - failed.length
  return { found: failed.length, notFailed, onlyById: new Set(), complete: true, moved: false, notFound: [] }
}

/**
 * Takes in what the answer to a retry shows of a record that was known by its id alone, before the answer is judged: now
 * its outcome can be looked for.
 */
export function adopt(record: WebhookRecord, { config, reconciler }: Session): void {
  const entry = reconciler.backlog.get(record.id)
  if (entry?.awaiting === undefined) return
  const zone = createTimeZone(config.platform.timeZone)
  const now = reconciler.client.now()
  const { attempts, eventId, eventLocal, eventType, lastAttemptLocal, module, status, subscriptionId } = record
  const eventAt = laterReadingNotAfter(zone, eventLocal, now)
  const lastAt = lastAttemptLocal === null ? -Infinity : laterReadingNotAfter(zone, lastAttemptLocal, now)
  // A failed attempt of this very moment is the one that was asked for; an older one is what there was before.
  const showsOurs = status === 'failed' && lastAt >= entry.triedAt - attemptPrecisionMs
  Object.assign(entry, { eventId, eventType, module, subscriptionId, eventAt, attempts, lastAttemptLocal })
  entry.localSecond = Math.floor(eventLocal / 1000)
  entry.awaiting.baseline = showsOurs
    ? { attempts: attempts - 1, lastAttemptLocal: null }
    : { attempts, lastAttemptLocal }
}

/**
 * Finds what is asked for; afterwards the backlog holds what may be retried, and what is parked.
 * @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function gather(choice: Choice, session: Session, heard: Heard): Promise<Gathered> {
  const recount = session.reconciler.backlog.leftOut.begin({ from: -Infinity, expiring: -Infinity })
  const gathered = await (choice.kind === 'ids'
    ? byIds(choice.ids, session, recount, heard)
    : choice.kind === 'event'
      ? byEvent(choice.eventId, session, recount, heard)
      : bySpan(choice, session, recount, heard))
  recount.commit(true)
  // Where events of one entity go in their order, it is that of the chosen ones.
  session.reconciler.planner.sawAll()
  return gathered
}
