// The Transport that really goes out: undici's pool, with a total deadline and a size limit of our own.
import { Agent, request as send, type Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { TransportError, type HttpRequest, type HttpResponse, type Transport } from './http.ts'
import { until } from './nap.ts'

export interface UndiciTransportOptions {
  clock: Clock
  /** Connections per origin. undici's own default has no limit. */
  connections: number
  /** Tests put a MockAgent here. */
  dispatcher?: Dispatcher
}

export interface UndiciTransport {
  transport: Transport
  /** Ends all connections at once. */
  close(): Promise<void>
}

const deadline = new TransportError('timeout', 'DEADLINE')
/** Reason of ending what is over anyway. Made once: an abort without one makes an exception with a stack each time. */
const over = new Error('the exchange is over')

const timeoutCodes = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
])
const tlsCode = /^(ERR_TLS|ERR_SSL|CERT_|CRL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/

function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ('code' in at && typeof at.code === 'string') return at.code
  }
  return error instanceof Error ? error.name : 'UNKNOWN'
}

function toTransportError(error: unknown): TransportError {
  if (error instanceof TransportError) return error
  const code = codeOf(error)
  if (timeoutCodes.has(code)) return new TransportError('timeout', code)
  return new TransportError(tlsCode.test(code) ? 'tls' : 'connection', code)
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

/** Makes a Transport on undici. It follows no redirect, decompresses nothing and repeats nothing. */
export function createUndiciTransport(options: UndiciTransportOptions): UndiciTransport {
  const { clock } = options
  const agent =
    options.dispatcher ??
    new Agent({ allowH2: false, connections: options.connections, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })

  async function exchange(request: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    const started = clock.monotonic()
    const answer = await send(request.url, {
      method: request.method,
      headers: request.headers,
      body: request.body ?? null,
      signal,
      dispatcher: agent,
    })
    const receivedAt = clock.now()
    const sentAt = receivedAt - (clock.monotonic() - started)
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
    const ended = new AbortController()
    const cancel = (): void => {
      ended.abort(request.signal?.reason)
    }
    request.signal?.addEventListener('abort', cancel, { once: true })
    // The deadline and the caller end the same controller; ending it last of all also frees the deadline's timer.
    clock.sleep(request.timeoutMs, ended.signal).then(
      () => {
        ended.abort(deadline)
      },
      () => undefined,
    )
    try {
      // undici tells an abort of what still waits for a connection only when it has one.
      return await until(exchange(request, ended.signal), ended.signal)
    } catch (error) {
      request.signal?.throwIfAborted()
      throw toTransportError(ended.signal.reason === deadline ? deadline : error)
    } finally {
      request.signal?.removeEventListener('abort', cancel)
      ended.abort(over)
    }
  }

  return { transport, close: () => agent.destroy() }
}
