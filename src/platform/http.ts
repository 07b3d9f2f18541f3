// One HTTP exchange as the platform code sees it: bounded in time and size, follows nothing, repeats nothing.

/** Why a call did not give what was asked: the same words are the metric label `reason`. */
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
  method: 'GET' | 'POST' | 'PATCH'
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
  /** True when it is sure that the request never left: nothing of it was written to a connection. */
  readonly neverLeft: boolean

  constructor(reason: TransportError['reason'], code: string, { neverLeft = false } = {}) {
    super(`no usable answer: ${reason} (${code})`)
    this.name = 'TransportError'
    this.reason = reason
    this.code = code
    this.neverLeft = neverLeft
  }
}
