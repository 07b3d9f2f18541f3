// A stored record as the platform sends it.
import { webhookStatuses, type WireWebhook, type WebhookStatus } from '../src/platform/wire.ts'
import { hash } from './hash.ts'
import type { Readings } from './options.ts'
import { payloadOf } from './payload.ts'
import type { Store } from './store.ts'
import { localText, type Fraction } from './zone.ts'

/** Status of records whose status nobody specified, unless they say it themselves. */
const unspecifiedStatus = 'cancelled'

export function renderRecord(store: Store, record: number, seed: number, readings: Readings): WireWebhook {
  const eventDateTime = localText(store.eventMicrosOf(record), readings.fraction)
  const lastAttempt = store.lastAttemptMicrosOf(record)
  const rendered = {
    id: store.idOf(record),
    eventId: store.eventIdOf(record),
    subscriptionId: store.subscriptionOf(record),
    // The wire type knows three statuses; one that breaks the specification is sent all the same.
    status: (webhookStatuses[store.statusOf(record)] ?? unspecifiedStatus) as WebhookStatus,
    numberOfAttempts: store.attemptsOf(record),
    requestPayload: renderPayload(store, record, seed),
    eventDateTime,
    lastAttemptDateTime: lastAttemptText(lastAttempt, readings.fraction),
    ...store.resultOf(record),
    ...(readings.unknownFields ? { priority: 'normal', deliveryChannel: { kind: 'http', version: 2 } } : {}),
  }
  const own = store.particularsOf(record)?.wire
  return own === undefined ? rendered : { ...rendered, ...own }
}

/** What is sent to the subscriber. */
export function renderPayload(store: Store, record: number, seed: number): Record<string, unknown> {
  const own = store.particularsOf(record)?.requestPayload
  if (own !== undefined) return own
  const eventDate = localText(store.eventMicrosOf(record), 'micro').slice(0, 10)
  return payloadOf(store.eventTypeOf(record), hash(seed, record), eventDate)
}

function lastAttemptText(localMicros: number, fraction: Fraction): string | null {
  return Number.isNaN(localMicros) ? null : localText(localMicros, fraction)
}
