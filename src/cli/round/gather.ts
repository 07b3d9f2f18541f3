// Finds the selected records on the platform, and puts them into the backlog of a command's reconciler.
import { sliceFields } from '../../observe/log/log-reporter.ts'
import type { PlatformClient } from '../../platform/client.ts'
import {
  createUnreadableSum,
  type UnreadableRow,
  type UnreadableSum,
  type WebhookRecord,
} from '../../platform/record.ts'
import { maxPageSize } from '../../platform/wire.ts'
import { failureOf, type CallFailure } from '../../reconcile/platform-trouble.ts'
import { sumOf } from '../../reconcile/reasons.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'
import { sweep, type SweepOptions, type SweepStep } from '../../reconcile/sweep/sweep.ts'
import { sumOfUnlisted, type UnlistedPart, type UnlistedSum } from '../../reconcile/sweep/unlistable.ts'
import type { Span } from '../../reconcile/window.ts'
import { isAbort } from '../../runtime/errors.ts'
import { finish } from '../../runtime/steps.ts'
import type { Session } from '../session.ts'
import { createSpanFilter, type RecordSelection } from './select.ts'

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

/** The part of the report that follows from the listing. */
export interface Gathered {
  listing: {
    /** `incomplete`: a part could not be listed, or a signal came before the end. */
    result: SweepReport['result']
    /** Selected failed records, with any decision. */
    found: number
    /** True when the list became shorter while it was read: all that is left was listed. */
    moved: boolean
    /** Rows that could not be read: each may be a selected record. */
    unreadable: UnreadableSum | null
    /** Parts that could not be listed. */
    unlisted: UnlistedSum | null
    /** With `failed`. */
    failure?: CallFailure
  }
  /** Selected failed records that are excluded. */
  excluded: number
  /** Records of the event in another status. */
  notFailed: number
  /** Selected by name, and without a failed record: `type account-activated`, `webhook id ...`. */
  notFound: readonly string[]
}

const wholeListing = { result: 'complete', found: 0, moved: false, unreadable: null, unlisted: null } as const

function gathered(listing: Partial<Gathered['listing']>, more: Partial<Gathered> = {}): Gathered {
  const none = { excluded: 0, notFailed: 0, notFound: [] }
  return { listing: { ...wholeListing, ...listing }, ...none, ...more }
}

const hourMs = 3_600_000
const dayMs = 86_400_000
/** The platform has no older record. */
const beginningOfTime = Date.UTC(2000, 0, 1)

/** Lists spans in their order, slice by slice. */
export function listSpans(
  spans: readonly Span[],
  { clock, policy, reconciler, stop }: Session,
  more: Partial<Pick<SweepOptions, 'client' | 'status'>> = {},
): AsyncIterable<SweepStep> {
  const { client, dispatcher } = reconciler
  const fence: SweepOptions['fence'] = (span, signal) => dispatcher.fence(span, signal)
  return sweep(spans, { client, monotonic: clock.monotonic, ...policy.sweep, fence, ...more }, stop)
}

interface RecordSearch {
  /** Which of the listed records are meant. */
  isMeant: (record: WebhookRecord) => boolean
  /** Ends the search when all are found. */
  isDone?: () => boolean
  /** Takes the meant ones of each slice. */
  take: (records: WebhookRecord[], askedAt: number) => void
}

type Take = RecordSearch['take']

/** Looks for failed records in spans. */
async function search(spans: readonly Span[], session: Session, by: RecordSearch): Promise<Gathered['listing']> {
  const seen = new Set<string>()
  const unreadable = createUnreadableSum()
  const unlisted: Pick<UnlistedPart, 'failure' | 'span'>[] = []
  let [isComplete, moved] = [true, false]
  for await (const { listed, skipped } of listSpans(spans, session)) {
    if (skipped !== undefined) {
      isComplete = false
      session.service.log.event('slice_skipped', sliceFields(skipped))
      const { failure, span } = skipped
      if (failure !== undefined) unlisted.push({ failure, span })
    }
    if (listed === undefined) continue
    const { askedAt, records, verdict } = listed
    isComplete &&= verdict === 'whole' || verdict === 'shrank'
    moved ||= verdict === 'shrank'
    unreadable.add(listed.unreadable)
    const meant = records.filter((record) => !seen.has(record.id.toLowerCase()) && by.isMeant(record))
    for (const { id } of meant) seen.add(id.toLowerCase())
    by.take(meant, askedAt)
    if (by.isDone?.() === true) break
  }
  if (isComplete || by.isDone?.() === true) return { ...wholeListing, found: seen.size, moved }
  const sums = { unreadable: unreadable.sum() ?? null, unlisted: sumOfUnlisted(unlisted) ?? null }
  return { result: 'incomplete', found: seen.size, moved, ...sums }
}

/** The platform's time comes with its answers. */
export async function learnTime({ reconciler: { client }, stop }: Session): Promise<number> {
  if (!client.knowsTime()) await client.list({ status: 'failed', page: 0, size: 1 }, stop)
  return client.now()
}

/** Lists failed records by id, the newest first: most named records are of today. */
export async function searchIds(ids: readonly string[], session: Session, take: Take): Promise<Gathered> {
  const missing = new Set(ids)
  const now = await learnTime(session)
  const edges = [now + dayMs, now - hourMs, now - dayMs, now - 7 * dayMs, beginningOfTime]
  const second = (at: number): number => Math.floor(session.connection.zone.toLocal(at) / 1000)
  const spans = edges.slice(1).map((from, index) => ({ from: second(from), to: second(edges[index] ?? now) }))
  const isMeant = ({ id }: WebhookRecord): boolean => missing.delete(id.toLowerCase())
  const listing = await search(spans, session, { isMeant, isDone: () => missing.size === 0, take })
  return gathered(listing, { notFound: [...missing].map((id) => `webhook id ${id}`) })
}

/** True when nothing but the shrinking of the list kept the sweep from being complete. */
function isReadUpToShrinking({ incompleteSlices, result, shrunkSlices, skippedSlices }: SweepReport): boolean {
  return result === 'incomplete' && skippedSlices === 0 && incompleteSlices === shrunkSlices
}

/** Puts records into the backlog, as if a sweep had listed them. Returns the number of excluded ones. */
function learn({ backlog, client, planner }: Session['reconciler'], records: WebhookRecord[], askedAt: number): number {
  if (records.length === 0) return 0
  const particulars = { unreadable: [], unexpected: { time: 0, status: 0 }, total: undefined }
  // It says nothing of the records that it does not show.
  const listing = { span: { from: 0, to: 0 }, askedAt, records, verdict: 'missed', ...particulars } as const
  const { changed, excluded } = finish(backlog.learn(listing, client.now()))
  planner.changed(changed)
  return sumOf(excluded)
}

async function list(selection: RecordSelection, session: Session): Promise<Gathered> {
  const { clock, connection, reconciler, stop } = session
  let excluded = 0
  const take: Take = (records, askedAt) => {
    excluded += learn(reconciler, records, askedAt)
  }
  switch (selection.by) {
    case 'due': {
      const report = await reconciler.sweeper.make('full', stop)
      const { failure, listed: found, shrunkSlices } = report
      const result = isReadUpToShrinking(report) ? 'complete' : report.result
      const unreadable = reconciler.sweeper.findings().unreadable ?? null
      const unlisted = sumOfUnlisted(reconciler.sweeper.unlisted()) ?? null
      const listing = { result, found, moved: shrunkSlices > 0, unreadable, unlisted, ...(failure && { failure }) }
      return gathered(listing, { excluded: sumOf(reconciler.sweeper.findings().excluded) })
    }
    case 'ids':
      return { ...(await searchIds(selection.ids, session, take)), excluded }
    case 'event': {
      const askedAt = clock.monotonic()
      const { records, unreadable: rows } = await recordsOfEvent(reconciler.client, selection.eventId, stop)
      const unreadable = createUnreadableSum()
      unreadable.add(rows)
      const sum = unreadable.sum() ?? null
      const result = sum === null ? 'complete' : 'incomplete'
      const failed = records.filter(({ status }) => status === 'failed')
      take(failed, askedAt)
      return gathered(
        { result, found: failed.length, unreadable: sum },
        { excluded, notFailed: records.length - failed.length },
      )
    }
    case 'span': {
      // The flags select, as the span does: the records of others are not reported as excluded.
      const { isMeant, span, unseen } = createSpanFilter(selection, connection.zone, await learnTime(session))
      const listing = await search([span], session, { isMeant, take })
      return gathered(listing, { excluded, notFound: unseen() })
    }
  }
}

/** Finds the selected records; afterwards the backlog holds them. Trouble of the platform is a result, not an error. */
export async function gather(selection: RecordSelection, session: Session): Promise<Gathered> {
  try {
    return await list(selection, session)
  } catch (error) {
    if (isAbort(error, session.stop))
      return gathered({ result: 'incomplete', found: session.reconciler.backlog.size() })
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return gathered({ result: 'failed', failure })
  }
}
