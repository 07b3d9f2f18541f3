// Classifies an answer once: the body's `code` first, the HTTP status second. @see docs/platform-api.md "Errors", "Open points"
import { callAdvice, generalAdvice } from './call-advice.ts'
import type { HttpResponse, Reason } from './http.ts'
import { invalidStatusCode } from '../wire.ts'

/** The reason of a response, and its JSON where there is any. */
export interface ClassifiedResponse {
  reason: Reason
  /** The parsed body; undefined when it is no JSON. */
  body: unknown
  /** The error body's `code`, when there is one. */
  code: string | undefined
}

const byStatus: Readonly<Record<number, Reason>> = {
  400: 'bad-request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not-found',
  408: 'timeout',
  409: 'conflict',
  410: 'not-found',
  413: 'bad-request',
  422: 'bad-request',
  425: 'throttled',
  429: 'throttled',
}

function reasonOfStatus(status: number): Reason {
  if (status >= 200 && status < 300) return 'ok'
  if (status >= 300 && status < 400) return 'redirect'
  if (status >= 500 && status < 600) return 'server-error'
  return byStatus[status] ?? 'other'
}

/** A property of unknown JSON; undefined when it is not an object. */
export function property(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
}

/** The specification's answers are nested eight deep; a payload may add some. */
const maxDepth = 64

/** A shorter text is parsed in a few milliseconds however deep it is nested. */
const harmlessLength = 20_000

// Codes of the characters " \\ [ ] { }.
const quote = 0x22
const backslash = 0x5c
const openArray = 0x5b
const closeArray = 0x5d
const openObject = 0x7b
const closeObject = 0x7d

/** Place of the quotation mark that ends the string which begins at `start`; the text's end when there is none. */
function stringEnd(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === backslash) before -= 1
    const backslashes = at - 1 - before
    if (backslashes % 2 === 0) return at
  }
  return text.length
}

/** True when arrays and objects are nested too deep to parse: six megabytes of `[` take 369 MiB. */
function isTooDeep(text: string): boolean {
  if (text.length < harmlessLength) return false
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charCodeAt(at)
    if (character === quote) at = stringEnd(text, at)
    else if (character === openArray || character === openObject) depth += 1
    else if (character === closeArray || character === closeObject) depth -= 1
    if (depth > maxDepth) return true
  }
  return false
}

function parseJson(text: string): unknown {
  if (isTooDeep(text)) return undefined
  try {
    // RFC 8259 section 8.1 allows ignoring a byte order mark, and some gateways write one.
    return JSON.parse(text.startsWith('\ufeff') ? text.slice(1) : text)
  } catch {
    return undefined
  }
}

/** An error has a `code` and no `data`: a body with data is an answer, unless its code is the one of the specification. */
function errorCode(body: unknown): string | undefined {
  const [code, data] = [property(body, 'code'), property(body, 'data')]
  if (typeof code !== 'string' || code === '') return undefined
  const hasData = typeof data === 'object' && data !== null
  return hasData && code !== invalidStatusCode ? undefined : code
}

/**
 * Parses and classifies a response. `ok` means 2xx with a JSON body that is no error; the caller checks its shape. The code
 * of an invalid status counts under any HTTP status: then the platform answered, not a gateway.
 */
export function classify(response: HttpResponse): ClassifiedResponse {
  const body = parseJson(response.body)
  const code = errorCode(body)
  const reason = code === invalidStatusCode ? 'conflict' : reasonOfStatus(response.status)
  if (reason !== 'ok') return { reason, body, code }
  if (code !== undefined) return { reason: 'other', body, code }
  return { reason: typeof body === 'object' && body !== null ? 'ok' : 'invalid-body', body, code }
}

/** Length of a date in HTTP: each field is fixed, and the year has four digits. */
const httpDateLength = 'Thu, 15 Jan 2026 12:00:00 GMT'.length

/**
 * A date in the one form that a server must send; undefined for anything else, also for a date that does not exist. The
 * obsolete forms carry no zone or a two-digit year. @see RFC 9110 section 5.6.7
 */
export function parseHttpDate(text: string): number | undefined {
  if (text.length !== httpDateLength) return undefined
  const date = Date.parse(text)
  return !Number.isNaN(date) && new Date(date).toUTCString() === text ? date : undefined
}

/** Retry-After is honoured up to this many milliseconds. */
export const maxRetryAfterMs = 300_000

/**
 * Retry-After in milliseconds, in either form (RFC 9110 section 10.2.3), capped at five minutes. A date is taken
 * relative to the answer's own `Date`, else to `platformNow`. Undefined when the header is missing or can't be read.
 */
export function retryAfterMs(response: HttpResponse, platformNow: number): number | undefined {
  const value = response.headers['retry-after']?.trim()
  if (value === undefined || value === '') return undefined
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, maxRetryAfterMs)
  const until = parseHttpDate(value)
  if (until === undefined) return undefined
  const from = parseHttpDate(response.headers['date']?.trim() ?? '') ?? platformNow
  return Math.min(Math.max(0, until - from), maxRetryAfterMs)
}

const keys = { address: 'platform.baseUrl', timeout: 'platform.requestTimeout' }

const adviceByReason: Readonly<Partial<Record<Reason, string>>> = {
  unauthorized: 'the platform refuses the tokens that it issues: ask its operator, or check platform.baseUrl',
  forbidden: "have the platform's operator give the service account access to the webhooks",
}

/** A call to the platform failed. Holds no URL, header or body, so that logging it can't leak them. */
export class PlatformFailure extends Error {
  readonly code = 'PLATFORM_FAILURE'
  readonly reason: Exclude<Reason, 'ok'>
  /** HTTP status of the answer, undefined when none came. */
  readonly status: number | undefined
  /** Cause of a missing answer: a code of Node, OpenSSL or undici, such as `CERT_HAS_EXPIRED`. */
  readonly transportCode: string | undefined
  /** The thing to do about it. */
  readonly advice: string

  constructor(reason: Exclude<Reason, 'ok'>, status: number | undefined, what: string, transportCode?: string) {
    const detail = status === undefined ? transportCode : `HTTP ${status}`
    super(`${what}: ${reason}${detail === undefined ? '' : ` (${detail})`}`)
    this.name = 'PlatformFailure'
    this.reason = reason
    this.status = status
    this.transportCode = transportCode
    this.advice = callAdvice({ reason, code: transportCode }, keys) ?? adviceByReason[reason] ?? generalAdvice
  }
}
