// Records as the client reads them from a page.
import type { WebhookRecord } from '../../src/platform/record.ts'

let made = 0

/** A UUID that shows its number. */
export function idOf(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}

/** A failed record of an ordinary kind, with the next free id. */
export function failedRecord(fields: Partial<WebhookRecord> & Pick<WebhookRecord, 'eventLocal'>): WebhookRecord {
  made += 1
  const id = idOf(made)
  return {
    id,
    eventId: id.replace(/^0/, 'e'),
    subscriptionId: 'aaaaaaaa-0000-4000-8000-000000000001',
    status: 'failed',
    attempts: 1,
    lastAttemptLocal: fields.eventLocal + 1000,
    eventType: 'account-activated',
    responseStatusCode: 503,
    ...fields,
  }
}
