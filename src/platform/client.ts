// The platform client: webhook operations with authentication, rate limit and classified results. Contains no policy.
import type { Clock, Random } from '../runtime/clock.ts'
import {
  isSuccess,
  TransportError,
  type HttpRequest,
  type HttpResponse,
  type Reason,
  type Transport,
} from './http/http.ts'
import type { TimeZone } from './time-zone.ts'
import {
  listOperation,
  readRetryResponse,
  retryOperation,
  type Exchange,
  type ListPage,
  type ListPurpose,
  type ListQuery,
  type Operation,
  type RetryResponse,
} from './operations.ts'
import { withoutGateways } from './no-content.ts'
import { createPageReader, type ReadPage } from './page-reader.ts'
import type { RateLimiter, RateReport, TrafficClass } from './rate-limiter.ts'
import { classifyOwn, PlatformFailure, retryAfterMs } from './http/response.ts'
import type { ServerClock } from './server-clock.ts'
import { youngTokenMs, type AccessToken, type TokenCache } from './auth/token.ts'
import { TokenError } from './auth/token-response.ts'
import { webhooksPath } from './wire.ts'

/** One HTTP exchange of the webhook operations. */
export interface RequestEvent {
  type: 'platform-request'
  operation: TrafficClass
  reason: Reason
  seconds: number
}

export interface ClientOptions {
  /** API base with any path, with or without a trailing slash. */
  baseUrl: string
  requestTimeoutMs: number
  zone: TimeZone
  tokens: Pick<TokenCache, 'get' | 'isHeld' | 'refused' | 'renewed'>
  transport: Transport
  rate: RateLimiter
  /** A list call fails if the platform's rate limit requires a longer wait. Default: it waits. */
  maxPauseMs?: number | undefined
  serverClock: ServerClock
  clock: Clock
  random: Random
  emit: (event: RequestEvent) => void
}

export interface PlatformClient {
  /**
   * Lists one page, in parts if its rows are large: each with at most 3 tries, and one replay after a 401. A 429 is no try: the
   * page is requested again when the rate allows. The purpose (default `list`) selects its share of the rate.
   * @throws PlatformFailure, TokenError, or the signal's reason. @see docs/platform-api.md "List webhooks"
   */
  list(query: ListQuery, signal: AbortSignal, purpose?: ListPurpose): Promise<ListPage>
  /** The smallest list, of a second an hour ago: one of all times may take too long. @throws as `list` does */
  ping(signal: AbortSignal, purpose?: ListPurpose): Promise<void>
  /**
   * Requests the retry of one record. The caller has acquired a call from the rate limiter while a token was held.
   * `isLimitedAlone` gets each response, and returns true for one that says nothing about the rate of other calls.
   * @throws the signal's reason, and PlatformFailure for an id that is no UUID; any other result is returned. @see
   * docs/platform-api.md "Retry a webhook"
   */
  retry(id: string, signal: AbortSignal, isLimitedAlone?: Operation<unknown>['isLimitedAlone']): Promise<RetryResponse>
  /** The platform's time, in epoch ms; the host's until it is known. */
  now(): number
  /** True once a response has shown the platform's time. */
  knowsTime(): boolean
}

/**
 * A platform that limits the rate by 503 accepts other calls; a failing one accepts none. It counts as limited
 * for this long after a successful response.
 */
const limitedMs = 10_000
/** The pauses that it asks for do not count in that, up to this much: a limit lets a call through by then. */
const maxLimitedPausesMs = 300_000
/** A page that meets so many 503 without a pause is not limited: the platform, though it accepts other calls, fails to list it. */
const maxUnpausedLimits = 30

/** Larger responses are truncated. */
const maxResponseBytes = 8 * 1024 * 1024
/** Time between two doubted tokens; it doubles while the new token gets the same response. */
const firstDoubtMs = 60_000
const maxDoubtMs = 3_600_000

/** Lists of later times may be refused, if the platform's zone or clock is not as assumed. */
const pingedAgoMs = 3_600_000

const maxTries = 3
/** Maximum wait before the first repeat; it doubles. */
const firstRepeatMs = 500
/** Maximum share of repeats among all calls, with a few allowed at the start. */
const repeatShare = 0.1
const maxRepeatCredit = 5

const repeatable: ReadonlySet<Reason> = new Set<Reason>([
  'server-error',
  'timeout',
  'connection',
  'tls',
  'invalid-body',
  'unauthorized',
])

/** The last exchange of a call. */
type Called<T> = Exchange<T> & {
  /** True if the call was replayed with another token. */
  isReplayed: boolean
  /** A 401 was not replayed, because no token was available. */
  tokenError?: TokenError
}

/** Reasons that suggest a void token without a 401: a 403, a redirect to a login page, or a response of an intermediary. */
const doubtful: ReadonlySet<Reason> = new Set<Reason>(['forbidden', 'redirect', 'invalid-body', 'intercepted'])
/** Reasons that say nothing about a token, though lists have failed for so long. Any other response of a list then may. */
const neverDoubtful: ReadonlySet<Reason> = new Set<Reason>(['ok', 'throttled'])
const silentMs = 60_000

/**
 * Sends a request for which a call was acquired from the rate limiter while a token was held. Rejects with the signal's reason,
 * or the TokenError if that has expired in this moment. After a 401, or a doubtful response where such calls have worked, the
 * request is replayed once with the then valid token, if `mayReplay`.
 */
type Call = <T>(
  kind: TrafficClass,
  operation: Operation<T>,
  signal: AbortSignal,
  mayReplay: boolean,
) => Promise<Called<T>>

/** Failures by which some platforms and gateways limit the rate of lists. A retry may fail in these ways for its record. */
const mayBeOfRate: ReadonlySet<Reason> = new Set<Reason>([
  'connection',
  'forbidden',
  'intercepted',
  'invalid-body',
  'redirect',
  'timeout',
  'tls',
])

/** What an exchange says about the rate. */
function kindOf(
  of: TrafficClass,
  { code, reason, status }: { code?: string | undefined; reason: Reason; status?: number | undefined },
): RateReport['kind'] {
  if (reason === 'throttled') return 'throttled'
  const mayBeOfRecord = of === 'retry' && code !== undefined && status !== 503
  const isOfLists = of !== 'retry' && code === undefined && mayBeOfRate.has(reason)
  return isOfLists || (reason === 'server-error' && !mayBeOfRecord) ? 'overloaded' : 'ok'
}

/** Acquires a call from the rate limiter while a token is held: calls that wait for one would all be sent at once when it comes. */
async function acquireWithToken(
  { rate, tokens }: Pick<ClientOptions, 'rate' | 'tokens'>,
  kind: TrafficClass,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await tokens.get(signal)
    await rate.acquire(kind, signal)
    // It may have been refused, or have expired, in the meantime.
    if (tokens.isHeld()) return
    rate.release(kind)
  }
}

function createCall(options: ClientOptions): Call {
  const { clock, rate, serverClock, tokens } = options
  /** The last token that the API accepted, for any call and by method. */
  let workingToken: AccessToken | undefined
  const worksFor = new Map<string, AccessToken>()
  /** Until then a doubtful response is believed, monotonic ms. */
  let believedUntil = -Infinity
  let doubtMs = firstDoubtMs
  let doubted: AccessToken | undefined
  /** When a call last succeeded, in monotonic ms, and the pauses until then. */
  let responded = { at: -Infinity, pausedMs: 0 }
  /** When a list first failed since then, monotonic ms; Infinity if none has. */
  let failingSince = Infinity

  function isDoubtful({ reason, status }: Exchange<unknown>, { method }: Operation<unknown>): boolean {
    // A PATCH of a missing record may get a 404 without an error body.
    if (doubtful.has(reason)) return !(status === 404 && method === 'PATCH')
    const isSilent = clock.monotonic() - failingSince > silentMs
    return isSilent && method === 'GET' && status !== undefined && !neverDoubtful.has(reason)
  }

  function toRequest({ method, url, body }: Operation<unknown>, token: AccessToken, signal: AbortSignal): HttpRequest {
    const headers: HttpRequest['headers'] = {
      accept: 'application/json',
      'accept-encoding': 'identity',
      authorization: `Bearer ${token.value}`,
    }
    if (body !== undefined) headers['content-type'] = 'application/json'
    return {
      ...{ method, url, headers, body },
      timeoutMs: options.requestTimeoutMs,
      maxBytes: maxResponseBytes,
      signal,
    }
  }

  /** Reads a response, from which the rate limiter and the server clock learn. */
  function read<T>(
    of: TrafficClass,
    operation: Operation<T>,
    response: HttpResponse,
    sent: { at: number; pausedMs: number },
  ): Exchange<T> {
    const classified = classifyOwn(response)
    const { status } = response
    serverClock.learn(response)
    const kind = kindOf(of, { ...classified, status })
    const saysLimit = kind === 'throttled' || (kind === 'overloaded' && status === 503)
    const waitMs = saysLimit ? retryAfterMs(response, serverClock.now()) : undefined
    const report = { kind, of, retryAfterMs: waitMs, sentAt: sent.at } as const
    const isAlone = operation.isLimitedAlone?.(report) === true
    if (!isAlone) rate.reportResponse(report)
    const pausedMs = Math.min(maxLimitedPausesMs, sent.pausedMs - responded.pausedMs)
    // A retry may have been accepted under a 503, unless that asks for a wait.
    const mayBeLimited = saysLimit && (waitMs !== undefined || of !== 'retry')
    const isLimited = isAlone || sent.at - responded.at - pausedMs < limitedMs
    const isThrottled = kind === 'throttled' || (mayBeLimited && isLimited)
    if (classified.reason !== 'ok') return { ...classified, reason: classified.reason, status, isThrottled }
    const content = operation.read(classified.body, response.body)
    return content === undefined
      ? { ...classified, reason: 'invalid-body', status }
      : { ...classified, reason: 'ok', status, content, bytes: response.body.length }
  }

  /** One exchange with one token. Rejects only with the signal's reason. */
  async function once<T>(
    kind: TrafficClass,
    operation: Operation<T>,
    token: AccessToken,
    signal: AbortSignal,
  ): Promise<Exchange<T>> {
    const sentAt = clock.monotonic()
    // Where lists alone pause, no call may show that the platform still accepts some.
    const sent = { at: sentAt, pausedMs: rate.pausedMs('list') }
    let exchange: Exchange<T>
    try {
      exchange = read(kind, operation, await options.transport(toRequest(operation, token, signal)), sent)
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      const { code: transportCode, reason, requestNotSent } = error
      const nothing = { body: undefined, code: undefined, status: undefined }
      exchange = { ...nothing, reason, requestNotSent, transportCode }
      if (kindOf(kind, exchange) === 'overloaded')
        rate.reportResponse({ kind: 'overloaded', of: kind, retryAfterMs: undefined, sentAt })
    }
    if (exchange.reason !== 'ok' && operation.method === 'GET') failingSince = Math.min(failingSince, clock.monotonic())
    if (exchange.reason === 'ok') {
      failingSince = Infinity
      responded = { at: clock.monotonic(), pausedMs: rate.pausedMs('list') }
      workingToken = token
      worksFor.set(operation.method, token)
    }
    const seconds = (clock.monotonic() - sentAt) / 1000
    options.emit({ type: 'platform-request', operation: kind, reason: exchange.reason, seconds })
    return exchange
  }

  const isYoung = (token: AccessToken): boolean => clock.monotonic() - token.obtainedAt < youngTokenMs

  /** A young token that never worked may not be known to every server yet, in whatever way that is said. */
  function refuses(token: AccessToken, operation: Operation<unknown>, exchange: Exchange<unknown>): boolean {
    if (exchange.reason === 'unauthorized') return true
    const isUnknown = token !== workingToken && worksFor.has(operation.method) && isYoung(token)
    return isUnknown && isDoubtful(exchange, operation) && clock.monotonic() >= believedUntil
  }

  /** Doubts a token, for all its calls, where such calls have worked, with this one or an earlier one; at most once in a while. */
  function doubts(token: AccessToken, operation: Operation<unknown>, exchange: Exchange<unknown>): boolean {
    const now = clock.monotonic()
    const working = worksFor.get(operation.method)
    if (!isDoubtful(exchange, operation) || working === undefined || (working !== token && isYoung(token))) return false
    if (now >= believedUntil) {
      if (now >= believedUntil + doubtMs) doubtMs = firstDoubtMs
      doubted = token
      believedUntil = now + doubtMs
      doubtMs = Math.min(2 * doubtMs, maxDoubtMs)
    }
    return doubted === token
  }

  /** Another token instead of a doubted one; undefined if there is none, and the response is believed. */
  async function renewed(token: AccessToken, signal: AbortSignal): Promise<AccessToken | undefined> {
    try {
      return await tokens.renewed(token, signal)
    } catch (error) {
      if (error instanceof TokenError) return undefined
      throw error
    }
  }

  return async (kind, operation, signal, mayReplay) => {
    const token = await tokens.get(signal)
    const first = { ...(await once(kind, operation, token, signal)), isReplayed: false }
    const isRefused = refuses(token, operation, first)
    if (isRefused) tokens.refused(token, { hasWorked: token === workingToken })
    const isDoubted = !isRefused && doubts(token, operation, first)
    // The platform may have accepted a PATCH although an unreadable body or a page was returned.
    const mayBeDone = first.status === undefined || isSuccess(first.status)
    const isOver = !mayReplay || (mayBeDone && operation.method === 'PATCH')
    if (isDoubted && (await renewed(token, signal)) === undefined) return first
    if (isOver || !(isRefused || isDoubted)) return first
    try {
      await acquireWithToken(options, kind, signal)
      const next = await tokens.get(signal)
      const second = await once(kind, operation, next, signal)
      if (second.reason === 'unauthorized') tokens.refused(next, { hasWorked: next === workingToken })
      // Without a response, or with a 429, nothing is known of the new token.
      const isJudged = second.status !== undefined && second.reason !== 'throttled'
      if (isDoubted && isJudged && !isDoubtful(second, operation)) doubtMs = firstDoubtMs
      return { ...second, isReplayed: true }
    } catch (error) {
      if (!(error instanceof TokenError)) throw error
      return { ...first, tokenError: error }
    }
  }
}

export function createPlatformClient(options: ClientOptions): PlatformClient {
  const { clock, maxPauseMs = Infinity, random, rate, serverClock, zone } = options
  const webhooksUrl = options.baseUrl.replace(/\/+$/, '') + webhooksPath
  const call = createCall(options)
  let repeatCredit = maxRepeatCredit

  /** True if a list call may be repeated; counts the repeat. */
  function mayRepeat(reason: Reason, tries: number): boolean {
    if (tries >= maxTries || !repeatable.has(reason) || repeatCredit < 1) return false
    repeatCredit -= 1
    return true
  }

  async function readOnce(query: ListQuery, purpose: ListPurpose, signal: AbortSignal): Promise<ReadPage> {
    const operation = listOperation(webhooksUrl, query, zone)
    repeatCredit = Math.min(maxRepeatCredit, repeatCredit + repeatShare)
    let isReplayed = false
    let failure: PlatformFailure | undefined
    // No token is available because the API rejected the last ones.
    const rethrow = (error: unknown): never => {
      throw error instanceof TokenError && failure?.reason === 'unauthorized' ? failure : error
    }
    let limited = 0
    for (let tries = 1; ;) {
      if (rate.pausedForMs(purpose) >= maxPauseMs) throw failure ?? new PlatformFailure('throttled', undefined, 'list')
      await acquireWithToken(options, purpose, signal).catch(rethrow)
      const sentAt = clock.monotonic()
      const called: Called<ListPage> = await call(purpose, operation, signal, !isReplayed).catch(rethrow)
      if (called.reason === 'ok') {
        return {
          page: called.content,
          status: called.status,
          bytes: called.bytes,
          seconds: (clock.monotonic() - sentAt) / 1000,
        }
      }
      const { isThrottled, problem, reason, status, tokenError, transportCode } = called
      if (tokenError !== undefined) throw tokenError
      isReplayed ||= called.isReplayed
      failure = new PlatformFailure(reason, status, 'list', { problem, transportCode })
      const isUnpaused = reason !== 'throttled' && rate.pausedForMs(purpose) === 0
      if (isUnpaused) limited += 1
      if (isThrottled === true && !(isUnpaused && limited > maxUnpausedLimits)) continue
      if (!mayRepeat(reason, tries)) throw failure
      await clock.sleep(random.next() * firstRepeatMs * 2 ** (tries - 1), signal)
      tries += 1
    }
  }

  async function retry(...[id, signal, isLimitedAlone]: Parameters<PlatformClient['retry']>): Promise<RetryResponse> {
    const operation = { ...retryOperation(webhooksUrl, id, zone), isLimitedAlone }
    try {
      return readRetryResponse(await call('retry', operation, signal, true))
    } catch (error) {
      signal.throwIfAborted()
      // The token that was held has expired in this moment.
      if (error instanceof TokenError) return { result: 'unreachable', reason: error.reason }
      throw error
    }
  }

  const list = createPageReader(withoutGateways(readOnce, clock), options.requestTimeoutMs)

  return {
    list,
    async ping(signal, purpose) {
      const second = Math.floor(zone.toLocal(serverClock.now() - pingedAgoMs) / 1000)
      await list({ status: 'failed', from: second, to: second + 1, page: 0, size: 1 }, signal, purpose)
    },
    retry,
    now: () => serverClock.now(),
    knowsTime: () => serverClock.isKnown(),
  }
}

/** The platform's time, asked for if unknown: with a wrong host clock, a window would be shifted. */
export async function learnTime(
  client: Pick<PlatformClient, 'knowsTime' | 'now' | 'ping'>,
  signal: AbortSignal,
): Promise<number> {
  try {
    if (!client.knowsTime()) await client.ping(signal)
  } catch (error) {
    // By this host's clock, it may have asked for a future that the platform does not list.
    if (!(error instanceof PlatformFailure) || !client.knowsTime()) throw error
  }
  return client.now()
}
