// Lists one slice whole: pages in batches, ids once, and a verdict whether all of it was seen. @see design section 8
import { maxPageSize } from '../../platform/wire.ts'
import type { ListPage, ListQuery } from '../../platform/operations.ts'
import type { PlatformClient } from '../../platform/client.ts'
import { PlatformFailure } from '../../platform/response.ts'
import type { UnreadableRow, WebhookRecord } from '../../platform/record.ts'
import { contains, type Span } from '../window.ts'

/** What listing a slice gave. */
export interface Listing {
  span: Span
  /** Monotonic ms just before the first page was asked for: what happened later is newer than this listing. */
  askedAt: number
  /** The records of the asked status that the slice owns, each id once. */
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows that were not what was asked: their own time or status says so. They are never acted on. */
  unexpected: { time: number; status: number }
  /** True when every page was read and the totals bear it out. */
  complete: boolean
  /** Not complete only because the list became shorter while it was read. As many rows as the last total were seen. */
  shrank?: true
  /** The total that the first page told, where it speaks of more than was found. */
  missedTotal: number | undefined
}

/** A slice that holds too many records to be listed whole. */
export interface TooMany {
  tooMany: true
  /** What the platform tells; undefined when it tells nothing of use. */
  total: number | undefined
  /** True when a page showed rows from outside of what was asked. */
  showsForeignTimes: boolean
}

export interface ListingOptions {
  client: PlatformClient
  /** Records of this status are listed. */
  status: NonNullable<ListQuery['status']>
  monotonic: () => number
  /** Pages asked for at the same time. */
  concurrency: number
  /** A slice with more records than this is told as TooMany. */
  maxRecords: number
  /** False when the totals of this platform were found to say nothing about the slice. */
  totalsCount: boolean
}

/** The platform answers, but not what was asked: going on could list the same records for ever. */
export class FiltersIgnored extends PlatformFailure {
  constructor() {
    super('other', undefined, 'the platform ignores eventDateTimeFrom/To')
    this.name = 'FiltersIgnored'
  }
}

/** A slice of a few seconds is read whole up to this many rows, a single second to no more than these. */
export const maxRowsPerSlice = 100_000

/**
 * Slices are not cut shorter than this many seconds without need: the second that is asked for on either side weighs
 * little then, also where thousands of records stand in each.
 */
export const shortSliceSeconds = 15

/** What has been read of a slice so far. */
interface Reading {
  seen: Map<string, WebhookRecord>
  unreadable: UnreadableRow[]
  unreadableIds: Set<string>
  time: number
  status: number
}

/** What is asked for: a second more on either side, as the bounds may be exclusive and compared with fractions or without. */
export function asked(span: Span): { from: number; to: number } {
  return { from: span.from - 1, to: span.to }
}

/** True for a row whose own time is not what was asked. */
export function isForeign(record: WebhookRecord, span: Span): boolean {
  const { from, to } = asked(span)
  const second = Math.floor(record.eventLocal / 1000)
  return second < from || second > to
}

/** Takes rows that can't be read. Returns true when there was one that was not known yet. */
function collectUnreadable(reading: Reading, page: ListPage): boolean {
  // One without an id can't be told from the same on the page before, so it is news only where there is nothing else.
  let isNew = page.unreadable.length > 0 && page.records.length === 0
  for (const row of page.unreadable) {
    const id = row.id?.toLowerCase()
    if (id !== undefined) {
      if (reading.unreadableIds.has(id)) continue
      reading.unreadableIds.add(id)
      isNew = true
    }
    reading.unreadable.push(row)
  }
  return isNew
}

/** Takes a page in. Returns true when it showed anything that was not known yet. */
function collect(reading: Reading, page: ListPage, { span, status }: { span: Span; status: string }): boolean {
  let isNew = collectUnreadable(reading, page)
  for (const record of page.records) {
    const id = record.id.toLowerCase()
    if (reading.seen.has(id)) continue
    isNew = true
    reading.seen.set(id, record)
    if (isForeign(record, span)) reading.time += 1
    if (record.status !== status) reading.status += 1
  }
  return isNew
}

interface Attempt {
  reading: Reading
  complete: boolean
  shrank: boolean
  missedTotal: number | undefined
}

/** A short page ends the slice. Without a page size in the answer it proves nothing: then only an empty one does. */
function isShort(page: ListPage): boolean {
  return page.rows < (page.size ?? 1)
}

/** For a slice of which more was promised than found: a platform may echo a page size that it does not give. */
function isEmptyPage(page: ListPage): boolean {
  return page.rows === 0
}

function maxRowsOf(span: Span, options: ListingOptions): number {
  return span.to - span.from > shortSliceSeconds ? options.maxRecords : maxRowsPerSlice
}

/** How reading ended: at the last page, at a page that told nothing new, or at the limit of what one slice may hold. */
type End = 'last-page' | 'nothing-new' | 'limit'

interface PageSource {
  readPage: (index: number) => Promise<ListPage>
  /** Takes a page in; true when it showed anything new. */
  take: (page: ListPage) => boolean
  isLast: (page: ListPage) => boolean
  /** Pages that the first total promises after the first one; they may be read side by side. */
  promised: number
  /** Highest page number that is asked for. */
  lastAllowed: number
  concurrency: number
}

/** Reads the pages after the first, in batches as far as the total promises them. Rejects with what a call rejects with. */
async function readOn({ concurrency, isLast, lastAllowed, promised, readPage, take }: PageSource): Promise<End> {
  for (let index = 1; index <= lastAllowed;) {
    const atOnce = Math.max(1, Math.min(concurrency, Math.min(promised, lastAllowed) - index + 1))
    const batch = await Promise.all(Array.from({ length: atOnce }, (_, offset) => readPage(index + offset)))
    index += atOnce
    let end: End | undefined
    for (const page of batch) {
      const isNew = take(page)
      if (isLast(page)) end ??= 'last-page'
      else if (!isNew) end ??= 'nothing-new'
    }
    if (end !== undefined) return end
  }
  return 'limit'
}

/** One reading of a slice, page by page. */
async function listOnce(
  span: Span,
  options: ListingOptions & { isLast: (page: ListPage) => boolean },
  signal: AbortSignal,
): Promise<Attempt | TooMany> {
  const { isLast, status, totalsCount } = options
  const reading: Reading = { seen: new Map(), unreadable: [], unreadableIds: new Set(), time: 0, status: 0 }
  let lastTotal = 0

  async function readPage(index: number): Promise<ListPage> {
    const page = await options.client.list({ status, ...asked(span), page: index, size: maxPageSize }, signal)
    lastTotal = page.total ?? lastTotal
    return page
  }

  function take(page: ListPage): boolean {
    const isNew = collect(reading, page, { span, status })
    // However many slices there are, each would show the same: a slice so small can't hold so many others.
    if (reading.time > options.maxRecords) throw new FiltersIgnored()
    return isNew
  }

  const first = await readPage(0)
  take(first)
  const total = totalsCount ? first.total : undefined
  const maxRows = maxRowsOf(span, options)
  const mayBeCut = span.to - span.from > 1
  const tooMany = (known: number | undefined): TooMany => ({
    tooMany: true,
    total: known,
    showsForeignTimes: reading.time > 0,
  })
  if (total !== undefined && total > maxRows && !isShort(first) && mayBeCut) return tooMany(total)

  const size = first.size ?? maxPageSize
  const promised = Math.floor((total ?? 0) / size)
  const lastAllowed = Math.ceil(maxRows / size)
  const { concurrency } = options
  const end = isLast(first) ? 'last-page' : await readOn({ readPage, take, isLast, promised, lastAllowed, concurrency })
  if (end === 'limit' && mayBeCut) return tooMany(undefined)
  const rows = reading.seen.size + reading.unreadable.length
  const missed = total !== undefined && rows < total
  const shrank = total !== undefined && lastTotal < total
  return {
    reading,
    complete: end === 'last-page' && !missed && !shrank,
    shrank: end === 'last-page' && shrank && rows >= lastTotal,
    missedTotal: missed ? total : undefined,
  }
}

function isTooMany(attempt: Attempt | TooMany): attempt is TooMany {
  return 'tooMany' in attempt
}

/**
 * Lists the records of a slice, once more when the first reading was not complete.
 * @throws FiltersIgnored, and what the list call throws.
 */
export async function listSlice(span: Span, options: ListingOptions, signal: AbortSignal): Promise<Listing | TooMany> {
  const askedAt = options.monotonic()
  let attempt = await listOnce(span, { ...options, isLast: isShort }, signal)
  if (isTooMany(attempt)) return attempt
  if (!attempt.complete) {
    const again = await listOnce(span, { ...options, isLast: isEmptyPage }, signal)
    if (isTooMany(again)) return again
    again.reading.seen = new Map([...attempt.reading.seen, ...again.reading.seen])
    attempt = again
  }
  const { reading, complete, missedTotal, shrank } = attempt
  const isOwned = (record: WebhookRecord): boolean => contains(span, Math.floor(record.eventLocal / 1000))
  return {
    span,
    askedAt,
    records: [...reading.seen.values()].filter((record) => record.status === options.status && isOwned(record)),
    unreadable: reading.unreadable,
    unexpected: { time: reading.time, status: reading.status },
    complete,
    ...(shrank && { shrank }),
    missedTotal,
  }
}
