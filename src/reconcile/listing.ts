// Lists one slice whole: pages side by side, ids once, and a verdict whether all of it was seen. @see design section 8
import pLimit from 'p-limit'
import { maxPageSize } from '../platform/wire.ts'
import type { ListPage, PlatformClient } from '../platform/client.ts'
import type { UnreadableRow, WebhookRecord } from '../platform/record.ts'
import { contains, type Span } from './window.ts'

/** What listing a slice gave. */
export interface Listing {
  span: Span
  /** Monotonic ms just before the first page was asked for: what happened later is newer than this listing. */
  askedAt: number
  /** The failed records that the slice owns, each id once. */
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows that were not what was asked: their own time or status says so. They are never acted on. */
  unexpected: { time: number; status: number }
  /** True when every page was read and the totals bear it out. */
  complete: boolean
}

/** A slice that holds too many records to be listed whole. */
export interface TooMany {
  /** What the platform tells, or one above the limit when it tells nothing of use. */
  total: number
  /** True when the first page showed rows from outside of what was asked. */
  showsForeignTimes: boolean
}

export interface ListingOptions {
  client: PlatformClient
  monotonic: () => number
  /** Pages asked for at the same time. */
  concurrency: number
  /** A slice with more records than this is told as TooMany. */
  maxRecords: number
  /** False when the totals of this platform were found to say nothing about the slice. */
  totalsCount: boolean
}

/** A single second is read whole up to this many rows. */
export const maxRowsPerSlice = 100_000

/** What has been read of a slice so far. */
interface Reading {
  seen: Map<string, WebhookRecord>
  unreadable: UnreadableRow[]
  time: number
  status: number
}

/** What is asked for: a second more on either side, as the bounds may be exclusive and compared with fractions or without. */
function asked(span: Span): { from: number; to: number } {
  return { from: span.from - 1, to: span.to }
}

/** Takes a page in. Returns true when it showed anything that was not known yet. */
function collect(reading: Reading, page: ListPage, span: Span): boolean {
  const { from, to } = asked(span)
  let isNew = page.unreadable.length > 0
  for (const record of page.records) {
    const id = record.id.toLowerCase()
    if (reading.seen.has(id)) continue
    isNew = true
    reading.seen.set(id, record)
    const second = Math.floor(record.eventLocal / 1000)
    if (second < from || second > to) reading.time += 1
    if (record.status !== 'failed') reading.status += 1
  }
  reading.unreadable.push(...page.unreadable)
  return isNew
}

/** How the reading of a slice ended: at its last page, at a page that told nothing new, or at the limit of what one slice may hold. */
type End = 'last-page' | 'nothing-new' | 'limit'

interface PageSource {
  readPage: (index: number) => Promise<ListPage>
  /** Pages that the first total promises after the first one; they may be read side by side. */
  promised: number
  /** Highest page number that is asked for. */
  lastAllowed: number
  concurrency: number
}

/** Without a page size in the answer a short page proves nothing: then only an empty one ends the slice. */
function isLast(page: ListPage): boolean {
  return page.size === undefined ? page.rows === 0 : page.rows < page.size
}

/** Reads the pages after the first. */
async function readOn(first: ListPage, source: PageSource, take: (page: ListPage) => boolean): Promise<End> {
  if (isLast(first)) return 'last-page'
  let lastIndex = Infinity
  let end: End = 'limit'
  let failure: unknown

  async function visit(index: number): Promise<void> {
    if (index > lastIndex || failure !== undefined) return
    try {
      const page = await source.readPage(index)
      const isNew = take(page)
      if (isNew && !isLast(page)) return
      lastIndex = Math.min(lastIndex, index)
      end = isLast(page) ? 'last-page' : end === 'limit' ? 'nothing-new' : end
    } catch (error) {
      failure ??= error
    }
  }

  const limit = pLimit(source.concurrency)
  const sideBySide = Math.min(source.promised, source.lastAllowed)
  await Promise.all(Array.from({ length: sideBySide }, (_, offset) => limit(visit, offset + 1)))
  for (
    let index = sideBySide + 1;
    index <= Math.min(lastIndex, source.lastAllowed) && failure === undefined;
    index += 1
  ) {
    await visit(index)
  }
  // Rejected with what the call itself rejected with.
  if (failure !== undefined) throw failure as Error
  return end
}

interface Attempt {
  reading: Reading
  complete: boolean
}

async function listOnce(span: Span, options: ListingOptions, signal: AbortSignal): Promise<Attempt | TooMany> {
  const { maxRecords, totalsCount } = options
  let lastTotal = 0
  const readPage = async (index: number): Promise<ListPage> => {
    const page = await options.client.list({ status: 'failed', ...asked(span), page: index, size: maxPageSize }, signal)
    lastTotal = page.total ?? lastTotal
    return page
  }
  const reading: Reading = { seen: new Map(), unreadable: [], time: 0, status: 0 }
  const take = (page: ListPage): boolean => collect(reading, page, span)
  const first = await readPage(0)
  take(first)
  const total = totalsCount ? first.total : undefined
  const mayBeCut = span.to - span.from > 1
  const tooMany = { total: total ?? maxRecords + 1, showsForeignTimes: reading.time > 0 }
  if (total !== undefined && total > maxRecords && !isLast(first) && mayBeCut) return tooMany

  const size = first.size ?? maxPageSize
  const rowsAllowed = total === undefined && mayBeCut ? maxRecords : maxRowsPerSlice
  const promised = Math.floor((total ?? 0) / size)
  const lastAllowed = Math.ceil(rowsAllowed / size)
  const end = await readOn(first, { readPage, promised, lastAllowed, concurrency: options.concurrency }, take)
  if (end === 'limit' && mayBeCut && total === undefined) return tooMany
  const rows = reading.seen.size + reading.unreadable.length
  const totalsAgree = total === undefined || (rows >= total && lastTotal >= total)
  return { reading, complete: end === 'last-page' && totalsAgree }
}

function isTooMany(attempt: Attempt | TooMany): attempt is TooMany {
  return 'total' in attempt
}

/**
 * Lists the failed records of a slice, once more when the first reading was not complete.
 * @throws what the list call throws.
 */
export async function listSlice(span: Span, options: ListingOptions, signal: AbortSignal): Promise<Listing | TooMany> {
  const askedAt = options.monotonic()
  let attempt = await listOnce(span, options, signal)
  if (isTooMany(attempt)) return attempt
  if (!attempt.complete) {
    const again = await listOnce(span, options, signal)
    if (isTooMany(again)) return again
    again.reading.seen = new Map([...attempt.reading.seen, ...again.reading.seen])
    attempt = again
  }
  const { reading } = attempt
  const isOwned = (record: WebhookRecord): boolean => contains(span, Math.floor(record.eventLocal / 1000))
  return {
    span,
    askedAt,
    records: [...reading.seen.values()].filter((record) => record.status === 'failed' && isOwned(record)),
    unreadable: reading.unreadable,
    unexpected: { time: reading.time, status: reading.status },
    complete: attempt.complete,
  }
}
