// Reads the token endpoint's answer: a token, a rejection of our credentials, or trouble that passes. @see RFC 6749 section 5
import { classify, retryAfterMs } from './response.ts'
import type { HttpResponse, Reason } from './http.ts'
import { foreignText } from './foreign-text.ts'

export interface Granted {
  kind: 'granted'
  value: string
  /** How long the token is believed to live, ms. */
  lifetimeMs: number
  /** As returned; undefined means as requested. */
  scope: string | undefined
}

/** No token. Holds nothing secret. */
export interface Refused {
  /** `rejected`: the platform refuses our credentials or our request, a person has to act. `transient`: it may pass. */
  kind: 'rejected' | 'transient'
  reason: Exclude<Reason, 'ok'>
  /** The OAuth error code, scrubbed. */
  oauthError?: string
  /** `error_description`, scrubbed, at most 200 characters. */
  description?: string
  /** Why no answer came: a code of Node, OpenSSL or undici, such as `CERT_HAS_EXPIRED`. */
  transportCode?: string
  /** What was wrong with the answer, in our words. */
  detail?: string
  retryAfterMs?: number
}

export type TokenAnswer = Granted | Refused

/** An `expires_in` that says nothing usable counts as this. */
const unknownLifetimeMs = 60_000
/** Believed up to this; longer timers than 2^31-1 ms fire at once. */
const maxLifetimeMs = 24 * 60 * 60 * 1000
/** A shorter life would make every call ask for a token of its own. */
const minLifetimeMs = 1000

/** OAuth errors that say "not now", whatever the status. @see RFC 6749 section 4.1.2.1, RFC 8628 section 3.5 */
const passing = new Set(['temporarily_unavailable', 'server_error', 'slow_down'])
/** Statuses that say "not now", whatever the body. */
const passingStatuses = new Set([408, 425, 429])

/** For an error that comes under a status of success. */
const reasonOfOauthError: Readonly<Record<string, Exclude<Reason, 'ok'>>> = {
  invalid_client: 'unauthorized',
  unauthorized_client: 'unauthorized',
  access_denied: 'forbidden',
  temporarily_unavailable: 'server-error',
  server_error: 'server-error',
  slow_down: 'throttled',
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
}

/** Keycloak's own words, in the place of a code, for a realm that is not there. */
const noRealm = 'Realm does not exist'

/**
 * The code of an OAuth error. Words as gateways write them, `Not Found`, are none, and say nothing of our credentials.
 * @see RFC 6749 section 5.2
 */
function oauthCode(value: unknown): string | undefined {
  return typeof value === 'string' && (/^[a-z_]{1,64}$/.test(value) || value === noRealm) ? value : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

/** `expires_in` in ms: a number of seconds, or a string of digits. */
function lifetime(expiresIn: unknown): number {
  const numeric = typeof expiresIn === 'string' && /^\s*\d+(?:\.\d+)?\s*$/.test(expiresIn)
  const seconds = numeric ? Number(expiresIn) : expiresIn
  if (typeof seconds !== 'number' || !(seconds > 0)) return unknownLifetimeMs
  return Math.min(Math.max(seconds * 1000, minLifetimeMs), maxLifetimeMs)
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

function refusedWith(error: string, response: HttpResponse, reason: Reason, description: unknown): Refused {
  const { status } = response
  const ours = (isSuccess(status) || (status >= 400 && status < 500)) && !passingStatuses.has(status)
  const told = text(description)
  return {
    kind: ours && !passing.has(error) ? 'rejected' : 'transient',
    reason: isSuccess(status) || reason === 'ok' ? (reasonOfOauthError[error] ?? 'bad-request') : reason,
    oauthError: foreignText(error, 64),
    ...(told === undefined ? {} : { description: foreignText(told) }),
  }
}

function granted(body: unknown): TokenAnswer {
  const unusable = (detail: string): Refused => ({ kind: 'transient', reason: 'invalid-body', detail })
  if (typeof body !== 'object' || body === null) return unusable('the answer is not JSON')
  const value = member(body, 'access_token')
  if (typeof value !== 'string' || value === '') return unusable('the answer holds no access_token')
  // It goes into a header: nothing but visible ASCII.
  if (!/^[\x21-\x7e]+$/.test(value)) return unusable('the access_token holds characters that no header may carry')
  const type = member(body, 'token_type') ?? 'bearer'
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') return unusable('the token_type is not Bearer')
  return {
    kind: 'granted',
    value,
    lifetimeMs: lifetime(member(body, 'expires_in')),
    scope: text(member(body, 'scope')),
  }
}

/**
 * Reads an answer of the token endpoint.
 * @param platformNow the platform's time in epoch ms, for a Retry-After date
 * @see platform-api.md 4.1
 */
export function readTokenAnswer(response: HttpResponse, platformNow: number): TokenAnswer {
  const { reason, body } = classify(response)
  const error = oauthCode(member(body, 'error'))
  const answer =
    error !== undefined
      ? refusedWith(error, response, reason, member(body, 'error_description'))
      : isSuccess(response.status)
        ? granted(body)
        : ({ kind: 'transient', reason: reason === 'ok' ? 'other' : reason } satisfies Refused)
  const overloaded = response.status === 429 || response.status === 503
  const wait = overloaded && answer.kind === 'transient' ? retryAfterMs(response, platformNow) : undefined
  return answer.kind === 'granted' || wait === undefined ? answer : { ...answer, retryAfterMs: wait }
}
