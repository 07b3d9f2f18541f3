// The retry operation: its path, and what the platform said to one PATCH. @see platform-api.md 4.3 and design section 2
import { member, type Exchange } from './call.ts'
import { PlatformFailure } from './failure.ts'
import type { Reason } from './http.ts'
import type { Zone } from './local-time.ts'
import { isUnreadable, isUuid, readRecord, type WebhookRecord } from './record.ts'

/** What the platform said to one PATCH (design section 2). */
export const retryResults = [
  'accepted',
  'already-resolved',
  'gone',
  'rejected',
  'throttled',
  'unauthorized',
  'platform-error',
  'unreachable',
] as const

export type RetryResult = (typeof retryResults)[number]

/** The status that the platform found instead of `failed`. */
export const foundStatuses = ['processing', 'successful', 'other'] as const
export type FoundStatus = (typeof foundStatuses)[number]

export interface RetryAnswer {
  result: RetryResult
  reason: Reason
  /** False when no PATCH went out, because no token could be had. Then it is no attempt. */
  sent: boolean
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** With `accepted`: the record as answered, when it could be read. */
  record?: WebhookRecord
  /** True when the platform may have taken the retry, although its answer does not say so. */
  lost?: true
  /** With `gone`: true when the answer had no code that the specification knows, as from a misrouted gateway. */
  doubtful?: boolean
}

const resultOfReason = {
  ok: 'accepted',
  'bad-request': 'rejected',
  unauthorized: 'unauthorized',
  forbidden: 'unauthorized',
  'not-found': 'gone',
  conflict: 'rejected',
  throttled: 'throttled',
  'server-error': 'platform-error',
  timeout: 'unreachable',
  connection: 'unreachable',
  tls: 'unreachable',
  redirect: 'platform-error',
  'too-large': 'platform-error',
  'invalid-body': 'platform-error',
  other: 'rejected',
} as const satisfies Record<Reason, RetryResult>

/**
 * @param webhooksUrl URL of the webhook operations
 * @throws PlatformFailure for an id that is no UUID: such an id could climb out of the path
 */
export function retryUrl(webhooksUrl: string, id: string): URL {
  if (!isUuid(id)) throw new PlatformFailure('other', undefined, 'retry of an odd id')
  const url = new URL(`${webhooksUrl}/${id}`)
  if (url.origin !== new URL(webhooksUrl).origin) throw new PlatformFailure('other', undefined, 'retry elsewhere')
  return url
}

/** True for a body that holds the record with this id. */
export function holdsRecord(body: unknown, id: string): boolean {
  const answered = member(member(member(body, 'data'), 'webhook'), 'id')
  return typeof answered === 'string' && answered.toLowerCase() === id.toLowerCase()
}

/** The second parameter names the status that was found. @see platform-api.md 7 */
function foundStatus(body: unknown): FoundStatus {
  const parameters = member(body, 'messageParameters')
  const found: unknown = Array.isArray(parameters) ? parameters[1] : undefined
  const word = typeof found === 'string' ? found.trim().toLowerCase() : ''
  return word === 'processing' || word === 'successful' ? word : 'other'
}

/**
 * Whether the retry may have been taken all the same: no whole answer came, or one that is not the platform's own word.
 * An error body with a `code` is its word.
 */
function isLost({ answer, neverLeft, status }: Exchange): boolean {
  if (status === undefined) return neverLeft !== true
  if (answer.code !== undefined) return false
  return status >= 500 || (status >= 200 && status < 300)
}

/** Reads what came of a PATCH that was sent. */
export function readRetryAnswer(exchange: Exchange, zone: Zone): RetryAnswer {
  const { answer, status } = exchange
  const { reason } = answer
  if (answer.knownCode) return { result: 'already-resolved', reason, sent: true, found: foundStatus(answer.body) }
  if (reason === 'ok') {
    const record = readRecord(member(member(answer.body, 'data'), 'webhook'), zone)
    return { result: 'accepted', reason, sent: true, ...(!isUnreadable(record) && { record }) }
  }
  const isClientError = status !== undefined && status < 500
  const result = reason === 'other' && !isClientError ? 'platform-error' : resultOfReason[reason]
  const lost = isLost(exchange) && { lost: true as const }
  return { result, reason, sent: true, ...lost, ...(result === 'gone' && { doubtful: true }) }
}
