// Lists one slice completely: several pages at once, each id once, and whether the listing is complete. @see docs/architecture.md "Sweep"
import pLimit from 'p-limit'
import { maxPageSize } from '../../platform/wire.ts'
import type { ListPage, ListQuery } from '../../platform/operations.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { PlatformFailure } from '../../platform/http/response.ts'
import type { UnreadableRow, WebhookRecord } from '../../platform/record.ts'
import { isOfAnyCall } from '../platform-trouble.ts'
import { contains, type Span } from '../window.ts'

/**
 * `whole`: every row was listed, unreadable ones too, and the totals agree. `missed`: fewer rows than the total, or it fell, or a
 * page before the last one showed nothing new, or the bounds mean other times than the rows show. `capped`: a single second with
 * more rows than are read, or listed. `too-many`: it must be cut.
 */
export type SliceVerdict = 'whole' | 'missed' | 'capped' | 'too-many'

/** Result of listing a slice. */
export interface Listing {
  span: Span
  /** Monotonic ms just before the first request: later changes are newer than this listing. */
  askedAt: number
  /** The records of the requested status within the slice, each id once. */
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows whose own time or status was not requested. They are never retried. */
  unexpected: { time: number; status: number }
  verdict: SliceVerdict
  /** Of a page after the first of a `capped` slice: the platform may list only the first rows. */
  failure?: PlatformFailure | undefined
  /** The platform's total; undefined if unusable. */
  total: number | undefined
}

/** The status of listed records; `any`: all of them. */
export type Listed = NonNullable<ListQuery['status']> | 'any'

export function statusFilter(status: Listed = 'failed'): Pick<ListQuery, 'status'> {
  return status === 'any' ? {} : { status }
}

const isListed = (record: WebhookRecord, status: Listed): boolean => status === 'any' || record.status === status

export interface ListingOptions {
  client: Pick<PlatformClient, 'list'>
  status: Listed
  monotonic: () => number
  /** Pages requested at the same time. */
  concurrency: number
  /** A slice with more records is not read to its end. */
  maxRecords: number
  /** False if this platform's totals turned out to ignore the slice. */
  totalsCount: boolean
}

/** The platform ignores the filters: listing could repeat the same records forever. */
export class FiltersIgnored extends PlatformFailure {
  constructor() {
    super('other', undefined, 'the platform ignores eventDateTimeFrom/To')
  }
}

/** True for a failure that other slices need not have. */
export function isOfSlice(error: unknown): error is PlatformFailure {
  return error instanceof PlatformFailure && !(error instanceof FiltersIgnored) && !isOfAnyCall(error)
}

/** Maximum number of rows read of a slice of a few seconds, or of one second. */
const maxRowsPerSlice = 100_000

/**
 * Slices are not cut shorter than this many seconds without need: the extra second on either side then costs little, even with
 * thousands of records per second.
 */
export const shortSliceSeconds = 15

/** End of reading: the last page, a page without a new row, the limit of a slice, or that of one second. */
type End = 'last-page' | 'nothing-new' | 'too-many' | 'capped'

/** One reading of a slice, page by page. */
interface Reading {
  seen: Map<string, WebhookRecord>
  unreadable: UnreadableRow[]
  unreadableIds: Set<string>
  unexpected: { time: number; status: number }
  end: End
  failure: PlatformFailure | undefined
  /** True if a page after the first had rows. */
  isLong: boolean
  /** The first page's total, and the last one given; undefined if totals don't count. */
  total: number | undefined
  lastTotal: number
}

/** The requested span: one second more on either side, because bounds may be exclusive, with or without fractions. */
export function asked(span: Span): { from: number; to: number } {
  return { from: span.from - 1, to: span.to }
}

/** True for a row whose own time was not requested. */
function isForeign(record: WebhookRecord, span: Span): boolean {
  const { from, to } = asked(span)
  const second = Math.floor(record.eventLocal / 1000)
  return second < from || second > to
}

/**
 * False if the list of a record's own second does not show it: the bounds then mean other times than the rows show, such as those
 * of another zone. Bounds that are ignored, or count as whole days, show it; so does a list that fails, as nothing is known then.
 * @throws TokenError, or the signal's reason
 */
export async function isListedAtItsTime(
  { eventId, eventLocal }: WebhookRecord,
  client: ListingOptions['client'],
  signal: AbortSignal,
): Promise<boolean> {
  const second = Math.floor(eventLocal / 1000)
  const ofEvent = eventId !== '' && { eventId }
  const query = { ...ofEvent, ...asked({ from: second, to: second + 1 }), page: 0, size: 1 }
  try {
    return (await client.list(query, signal)).rows > 0
  } catch (error) {
    if (error instanceof PlatformFailure) return true
    throw error
  }
}

/**
 * True if the platform counts more rows before the last listed second, or after the first, than it listed there: it lists and counts
 * only so many, of a shorter span all. @throws like the list call
 */
async function hasMore(
  { records, span, unreadable }: Pick<Listing, 'records' | 'span' | 'unreadable'>,
  { client, status }: ListingOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const seconds = records.map(({ eventLocal }) => Math.floor(eventLocal / 1000)).toSorted((a, b) => a - b)
  const [first = span.from, last = first] = [seconds[0], seconds.at(-1)]
  for (const part of [
    { from: span.from, to: Math.max(span.from, last - 1) },
    { from: Math.min(span.to, first + 2), to: span.to },
  ]) {
    const { from, to } = asked(part)
    const { total = 0 } = await client.list({ ...statusFilter(status), from, to, page: 0, size: 1 }, signal)
    // An unreadable row may be of either part.
    const listed = seconds.filter((second) => second >= from && second <= to).length + unreadable.length
    if (total > listed) return true
  }
  return false
}

/** Adds unreadable rows. Returns true if one of them is new. */
function collectUnreadable(reading: Reading, page: ListPage): boolean {
  let isNew = false
  for (const row of page.unreadable) {
    const id = row.id?.toLowerCase()
    if (id !== undefined && reading.unreadableIds.has(id)) continue
    if (id !== undefined) reading.unreadableIds.add(id)
    // A row without an id may repeat one of the page before, so it counts as new only if nothing else is.
    isNew ||= id !== undefined || page.records.length === 0
    reading.unreadable.push(row)
  }
  return isNew
}

/** Adds a page. Returns true if it showed anything new. */
function collect(reading: Reading, page: ListPage, { span, status }: { span: Span; status: Listed }): boolean {
  let isNew = collectUnreadable(reading, page)
  for (const record of page.records) {
    const id = record.id.toLowerCase()
    if (reading.seen.has(id)) continue
    isNew = true
    reading.seen.set(id, record)
    if (isForeign(record, span)) reading.unexpected.time += 1
    if (!isListed(record, status)) reading.unexpected.status += 1
  }
  return isNew
}

/** A short page ends a list. Without a page size or a total that may be true, only an empty page does. */
export function isShort(page: ListPage): boolean {
  const isTotalUsable = (page.total ?? 0) >= page.rows
  return page.rows < ((isTotalUsable ? page.size : undefined) ?? 1)
}

/** For a slice with fewer rows than promised: a platform may echo a page size that it does not use, or filter the rows of a page. */
function isEmptyPage(page: ListPage, isPromised: boolean): boolean {
  return page.rows === 0 && !isPromised
}

function maxRowsOf(span: Span, options: ListingOptions): number {
  return span.to - span.from > shortSliceSeconds ? options.maxRecords : maxRowsPerSlice
}

/** True for the page that ends the list; `isPromised`: by the total, there are rows behind it. */
type IsLast = (page: ListPage, isPromised: boolean) => boolean

interface PageSource {
  readPage: (index: number) => Promise<ListPage>
  /** Adds a page; true if it showed anything new. */
  take: (page: ListPage) => boolean
  isLast: IsLast
  /** Further pages promised by the first total: they may be read in parallel, and a second reading reads all of them. */
  promised: number
  /** Highest page number to request. */
  lastAllowed: number
  concurrency: number
}

/** Reads the pages after the first, several at a time as far as the total promises them. Rejects like the list call. */
async function readOn(source: PageSource): Promise<End | undefined> {
  const { isLast, lastAllowed, promised, readPage, take } = source
  const limit = pLimit({ concurrency: source.concurrency, rejectOnClear: true })
  async function readAhead(index: number): Promise<ListPage> {
    let isEnd = true
    try {
      const page = await readPage(index)
      isEnd = isLast(page, index < promised)
      return page
    } finally {
      if (isEnd) limit.clearQueue()
    }
  }
  const ahead = Array.from({ length: Math.min(promised, lastAllowed) }, (_, before) => limit(readAhead, before + 1))
  const allEnded = Promise.allSettled(ahead)
  try {
    for (let index = 1; index <= lastAllowed; index += 1) {
      const page = await (ahead[index - 1] ?? readPage(index))
      const isNew = take(page)
      if (isLast(page, index < promised)) return 'last-page'
      if (!isNew && page.rows > 0) return 'nothing-new'
    }
    return undefined
  } finally {
    limit.clearQueue()
    await allEnded
  }
}

async function readSlice(
  span: Span,
  options: ListingOptions & { isLast: IsLast },
  signal: AbortSignal,
): Promise<Reading> {
  const { concurrency, isLast, status, totalsCount } = options
  const unexpected = { time: 0, status: 0 }
  const nothing = { seen: new Map(), unreadable: [], unreadableIds: new Set<string>(), unexpected, lastTotal: 0 }
  const reading: Reading = { ...nothing, end: 'last-page', failure: undefined, isLong: false, total: undefined }

  async function readPage(index: number): Promise<ListPage> {
    const page = await options.client.list(
      { ...statusFilter(status), ...asked(span), page: index, size: maxPageSize },
      signal,
    )
    reading.lastTotal = page.total ?? reading.lastTotal
    return page
  }

  let [isFull, isSized] = [false, false]
  function take(page: ListPage): boolean {
    if (page.rows > 0) isFull = page.rows >= (page.size ?? maxPageSize)
    // A size that an empty page lacks is the number of rows: any page would be full.
    else if (page.size === undefined && isSized) isFull = false
    isSized = page.size !== undefined
    const isNew = collect(reading, page, { span, status })
    // A slice this small cannot hold that many rows of other times: every slice would show the same.
    if (unexpected.time > options.maxRecords) throw new FiltersIgnored()
    return isNew
  }

  const first = await readPage(0)
  take(first)
  const total = totalsCount ? first.total : undefined
  const maxRows = maxRowsOf(span, options)
  const mayBeCut = span.to - span.from > 1
  if (total !== undefined && total > maxRows && !isShort(first) && mayBeCut)
    return { ...reading, end: 'too-many', total }

  const size = first.size ?? maxPageSize
  // A total of more records may be of other slices.
  const promised = total === undefined || total > options.maxRecords ? 0 : Math.floor(total / size)
  const lastAllowed = Math.ceil(maxRows / size)
  if (!isLast(first, promised > 0)) {
    const end = await readOn({ readPage, take, isLast, promised, lastAllowed, concurrency }).catch((error: unknown) => {
      if (mayBeCut || !isOfSlice(error)) throw error
      reading.failure = error
      return undefined
    })
    reading.isLong = rowsOf(reading) > first.rows
    reading.end = end ?? (mayBeCut ? 'too-many' : 'capped')
  }
  // After full pages that are not all, a platform lists no further, or shows its last page again: of a shorter span it shows all.
  const isWithin = reading.seen.size > 0 && unexpected.time === 0
  if (mayBeCut && isWithin && isFull && rowsOf(reading) < (total ?? Infinity)) reading.end = 'too-many'
  // New records of any status are among the rows, so they also count in the total.
  const most = total === undefined || status !== 'any' ? total : Math.max(total, reading.lastTotal)
  return { ...reading, total: reading.end === 'too-many' ? undefined : most }
}

/** Judges a reading that saw `rows` rows. */
function verdictOf({ end, isLong, lastTotal, total = 0 }: Reading, rows: number): SliceVerdict {
  if (end === 'too-many' || end === 'capped') return end
  // Behind the last page, a platform may show it again.
  const isAgain = isLong && rows === total
  return rows < total || lastTotal < total || (end === 'nothing-new' && !isAgain) ? 'missed' : 'whole'
}

/**
 * True if the first page has shown all rows, and is shown again behind itself. Where pages are ignored, the total may be of its page
 * alone: a page of one row then has another. @throws like the list call
 */
async function isOnePage(
  { end, isLong, lastTotal, total, ...reading }: Reading,
  span: Span,
  { client, status }: ListingOptions,
  signal: AbortSignal,
): Promise<boolean> {
  if (end !== 'nothing-new' || isLong || total !== lastTotal || total !== rowsOf(reading)) return false
  if (total === 1) return true
  const page = await client.list({ ...statusFilter(status), ...asked(span), page: 0, size: 1 }, signal)
  return page.total === total && page.rows < total
}

const rowsOf = ({ seen, unreadable }: Pick<Reading, 'seen' | 'unreadable'>): number => seen.size + unreadable.length

/** Limits of platforms that list and count only so many rows are multiples of this. */
const roundRows = 50

/** Maximum readings of a slice of any status, in all, and in a row without news. */
const [maxReadings, maxNothingNew] = [20, 5]

/**
 * Lists the records of a slice; repeats once if the first reading was incomplete but below the limit, or if no total proves that
 * it was complete. Records of any status do not leave the list: reading continues until as many as the total were seen, because
 * ties may change their order. @throws FiltersIgnored, and the errors of the list call
 */
export async function listSlice(span: Span, options: ListingOptions, signal: AbortSignal): Promise<Listing> {
  const { monotonic, status } = options
  const askedAt = monotonic()
  const staysListed = status === 'any'
  let reading = await readSlice(span, { ...options, isLast: isShort }, signal)
  let verdict = verdictOf(reading, rowsOf(reading))
  if (await isOnePage(reading, span, options, signal)) verdict = 'whole'
  // No total shows that rows left the list meanwhile, which moves others to pages that were read before.
  const isUnproven = reading.isLong && (reading.total ?? 0) < rowsOf(reading)
  const isReadAgain = verdict === 'whole' && isUnproven && status === 'failed'
  if (isReadAgain) verdict = 'missed'
  // Where a short page ended the list, a platform may refuse the pages behind it, or show the last one again.
  const isLast = isReadAgain ? isShort : isEmptyPage
  let nothingNew = 0
  for (let count = 1; count < (staysListed ? maxReadings : 2) && nothingNew < maxNothingNew; count += 1) {
    if (verdict !== 'missed') break
    const again = await readSlice(span, { ...options, isLast }, signal)
    const seen = new Map([...reading.seen, ...again.seen])
    nothingNew = seen.size === reading.seen.size ? nothingNew + 1 : 0
    reading = { ...again, seen }
    // A failed record of the first reading may be gone, and an unseen one have taken its place in the total.
    verdict = verdictOf(again, rowsOf(staysListed ? reading : again))
  }
  const { failure, total, unexpected, unreadable } = reading
  const rows = [...reading.seen.values()]
  const foreign = rows.find((record) => isForeign(record, span))
  if (foreign !== undefined && verdict === 'whole' && !(await isListedAtItsTime(foreign, options.client, signal)))
    verdict = 'missed'
  const isRound = rows.length > 0 && rowsOf(reading) === total && total % roundRows === 0
  const mayEndEarly = isRound && foreign === undefined && span.to - span.from > 1 && verdict === 'whole'
  if (mayEndEarly && (await hasMore({ records: rows, span, unreadable }, options, signal)))
    return { span, askedAt, records: [], unreadable, unexpected, verdict: 'too-many', total: undefined }
  const isOwned = (record: WebhookRecord): boolean => contains(span, Math.floor(record.eventLocal / 1000))
  const records = rows.filter((record) => isListed(record, status) && isOwned(record))
  return { span, askedAt, records, unreadable, unexpected, verdict, failure, total }
}
