// Finds the selected records on the platform, and puts them into the backlog of a command's reconciler.
import { sliceFields } from '../../observe/log/log-reporter.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { UnreadableRow, WebhookRecord } from '../../platform/record.ts'
import { createTimeZone, laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import { maxPageSize } from '../../platform/wire.ts'
import { failureOf, isPlatformTrouble } from '../../reconcile/platform-trouble.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'
import { sweep } from '../../reconcile/sweep/sweep.ts'
import { slidingWindow, type Span } from '../../reconcile/window.ts'
import { isAbort } from '../../runtime/errors.ts'
import { finish } from '../../runtime/steps.ts'
import type { Session } from '../session.ts'
import type { RecordSelection } from './select.ts'

export interface EventRecords {
  /** Each id once, in any status. */
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows of other events: the platform ignores the filter. */
  foreign: number
}

/** An event has a record for each subscription: more pages than this do not answer the question. */
const maxPages = 10

/**
 * The records of one event, as the platform shows them now.
 * @throws PlatformFailure, TokenError, or the signal's reason
 */
export async function recordsOfEvent(
  client: PlatformClient,
  eventId: string,
  signal: AbortSignal,
  onRow?: (row: unknown) => void,
): Promise<EventRecords> {
  const records = new Map<string, WebhookRecord>()
  const unreadable: UnreadableRow[] = []
  let foreign = 0
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await client.list({ eventId, page, size: maxPageSize, ...(onRow && { onRow }) }, signal)
    for (const record of answer.records) {
      if (record.eventId.toLowerCase() === eventId.toLowerCase()) records.set(record.id.toLowerCase(), record)
      else foreign += 1
    }
    unreadable.push(...answer.unreadable)
    if (answer.rows < (answer.size ?? maxPageSize)) break
  }
  return { records: [...records.values()], unreadable, foreign }
}

export interface Gathered {
  /** `incomplete`: a part could not be listed, or a signal came before the end. */
  result: SweepReport['result']
  /** With `failed`. */
  failure?: SweepReport['failure']
  /** Selected failed records, with any decision. */
  found: number
  /** Records of the event in another status. */
  notFailed: number
  /** True when the list became shorter while it was read: all that is left was listed. */
  moved: boolean
  /** Webhook ids, and values of --type and --subscription, without a failed record. */
  notFound: readonly string[]
}

const nothing: Gathered = {
  result: 'complete',
  found: 0,
  notFailed: 0,
  moved: false,
  notFound: [],
}

/** Called with the number of records found so far. */
type OnFound = (found: number) => void

const hourMs = 3_600_000
const dayMs = 86_400_000
/** The platform has no older record. */
const beginningOfTime = Date.UTC(2000, 0, 1)

/** A span of event time on the platform's wall clock, widened where daylight saving repeats an hour. */
export function spanOf(from: number, until: number, now: number, zone: TimeZone): Span {
  const policy = { lookback: now - from, settle: now - until, notBefore: undefined, expiryWarning: 0 }
  return slidingWindow(now, policy, zone)
}

interface RecordSearch {
  session: Session
  /** Which of the listed records are meant. */
  isMeant: (record: WebhookRecord) => boolean
  /** Ends the search when all are found. */
  isDone: () => boolean
  /** Takes the meant ones of each slice. */
  take: (records: WebhookRecord[], askedAt: number) => void
  onFound: OnFound
}

/** Lists the failed records of spans, in the order of the spans. */
async function search(
  spans: readonly Span[],
  { session, ...by }: RecordSearch,
): Promise<Pick<Gathered, 'found' | 'moved' | 'result'>> {
  const { clock, config, reconciler, service, stop } = session
  const { concurrency, sliceRecords } = config.sweep
  const fence = (span: Span, signal: AbortSignal): Promise<() => void> => reconciler.dispatcher.fence(span, signal)
  const seen = new Set<string>()
  let [isComplete, moved] = [true, false]
  const options = { client: reconciler.client, monotonic: clock.monotonic, concurrency, sliceRecords, fence }
  for await (const step of sweep(spans, options, stop)) {
    if (step.skipped !== undefined) {
      isComplete = false
      service.log.event('slice_skipped', sliceFields(step.skipped))
    }
    if (step.listed === undefined) continue
    const { askedAt, complete, records, shrank = false } = step.listed
    isComplete &&= complete || shrank
    moved ||= shrank
    const meant = records.filter((record) => !seen.has(record.id.toLowerCase()) && by.isMeant(record))
    for (const { id } of meant) seen.add(id.toLowerCase())
    by.take(meant, askedAt)
    by.onFound(seen.size)
    if (by.isDone()) break
  }
  return { found: seen.size, moved, result: isComplete ? 'complete' : 'incomplete' }
}

/** The platform's time comes with its answers. */
export async function learnTime({ reconciler: { client }, stop }: Session): Promise<number> {
  if (!client.knowsTime()) await client.list({ status: 'failed', page: 0, size: 1 }, stop)
  return client.now()
}

type Take = RecordSearch['take']

async function bySpan(
  selection: Extract<RecordSelection, { by: 'span' }>,
  session: Session,
  take: Take,
  onFound: OnFound,
): Promise<Gathered> {
  const zone = createTimeZone(session.config.platform.timeZone)
  const now = await learnTime(session)
  const until = Math.min(selection.until, now)
  const missing = new Map([
    ...(selection.types ?? []).map((type) => [type, `type ${type}`] as const),
    ...(selection.subscriptions ?? []).map((id) => [id, `subscription ${id}`] as const),
    ...(selection.responses ?? []).map((response) => [response, `response ${response}`] as const),
  ])
  // The flags select, as the span does: the records of others are not reported as excluded.
  const isMeant = ({ eventLocal, eventType, responseStatusCode: code, subscriptionId }: WebhookRecord): boolean => {
    const eventAt = laterReadingNotAfter(zone, eventLocal, now)
    if (eventAt < selection.from || eventAt >= until) return false
    const subscription = subscriptionId.toLowerCase()
    const responses = code === null ? ['none'] : [String(code), `${Math.floor(code / 100)}xx`]
    for (const word of [eventType, subscription, ...responses]) missing.delete(word)
    return (
      (selection.types ?? [eventType]).includes(eventType) &&
      (selection.subscriptions ?? [subscription]).includes(subscription) &&
      (selection.responses ?? responses).some((one) => responses.includes(one))
    )
  }
  const { from, to } = spanOf(selection.from, until, now, zone)
  // A second more, as `until` may lie within one: each record's own time decides.
  const spans = [{ from, to: to + 1 }]
  const done = await search(spans, { session, isMeant, isDone: () => false, take, onFound })
  return { ...nothing, ...done, notFound: [...missing.values()] }
}

/** Lists failed records by id, the newest first: most named records are of today. `missing` keeps the ids not found. */
export async function searchIds(
  missing: Set<string>,
  session: Session,
  take: Take,
  onFound: OnFound = () => undefined,
): Promise<Pick<Gathered, 'found' | 'moved' | 'result'>> {
  const zone = createTimeZone(session.config.platform.timeZone)
  const now = await learnTime(session)
  const edges = [now + dayMs, now - hourMs, now - dayMs, now - 7 * dayMs, beginningOfTime]
  const second = (at: number): number => Math.floor(zone.toLocal(at) / 1000)
  const spans = edges.slice(1).map((from, index) => ({ from: second(from), to: second(edges[index] ?? now) }))
  const isMeant = ({ id }: WebhookRecord): boolean => missing.delete(id.toLowerCase())
  return search(spans, { session, isMeant, isDone: () => missing.size === 0, take, onFound })
}

async function byIds(ids: readonly string[], session: Session, take: Take, onFound: OnFound): Promise<Gathered> {
  const missing = new Set(ids)
  const done = await searchIds(missing, session, take, onFound)
  return { ...nothing, ...done, notFound: [...missing].map((id) => `webhook id ${id}`) }
}

async function byEvent(eventId: string, session: Session, take: Take, onFound: OnFound): Promise<Gathered> {
  const askedAt = session.clock.monotonic()
  const { records } = await recordsOfEvent(session.reconciler.client, eventId, session.stop)
  const failed = records.filter(({ status }) => status === 'failed')
  take(failed, askedAt)
  onFound(failed.length)
  return { ...nothing, found: failed.length, notFailed: records.length - failed.length }
}

/** Puts records into the backlog, as if a sweep had listed them. */
function createTake({ reconciler }: Session): Take {
  return (records, askedAt) => {
    if (records.length === 0) return
    const particulars = { unreadable: [], unexpected: { time: 0, status: 0 }, missedTotal: undefined }
    // Not complete: it says nothing of the records that it does not show.
    const listing = { span: { from: 0, to: 0 }, askedAt, records, complete: false, ...particulars }
    finish(reconciler.backlog.learn(listing, reconciler.client.now()))
    reconciler.planner.changed()
  }
}

/** True when nothing but the shrinking of the list kept the sweep from being complete. */
function isReadUpToShrinking({ incompleteSlices, result, shrunkSlices, skippedSlices }: SweepReport): boolean {
  return result === 'incomplete' && skippedSlices === 0 && incompleteSlices === shrunkSlices
}

async function list(selection: RecordSelection, session: Session, onFound: OnFound): Promise<Gathered> {
  if (selection.by === 'due') {
    const report = await session.reconciler.sweeper.make('full', session.stop)
    const { failure, listed, shrunkSlices } = report
    return {
      ...nothing,
      found: listed,
      result: isReadUpToShrinking(report) ? 'complete' : report.result,
      moved: shrunkSlices > 0,
      ...(failure !== undefined && { failure }),
    }
  }
  const take = createTake(session)
  if (selection.by === 'ids') return byIds(selection.ids, session, take, onFound)
  if (selection.by === 'event') return byEvent(selection.eventId, session, take, onFound)
  return bySpan(selection, session, take, onFound)
}

/** Finds the selected records; afterwards the backlog holds them. Trouble of the platform is a result, not an error. */
export async function gather(selection: RecordSelection, session: Session, onFound: OnFound): Promise<Gathered> {
  try {
    return await list(selection, session, onFound)
  } catch (error) {
    if (isAbort(error, session.stop))
      return { ...nothing, result: 'incomplete', found: session.reconciler.backlog.size() }
    if (!isPlatformTrouble(error)) throw error
    return { ...nothing, result: 'failed', failure: failureOf(error) }
  }
}
