// The platform's two webhook operations as functions: authenticated, paced, classified. Knows no policy.
import type { Clock, Random } from '../clock.ts'
import { maxRetryAfterMs, PlatformFailure, readAnswer, retryAfterMs, type ReadAnswer } from './failure.ts'
import { TransportError, type HttpRequest, type HttpResponse, type Reason, type Transport } from './http.ts'
import { formatLocalSecond, type Zone } from './local-time.ts'
import type { Rate, RateClass } from './rate.ts'
import { isUnreadable, isUuid, readRecord, type UnreadableRow, type WebhookRecord } from './record.ts'
import type { Skew } from './skew.ts'
import { TokenError } from './token.ts'
import { listParameter, retryRequestBody, webhooksPath, type WebhookStatus } from './wire.ts'

/** What the client needs of the token manager. */
export interface TokenSource {
  get(signal?: AbortSignal): Promise<{ readonly value: string; readonly obtainedAt: number }>
  void(token: { readonly value: string; readonly obtainedAt: number }): void
}

/** Every HTTP exchange of the webhook operations, told once. */
export interface RequestFact {
  type: 'platform-request'
  operation: 'list' | 'retry'
  reason: Reason
  seconds: number
}

export interface ClientOptions {
  /** API base without a trailing slash; may carry any path. */
  baseUrl: string
  requestTimeoutMs: number
  zone: Zone
  tokens: TokenSource
  transport: Transport
  rate: Rate
  skew: Skew
  clock: Clock
  random: Random
  report: (fact: RequestFact) => void
}

export interface ListQuery {
  status?: WebhookStatus
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

/** What the platform said to one PATCH (design section 2). */
export const retryResults = [
  'accepted',
  'already-resolved',
  'gone',
  'rejected',
  'throttled',
  'unauthorized',
  'platform-error',
  'unreachable',
] as const

export type RetryResult = (typeof retryResults)[number]
export type FoundStatus = 'processing' | 'successful' | 'other'

export interface RetryAnswer {
  result: RetryResult
  reason: Reason
  /** False when no PATCH went out, because no token could be had. Then it is no attempt. */
  sent: boolean
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** With `accepted`: the record as answered, when it could be read. */
  record?: WebhookRecord
  /** With `gone`: true when the answer had no code that the specification knows, as from a misrouted gateway. */
  doubtful?: boolean
}

export interface PlatformClient {
  /** Lists one page; at most 3 tries. @throws PlatformFailure, TokenError, or the signal's reason. @see platform-api.md 4.2 */
  list(query: ListQuery, signal: AbortSignal): Promise<ListPage>
  /** Asks for one record's retry. Everything but an abort is an answer. @see platform-api.md 4.3 */
  retry(id: string, signal: AbortSignal): Promise<RetryAnswer>
  /** The platform's time as far as it is known, in epoch ms. */
  now(): number
}

/** Answers above this are not read on. */
const maxAnswerBytes = 32 * 1024 * 1024
const maxTries = 3
const firstRepeatMs = 250
/** Repeats stay under this part of the calls, with a few to begin with. */
const repeatShare = 0.1
const maxRepeatCredit = 5
/** A token younger than this may not have reached every server of the platform yet. */
const youngTokenMs = 10_000
const youngTokenReplayMs = 1000

const repeatable: ReadonlySet<Reason> = new Set<Reason>([
  'throttled',
  'server-error',
  'timeout',
  'connection',
  'tls',
  'invalid-body',
  'unauthorized',
])

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
  redirect: 'platform-error',
  'too-large': 'platform-error',
  'invalid-body': 'platform-error',
  other: 'rejected',
} as const satisfies Record<Reason, RetryResult>

/** What is asked for, and for whose share of the rate. */
interface Call {
  operation: RequestFact['operation']
  kind: RateClass
  /** Whether a good answer's body holds what was asked for; else it is no good answer. */
  holds: (body: unknown) => boolean
}

/** One exchange, with or without an answer. */
interface Exchange {
  answer: ReadAnswer
  status: number | undefined
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined
}

function rowsOf(body: unknown): unknown {
  return member(member(body, 'data'), 'webhooks')
}

function isRecordOf(body: unknown, id: string): boolean {
  const answered = member(member(member(body, 'data'), 'webhook'), 'id')
  return typeof answered === 'string' && answered.toLowerCase() === id.toLowerCase()
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
}

function listUrl(baseUrl: string, query: ListQuery): URL {
  const url = new URL(baseUrl + webhooksPath)
  url.searchParams.set(listParameter.pageNumber, String(query.page))
  url.searchParams.set(listParameter.pageSize, String(query.size))
  if (query.status !== undefined) url.searchParams.set(listParameter.status, query.status)
  if (query.from !== undefined) url.searchParams.set(listParameter.from, formatLocalSecond(query.from))
  if (query.to !== undefined) url.searchParams.set(listParameter.to, formatLocalSecond(query.to))
  return url
}

/** @throws PlatformFailure for an id that is no UUID: such an id could climb out of the path. */
function retryUrl(baseUrl: string, id: string): URL {
  const url = new URL(`${baseUrl}${webhooksPath}/${id}`)
  const base = new URL(baseUrl)
  if (!isUuid(id) || url.origin !== base.origin) throw new PlatformFailure('other', undefined, 'retry of an odd id')
  return url
}

/** `already-resolved`: the second parameter names the status that was found. @see platform-api.md 7 */
function foundStatus(body: unknown): FoundStatus {
  const parameters = member(body, 'messageParameters')
  const found: unknown = Array.isArray(parameters) ? parameters[1] : undefined
  const word = typeof found === 'string' ? found.trim().toLowerCase() : ''
  return word === 'processing' || word === 'successful' ? word : 'other'
}

export function createPlatformClient(options: ClientOptions): PlatformClient {
  const { clock, rate, skew, tokens, zone } = options
  let repeatCredit = maxRepeatCredit

  function platformNow(): number {
    return clock.now() + skew.estimate()
  }

  function learn(response: HttpResponse, answer: ReadAnswer, sentAt: number): void {
    skew.learn({
      dateHeader: response.headers['date'],
      hasAge: response.headers['age'] !== undefined,
      sentAt: response.sentAt,
      receivedAt: response.receivedAt,
    })
    const overloaded = response.status === 503
    const kind = answer.reason === 'throttled' ? 'throttled' : overloaded ? 'overloaded' : 'ok'
    const wait = kind === 'ok' ? undefined : retryAfterMs(response, platformNow())
    rate.feedback({ kind, retryAfterMs: wait === undefined ? undefined : Math.min(wait, maxRetryAfterMs), sentAt })
  }

  /** One exchange with one token. Rejects only with the signal's reason. */
  async function once(
    { operation, holds }: Call,
    request: Omit<HttpRequest, 'headers' | 'timeoutMs' | 'maxBytes'>,
    token: string,
  ): Promise<Exchange> {
    const sentAt = clock.monotonic()
    const tell = (reason: Reason): void => {
      options.report({ type: 'platform-request', operation, reason, seconds: (clock.monotonic() - sentAt) / 1000 })
    }
    try {
      const response = await options.transport({
        ...request,
        headers: {
          accept: 'application/json',
          'accept-encoding': 'identity',
          authorization: `Bearer ${token}`,
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        timeoutMs: options.requestTimeoutMs,
        maxBytes: maxAnswerBytes,
      })
      const read = readAnswer(response)
      const answer = read.reason === 'ok' && !holds(read.body) ? { ...read, reason: 'invalid-body' as const } : read
      learn(response, answer, sentAt)
      tell(answer.reason)
      return { answer, status: response.status }
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      tell(error.reason)
      return {
        answer: { reason: error.reason, body: undefined, code: undefined, knownCode: false },
        status: undefined,
      }
    }
  }

  /** One exchange, replayed once after a 401: with a new token, or with the same when it is so young that it may not be known yet. */
  async function authenticated(
    call: Call,
    request: Omit<HttpRequest, 'headers' | 'timeoutMs' | 'maxBytes'> & { signal: AbortSignal },
  ): Promise<Exchange> {
    const token = await tokens.get(request.signal)
    const first = await once(call, request, token.value)
    if (first.answer.reason !== 'unauthorized') return first
    const young = clock.monotonic() - token.obtainedAt < youngTokenMs
    if (young) await clock.sleep(youngTokenReplayMs, request.signal)
    else tokens.void(token)
    const again = young ? token : await tokens.get(request.signal)
    await rate.acquire(call.kind, request.signal)
    const second = await once(call, request, again.value)
    if (second.answer.reason === 'unauthorized') tokens.void(again)
    return second
  }

  function readPage(exchange: Exchange): ListPage {
    const { answer, status } = exchange
    if (answer.reason !== 'ok') throw new PlatformFailure(answer.reason, status, 'list')
    const rows = rowsOf(answer.body)
    if (!Array.isArray(rows)) throw new PlatformFailure('invalid-body', status, 'list')
    const page = member(member(answer.body, 'metadata'), 'page')
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

  async function list(query: ListQuery, signal: AbortSignal): Promise<ListPage> {
    repeatCredit = Math.min(maxRepeatCredit, repeatCredit + repeatShare)
    for (let tries = 1; ; tries += 1) {
      await rate.acquire('list', signal)
      try {
        const call: Call = { operation: 'list', kind: 'list', holds: (body) => Array.isArray(rowsOf(body)) }
        return readPage(await authenticated(call, { method: 'GET', url: listUrl(options.baseUrl, query), signal }))
      } catch (error) {
        const again = error instanceof PlatformFailure && repeatable.has(error.reason) && tries < maxTries
        if (!again || repeatCredit < 1) throw error
        repeatCredit -= 1
        await clock.sleep(options.random.next() * firstRepeatMs * 2 ** tries, signal)
      }
    }
  }

  function readRetry(exchange: Exchange): RetryAnswer {
    const { answer, status } = exchange
    if (answer.knownCode)
      return { result: 'already-resolved', reason: answer.reason, sent: true, found: foundStatus(answer.body) }
    if (answer.reason === 'ok') {
      const record = readRecord(member(member(answer.body, 'data'), 'webhook'), zone)
      return { result: 'accepted', reason: 'ok', sent: true, ...(isUnreadable(record) ? {} : { record }) }
    }
    const isClientError = status !== undefined && status < 500
    const result = answer.reason === 'other' && !isClientError ? 'platform-error' : resultOfReason[answer.reason]
    return { result, reason: answer.reason, sent: true, ...(result === 'gone' ? { doubtful: true } : {}) }
  }

  async function retry(id: string, signal: AbortSignal): Promise<RetryAnswer> {
    const url = retryUrl(options.baseUrl, id)
    const body = JSON.stringify(retryRequestBody)
    const call: Call = { operation: 'retry', kind: 'retry', holds: (answer) => isRecordOf(answer, id) }
    let exchange: Exchange
    try {
      exchange = await authenticated(call, { method: 'PATCH', url, body, signal })
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof TokenError)) throw error
      // Without a token nothing was sent, or the 401 that was answered stands.
      return { result: 'unauthorized', reason: 'unauthorized', sent: false }
    }
    return readRetry(exchange)
  }

  return { list, retry, now: platformNow }
}
