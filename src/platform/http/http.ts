// HTTP exchanges over undici, bounded in time and size: follow no redirect, decompress nothing, repeat nothing.
import { Agent, EnvHttpProxyAgent, Pool, request as send, type Dispatcher } from 'undici'
import type { Clock } from '../../runtime/clock.ts'
import { abortable, linkAbort } from '../../runtime/notifier.ts'
import type { ProxySettings } from './proxy.ts'

/** Result of a call. The same words are the values of the metric label `reason`. */
export const reasons = [
  'ok',
  'bad-request',
  'unauthorized',
  'forbidden',
  'not-found',
  'conflict',
  'throttled',
  'server-error',
  'timeout',
  'connection',
  'tls',
  'redirect',
  'too-large',
  'invalid-body',
  'other',
] as const

export type Reason = (typeof reasons)[number]

export interface HttpRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  url: URL
  headers: Record<string, string>
  body?: string
  /** Total deadline of the exchange in milliseconds, from the call to the last byte of the answer. */
  timeoutMs: number
  /** Answers above this many bytes are cut off and fail with `too-large`. */
  maxBytes: number
  /** True: never through a proxy. */
  direct?: boolean
  signal?: AbortSignal | undefined
}

export interface HttpResponse {
  status: number
  /** Header names in lower case; a repeated header keeps its first value. */
  headers: Record<string, string>
  body: string
  /** Monotonic clock, ms: when the request was sent, and when the head of the answer had come. */
  sentAt: number
  receivedAt: number
}

/**
 * Sends one request. A 3xx is an answer like any other.
 * Rejects with TransportError, or with the signal's reason when it is aborted.
 */
export type Transport = (request: HttpRequest) => Promise<HttpResponse>

/** No (whole) answer came. Carries neither URL, headers nor body, so that logging it can't leak them. */
export class TransportError extends Error {
  readonly code: string
  readonly reason: Extract<Reason, 'timeout' | 'connection' | 'tls' | 'too-large'>
  /** True when it is certain that nothing of the request was written to a connection. */
  readonly requestNotSent: boolean

  constructor(reason: TransportError['reason'], code: string, { requestNotSent = false } = {}) {
    super(`no usable answer: ${reason} (${code})`)
    this.name = 'TransportError'
    this.reason = reason
    this.code = code
    this.requestNotSent = requestNotSent
  }
}

export interface HttpTransportOptions {
  clock: Clock
  /** Connections per origin. undici's own default has no limit. */
  connections: number
  /** How long a connection may take to be made, TLS included, in ms. Default 5 s; undici's own is 10 s. */
  connectTimeoutMs?: number
  /** Default: none. */
  proxy?: ProxySettings | undefined
  /** The only certificate authorities (PEM) to trust. Default: those of Node. */
  ca?: string
  /** Tests put a MockAgent here. */
  dispatcher?: Dispatcher
}

export interface HttpTransport {
  transport: Transport
  /** Ends all connections at once. */
  close(): Promise<void>
}

interface SentState {
  /** Something of the request may have been written to a connection. */
  isSent: boolean
}

const defaultConnectTimeoutMs = 5_000

/** Created once: without a reason, each abort would create an exception with a stack. */
const deadline = new TransportError('timeout', 'DEADLINE')
const deadlineUnsent = new TransportError('timeout', 'DEADLINE', { requestNotSent: true })

const timeoutCodes = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
])
const tlsCode = /^(ERR_TLS|ERR_SSL|CERT_|CRL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/

/** undici shows a proxy's refusal of a tunnel only in the message. */
const tunnelRefused = /^Proxy response \((\d{3})\)/

function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    const [, status] = tunnelRefused.exec(at.message) ?? []
    if (status !== undefined) return `PROXY_STATUS_${status}`
    if ('code' in at && typeof at.code === 'string') return at.code
  }
  return error instanceof Error ? error.name : 'UNKNOWN'
}

function toTransportError(error: unknown, { isSent }: SentState): TransportError {
  if (error === deadline) return isSent ? deadline : deadlineUnsent
  if (error instanceof TransportError) return error
  const code = codeOf(error)
  const reason = timeoutCodes.has(code) ? 'timeout' : tlsCode.test(code) ? 'tls' : 'connection'
  return new TransportError(reason, code, { requestNotSent: !isSent })
}

function firstValues(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const first: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value[0] : value
    if (text !== undefined) first[name.toLowerCase()] = text
  }
  return first
}

async function readBody(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new TransportError('too-large', 'TOO_LARGE')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, bytes).toString('utf8')
}

/**
 * Marks the exchange when its request is about to be written. Error codes do not show that: the same code can come from
 * a handshake and from a connection that breaks later.
 */
function marking(dispatch: Dispatcher['dispatch']): Dispatcher['dispatch'] {
  return (options, handler) => {
    const { opaque: exchange } = options as Dispatcher.RequestOptions<SentState>
    const onRequestStart = handler.onRequestStart?.bind(handler)
    handler.onRequestStart = (controller, context) => {
      if (exchange != null) exchange.isSent = true
      onRequestStart?.(controller, context)
    }
    return dispatch(options, handler)
  }
}

/** The same without a proxy. */
function agentsOf(options: HttpTransportOptions): { usual: Dispatcher; direct: Dispatcher } {
  const { ca, connections, connectTimeoutMs = defaultConnectTimeoutMs, dispatcher, proxy } = options
  if (dispatcher !== undefined) return { usual: dispatcher, direct: dispatcher }
  const bounds = {
    ...{ allowH2: false, connections, pipelining: 1 },
    ...{ connectTimeout: connectTimeoutMs, headersTimeout: 0, bodyTimeout: 0 },
    ...(ca !== undefined && { connect: { ca } }),
  }
  const direct = new Agent(bounds)
  if (proxy === undefined) return { usual: direct, direct }
  const usual = new EnvHttpProxyAgent({
    ...bounds,
    ...{ httpProxy: proxy.http, httpsProxy: proxy.https, noProxy: proxy.none },
    // For connections to the proxy itself: a CONNECT without an answer would hold its place for five minutes.
    clientFactory: (origin, given) => new Pool(origin, { ...given, headersTimeout: connectTimeoutMs }),
  })
  return { usual, direct }
}

export function createHttpTransport(options: HttpTransportOptions): HttpTransport {
  const { clock } = options
  const agents = agentsOf(options)
  const dispatchers = { usual: agents.usual.compose(marking), direct: agents.direct.compose(marking) }

  async function receive(request: HttpRequest, signal: AbortSignal, exchange: SentState): Promise<HttpResponse> {
    const sentAt = clock.monotonic()
    const answer = await send(request.url, {
      method: request.method,
      headers: request.headers,
      body: request.body ?? null,
      signal,
      dispatcher: request.direct === true ? dispatchers.direct : dispatchers.usual,
      opaque: exchange,
    })
    const receivedAt = clock.monotonic()
    const headers = firstValues(answer.headers)
    if (Number(headers['content-length']) > request.maxBytes) {
      answer.body.destroy()
      throw new TransportError('too-large', 'TOO_LARGE')
    }
    return {
      status: answer.statusCode,
      headers,
      body: await readBody(answer.body, request.maxBytes),
      sentAt,
      receivedAt,
    }
  }

  async function transport(request: HttpRequest): Promise<HttpResponse> {
    request.signal?.throwIfAborted()
    const exchange: SentState = { isSent: false }
    using ended = linkAbort(request.signal === undefined ? [] : [request.signal])
    clock.sleep(request.timeoutMs, ended.signal).then(
      () => {
        ended.abort(deadline)
      },
      () => undefined,
    )
    try {
      // undici reports an abort of a request that still waits for a connection only when it has one.
      return await abortable(receive(request, ended.signal, exchange), ended.signal)
    } catch (error) {
      request.signal?.throwIfAborted()
      throw toTransportError(ended.signal.reason === deadline ? deadline : error, exchange)
    }
  }

  return {
    transport,
    async close() {
      await Promise.all([...new Set(Object.values(agents))].map((agent) => agent.destroy()))
    },
  }
}
