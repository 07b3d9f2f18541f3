// The webhook operations list and retry: how to build the request of each and read its response. @see docs/platform-api.md "List webhooks", "Retry a webhook"
import type { HttpRequest, Reason } from './http/http.ts'
import { formatLocalSecond, type TimeZone } from './time-zone.ts'
import { isUnreadable, readRecord, type UnreadableRow, type WebhookRecord } from './record.ts'
import { isUuid } from '../runtime/uuid.ts'
import type { TrafficClass } from './rate-limiter.ts'
import { PlatformFailure, property, type ClassifiedResponse } from './http/response.ts'
import { invalidStatusCode, listParameter, retryRequestBody, type WebhookStatus } from './wire.ts'

/** A request, and how its response is read. */
export interface Operation<T> extends Pick<HttpRequest, 'method' | 'url' | 'body'> {
  /** The content of a good response, parsed and as text; undefined for a body without the expected content. */
  read: (body: unknown, text: string) => T | undefined
}

/** Result of one exchange: the content of a good response, or the reason why there is none. */
export type Exchange<T> = Omit<ClassifiedResponse, 'reason'> & {
  /** Undefined when no response came. */
  status: number | undefined
  /** True when it is certain that nothing reached the platform. */
  requestNotSent?: boolean
  /** Cause of a missing response: a code of Node, OpenSSL or undici. */
  transportCode?: string
  /** True when it is the rate that was refused: a 429, or a 503 with Retry-After. */
  isThrottled?: boolean
} & ({ reason: 'ok'; content: T; bytes: number } | { reason: Exclude<Reason, 'ok'> })

export interface ListQuery {
  status?: WebhookStatus
  /** Only the records of this event. */
  eventId?: string
  /** Whole local seconds, sent as they are. The specification does not say if the bounds are inclusive. */
  from?: number
  to?: number
  /** 0-indexed. */
  page: number
  /** 1 to 100. */
  size: number
  /** Gets each row as the platform sent it, for commands that show more of it than a record keeps. */
  onRow?: (row: unknown) => void
  /** Gets each row with its numbers in the digits in which they came, which JSON.stringify repeats. */
  onExactRow?: (row: unknown) => void
}

/** Purpose of a list call: to find failed records, to check the outcome of retried ones, or to compare with the ledger. */
export type ListPurpose = Exclude<TrafficClass, 'retry'>

/** One page of a list. */
export interface ListPage {
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows on the page, readable or not. */
  rows: number
  /** The response's own page size and total; undefined when it has none. */
  size: number | undefined
  total: number | undefined
}

function listUrl(webhooksUrl: string, query: ListQuery): URL {
  const url = new URL(webhooksUrl)
  url.searchParams.set(listParameter.pageNumber, String(query.page))
  url.searchParams.set(listParameter.pageSize, String(query.size))
  if (query.status !== undefined) url.searchParams.set(listParameter.status, query.status)
  if (query.eventId !== undefined) url.searchParams.set(listParameter.eventId, query.eventId)
  if (query.from !== undefined) url.searchParams.set(listParameter.from, formatLocalSecond(query.from))
  if (query.to !== undefined) url.searchParams.set(listParameter.to, formatLocalSecond(query.to))
  return url
}

/** A usable count: a whole number, not negative. */
function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/** TypeScript does not know it yet. @see https://tc39.es/proposal-json-parse-with-source/ */
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown }

function parseExact(text: string): unknown {
  const keepDigits = (_: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' ? rawJSON(context?.source ?? String(value)) : value
  return JSON.parse(text, keepDigits)
}

const rowsOf = (body: unknown): unknown => property(property(body, 'data'), 'webhooks')

function readListPage(
  body: unknown,
  text: string,
  { onExactRow, onRow, zone }: Pick<ListQuery, 'onExactRow' | 'onRow'> & { zone: TimeZone },
): ListPage | undefined {
  const rows = rowsOf(body)
  if (!Array.isArray(rows)) return undefined
  const page = property(property(body, 'metadata'), 'page')
  if (onRow !== undefined) for (const row of rows) onRow(row)
  if (onExactRow !== undefined) for (const row of rowsOf(parseExact(text)) as unknown[]) onExactRow(row)
  const read = rows.map((row) => readRecord(row, zone))
  const size = wholeNumber(property(page, 'size'))
  return {
    records: read.filter((row): row is WebhookRecord => !isUnreadable(row)),
    unreadable: read.filter(isUnreadable),
    rows: rows.length,
    size: size === 0 ? undefined : size,
    total: wholeNumber(property(page, 'totalElements')),
  }
}

/** @param webhooksUrl URL of the webhook operations */
export function listOperation(webhooksUrl: string, query: ListQuery, zone: TimeZone): Operation<ListPage> {
  return {
    method: 'GET',
    url: listUrl(webhooksUrl, query),
    read: (body, text) => readListPage(body, text, { ...query, zone }),
  }
}

interface ResultMeaning {
  /** The platform answered about the record: a try, which counts towards `retry.maxAttempts`, and a sign that the platform works. */
  isOfRecord?: true
  /** May concern any record: three in a row are asked about (platform breaker). */
  isFailure?: true
  /** Says nothing of the record: its next retry comes later, and it is no attempt. */
  lengthensBackoff?: true
  /** Keeps its place in the circuit for `probeTimeout`, so that a failing platform is not called at the full rate. */
  keepsPlace?: true
  /** Counts as not accepted. The others have a gate that says so, or are no refusal. */
  isRefusal?: true
  /** The sum of a command's report that it counts in; none for a retry whose outcome is awaited. */
  countsAs?: 'refused' | 'resolved'
}

/** Meaning of each response to one PATCH (docs/glossary.md). `intercepted`: something in front of the platform answered in its place. */
const retryTable = {
  accepted: { isOfRecord: true },
  'already-resolved': { isOfRecord: true, countsAs: 'resolved' },
  gone: { isOfRecord: true, countsAs: 'refused' },
  rejected: { isOfRecord: true, isRefusal: true, countsAs: 'refused' },
  throttled: { countsAs: 'refused' },
  unauthorized: { lengthensBackoff: true, countsAs: 'refused' },
  intercepted: { isFailure: true, lengthensBackoff: true, isRefusal: true, countsAs: 'refused' },
  'platform-error': { isFailure: true, lengthensBackoff: true, keepsPlace: true, isRefusal: true, countsAs: 'refused' },
  unreachable: { isFailure: true, lengthensBackoff: true, isRefusal: true, countsAs: 'refused' },
} as const satisfies Record<string, ResultMeaning>

export type RetryResult = keyof typeof retryTable

export const retryResults = Object.keys(retryTable) as RetryResult[]

export function meaningOf(result: RetryResult): ResultMeaning {
  return retryTable[result]
}

/** The status that the platform found instead of `failed`. */
export type FoundStatus = 'processing' | 'successful' | 'other'

/** Response to a call that is not the one wanted. */
export interface CallResponse {
  reason: Reason
  /** HTTP status; undefined when no response came. */
  status?: number | undefined
  /** Code and message of the platform's error body. */
  problem?: string | undefined
}

export interface RetryResponse extends CallResponse {
  result: RetryResult
  /** False when no PATCH was sent, because no token was available. Then it is no attempt. */
  sent: boolean
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** With `accepted`: the record as answered, when it could be read. */
  record?: WebhookRecord
  /** True when the platform may have accepted the retry, although its response does not say so. */
  lost?: true
}

const resultOfReason = {
  ok: 'accepted',
  'bad-request': 'rejected',
  unauthorized: 'unauthorized',
  forbidden: 'unauthorized',
  'not-found': 'gone',
  conflict: 'rejected',
  throttled: 'throttled',
  'server-error': 'platform-error',
  timeout: 'unreachable',
  connection: 'unreachable',
  tls: 'unreachable',
  redirect: 'intercepted',
  'too-large': 'platform-error',
  'invalid-body': 'platform-error',
  intercepted: 'intercepted',
  other: 'rejected',
} as const satisfies Record<Reason, RetryResult>

const retryBody = JSON.stringify(retryRequestBody)

/** @throws PlatformFailure for an id that is no UUID: such an id could climb out of the path */
function retryUrl(webhooksUrl: string, id: string): URL {
  if (!isUuid(id)) throw new PlatformFailure('other', undefined, 'retry of an odd id')
  return new URL(`${webhooksUrl}/${id}`)
}

function readRetried(body: unknown, id: string, zone: TimeZone): WebhookRecord | UnreadableRow | undefined {
  const row = property(property(body, 'data'), 'webhook')
  const returned = property(row, 'id')
  const isAsked = typeof returned === 'string' && returned.toLowerCase() === id.toLowerCase()
  return isAsked ? readRecord(row, zone) : undefined
}

/**
 * @param webhooksUrl URL of the webhook operations
 * @throws PlatformFailure for an id that is no UUID
 */
export function retryOperation(
  webhooksUrl: string,
  id: string,
  zone: TimeZone,
): Operation<WebhookRecord | UnreadableRow> {
  return {
    method: 'PATCH',
    url: retryUrl(webhooksUrl, id),
    body: retryBody,
    read: (body) => readRetried(body, id, zone),
  }
}

/** The second parameter names the status that was found. @see docs/platform-api.md "Errors" */
function foundStatus(body: unknown): FoundStatus {
  const parameters = property(body, 'messageParameters')
  const found: unknown = Array.isArray(parameters) ? parameters[1] : undefined
  const status = typeof found === 'string' ? found.trim().toLowerCase() : ''
  return status === 'processing' || status === 'successful' ? status : 'other'
}

/**
 * True when the platform may have accepted the retry all the same: no whole response came, or a gateway wrote it after it had
 * passed the call on. An error body with a `code` is the platform's own.
 */
function isResponseLost(exchange: Exchange<unknown>): boolean {
  const { reason, status } = exchange
  if (reason === 'intercepted') return false
  if (status === undefined) return exchange.requestNotSent !== true
  if (exchange.code !== undefined) return false
  return status >= 500 || (status >= 200 && status < 300)
}

function resultOf({ isThrottled, reason, status = 0 }: Exchange<unknown>): RetryResult {
  if (isThrottled === true) return 'throttled'
  if (reason === 'other' && status >= 500) return 'platform-error'
  // HTTP 408: whoever waited for the rest of the request has not passed it on.
  return reason === 'timeout' && status !== 0 ? 'intercepted' : resultOfReason[reason]
}

/** The platform's response to a PATCH that was sent. */
export function readRetryResponse(exchange: Exchange<WebhookRecord | UnreadableRow>): RetryResponse {
  const { problem, reason, status } = exchange
  if (reason === 'ok') {
    const record = exchange.content
    return { result: 'accepted', reason, sent: true, ...(!isUnreadable(record) && { record }) }
  }
  const response = { reason, sent: true, status, problem }
  if (exchange.code === invalidStatusCode)
    return { ...response, result: 'already-resolved', found: foundStatus(exchange.body) }
  return { ...response, result: resultOf(exchange), ...(isResponseLost(exchange) && { lost: true }) }
}
