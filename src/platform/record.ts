// Parses a row of unknown JSON into a WebhookRecord: only the fields that decisions need, never the payload or the receiver's texts.
import { parseLocal, type LocalMs, type TimeZone } from './time-zone.ts'
import { isObject, property } from './http/response.ts'
import { webhookStatuses, type WebhookStatus } from './wire.ts'
import { isUuid } from '../runtime/uuid.ts'

/** The fields of a webhook record that decisions need. @see docs/platform-api.md "Webhook record" */
export interface WebhookRecord {
  /** UUID, as the platform wrote it. */
  id: string
  /** UUID of the event; empty if absent. */
  eventId: string
  /** UUID of the subscription; empty if absent. */
  subscriptionId: string
  status: WebhookStatus
  /** The platform's count; 0 if unreadable. */
  attempts: number
  /** Event time on the platform's wall clock, in ms. */
  eventLocal: LocalMs
  /** Last delivery attempt on the platform's wall clock, in ms; null before any, or if unreadable. */
  lastAttemptLocal: LocalMs | null
  /** `requestPayload.webhook.type`; empty if absent. */
  eventType: string
  responseStatusCode: number | null
}

/** Why a row is unreadable, by the wrong field; `size`: the row alone exceeds the maximum response. */
const unreadableReasons = {
  row: 'it is no JSON object',
  id: 'id is not a UUID',
  eventDateTime: 'eventDateTime is not a date-time such as 2026-11-25T10:00:00',
  status: `status is none of ${webhookStatuses.join(', ')}`,
  size: 'it alone is larger than a response may be (8 MiB)',
} as const

/** A row without a readable id, event time or status, about which nothing can be decided. */
export interface UnreadableRow {
  unreadable: true
  /** The row's id, if it is safe to show. */
  id: string | undefined
  field: keyof typeof unreadableReasons
}

/** Number of unreadable rows, and the problem of one of them. */
export interface UnreadableSum {
  rows: number
  field: UnreadableRow['field']
}

/** `300 rows could not be read: id is not a UUID` */
export function unreadableText({ field, rows }: UnreadableSum): string {
  return `${rows} ${rows === 1 ? 'row' : 'rows'} could not be read: ${unreadableReasons[field]}`
}

/** Sums rows, counting each id once. */
export function createUnreadableSum(): { add(rows: readonly UnreadableRow[]): void; sum(): UnreadableSum | undefined } {
  const ids = new Set<string>()
  let sum: UnreadableSum | undefined
  return {
    add(rows) {
      for (const { field, id } of rows) {
        if (id !== undefined && ids.size === ids.add(id.toLowerCase()).size) continue
        sum = { rows: (sum?.rows ?? 0) + 1, field: sum?.field ?? field }
      }
    },
    sum: () => sum,
  }
}

/** Event types are short; longer texts are ignored. */
const maxWordLength = 200

function word(value: unknown): string {
  return typeof value === 'string' && value.length <= maxWordLength ? value : ''
}

/** Ignores case: the platform's own errors write `Failed`. */
export function statusOf(value: unknown): WebhookStatus | undefined {
  const text = typeof value === 'string' ? value.trim().toLowerCase() : ''
  return webhookStatuses.find((known) => known === text)
}

/** A nonnegative whole number, or a text of its digits: some serializers quote integers (proto3's int64). */
export function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined
}

/** Reads a row of a list, or the record in a retry's response. Never throws. */
export function readRecord(row: unknown, zone: TimeZone): WebhookRecord | UnreadableRow {
  if (!isObject(row)) return { unreadable: true, id: undefined, field: 'row' }
  const { id } = row
  if (!isUuid(id)) return { unreadable: true, id: undefined, field: 'id' }
  const eventLocal = parseLocal(row['eventDateTime'], zone)
  if (eventLocal === undefined) return { unreadable: true, id, field: 'eventDateTime' }
  const status = statusOf(row['status'])
  if (status === undefined) return { unreadable: true, id, field: 'status' }
  // Some platforms write 0 for no response.
  const code = wholeNumber(row['responseStatusCode']) ?? 0
  return {
    id,
    eventId: isUuid(row['eventId']) ? row['eventId'] : '',
    subscriptionId: isUuid(row['subscriptionId']) ? row['subscriptionId'].toLowerCase() : '',
    status,
    attempts: wholeNumber(row['numberOfAttempts']) ?? 0,
    eventLocal,
    lastAttemptLocal: parseLocal(row['lastAttemptDateTime'], zone) ?? null,
    eventType: word(property(property(row['requestPayload'], 'webhook'), 'type')),
    responseStatusCode: code > 0 ? code : null,
  }
}

const entityNames = ['outgoingTransfer', 'incomingTransfer', 'account']

/** `requestPayload.data.<entity>.id` of a row; undefined without one. @see docs/platform-api.md "Payload" */
export function readEntityId(row: unknown): string | undefined {
  const data = property(property(row, 'requestPayload'), 'data')
  const names = isObject(data) ? [...entityNames, ...Object.keys(data)] : []
  const ids = names.map((name) => property(property(data, name), 'id'))
  return ids.find((id): id is string => typeof id === 'string' && id !== '')
}

/** The receiver's response to the last attempt as text; null without one. Never stored. */
export interface ReceiverResponse {
  id: string
  /** `lastAttemptErrorMessage` and `responsePayload`. */
  error: string | null
  body: string | null
}

/** Undefined for a row without an id. */
export function readReceiverResponse(row: unknown): ReceiverResponse | undefined {
  const [id, error, body] = ['id', 'lastAttemptErrorMessage', 'responsePayload'].map((name) => property(row, name))
  const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
  return isUuid(id) ? { id: id.toLowerCase(), error: textOf(error), body: textOf(body) } : undefined
}

export function isUnreadable(row: WebhookRecord | UnreadableRow): row is UnreadableRow {
  return 'unreadable' in row
}

/** Responses to the content of a record. Any other one, such as 405 or 410, all records may get: of a receiver that is down. */
const ofContent: ReadonlySet<number | null> = new Set([400, 409, 413, 422])

/** True for a response that rejects one record: the receiver is up. */
export const refusesRecord = (responseStatusCode: number | null): boolean => ofContent.has(responseStatusCode)

/** True for a response that one record may cause, or its receiver. */
export function mayBeOfRecord(responseStatusCode: number | null): boolean {
  return responseStatusCode === 500 || refusesRecord(responseStatusCode)
}
