// HTTP exchanges over undici, bounded in time and size: no redirects, no compression, no repetition.
import { validateHeaderValue } from 'node:http'
import { Agent, EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici'
import type { Clock } from '../../runtime/clock.ts'
import { onAbort } from '../../runtime/on-abort.ts'
import { userAgentOf } from '../../runtime/user-agent.ts'
import type { ProxySettings } from './proxy.ts'

/** Results of a call, which are also the values of the metric label `reason`. */
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
  'intercepted',
  'other',
] as const

export type Reason = (typeof reasons)[number]

export interface HttpRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  url: URL
  headers: Record<string, string>
  body?: string | undefined
  /** Deadline of the exchange in milliseconds, up to the last byte of the response. */
  timeoutMs: number
  /** Larger responses are truncated and fail with `too-large`. */
  maxBytes: number
  /** True: never through a proxy. */
  direct?: boolean
  /** Receives the body of a 2xx response as it arrives; the response's own is then empty. */
  onChunk?: (chunk: Uint8Array) => void
  signal?: AbortSignal | undefined
}

export interface HttpResponse {
  status: number
  /** Header names in lower case; a repeated header keeps its first value. */
  headers: Record<string, string>
  body: string
  /** Monotonic ms when the request was sent, and when the head of the response had arrived. */
  sentAt: number
  receivedAt: number
}

/** True for a 2xx. */
export const isSuccess = (status: number): boolean => Math.trunc(status / 100) === 2

/** True if a text may be sent as a bearer token: visible ASCII only. */
export function isBearerToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text)
}

/**
 * Sends one request. A 3xx is a response like any other.
 * Rejects with TransportError, or with the signal's reason when it is aborted.
 */
export type Transport = (request: HttpRequest) => Promise<HttpResponse>

/** No complete response arrived. Holds neither URL, headers nor body, so that logging it can't leak them. */
export class TransportError extends Error {
  readonly code: string
  readonly reason: Extract<Reason, 'timeout' | 'connection' | 'tls' | 'too-large' | 'invalid-body'>
  /** True if certainly nothing of the request was sent. */
  readonly requestNotSent: boolean

  constructor(reason: TransportError['reason'], code: string, { requestNotSent = false } = {}) {
    super(`no usable response: ${reason} (${code})`)
    this.name = 'TransportError'
    this.reason = reason
    this.code = code
    this.requestNotSent = requestNotSent
  }
}

export interface HttpTransportOptions {
  clock: Clock
  version: string
  /** Connections per origin. undici's default is unlimited. */
  connections: number
  proxy?: ProxySettings | undefined
  /** The only certificate authorities (PEM) to trust. Default: Node's. */
  ca?: string
}

export interface HttpTransport {
  transport: Transport
  /** Ends all connections at once. */
  close(): Promise<void>
}

/** Deadline for a connection, TLS included. undici's is 10 s. */
const connectTimeoutMs = 5_000
/** undici's default is 16 KiB. */
const maxHeaderSize = 128 * 1024

/** undici's timeouts for head and body are disabled, except a proxy's. */
const timeoutCodes = new Set(['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'ETIMEDOUT'])
/** `UNSPECIFIED`: Node's code for a certificate that OpenSSL rejects for a reason without a code, such as a weak key. */
const tlsCode =
  /^(ERR_TLS|ERR_SSL|CERT_|CRL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO|INVALID_(CA|PURPOSE)$|PATH_LENGTH_|UNSPECIFIED$)/

/** Prefix of a proxy's codes: it refused a tunnel (`PROXY_STATUS_407`), or was unreachable (`PROXY_ECONNREFUSED`). */
export const proxyCodePrefix = 'PROXY_'

/** undici shows a proxy's refusal of a tunnel only in the message. */
const tunnelRefused = /^Proxy response \((\d{3})\)/

/**
 * Code of a `100 Continue` without an `Expect`: RFC 9110 section 15.2.1 lets a client ignore it, but undici ends the
 * connection.
 */
export const unaskedContinueCode = 'UNASKED_100_CONTINUE'
/** undici's message for that, with `UND_ERR_SOCKET`; it uses the message for nothing else. */
const badResponse = 'bad response'

function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    const [, status] = tunnelRefused.exec(at.message) ?? []
    if (status !== undefined) return `${proxyCodePrefix}STATUS_${status}`
    if ('code' in at && typeof at.code === 'string') {
      return at.code === 'UND_ERR_SOCKET' && at.message === badResponse ? unaskedContinueCode : at.code
    }
  }
  return error instanceof Error ? error.name : 'UNKNOWN'
}

function toTransportError(error: unknown, isSent: boolean): TransportError {
  const code = codeOf(error)
  const cause = code.startsWith(proxyCodePrefix) ? code.slice(proxyCodePrefix.length) : code
  const reason = timeoutCodes.has(cause) ? 'timeout' : tlsCode.test(cause) ? 'tls' : 'connection'
  return new TransportError(reason, code, { requestNotSent: !isSent })
}

function firstValues(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const first: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    const text = Array.isArray(value) ? value[0] : value
    if (text !== undefined) first[name.toLowerCase()] = text
  }
  return first
}

/** Omits a byte order mark, which some gateways write before JSON: RFC 8259 section 8.1 allows ignoring it. */
const utf8 = new TextDecoder()

const tooLarge = (): TransportError => new TransportError('too-large', 'TOO_LARGE')

type Decode = (
  body: Buffer,
  bound: { maxOutputLength: number },
  done: (error: Error | null, whole: Buffer) => void,
) => void

const unzipped = { gzip: 'unzip', 'x-gzip': 'unzip', deflate: 'unzip' } as const
/** Functions of node:zlib by encoding: some servers always compress. */
const decoders = new Map(Object.entries({ ...unzipped, br: 'brotliDecompress', zstd: 'zstdDecompress' } as const))

/** Prefix of the codes of an unreadable `Content-Encoding`, such as `CONTENT_ENCODING_COMPRESS`. */
export const encodingCodePrefix = 'CONTENT_ENCODING_'

/** Bytes of a body that show whether it is plain. */
const beginningBytes = 1024

function unreadable(encoding: string): TransportError {
  const name = encoding.toUpperCase().replaceAll(/[^A-Z\d]+/g, '_')
  return new TransportError('invalid-body', encodingCodePrefix + name.slice(0, 20))
}

/**
 * Some servers name a charset, `none` or nothing, and some proxies the encoding that they have decoded: a body that begins like
 * JSON or a page is one. A body in br may begin so, too.
 */
function isPlain(encoding: string, body: Buffer): boolean {
  return encoding === 'identity' || (encoding !== 'br' && /^\s*[{[<]/.test(body.toString('utf8', 0, beginningBytes)))
}

/** Decodes a body up to `maxBytes`. Rejects with TransportError. */
async function decoded(body: Buffer, encoding: string, maxBytes: number): Promise<Buffer> {
  const name = decoders.get(encoding)
  if (name === undefined) throw unreadable(encoding)
  // Loaded on demand, because it takes memory.
  const decode: Decode = (await import('node:zlib'))[name]
  return new Promise((resolve, reject) => {
    decode(body, { maxOutputLength: maxBytes }, (error, whole) => {
      if (error === null) resolve(whole)
      else reject('code' in error && error.code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge() : unreadable(encoding))
    })
  })
}

/** undici would forever count the connection of a refused request as busy. @throws TransportError */
function checkHeaders(headers: HttpRequest['headers']): void {
  try {
    for (const [name, value] of Object.entries(headers)) validateHeaderValue(name, value)
  } catch (error) {
    throw toTransportError(error, false)
  }
}

/** One exchange through undici's dispatch interface: its request function adds a stream and signal listeners to each call. */
function exchange(
  request: HttpRequest,
  dispatcher: Dispatcher,
  { clock, version }: Pick<HttpTransportOptions, 'clock' | 'version'>,
): Promise<HttpResponse> {
  const { body, headers, maxBytes, method, onChunk, signal, timeoutMs, url } = request
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    checkHeaders(headers)
    const sentAt = clock.monotonic()
    /** Undefined while the request waits for a connection. */
    let controller: Dispatcher.DispatchController | undefined
    let isOver = false
    let head: Omit<HttpResponse, 'body'> | undefined
    let encoding = 'identity'
    let isStreamed = false
    const chunks: Buffer[] = []
    let bytes = 0

    function end(): void {
      isOver = true
      cancelDeadline()
      forgetAbort?.()
    }
    function fail(error: Error): void {
      end()
      reject(error)
      controller?.abort(error)
    }
    function abort(): void {
      fail(signal?.reason as Error)
    }
    const cancelDeadline = clock.timer(timeoutMs, () => {
      // Error codes do not show whether anything was sent: a handshake and a later failure may have the same.
      fail(new TransportError('timeout', 'DEADLINE', { requestNotSent: controller === undefined }))
    })
    const forgetAbort = signal && onAbort(signal, abort)

    dispatcher.dispatch(
      {
        ...{ origin: url.origin, path: url.pathname + url.search, method, body: body ?? null },
        headers: { ...headers, 'user-agent': userAgentOf(version) },
      },
      {
        onRequestStart(given) {
          if (isOver) given.abort(new Error('the request is over'))
          else controller = given
        },
        onResponseStart(_, status, received) {
          const receivedAt = clock.monotonic()
          head = { status, headers: firstValues(received), sentAt, receivedAt }
          if (Number(head.headers['content-length']) > maxBytes) fail(tooLarge())
          encoding = head.headers['content-encoding']?.trim().toLowerCase() ?? encoding
          isStreamed = onChunk !== undefined && isSuccess(status)
        },
        onResponseData(_, chunk) {
          if (isOver) return
          bytes += chunk.length
          if (bytes > maxBytes) fail(tooLarge())
          else if (!isStreamed) chunks.push(chunk)
          else if (bytes === chunk.length && !isPlain(encoding, chunk)) fail(unreadable(encoding))
          else onChunk?.(chunk)
        },
        onResponseEnd() {
          if (isOver || head === undefined) return
          end()
          const response = head
          const body = Buffer.concat(chunks)
          if (bytes === 0 || isStreamed || isPlain(encoding, body)) resolve({ ...response, body: utf8.decode(body) })
          else
            decoded(body, encoding, maxBytes).then(
              (whole) => resolve({ ...response, body: utf8.decode(whole) }),
              reject,
            )
        },
        onResponseError(_, error) {
          fail(toTransportError(error, controller !== undefined))
        },
      },
    )
  })
}

/** Connections to a proxy. Their failures have codes of their own, because the address of the call is not at fault. */
function createProxyPool(origin: URL, options: Pool.Options): Pool {
  const pool = new Pool(origin, options)
  const connect = pool.connect.bind<(tunnel: Dispatcher.ConnectOptions) => Promise<Dispatcher.ConnectData>>(pool)
  const connectOrSayProxy: typeof connect = (tunnel) =>
    connect(tunnel).catch((cause: unknown) => {
      throw Object.assign(new Error('no tunnel', { cause }), { code: `${proxyCodePrefix}${codeOf(cause)}` })
    })
  return Object.assign(pool, { connect: connectOrSayProxy })
}

/** The agents: as configured, and without a proxy. */
function agentsOf(options: HttpTransportOptions): { usual: Dispatcher; direct: Dispatcher } {
  const { ca, connections, proxy } = options
  const bounds = {
    ...{ allowH2: false, connections, maxHeaderSize, pipelining: 1 },
    ...{ connectTimeout: connectTimeoutMs, headersTimeout: 0, bodyTimeout: 0 },
    ...(ca !== undefined && { connect: { ca } }),
  }
  const direct = new Agent(bounds)
  if (proxy === undefined) return { usual: direct, direct }
  const usual = new EnvHttpProxyAgent({
    ...bounds,
    ...{ httpProxy: proxy.http, httpsProxy: proxy.https, noProxy: proxy.none },
    // For connections to the proxy: a CONNECT without a response would block its connection for five minutes.
    clientFactory: (origin, given) => createProxyPool(origin, { ...given, headersTimeout: connectTimeoutMs }),
  })
  return { usual, direct }
}

export function createHttpTransport(options: HttpTransportOptions): HttpTransport {
  const agents = agentsOf(options)

  return {
    transport: (request) => exchange(request, request.direct === true ? agents.direct : agents.usual, options),
    async close() {
      await Promise.all([...new Set(Object.values(agents))].map((agent) => agent.destroy()))
    },
  }
}
