// The platform's protocol as names: paths, parameters, envelopes, codes. Shared by client and sandbox. @see docs/platform-api.md

/** Path of the token endpoint below the issuer. @see docs/platform-api.md "Token request" */
export const tokenPath = '/protocol/openid-connect/token'
export const grantType = 'client_credentials'
export const clientAssertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Header of an assertion: two mandatory fields, each with one allowed value. @see docs/platform-api.md "Assertion" */
export const assertionHeader = { alg: 'RS256', typ: 'JWT' } as const
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

export const maxPageSize = 100

export const webhookStatuses = ['processing', 'successful', 'failed'] as const
export type WebhookStatus = (typeof webhookStatuses)[number]

/** The body of a retry, exactly as specified. @see docs/platform-api.md "Retry a webhook" */
export const retryRequestBody = { workflow: { code: 'retry' }, data: {}, connect: {}, metadata: {} } as const

/** Error code for a record that is not `failed`. @see docs/platform-api.md "Errors" */
export const invalidStatusCode = 'svc.banking.rdm.functional.webhook_invalid_status_update'
