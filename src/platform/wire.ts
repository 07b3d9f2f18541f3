// The platform's protocol in names: paths, parameters, envelopes, codes. Shared by the client and the sandbox. @see docs/platform-api.md

/** Path of the token endpoint below the issuer. @see docs/platform-api.md "Token request" */
export const tokenPath = '/protocol/openid-connect/token'
export const grantType = 'client_credentials'
export const clientAssertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Header of an assertion: both fields mandatory, one allowed value each. @see docs/platform-api.md "Assertion" */
export const assertionHeader = { alg: 'RS256', typ: 'JWT' } as const
/** `exp` is at most this many seconds after `iat`. @see docs/platform-api.md "Assertion" */
export const maxAssertionLifetimeSeconds = 600

/** Path of the webhook operations below the API base. @see docs/platform-api.md "List webhooks", "Retry a webhook" */
export const webhooksPath = '/webhooks'

/** Query parameters of the list operation. @see docs/platform-api.md "List webhooks" */
export const listParameter = {
  pageNumber: 'metadata.page.number',
  pageSize: 'metadata.page.size',
  status: 'data.webhook.status',
  eventId: 'data.webhook.eventId',
  from: 'data.webhook.eventDateTimeFrom',
  to: 'data.webhook.eventDateTimeTo',
} as const

export const defaultPageSize = 20
export const maxPageSize = 100

export const webhookStatuses = ['processing', 'successful', 'failed'] as const
export type WebhookStatus = (typeof webhookStatuses)[number]

export const retryWorkflowCode = 'retry'
/** The body of a retry, exactly as specified. @see docs/platform-api.md "Retry a webhook" */
export const retryRequestBody = { workflow: { code: retryWorkflowCode }, data: {}, connect: {}, metadata: {} } as const

/** Code of the refusal: the record is not `failed`. @see docs/platform-api.md "Errors" */
export const invalidStatusCode = 'svc.banking.rdm.functional.webhook_invalid_status_update'

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
export interface WireRetryAnswer {
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
