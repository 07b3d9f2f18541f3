// One authenticated HTTP call of a webhook operation: its token, its place in the rate, its replay after a 401, told once.
import type { Clock } from '../runtime/clock.ts'
import { readAnswer, retryAfterMs, type ReadAnswer } from './failure.ts'
import { TransportError, type HttpRequest, type HttpResponse, type Reason, type Transport } from './http.ts'
import type { Rate, RateClass } from './rate.ts'
import type { ServerClock } from './server-clock.ts'
import { TokenError } from './token.ts'

/** What the client needs of the token manager. */
export interface TokenSource {
  get(signal?: AbortSignal): Promise<{ readonly value: string; readonly obtainedAt: number }>
  void(token: { readonly value: string; readonly obtainedAt: number }): void
}

type Token = Awaited<ReturnType<TokenSource['get']>>

/** Every HTTP exchange of the webhook operations, told once. */
export interface RequestFact {
  type: 'platform-request'
  operation: 'list' | 'retry' | 'confirm'
  reason: Reason
  seconds: number
}

export interface CallerOptions {
  requestTimeoutMs: number
  tokens: TokenSource
  transport: Transport
  rate: Rate
  /** Of the API's origin. */
  serverClock: ServerClock
  clock: Clock
  report: (fact: RequestFact) => void
}

/** What is asked for, and for whose share of the rate. */
export interface Call extends Pick<HttpRequest, 'method' | 'url' | 'body'> {
  operation: RequestFact['operation']
  kind: RateClass
  /** Whether a good answer's body holds what was asked for; else it is no good answer. */
  holds: (body: unknown) => boolean
}

/** One exchange, with or without an answer. */
export interface Exchange {
  answer: ReadAnswer
  status: number | undefined
  /** True when it is sure that nothing reached the platform. */
  neverLeft?: boolean
  /** Without an answer: why, as a code of Node, OpenSSL or undici. */
  transportCode?: string
}

/** What came of a call. */
export interface CallResult extends Exchange {
  /** True when it was replayed after a 401. */
  replayed: boolean
  /** A 401 was not replayed, because no token could be had any more. */
  noToken?: TokenError
}

export interface Caller {
  /**
   * Sends a call for which the rate has been acquired; without a token it gives that back and rejects with the
   * TokenError, or with the signal's reason. After a 401 it is replayed once, if `mayReplay`: with a new token, or with
   * the same when it is so young that it may not be known everywhere yet.
   */
  send(call: Call, signal: AbortSignal, mayReplay: boolean): Promise<CallResult>
}

/** Answers above this are not read on. */
const maxAnswerBytes = 8 * 1024 * 1024
/** A token younger than this may not have reached every server of the platform yet. */
const youngTokenMs = 10_000
const youngTokenReplayMs = 1000

/** The member of an object of unknown JSON; undefined of anything else. */
export function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined
}

export function createCaller(options: CallerOptions): Caller {
  const { clock, rate, serverClock, tokens } = options

  function learn(response: HttpResponse, answer: ReadAnswer, sentAt: number): void {
    serverClock.learn(response)
    // A platform that has an error body to give under 503 is not overloaded.
    const overloaded = response.status === 503 && !answer.knownCode
    const kind = answer.reason === 'throttled' ? 'throttled' : overloaded ? 'overloaded' : 'ok'
    rate.feedback({ kind, retryAfterMs: kind === 'ok' ? undefined : retryAfterMs(response, serverClock.now()), sentAt })
  }

  function toRequest({ method, url, body }: Call, token: Token, signal: AbortSignal): HttpRequest {
    return {
      method,
      url,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'identity',
        authorization: `Bearer ${token.value}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
      timeoutMs: options.requestTimeoutMs,
      maxBytes: maxAnswerBytes,
      signal,
    }
  }

  /** One exchange with one token. Rejects only with the signal's reason. */
  async function once(call: Call, token: Token, signal: AbortSignal): Promise<Exchange> {
    const { operation } = call
    const sentAt = clock.monotonic()
    const tell = (reason: Reason): void => {
      options.report({ type: 'platform-request', operation, reason, seconds: (clock.monotonic() - sentAt) / 1000 })
    }
    try {
      const response = await options.transport(toRequest(call, token, signal))
      const read = readAnswer(response)
      const answer =
        read.reason === 'ok' && !call.holds(read.body) ? { ...read, reason: 'invalid-body' as const } : read
      learn(response, answer, sentAt)
      tell(answer.reason)
      return { answer, status: response.status }
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      tell(error.reason)
      const { code: transportCode, neverLeft, reason } = error
      const answer = { reason, body: undefined, code: undefined, knownCode: false }
      return { answer, status: undefined, neverLeft, transportCode }
    }
  }

  async function tokenFor(call: Call, signal: AbortSignal): Promise<Token> {
    try {
      return await tokens.get(signal)
    } catch (error) {
      rate.release(call.kind)
      throw error
    }
  }

  /** The token for the replay, with a place in the rate acquired. */
  async function nextToken(call: Call, refused: Token, signal: AbortSignal): Promise<Token> {
    const isYoung = clock.monotonic() - refused.obtainedAt < youngTokenMs
    if (isYoung) await clock.sleep(youngTokenReplayMs, signal)
    else tokens.void(refused)
    await rate.acquire(call.kind, signal)
    return isYoung ? refused : tokenFor(call, signal)
  }

  async function replay(call: Call, first: Exchange, refused: Token, signal: AbortSignal): Promise<CallResult> {
    let token: Token
    try {
      token = await nextToken(call, refused, signal)
    } catch (error) {
      if (error instanceof TokenError) return { ...first, replayed: false, noToken: error }
      throw error
    }
    const second = await once(call, token, signal)
    if (second.answer.reason === 'unauthorized') tokens.void(token)
    return { ...second, replayed: true }
  }

  return {
    async send(call, signal, mayReplay) {
      const token = await tokenFor(call, signal)
      const first = await once(call, token, signal)
      if (first.answer.reason !== 'unauthorized') return { ...first, replayed: false }
      if (mayReplay) return replay(call, first, token, signal)
      tokens.void(token)
      return { ...first, replayed: false }
    },
  }
}
