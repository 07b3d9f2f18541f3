// Reads a response of the token endpoint: a token, or a rejection with advice. @see docs/platform-api.md "Token request", RFC 6749 section 5
import { callAdvice, generalAdvice } from '../http/call-advice.ts'
import { foreignText } from '../http/foreign-text.ts'
import { isBearerToken, isSuccess, type HttpResponse, type Reason } from '../http/http.ts'
import { classify, isObject, property, retryAfterMs } from '../http/response.ts'

export interface Granted {
  kind: 'granted'
  value: string
  /** Assumed lifetime of the token, ms. */
  lifetimeMs: number
  /** As returned; undefined means as requested. */
  scope: string | undefined
}

/** A failed request, without secrets. */
export interface Refused {
  /** `rejected`: the platform rejects the credentials or the request, so an operator has to act. `transient`: it may pass. */
  kind: 'rejected' | 'transient'
  reason: Exclude<Reason, 'ok'>
  /** Undefined without a response. */
  status?: number
  /** The assertion could not be signed: the identity host was not asked. */
  isUnsigned?: true
  /** The OAuth error code, scrubbed. */
  oauthError?: string | undefined
  /** `error_description`, scrubbed, at most 200 characters. */
  description?: string | undefined
  /** Cause of a missing response: a code of Node, OpenSSL or undici, such as `CERT_HAS_EXPIRED`. */
  transportCode?: string | undefined
  /** The fault of the response. */
  detail?: string
  /** Advice that is more specific than that of its reason. */
  advice?: string
  retryAfterMs?: number | undefined
}

export type TokenResult = Granted | Refused

export type TokenErrorFields = Pick<Refused, 'advice' | 'kind' | 'reason' | 'transportCode'>

/** No valid token is available now. `rejected`: an operator has to act; `transient`: it may pass. */
export class TokenError extends Error {
  readonly code: 'TOKEN_REJECTED' | 'TOKEN_UNAVAILABLE'
  readonly kind: 'rejected' | 'transient'
  readonly reason: Exclude<Reason, 'ok'>
  readonly transportCode: string | undefined
  /** Default: ask the platform's operator, if it lasts. */
  readonly advice: string

  constructor(message: string, { advice = generalAdvice, kind, reason, transportCode }: TokenErrorFields) {
    super(message)
    this.name = 'TokenError'
    this.code = kind === 'rejected' ? 'TOKEN_REJECTED' : 'TOKEN_UNAVAILABLE'
    this.kind = kind
    this.reason = reason
    this.transportCode = transportCode
    this.advice = advice
  }
}

const keys = { address: 'auth.authUrl and auth.realm (or auth.issuerUrl)', late: 'raise platform.requestTimeout' }
const checkPlace = `check ${keys.address}`
const setClock = "set this host's clock (NTP), or have the identity host's operator set its own"

const adviceByOauthError: Readonly<Record<string, string>> = {
  invalid_scope: 'check auth.scope (empty leaves the scope out) and what the service account may do',
  invalid_request: checkPlace,
  unsupported_grant_type: checkPlace,
  access_denied: "have the platform's operator give the service account access to the API",
}

/** Advice by the words of identity hosts, including Keycloak, for a rejected assertion; the first match counts. */
const adviceByDescription: readonly (readonly [RegExp, string])[] = [
  [
    /^(?!.*certificate).*(token|assertion|jwt).*(not active|expired|in the future|not yet valid|too far in the (past|future))|\b(iat|nbf|exp)\b/i,
    setClock,
  ],
  [/audience|\baud\b/i, `${checkPlace}: the issuer must be written as the identity host itself names it`],
  [
    /reuse|replay|already (been )?used|\bjti\b/i,
    'each assertion is new, so something on the way sends requests twice: check HTTPS_PROXY and any gateway between',
  ],
]

/**
 * A rejection in words: the failure, and what to do.
 * @param key the SHA-256 of the public key that signed the assertion; `knowsTime`: the identity host's time is known
 */
export function explainRefusal(
  refused: Refused,
  { fingerprint, knowsTime }: { fingerprint: string; knowsTime: boolean },
): { message: string; advice: string } {
  const { oauthError, description = '', detail, reason, transportCode } = refused
  const quotation = description === '' ? '' : `, "${description}"`
  if (refused.kind === 'transient') {
    const why = transportCode === undefined ? reason : `${reason} (${transportCode})`
    const what = detail ?? (oauthError === undefined ? why : `${reason}, ${oauthError}${quotation}`)
    const ownAdvice = reason === 'bad-request' ? checkPlace : generalAdvice
    const advice = refused.advice ?? callAdvice({ reason, code: transportCode }, keys) ?? ownAdvice
    return { message: `no access token: ${what}`, advice }
  }
  const clock = knowsTime
    ? ''
    : ", and this host's clock: the identity host's responses have no Date to set it right by"
  const credentials =
    `check auth.clientId, that the certificate registered for it is of this key ` +
    `(SHA-256 of the public key: ${fingerprint}) and has not expired, and ${keys.address}${clock}`
  const [, ofDescription] = adviceByDescription.find(([words]) => words.test(description)) ?? []
  const advice = ofDescription ?? adviceByOauthError[oauthError ?? ''] ?? credentials
  return { message: `the platform rejected the token request: ${oauthError ?? reason}${quotation}`, advice }
}

/** Lifetime if `expires_in` is unusable. */
const unknownLifetimeMs = 60_000
/** Maximum lifetime; timers above 2^31-1 ms fire immediately. */
const maxLifetimeMs = 24 * 60 * 60 * 1000
/** Minimum lifetime: with a shorter one, every call would request its own token. */
const minLifetimeMs = 1000

/** OAuth errors that mean "not now", under any status. @see RFC 6749 section 4.1.2.1, RFC 8628 section 3.5 */
const passing = new Set(['temporarily_unavailable', 'server_error', 'slow_down'])
/** Reasons that mean "not now", with any body. */
const passingReasons = new Set<Reason>(['throttled', 'server-error', 'redirect'])

/** Reasons of OAuth errors under a success status. */
const reasonOfOauthError: Readonly<Record<string, Exclude<Reason, 'ok'>>> = {
  invalid_client: 'unauthorized',
  unauthorized_client: 'unauthorized',
  access_denied: 'forbidden',
  temporarily_unavailable: 'server-error',
  server_error: 'server-error',
  slow_down: 'throttled',
}

/** Keycloak's text, instead of a code, for a missing realm. */
const noRealm = 'Realm does not exist'

/**
 * The code of an OAuth error. A gateway's text such as `Not Found` is no code, and says nothing about the credentials.
 * @see RFC 6749 section 5.2
 */
function oauthCode(value: unknown): string | undefined {
  return typeof value === 'string' && (/^[a-z_]{1,64}$/.test(value) || value === noRealm) ? value : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

/** `expires_in` in ms: a number of seconds, or a string of digits. Zero or less says nothing: some hosts mean that it does not expire. */
function lifetime(expiresIn: unknown): number {
  const numeric = typeof expiresIn === 'string' && /^\s*\d+(?:\.\d+)?\s*$/.test(expiresIn)
  const seconds = numeric ? Number(expiresIn) : expiresIn
  if (typeof seconds !== 'number' || seconds <= 0) return unknownLifetimeMs
  return Math.min(Math.max(seconds * 1000, minLifetimeMs), maxLifetimeMs)
}

function refusedWith(error: string, response: HttpResponse, reason: Reason, description: unknown): Refused {
  const { status } = response
  const message = text(description)
  return {
    kind: passing.has(error) || passingReasons.has(reason) ? 'transient' : 'rejected',
    reason: isSuccess(status) || reason === 'ok' ? (reasonOfOauthError[error] ?? 'bad-request') : reason,
    oauthError: foreignText(error, 64),
    ...(message === undefined ? {} : { description: foreignText(message) }),
  }
}

function readGrant(body: unknown): TokenResult {
  const unusable = (detail: string): Refused => ({ kind: 'transient', reason: 'invalid-body', detail })
  if (!isObject(body)) return unusable('the response is not JSON')
  const value = property(body, 'access_token')
  if (typeof value !== 'string' || value === '') return unusable('the response has no access_token')
  if (!isBearerToken(value)) return unusable('the access_token holds characters that no header may carry')
  const type = property(body, 'token_type') ?? 'bearer'
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') return unusable('the token_type is not Bearer')
  return {
    kind: 'granted',
    value,
    lifetimeMs: lifetime(property(body, 'expires_in')),
    scope: text(property(body, 'scope')),
  }
}

/**
 * Reads a response of the token endpoint.
 * @param platformNow the platform's time in epoch ms, for a Retry-After date
 * @see docs/platform-api.md "Token request"
 */
export function readTokenResult(response: HttpResponse, platformNow: number): TokenResult {
  const { reason, body } = classify(response)
  const error = oauthCode(property(body, 'error'))
  const { status } = response
  const read =
    error !== undefined
      ? refusedWith(error, response, reason, property(body, 'error_description'))
      : isSuccess(status)
        ? readGrant(body)
        : ({ kind: 'transient', reason: reason === 'ok' ? 'other' : reason } satisfies Refused)
  const result = isSuccess(status) ? read : { ...read, status }
  const isOverloaded = status === 429 || status === 503
  if (!isOverloaded || result.kind !== 'transient') return result
  return { ...result, retryAfterMs: retryAfterMs(response, platformNow) }
}
