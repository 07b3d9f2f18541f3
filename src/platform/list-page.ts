// The list operation: its query as a URL, and a page out of its answer. @see platform-api.md 4.2
import { member } from './call.ts'
import { formatLocalSecond, type Zone } from './local-time.ts'
import { isUnreadable, readRecord, type UnreadableRow, type WebhookRecord } from './record.ts'
import { listParameter, type WebhookStatus } from './wire.ts'

export interface ListQuery {
  status?: WebhookStatus
  /** Only the records of this event. */
  eventId?: string
  /** Whole local seconds; sent as they are: whether the platform takes them in or leaves them out is not specified. */
  from?: number
  to?: number
  /** 0-indexed. */
  page: number
  /** 1 to 100. */
  size: number
}

/** One page of a list. */
export interface ListPage {
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows on the page, readable or not. */
  rows: number
  /** The answer's own page size and total; undefined when it told none. */
  size: number | undefined
  total: number | undefined
}

/** @param webhooksUrl URL of the webhook operations */
export function listUrl(webhooksUrl: string, query: ListQuery): URL {
  const url = new URL(webhooksUrl)
  url.searchParams.set(listParameter.pageNumber, String(query.page))
  url.searchParams.set(listParameter.pageSize, String(query.size))
  if (query.status !== undefined) url.searchParams.set(listParameter.status, query.status)
  if (query.eventId !== undefined) url.searchParams.set(listParameter.eventId, query.eventId)
  if (query.from !== undefined) url.searchParams.set(listParameter.from, formatLocalSecond(query.from))
  if (query.to !== undefined) url.searchParams.set(listParameter.to, formatLocalSecond(query.to))
  return url
}

function rowsOf(body: unknown): unknown[] | undefined {
  const rows = member(member(body, 'data'), 'webhooks')
  return Array.isArray(rows) ? rows : undefined
}

/** True for a body that has a list of records, whatever is in it. */
export function holdsPage(body: unknown): boolean {
  return rowsOf(body) !== undefined
}

/** A number that something can be counted by. */
function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/** Reads the page out of a body that holds one. */
export function readPage(body: unknown, zone: Zone): ListPage {
  const rows = rowsOf(body) ?? []
  const page = member(member(body, 'metadata'), 'page')
  const read = rows.map((row) => readRecord(row, zone))
  const size = wholeNumber(member(page, 'size'))
  return {
    records: read.filter((row): row is WebhookRecord => !isUnreadable(row)),
    unreadable: read.filter(isUnreadable),
    rows: rows.length,
    size: size === 0 ? undefined : size,
    total: wholeNumber(member(page, 'totalElements')),
  }
}
