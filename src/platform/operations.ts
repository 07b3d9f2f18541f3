// The webhook operations list and retry: builds each request and reads its response. @see docs/platform-api.md "List webhooks", "Retry a webhook"
import { isSuccess, type HttpRequest, type Reason } from './http/http.ts'
import { formatLocalSecond, type TimeZone } from './time-zone.ts'
import { isUnreadable, readRecord, statusOf, wholeNumber, type UnreadableRow, type WebhookRecord } from './record.ts'
import { isUuid } from '../runtime/uuid.ts'
import type { RateReport, TrafficClass } from './rate-limiter.ts'
import { isObject, PlatformFailure, property, type ClassifiedResponse } from './http/response.ts'
import { invalidStatusCode, listParameter, retryRequestBody, type WebhookStatus } from './wire.ts'

/** A request, and how to read its response. */
export interface Operation<T> extends Pick<HttpRequest, 'method' | 'url' | 'body'> {
  /** The content of a successful response; undefined for a body without the expected content. */
  read: (body: unknown, text: string) => T | undefined
  /** Gets each response; returns true for a refusal that says nothing about the rate of other calls. Default: none is one. */
  isLimitedAlone?: ((report: RateReport) => boolean) | undefined
}

/** Result of one exchange: its content, or the reason why there is none. */
export type Exchange<T> = Omit<ClassifiedResponse, 'reason'> & {
  /** Undefined without a response. */
  status: number | undefined
  /** True if certainly nothing reached the platform. */
  requestNotSent?: boolean
  /** Cause of a missing response: a code of Node, OpenSSL or undici. */
  transportCode?: string
  /** True if the rate was rejected: by a 429 or the like, or by a 503 soon after a successful response, for a retry with Retry-After. */
  isThrottled?: boolean
} & ({ reason: 'ok'; content: T; bytes: number } | { reason: Exclude<Reason, 'ok'> })

export interface ListQuery {
  status?: WebhookStatus
  /** Only the records of this event. */
  eventId?: string
  /** Whole local seconds, sent unchanged. The specification does not say whether the bounds are inclusive. */
  from?: number
  to?: number
  /** 0-indexed. */
  page: number
  /** 1 to 100. */
  size: number
  /** Receives each row as the platform sent it, for commands that need more than a record holds. */
  onRow?: (row: unknown) => void
  /** Receives each row with its original number texts, which JSON.stringify preserves. */
  onExactRow?: (row: unknown) => void
}

/** Purpose of a list call: finding failed records, checking outcomes, or comparing with the ledger. */
export type ListPurpose = Exclude<TrafficClass, 'retry'>

/** One page of a list. */
export interface ListPage {
  records: WebhookRecord[]
  unreadable: UnreadableRow[]
  /** Rows on the page, readable or not. */
  rows: number
  /** The response's own page size and total; undefined if absent. */
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

/** TypeScript does not declare it yet. @see https://tc39.es/proposal-json-parse-with-source/ */
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
  { first, onExactRow, onRow, zone }: Pick<ListQuery, 'onExactRow' | 'onRow'> & { first: number; zone: TimeZone },
): ListPage | undefined {
  const page = property(property(body, 'metadata'), 'page')
  const listed = rowsOf(body) ?? undefined
  // Some serializers omit an empty array (proto3, Jackson's NON_EMPTY), or write null: also behind the last row. Those that omit 0
  // omit that total, too; so does an error in the envelope of a list.
  const isError = typeof property(body, 'code') === 'string'
  const omitted = listed === undefined && isObject(page) && !isError ? 0 : undefined
  const total = wholeNumber(property(page, 'totalElements')) ?? omitted
  // Without a body, it is a 204.
  const isEmpty = body === undefined || (total !== undefined && total <= first)
  const rows = listed ?? (isEmpty ? [] : undefined)
  if (!Array.isArray(rows)) return undefined
  if (onRow !== undefined) for (const row of rows) onRow(row)
  if (onExactRow !== undefined) for (const row of (rowsOf(parseExact(text)) ?? []) as unknown[]) onExactRow(row)
  const read = rows.map((row) => readRecord(row, zone))
  const size = wholeNumber(property(page, 'size'))
  return {
    records: read.filter((row): row is WebhookRecord => !isUnreadable(row)),
    unreadable: read.filter(isUnreadable),
    rows: rows.length,
    size: size === 0 ? undefined : size,
    total,
  }
}

/** @param webhooksUrl URL of the webhook operations */
export function listOperation(webhooksUrl: string, query: ListQuery, zone: TimeZone): Operation<ListPage> {
  return {
    method: 'GET',
    url: listUrl(webhooksUrl, query),
    read: (body, text) => readListPage(body, text, { ...query, first: query.page * query.size, zone }),
  }
}

interface ResultMeaning {
  /**
   * The platform responded about the record: a try, counted towards `retry.maxAttempts`, and a sign that the platform works.
   */
  isOfRecord?: true
  /** May concern all records: three in a row trigger a ping (platform breaker). */
  isFailure?: true
  /** Keeps its place in the circuit for `probeTimeoutMs`, so that a failing platform is not called at the full rate. */
  keepsPlace?: true
  /** Counts as not accepted. The others shut a gate, or are no rejection. */
  isRefusal?: true
}

/** Meaning of each response to a PATCH. `intercepted`: an intermediary responded in the platform's place. */
const retryTable = {
  accepted: { isOfRecord: true },
  'already-resolved': { isOfRecord: true },
  gone: { isOfRecord: true, isRefusal: true },
  rejected: { isOfRecord: true, isRefusal: true },
  throttled: {},
  unauthorized: {},
  intercepted: { isFailure: true, isRefusal: true },
  'platform-error': { isFailure: true, keepsPlace: true, isRefusal: true },
  unreachable: { isFailure: true, isRefusal: true },
} as const satisfies Record<string, ResultMeaning>

export type RetryResult = keyof typeof retryTable

export const retryResults = Object.keys(retryTable) as RetryResult[]

export function meaningOf(result: RetryResult): ResultMeaning {
  return retryTable[result]
}

/** The status that the platform found instead of `failed`: it has been retried by somebody else. */
export type FoundStatus = Exclude<WebhookStatus, 'failed'>

/** A response other than the expected one. */
export interface CallResponse {
  reason: Reason
  /** Undefined without a response. */
  status?: number | undefined
  /** Code and message of the platform's error body. */
  problem?: string | undefined
}

export interface RetryResponse extends CallResponse {
  result: RetryResult
  /** With `already-resolved`, if the platform names it. */
  found?: FoundStatus
  /** With `accepted`: the returned record, if readable. */
  record?: WebhookRecord
  /** True if the platform may have accepted the retry, although its response does not say so. */
  lost?: true
}

/** By reason. A `conflict` has a code: that of an invalid status to which no retry leads, or another. A 409 without one is `intercepted`. */
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

/** @throws PlatformFailure for an id that is no UUID: it could escape from the path */
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

/**
 * What an invalid status means: somebody else has retried the record, unless the error names a status that no retry leads to. Such
 * a record stays listed as failed. The parameters are the required status and the found one. @see docs/platform-api.md "Errors"
 */
function resolvedBy(body: unknown): Pick<RetryResponse, 'found'> | undefined {
  const parameters = property(body, 'messageParameters')
  const names = Array.isArray(parameters) ? parameters.filter((name) => typeof name === 'string') : []
  const found = names.map(statusOf).find((status) => status !== undefined && status !== 'failed')
  if (found !== undefined) return { found }
  return names.length > 1 ? undefined : {}
}

/**
 * True if the platform may have accepted the retry: no complete response arrived, or a gateway wrote it after forwarding the
 * call. An error body with a `code` is the platform's own.
 */
function isResponseLost(exchange: Exchange<unknown>): boolean {
  const { isThrottled, reason, status } = exchange
  // Where the rate is limited by 503, the call was not let through.
  if (reason === 'intercepted' || isThrottled === true) return false
  if (status === undefined) return exchange.requestNotSent !== true
  if (exchange.code !== undefined) return false
  return status >= 500 || isSuccess(status)
}

/** Reads the response to a PATCH that was sent. */
export function readRetryResponse(exchange: Exchange<WebhookRecord | UnreadableRow>): RetryResponse {
  const { problem, reason, status } = exchange
  if (reason === 'ok') {
    const record = exchange.content
    return { result: 'accepted', reason, ...(!isUnreadable(record) && { record }) }
  }
  const response = { reason, status, problem }
  const resolved = exchange.code === invalidStatusCode ? resolvedBy(exchange.body) : undefined
  if (resolved !== undefined) return { ...response, result: 'already-resolved', ...resolved }
  const result = exchange.isThrottled === true ? 'throttled' : resultOfReason[reason]
  return { ...response, result, ...(isResponseLost(exchange) && { lost: true }) }
}
