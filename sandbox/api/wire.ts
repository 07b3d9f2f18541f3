// The platform's side of the protocol: limits, and the objects that it sends. @see docs/platform-api.md
import { retryRequestBody, type WebhookStatus } from '../../src/platform/wire.ts'

/** `exp` is at most this many seconds after `iat`. @see docs/platform-api.md "Assertion" */
export const maxAssertionLifetimeSeconds = 600

export const defaultPageSize = 20

/** A record as the platform sends it. @see docs/platform-api.md "Webhook record" */
export interface WireWebhook {
  id: string
  eventId: string
  subscriptionId: string
  status: WebhookStatus
  numberOfAttempts: number
  requestPayload: Record<string, unknown>
  /** ISO 8601 local date-time with fractional seconds, no zone designator. */
  eventDateTime: string
  lastAttemptDateTime: string | null
  responseStatusCode: number | null
  responsePayload: string | null
  responseHeaders: Record<string, string[]> | null
  lastAttemptErrorMessage: string | null
}

/** @see docs/platform-api.md "Envelope" */
export interface WirePage {
  size: number
  number: number
  totalElements: number
  totalPages: number
}

/** @see docs/platform-api.md "List webhooks" */
export interface WireList {
  workflow: Record<string, never>
  data: { webhooks: WireWebhook[] }
  connect: Record<string, never>
  metadata: { page: WirePage }
}

/** @see docs/platform-api.md "Retry a webhook" */
export interface WireRetryResponse {
  workflow: { code: string }
  data: { webhook: WireWebhook }
  connect: Record<string, never>
  metadata: Record<string, never>
}

/** @see docs/platform-api.md "Errors" */
export interface WireError {
  timestamp: string
  code: string
  message: string
  messageParameters: string[]
}

/** @see docs/platform-api.md "Token request" */
export interface WireToken {
  access_token: string
  token_type: string
  expires_in: number
  scope: string
}

export const retryWorkflowCode = retryRequestBody.workflow.code
