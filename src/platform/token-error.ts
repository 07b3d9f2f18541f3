// The error of those who asked for a token and can't have one, and what it tells people to do.
import type { Reason } from './http.ts'
import { tlsAdvice } from './tls-advice.ts'
import type { Refused } from './token-answer.ts'

export interface TokenErrorFields {
  kind: 'rejected' | 'transient'
  reason: Exclude<Reason, 'ok'>
  oauthError?: string | undefined
  /** Scrubbed, at most 200 characters. */
  description?: string | undefined
  /** Why no answer came: a code of Node, OpenSSL or undici. */
  transportCode?: string | undefined
  /** Epoch ms on the host's clock; until then callers fail at once. */
  retryAt?: number | undefined
}

/** There is no valid token to be had now. `rejected`: a person has to act; `transient`: it may pass. */
export class TokenError extends Error {
  readonly code: 'TOKEN_REJECTED' | 'TOKEN_UNAVAILABLE'
  readonly kind: 'rejected' | 'transient'
  readonly reason: Exclude<Reason, 'ok'>
  readonly oauthError: string | undefined
  readonly description: string | undefined
  readonly transportCode: string | undefined
  readonly retryAt: number | undefined

  constructor(message: string, fields: TokenErrorFields) {
    super(message)
    this.name = 'TokenError'
    this.code = fields.kind === 'rejected' ? 'TOKEN_REJECTED' : 'TOKEN_UNAVAILABLE'
    this.kind = fields.kind
    this.reason = fields.reason
    this.oauthError = fields.oauthError
    this.description = fields.description
    this.transportCode = fields.transportCode
    this.retryAt = fields.retryAt
  }
}

const checkPlace = 'check auth.authUrl and auth.realm (or auth.issuerUrl)'

const adviceByOauthError: Readonly<Record<string, string>> = {
  invalid_scope: 'check auth.scope (empty leaves the scope out) and what the service account may do',
  invalid_request: checkPlace,
  unsupported_grant_type: checkPlace,
  access_denied: "have the platform's operator give the service account access to the API",
}

const adviceByReason: Readonly<Partial<Record<Reason, string>>> = {
  redirect: `redirects are not followed; ${checkPlace}`,
  'not-found': checkPlace,
  'invalid-body': `${checkPlace}, and that no login page or proxy answers in its place`,
  'bad-request': checkPlace,
  timeout: `check the network path, and ${checkPlace}`,
  connection: `check the network path, and ${checkPlace}`,
}

/**
 * A refusal in a sentence for people: what happened, and what to do.
 * @param fingerprint of the public key that the assertion was signed for
 */
export function explainRefusal(refused: Refused, fingerprint: string): string {
  const { oauthError, description, detail, reason, transportCode } = refused
  const told = description === undefined ? '' : `, "${description}"`
  if (refused.kind === 'transient') {
    const why = transportCode === undefined ? reason : `${reason} (${transportCode})`
    const what = detail ?? (oauthError === undefined ? why : `${reason}, ${oauthError}${told}`)
    const advice = reason === 'tls' ? tlsAdvice(transportCode) : adviceByReason[reason]
    return `no access token: ${what}; it is tried again, if it lasts: ${advice ?? "ask the platform's operator"}`
  }
  const credentials =
    `check auth.clientId, that the certificate registered for it is of this key ` +
    `(SHA-256 of the public key: ${fingerprint}) and has not expired, and auth.authUrl and auth.realm`
  const advice = adviceByOauthError[oauthError ?? ''] ?? credentials
  return `the platform rejected the token request: ${oauthError ?? reason}${told}; ${advice}`
}
