// Records for a request, a page at a time, each with its decision and the reason. @see docs/status.md "Records"
import { readReceiverResponse, type ReceiverResponse } from '../platform/record.ts'
import type { TimeZone } from '../platform/time-zone.ts'
import type { Reconciler } from '../reconciler.ts'
import { decide, type Situation } from '../reconcile/decide.ts'
import { maxUnsweptMs } from '../reconcile/sweep/sweep-report.ts'
import { FailedRecord } from '../reconcile/failed-record.ts'
import { maxNamed } from '../reconcile/books/hours.ts'
import { failureOf, sentencesOf } from '../reconcile/platform-trouble.ts'
import type { Policy } from '../reconcile/policy.ts'
import { sumOf } from '../reconcile/reasons.ts'
import { deadline, type Clock } from '../runtime/clock.ts'
import { count, counted } from '../runtime/counted.ts'
import { isAbort } from '../runtime/errors.ts'
import { finishInTurns, type Turn } from '../runtime/steps.ts'
import { matcherOf, type RecordFilter } from './filter.ts'
import { joined, type FoundRecords, type Lister } from './listing.ts'
import { inOrder, pageOf, type ListPlace } from './memory.ts'
import { explainRecord, type ExplainedRecord } from './shown-record.ts'

export interface RecordsRequest {
  filter: RecordFilter
  limit: number
  after: ListPlace | undefined
}

/** The records of a page come in batches, so that a slow reader costs only its own memory. */
export interface RecordsPage {
  source: 'memory' | 'platform'
  isEmpty: boolean
  batches: AsyncIterable<readonly ExplainedRecord[]>
  /** The last record, if more may follow; undefined: complete. */
  next: { id: string; localSecond: number } | undefined
  /** Requested webhook ids that are not among the failed records. */
  notFound: readonly string[]
  /** Why matching records may be missing. */
  incomplete: string | undefined
  /** The failure that ended the list: `next` continues there. */
  error: string | undefined
}

export interface RecordsOptions {
  lister: Lister
  zone: TimeZone
  reconciler: () => Reconciler
  policy: Policy
  seenWindow: () => SeenWindow
  /** See `newerGapOf`. */
  newerGap: () => string | undefined
  clock: Pick<Clock, 'monotonic' | 'timer'>
  turn: Turn
}

export interface RecordsReader {
  /** `failure`: why the platform, which has more, could not be queried. */
  fromMemory(request: RecordsRequest, failure?: string): Promise<RecordsPage>
  /** True if the backlog may lack matching records: those of a delivered event, excluded ones, and those before the window. */
  needsPlatform(filter: RecordFilter): boolean
  /** As the platform shows them now, with what the daemon knows of those it holds. The filter has an event, ids, or a start. */
  fromPlatform(request: RecordsRequest): Promise<RecordsPage>
  /** The receiver's responses to an event; none is stored. */
  receiverResponses(eventId: string): Promise<ReceiverResponse[] | { error: string }>
}

/** Records per batch: about 150 KB of text. */
const batchRecords = 250

/** The part of the window that the last full sweep saw; `nothing` before the first. */
export type SeenWindow = 'nothing' | 'part' | 'all'

/** Why the backlog may lack matching records; undefined if it lacks none. */
export function gapsOf({ backlog, sweeper }: Reconciler, seen: SeenWindow): string | undefined {
  const [left, unlisted, unreadable] = [
    backlog.evictions.known().records,
    sweeper.unlisted().length,
    sweeper.findings().unreadable?.rows,
  ]
  const gaps = [
    ...(seen === 'nothing' ? ['No full sweep has ended yet since the start.'] : []),
    ...(left > 0 ? [`${counted(left, 'record is', 'records are')} only counted (backlog.maxRecords).`] : []),
    ...(unlisted > 0 ? [`${counted(unlisted, 'part')} of the window cannot be listed.`] : []),
    ...(unreadable === undefined ? [] : [`${counted(unreadable, 'row')} cannot be read.`]),
  ]
  return joined(gaps) ?? (seen === 'part' ? 'The last full sweep did not see the whole window.' : undefined)
}

/** Why the backlog may lack failures since the last sweep; undefined before the first, see `gapsOf`. `now`: host clock, epoch ms. */
export function newerGapOf(last: { result: string; endedAt: Date } | undefined, now: number): string | undefined {
  if (last === undefined) return undefined
  if (last.result === 'failed') return 'The last sweep failed: newer failures are not known.'
  const { endedAt } = last
  return now - endedAt.getTime() > maxUnsweptMs
    ? `No sweep has ended since ${endedAt.toISOString()}: newer failures are not known.`
    : undefined
}

/** Failed records that neither the backlog nor a list up to now has; undefined if none may match. */
export function aheadOf({ client, sweeper }: Reconciler, { until = Infinity }: RecordFilter): string | undefined {
  const { aheadOfClock } = sweeper.findings()
  return aheadOfClock > 0 && until > client.now()
    ? `Up to ${counted(aheadOfClock, 'more is of an event', 'more are of events')} ahead of the platform's clock, and only counted.`
    : undefined
}

/** Why there may be more unprocessed deliveries; undefined if there are none. */
function bookGapsOf({ books }: Reconciler): string | undefined {
  const state = books.state()
  if (state === undefined) return 'There is no ledger to compare with (ledger.url).'
  const unnamed = (state.missed?.total ?? 0) - books.missed().length
  return joined([
    unnamed > 0
      ? `${counted(unnamed, 'more is', 'more are')} only counted: ${count(maxNamed)} an hour are kept.`
      : undefined,
    state.problem && `${state.problem.text}.`,
    state.withoutKey > 0
      ? `${counted(state.withoutKey, 'has', 'have')} no key (ledger.key) and cannot be compared.`
      : undefined,
    state.isBehind
      ? `Not all events since ${new Date(state.comparedUntil).toISOString()} are compared yet.`
      : undefined,
  ])
}

/** Requested ids that no record has. */
function notAmong(filter: RecordFilter, has: (id: string) => boolean): string[] {
  return (filter.webhookIds ?? []).filter((id) => !has(id))
}

/** A page of the platform's list ends after this time, and `next` continues. */
const maxListingMs = 20_000
/** Sorts before all others of its second. */
const firstId = '00000000-0000-0000-0000-000000000000'

export function createRecords({
  clock,
  lister,
  newerGap,
  policy,
  reconciler,
  seenWindow,
  turn,
  zone,
}: RecordsOptions): RecordsReader {
  /** Records of future events have no decision, and an id finds them. */
  const mayMatchAhead = ({ decision, eventId, webhookIds }: RecordFilter): boolean =>
    decision === undefined && eventId === undefined && webhookIds === undefined
  const windowStart = (): number => reconciler().client.now() - policy.window.lookback

  /** Matching records that the daemon counts, and does not hold; undefined if there are none. */
  function onlyCounted(filter: RecordFilter): string | undefined {
    const { decision, from, until = Infinity } = filter
    const { beyondWindow, excluded } = reconciler().sweeper.findings()
    const isBeyond = (from ?? until) < windowStart() && (decision?.includes('exhausted') ?? true)
    const records = (decision?.includes('excluded') ? sumOf(excluded) : 0) + (isBeyond ? beyondWindow : 0)
    const listed = `Up to ${counted(records, 'more is', 'more are')} only counted: the platform lists them by time (since, or --since TIME).`
    return joined([records > 0 ? listed : undefined, mayMatchAhead(filter) ? aheadOf(reconciler(), filter) : undefined])
  }

  async function* inBatches<T>(page: readonly T[], show: (one: T) => ExplainedRecord) {
    for (let at = 0; at < page.length; at += batchRecords) {
      // A fast reader would take all of them in one turn.
      await turn()
      yield page.slice(at, at + batchRecords).map(show)
    }
  }

  async function fromMemory({ after, filter, limit }: RecordsRequest, failure?: string): Promise<RecordsPage> {
    // Many clients may query at once, and even the first step takes milliseconds.
    await turn()
    const current = reconciler()
    const { backlog, books } = current
    /** One for each subscription: all records may be looked at. */
    const situations = new Map<string, Situation>()
    const newSituation = current.situations()
    const situationOf = (id: string): Situation => situations.getOrInsertComputed(id, newSituation)
    const matches = matcherOf(filter)
    const { decision, group, webhookIds } = filter
    const unprocessed = group && new Map(books.missed().map((entry) => [entry.id.toLowerCase(), entry]))
    const get = (id: string): FailedRecord | undefined => (unprocessed ?? backlog).get(id)
    const entries = (): Iterable<FailedRecord> => unprocessed?.values() ?? backlog.entries()
    const fits = (entry: FailedRecord): boolean =>
      matches(entry) && (decision?.includes(decide(entry, policy, situationOf(entry.subscriptionId)).decision) ?? true)
    const all = webhookIds?.flatMap((id) => get(id) ?? []) ?? entries()
    const { isLast, page } = await finishInTurns(pageOf(all, { fits, after, limit }), turn)
    const last = isLast ? undefined : page.at(-1)
    const gaps = gapsOf(current, seenWindow())
    const batches = inBatches(page, (entry) => {
      const situation = situationOf(entry.subscriptionId)
      return explainRecord(entry, { policy, situation, isSelected: true, ...(group && { status: 'successful' }) })
    })
    return {
      source: 'memory',
      isEmpty: page.length === 0,
      batches,
      next: last && { id: last.id, localSecond: last.localSecond },
      notFound: isLast && failure === undefined ? notAmong(filter, (id) => get(id) !== undefined) : [],
      incomplete:
        group === undefined
          ? joined([failure, newerGap(), gaps, failure === undefined ? onlyCounted(filter) : undefined])
          : bookGapsOf(current),
      error: undefined,
    }
  }

  /** The page's part of a listing, in order. */
  function listed({ records }: FoundRecords, { after, filter }: RecordsRequest) {
    const current = reconciler()
    const now = current.client.now()
    const situationOf = current.situations()
    const matches = matcherOf(filter)
    return records
      .map((record) => {
        const { status } = record
        const held = status === 'failed' ? current.backlog.get(record.id) : undefined
        return { entry: held ?? new FailedRecord(record, { zone, now }), status }
      })
      .filter(({ entry }) => matches(entry) && (after === undefined || inOrder(entry, after) > 0))
      .toSorted((a, b) => inOrder(a.entry, b.entry))
      .map(({ entry, status }) => {
        const situation = situationOf(entry.subscriptionId)
        return { entry, shown: explainRecord(entry, { policy, situation, status }) }
      })
      .filter(({ shown }) => filter.decision?.includes(shown.decision) ?? true)
  }

  /** All records found within the time limit. */
  async function ofIds(ids: readonly string[], late: AbortSignal): Promise<FoundRecords> {
    const all: FoundRecords = { records: [], askedAt: clock.monotonic() }
    try {
      for await (const { problem, records } of lister.ofIds(ids, late)) {
        all.records.push(...records)
        all.problem = problem
      }
    } catch (error) {
      if (!isAbort(error, late)) throw error
      all.problem = 'The list is too long to search: give the event, or a time.'
    }
    return all
  }

  async function* partsOf({ after, filter }: RecordsRequest, late: AbortSignal): AsyncGenerator<FoundRecords> {
    const { eventId, from = 0, until = reconciler().client.now(), webhookIds } = filter
    if (eventId !== undefined) yield await lister.ofEvent(eventId, late)
    else if (webhookIds !== undefined) yield await ofIds(webhookIds, late)
    else {
      const span = lister.spanOf(from, until)
      const rest = { ...span, from: Math.max(span.from, after?.localSecond ?? span.from) }
      // The next page begins where this one ends.
      yield* lister.ofSpan(rest, { signal: late, inOrder: true })
    }
  }

  /** The listing ends before the response starts: the retries of the slice being listed wait for it. */
  async function fromPlatform(request: RecordsRequest): Promise<RecordsPage> {
    const { filter, limit } = request
    using late = deadline(clock, maxListingMs, new Error('the list took too long'))
    type End = Pick<RecordsPage, 'error' | 'incomplete' | 'next' | 'notFound'>
    const end: End = { next: undefined, notFound: [], incomplete: undefined, error: undefined }
    const page: ReturnType<typeof listed> = []
    let last: End['next']
    try {
      for await (const found of partsOf(request, late.signal)) {
        end.incomplete = found.problem ?? end.incomplete
        const fitting = listed(found, request).slice(0, limit - page.length)
        page.push(...fitting)
        const entry = fitting.at(-1)?.entry
        if (entry !== undefined) last = { id: entry.id, localSecond: entry.localSecond }
        if (page.length === limit) break
        if (found.upTo !== undefined) last = { id: firstId, localSecond: found.upTo }
      }
      if (mayMatchAhead(filter)) end.incomplete = joined([end.incomplete, aheadOf(reconciler(), filter)])
      if (page.length === limit) end.next = last
      else if (end.incomplete === undefined) {
        const ids = new Set(page.map(({ entry }) => entry.id.toLowerCase()))
        end.notFound = notAmong(filter, (id) => ids.has(id))
      }
    } catch (error) {
      const failure = failureOf(error)
      if (failure === undefined && !isAbort(error, late.signal)) throw error
      end.next = last
      if (failure !== undefined) end.error = sentencesOf(failure)
      else if (last === undefined)
        end.error = `The platform listed nothing within ${maxListingMs / 1000} s: name a shorter time, or ask again.`
    }
    const batches = inBatches(page, ({ shown }) => shown)
    return { source: 'platform', isEmpty: page.length === 0, batches, ...end }
  }

  async function receiverResponses(eventId: string): Promise<ReceiverResponse[] | { error: string }> {
    using late = deadline(clock, maxListingMs, new Error('the list took too long'))
    const responses: ReceiverResponse[] = []
    try {
      await lister.ofEvent(eventId, late.signal, {
        onRow(row) {
          const response = readReceiverResponse(row)
          if (response !== undefined) responses.push(response)
        },
      })
      return responses
    } catch (error) {
      const failure = failureOf(error)
      if (failure !== undefined) return { error: sentencesOf(failure) }
      if (isAbort(error, late.signal))
        return { error: `The platform did not respond within ${maxListingMs / 1000} s: ask again.` }
      throw error
    }
  }

  return {
    fromMemory,
    fromPlatform,
    receiverResponses,
    needsPlatform({ decision, eventId, from, group, webhookIds }) {
      const { backlog } = reconciler()
      if (group !== undefined) return false
      if (eventId !== undefined) return true
      if (webhookIds !== undefined) return webhookIds.some((id) => backlog.get(id) === undefined)
      return from !== undefined && (from < windowStart() || decision?.includes('excluded') === true)
    },
  }
}
