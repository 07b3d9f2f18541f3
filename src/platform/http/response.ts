// Classifies a response once: the body's `code` first, the HTTP status second. @see docs/platform-api.md "Errors", "Open points"
import { callAdvice, generalAdvice } from './call-advice.ts'
import { foreignText } from './foreign-text.ts'
import { isSuccess, type HttpResponse, type Reason } from './http.ts'
import { invalidStatusCode } from '../wire.ts'

/** The reason of a response, and its JSON if any. */
export interface ClassifiedResponse {
  reason: Reason
  /** The parsed body; undefined if it is no JSON. */
  body: unknown
  code: string | undefined
  /** Code and message of the error body, made safe to show. */
  problem?: string
}

const byStatus: Readonly<Record<number, Reason>> = {
  400: 'bad-request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not-found',
  408: 'server-error',
  409: 'conflict',
  410: 'not-found',
  413: 'bad-request',
  422: 'bad-request',
  425: 'throttled',
  429: 'throttled',
}

function reasonOfStatus(status: number): Reason {
  if (isSuccess(status)) return 'ok'
  if (status >= 300 && status < 400) return 'redirect'
  if (status >= 500) return 'server-error'
  return byStatus[status] ?? 'other'
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** A property of unknown JSON; undefined if it is not an object. */
export function property(value: unknown, key: string): unknown {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
}

/** The specification nests responses eight deep; a payload may add some. */
const maxDepth = 64

/** A shorter text parses in a few milliseconds at any depth. */
const harmlessLength = 20_000

// Character codes of " \\ [ ] { }.
const quote = 0x22
const backslash = 0x5c
const openArray = 0x5b
const closeArray = 0x5d
const openObject = 0x7b
const closeObject = 0x7d

/** Position of the closing quotation mark of the string that starts at `start`; the text's end without one. */
function stringEnd(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === backslash) before -= 1
    const backslashes = at - 1 - before
    if (backslashes % 2 === 0) return at
  }
  return text.length
}

/** True if arrays and objects are nested too deeply to parse: six megabytes of `[` take 369 MiB. */
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
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** An error has a `code` and no `data`: a body with data is a result, unless its code is that of the specification. */
function errorCode(body: unknown): string | undefined {
  const [code, data] = [property(body, 'code'), property(body, 'data')]
  if (typeof code !== 'string' || code === '') return undefined
  return isObject(data) && code !== invalidStatusCode ? undefined : code
}

/** Some gateways reject a token under another status than 401. @see RFC 6750 section 3.1 */
function saysTokenIsVoid({ headers, status }: HttpResponse, body: unknown): boolean {
  const isSaid = /\berror="?invalid_token\b/.test(headers['www-authenticate'] ?? '')
  return status >= 400 && (isSaid || property(body, 'error') === 'invalid_token')
}

/** How codes name a rate that is too high. */
const limitWords = /rate.?limit|throttl|too.?many.?(requests|calls)|quota.?exceeded/i

/** Reasons that are of a single record, or of the token. */
const neverOfRate: ReadonlySet<Reason> = new Set<Reason>(['conflict', 'not-found', 'unauthorized'])

/** Some platforms refuse a call for its rate by a code under another status than 429, some gateways by a 403 with Retry-After. */
function saysRateIsLimited({ headers }: HttpResponse, reason: Reason, code: string | undefined): boolean {
  if (code === undefined) return reason === 'forbidden' && headers['retry-after'] !== undefined
  return !neverOfRate.has(reason) && limitWords.test(code)
}

/** Statuses of servers that did not forward the call. Under other 5xx, the platform may have worked on it. */
const unserved: ReadonlySet<number> = new Set([501, 505, 511])

/** Reasons that the platform gives only with an error body. */
const ownReasons: ReadonlySet<Reason> = new Set<Reason>(['bad-request', 'not-found', 'conflict', 'other'])

/** A response of an intermediary, judged by its status; the status alone does not show who sent a 401, 403 or 429. */
function isOfAnother(status: number, reason: Reason): boolean {
  return ownReasons.has(reason) || unserved.has(status)
}

/** `svc.forbidden: The permission is missing`, made safe to show. */
function problemOf(code: string, body: unknown): string {
  const message = property(body, 'message')
  return foreignText(typeof message === 'string' && message !== '' ? `${code}: ${message}` : code).replace(/\.$/, '')
}

export const noContent = 204

/**
 * Parses and classifies a response. `ok` means 2xx with a JSON body that is no error, or 204 with none; the caller checks its
 * shape. The code of an invalid status counts under any HTTP status: the platform responded, not a gateway.
 */
export function classify(response: HttpResponse): ClassifiedResponse {
  const body = parseJson(response.body)
  const code = errorCode(body)
  const ofStatus = saysTokenIsVoid(response, body) ? 'unauthorized' : reasonOfStatus(response.status)
  const ofCode = code === invalidStatusCode ? 'conflict' : ofStatus
  const reason = saysRateIsLimited(response, ofCode, code) ? 'throttled' : ofCode
  if (code !== undefined)
    return { reason: reason === 'ok' ? 'other' : reason, body, code, problem: problemOf(code, body) }
  if (reason !== 'ok') return { reason, body, code }
  return { reason: isObject(body) || response.status === noContent ? 'ok' : 'invalid-body', body, code }
}

/**
 * The same for webhook operations, whose errors have a `code`. An error without one, or a page of HTML or XML, is
 * `intercepted`: an intermediary wrote it.
 */
export function classifyOwn(response: HttpResponse): ClassifiedResponse {
  const classified = classify(response)
  const isPage = classified.reason === 'invalid-body' && /^\s*</.test(response.body)
  const isForeign = isPage || isOfAnother(response.status, classified.reason)
  return isForeign && classified.code === undefined ? { ...classified, reason: 'intercepted' } : classified
}

/** The two obsolete forms of an HTTP date, which clients must read. */
const obsoleteDateForms = [
  /^(?<day>\w{3})\w{3,6}, (?<date>\d\d)-(?<month>\w{3})-(?<year>\d\d) (?<time>[\d:]{8}) GMT$/,
  /^(?<day>\w{3}) (?<month>\w{3}) (?<date>[ \d]\d) (?<time>[\d:]{8}) (?<year>\d{4})$/,
]

const usualLength = 'Sun, 06 Nov 1994 08:49:37 GMT'.length

/** The form that servers must send. A two-digit year from 70 on is in the last century. */
function usualDate(text: string): string {
  const groups = obsoleteDateForms.map((form) => form.exec(text)?.groups).find((found) => found !== undefined)
  if (groups === undefined) return text
  const { date = '', day, month, time, year = '' } = groups
  const century = year.length === 4 ? '' : year < '70' ? '20' : '19'
  return `${day}, ${date.replace(' ', '0')} ${month} ${century}${year} ${time} GMT`
}

/** Undefined for a nonexistent date, or any other form. @see RFC 9110 section 5.6.7 */
export function parseHttpDate(text: string): number | undefined {
  const usual = usualDate(text)
  const at = Date.parse(usual)
  return usual.length === usualLength && new Date(at).toUTCString() === usual ? at : undefined
}

const dayMs = 86_400_000

/** Retry-After is obeyed up to a day and a quarter of the window, so that no new failure leaves the window meanwhile. */
export function maxRetryAfterMs(lookbackMs: number): number {
  return Math.min(dayMs, lookbackMs / 4)
}

/** A repeated header is joined by a comma, but a date holds one itself. */
function withoutRepetition(value: string): string {
  const half = value.slice(0, Math.max(0, value.length / 2 - 1))
  return value === `${half}, ${half}` ? half : value
}

/**
 * Retry-After in milliseconds, in either form (RFC 9110 section 10.2.3). Also reads decimals and lists, of which the longest
 * counts. A date is relative to the response's own `Date`, or else to `platformNow`. Undefined if the header is missing or
 * unreadable.
 */
export function retryAfterMs(response: HttpResponse, platformNow: number): number | undefined {
  const value = response.headers['retry-after']?.trim() ?? ''
  const numbers = value.split(',').map((part) => part.trim())
  if (numbers.every((part) => /^\d+(\.\d+)?$/.test(part))) return Math.max(...numbers.map(Number)) * 1000
  const until = parseHttpDate(withoutRepetition(value))
  if (until === undefined) return undefined
  const from = parseHttpDate(response.headers['date']?.trim() ?? '') ?? platformNow
  return Math.max(0, until - from)
}

const keys = { address: 'platform.baseUrl', late: 'raise platform.requestTimeout' }

const adviceByReason: Readonly<Partial<Record<Reason, string>>> = {
  throttled: 'the platform limits the rate of calls: try again later, or ask its operator for a higher limit',
  unauthorized: 'the platform rejects the tokens that it issues: ask its operator, or check platform.baseUrl',
  forbidden: "have the platform's operator give the service account access to the webhooks",
}
const orGateway =
  '; without an error body, a gateway or firewall in front of the platform may be the cause: ask its operator'

/**
 * A failed call to the platform. Holds no URL, header or body except the scrubbed error, so that logging it can't leak them.
 */
export class PlatformFailure extends Error {
  readonly code = 'PLATFORM_FAILURE'
  readonly reason: Exclude<Reason, 'ok'>
  /** Undefined without a response. */
  readonly status: number | undefined
  /** Cause of a missing response: a code of Node, OpenSSL or undici, such as `CERT_HAS_EXPIRED`. */
  readonly transportCode: string | undefined
  /** Code and message of the platform's error body. Not part of the message, because it may vary. */
  readonly problem: string | undefined
  readonly advice: string

  constructor(
    reason: Exclude<Reason, 'ok'>,
    status: number | undefined,
    what: string,
    { problem, transportCode }: { problem?: string | undefined; transportCode?: string | undefined } = {},
  ) {
    const detail = status === undefined ? transportCode : `HTTP ${status}`
    super(`${what}: ${reason}${detail === undefined ? '' : ` (${detail})`}`)
    this.name = 'PlatformFailure'
    this.reason = reason
    this.status = status
    this.transportCode = transportCode
    this.problem = problem
    const gateway = reason === 'forbidden' && problem === undefined ? orGateway : ''
    const advice = callAdvice({ reason, code: transportCode }, keys) ?? adviceByReason[reason] ?? generalAdvice
    this.advice = `${advice}${gateway}`
  }
}
