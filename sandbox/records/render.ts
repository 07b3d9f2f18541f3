// A stored record as the platform shows it.
import type { WebhookStatus, WireWebhook } from '../../src/platform/wire.ts'
import type { Readings } from '../options.ts'
import { payloadOf } from './payload.ts'
import type { StoredRecord } from './store.ts'
import { localText } from './zone.ts'

export function renderRecord(record: StoredRecord, { fraction, unknownFields }: Readings): WireWebhook {
  const { lastAttemptMicros } = record
  return {
    id: record.id,
    eventId: record.eventId,
    subscriptionId: record.subscriptionId,
    // The wire type knows three statuses; one that breaks the specification is sent all the same.
    status: record.status as WebhookStatus,
    numberOfAttempts: record.attempts,
    requestPayload: renderPayload(record),
    eventDateTime: localText(record.eventMicros, fraction),
    lastAttemptDateTime: lastAttemptMicros === null ? null : localText(lastAttemptMicros, fraction),
    ...record.result,
    ...(unknownFields ? { priority: 'normal', deliveryChannel: { kind: 'http', version: 2 } } : {}),
    ...record.wire,
  }
}

function renderPayload(record: StoredRecord): Record<string, unknown> {
  if (record.requestPayload !== undefined) return record.requestPayload
  const eventDate = localText(record.eventMicros, 'micro').slice(0, 10)
  return payloadOf(record.eventType, record.random, eventDate)
}
