// Searches that find pending records with few calls: pages of a span of event time, of an event, or of a second. Pure functions. @see docs/architecture.md "Outcomes"
import type { ListPage } from '../../platform/operations.ts'
import { maxPageSize } from '../../platform/wire.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Span } from '../window.ts'

/** A search by pages: a span of event time for many records, or an event or a second for single ones. */
export interface Search {
  kind: 'span' | 'event' | 'second'
  /** Records not shown by any page yet; never empty. */
  records: readonly FailedRecord[]
  /** The listed span; unused for an event. */
  span: Span
  page: number
  /** Consecutive pages without any of the records. */
  barren: number
  /** Records of the page before: a page without another one is the last, whatever the totals say. */
  shown: ListPage['records']
}

/** A longer span is cut in two: deep pages are slow on any database. */
const maxPages = 50
/** A second cannot be cut: its pages are read while they cost less than single searches, up to this number. */
const maxPagesOfSecond = 1000
/** An event has a record per subscription: with more pages, the platform ignores the filter. */
const maxEventPages = 10

/** `records` is not empty. */
function searchOf(kind: Search['kind'], records: readonly FailedRecord[]): Search {
  const span = { from: Infinity, to: -Infinity }
  for (const { localSecond } of records) {
    span.from = Math.min(span.from, localSecond)
    span.to = Math.max(span.to, localSecond + 1)
  }
  return { kind, records, span, page: 0, barren: 0, shown: [] }
}

/** Key of a record's own search: its event; or its second, if it has no event or that search did not show it. */
function ownOf({ awaiting, eventKey, localSecond }: FailedRecord): string | number {
  return eventKey === '' || awaiting?.missedByEvent === true ? localSecond : eventKey
}

/** True if their own searches are at least so many. */
function hasOwn(records: readonly FailedRecord[], searches: number): boolean {
  const own = new Set<string | number>()
  return records.some((record) => own.add(ownOf(record)).size >= searches)
}

/** One search per event or second. */
export function ownSearches(records: readonly FailedRecord[]): Search[] {
  const groups = Map.groupBy(records, ownOf)
  return [...groups].map(([key, group]) => searchOf(typeof key === 'string' ? 'event' : 'second', group))
}

/** A span if that may save calls, otherwise each record's own search. */
function searchesOf(group: readonly FailedRecord[]): Search[] {
  return hasOwn(group, 2) ? [searchOf('span', group)] : ownSearches(group)
}

/** The searches of a round, in the order of the records; those at most `maxGapSeconds` apart in event time share one. */
export function planSearches(records: readonly FailedRecord[], maxGapSeconds: number): Search[] {
  const groups = new Map<FailedRecord, FailedRecord[]>()
  let group: FailedRecord[] = []
  let last = -Infinity
  for (const record of records.toSorted((a, b) => a.localSecond - b.localSecond)) {
    if (record.localSecond - last > maxGapSeconds) group = []
    group.push(record)
    groups.set(record, group)
    last = record.localSecond
  }
  return [...new Set(records.map((record) => groups.get(record) ?? []))].flatMap(searchesOf)
}

/** Number of further pages, according to the response. */
function pagesToCome({ page }: Search, { size, total }: ListPage): number {
  const pages = Math.ceil((total ?? 0) / (size ?? maxPageSize))
  return Math.max(1, pages - page - 1)
}

/** The searches that follow a page of a span; `left`: records that no page has shown. */
function afterSpan(search: Search, response: ListPage, left: readonly FailedRecord[], hasNew: boolean): Search[] {
  const pageLimit = search.span.to - search.span.from > 1 ? maxPages : maxPagesOfSecond
  const isLast = response.rows < (response.size ?? maxPageSize) || search.page + 1 >= pageLimit
  const barren = left.length < search.records.length ? 0 : search.barren + 1
  const toCome = pagesToCome(search, response)
  // Pages cost less than single searches, until as many were in vain.
  if (isLast || !hasNew || !hasOwn(left, Math.max(barren, toCome))) return ownSearches(left)
  if (toCome < pageLimit) return [{ ...search, records: left, shown: response.records, page: search.page + 1, barren }]
  const sorted = left.toSorted((a, b) => a.localSecond - b.localSecond)
  const middle = sorted.length >> 1
  return [sorted.slice(0, middle), sorted.slice(middle)].flatMap(searchesOf)
}

/** True for rows of other events than the one that was searched: the platform ignores the filter, and shows its whole list. */
export function isUnfiltered(search: Search, { records }: ListPage): boolean {
  const wanted = search.records[0]?.eventId.toLowerCase()
  return search.kind === 'event' && records.some(({ eventId }) => eventId !== '' && eventId.toLowerCase() !== wanted)
}

/** True if a record's own search may have another page. */
function goesOn(search: Search, response: ListPage): boolean {
  if (search.kind === 'second') return search.page + 1 < maxPages
  const isFull = response.rows >= (response.size ?? maxPageSize)
  return !isUnfiltered(search, response) && isFull && search.page + 1 < maxEventPages
}

/** The searches that follow a page; none once the records' own search has ended. */
export function afterPage(search: Search, response: ListPage, left: readonly FailedRecord[]): Search[] {
  if (left.length === 0) return []
  const { records: shown } = response
  const hasNew = shown.some(({ id }) => !search.shown.some((before) => before.id === id))
  if (search.kind === 'span') return afterSpan(search, response, left, hasNew)
  return hasNew && goesOn(search, response) ? [{ ...search, records: left, shown, page: search.page + 1 }] : []
}
