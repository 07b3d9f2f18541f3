// Webhook records, list pages and answers as the platform writes them, for tests without the sandbox.
import { invalidStatusCode } from '../../src/platform/wire.ts'
import type { WireError, WireWebhook } from '../../sandbox/api/wire.ts'

export const webhookId = '11111111-2222-4333-8444-555555555555'

/** A failed delivery; texts that must never come out of the client are canaries. */
export function wireWebhook(changes: Partial<WireWebhook> = {}): WireWebhook {
  return {
    id: webhookId,
    eventId: '22222222-2222-4333-8444-555555555555',
    subscriptionId: '33333333-2222-4333-8444-555555555555',
    status: 'failed',
    numberOfAttempts: 1,
    requestPayload: {
      data: { incomingTransfer: { senderName: 'CANARY-NAME' } },
      webhook: { type: 'incoming-transfer-completed', module: 'incoming-transfers' },
    },
    eventDateTime: '2026-01-15T11:00:00.5',
    lastAttemptDateTime: '2026-01-15T11:00:03',
    responseStatusCode: 503,
    responsePayload: 'CANARY-TEXT',
    responseHeaders: { 'x-canary': ['CANARY-HEADER'] },
    lastAttemptErrorMessage: 'CANARY-MESSAGE',
    ...changes,
  }
}

/** The envelope of a list page. */
export function wirePage(
  webhooks: unknown,
  page: unknown = { size: 100, number: 0, totalElements: 1, totalPages: 1 },
): object {
  return { workflow: {}, data: { webhooks }, connect: {}, metadata: { page } }
}

/** The envelope of an accepted retry. */
export function wireRetried(webhook: unknown = wireWebhook({ status: 'processing' })): object {
  return { workflow: { code: 'retry' }, data: { webhook }, connect: {}, metadata: {} }
}

/** The body of a refusal because of the status. */
export function wireInvalidStatus(changes: Record<string, unknown> = {}): WireError {
  return {
    timestamp: '2026-01-15T12:00:00.123',
    code: invalidStatusCode,
    message: 'Webhook status must be Failed to retry, but it is Processing',
    messageParameters: ['Failed', 'Processing'],
    ...changes,
  }
}
