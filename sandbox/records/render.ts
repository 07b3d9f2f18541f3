// A stored record as the platform shows it.
import type { WebhookStatus } from '../../src/platform/wire.ts'
import type { WireWebhook } from '../api/wire.ts'
import type { Readings } from '../options.ts'
import { payloadOf } from './payload.ts'
import type { StoredRecord } from './store.ts'
import { localText } from './zone.ts'

const toCase = {
  lower: (text: string): string => text,
  capital: (text: string): string => text.charAt(0).toUpperCase() + text.slice(1),
  upper: (text: string): string => text.toUpperCase(),
} as const satisfies Record<Readings['statusCase'], unknown>

const toId = {
  uuid: (id: string): unknown => id,
  ulid: (id: string): unknown => `01${id.replaceAll('-', '').slice(0, 24).toUpperCase()}`,
  number: (id: string): unknown => parseInt(id.slice(0, 8), 16),
} as const satisfies Record<Readings['ids'], unknown>

const two = (value: number): string => String(value).padStart(2, '0')

/** Forms outside of the specification, and `iso`, its own. */
function timeOf(micros: number, { fraction, times }: Readings): unknown {
  const date = new Date(micros / 1000)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()]
  const [hours, minutes, seconds] = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
  switch (times) {
    case 'iso':
      return localText(micros, fraction)
    case 'array':
      return [year, month, day, hours, minutes, seconds]
    case 'epoch':
      return Math.floor(micros / 1e6)
    case 'rfc1123':
      return date.toUTCString()
    case 'german':
      return `${two(day)}.${two(month)}.${year} ${two(hours)}:${two(minutes)}:${two(seconds)}`
    case 'week':
      return `${year}-W48-${date.getUTCDay() || 7}T${two(hours)}:${two(minutes)}:${two(seconds)}`
  }
}

export function renderRecord(record: StoredRecord, readings: Readings): WireWebhook {
  const { lastAttemptMicros } = record
  const { ids, statusCase, unknownFields } = readings
  // The wire type is the specification's, but forms that break it are sent as well.
  const odd = { id: toId[ids](record.id) as string, eventDateTime: timeOf(record.eventMicros, readings) as string }
  return {
    ...odd,
    eventId: record.eventId,
    subscriptionId: record.subscriptionId,
    // The wire type has three statuses, but one that breaks the specification is sent as well.
    status: toCase[statusCase](record.status) as WebhookStatus,
    numberOfAttempts: record.attempts,
    requestPayload: renderPayload(record),
    lastAttemptDateTime: lastAttemptMicros === null ? null : (timeOf(lastAttemptMicros, readings) as string),
    ...record.result,
    ...(unknownFields ? { priority: 'normal', deliveryChannel: { kind: 'http', version: 2 } } : {}),
    ...record.wire,
  }
}

export function renderPayload(record: StoredRecord): Record<string, unknown> {
  if (record.requestPayload !== undefined) return record.requestPayload
  const eventDate = localText(record.eventMicros, 'micro').slice(0, 10)
  return payloadOf(record.eventType, record.random, eventDate)
}
