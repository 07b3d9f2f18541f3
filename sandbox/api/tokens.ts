// The token endpoint, and the tokens that the API accepts. @see docs/platform-api.md "Token request", RFC 6749 sections 4.4 and 5
import { clientAssertionType, grantType } from '../../src/platform/wire.ts'
import type { WireToken } from './wire.ts'
import { checkAssertion, readKey } from './assertion.ts'
import { jsonResponse, type SandboxResponse, type SandboxRequest } from './http.ts'
import type { Sequence } from '../records/hash.ts'
import type { Readings } from '../options.ts'
import type { Stats } from './stats.ts'

export interface TokenIssuerOptions {
  clientId: string
  issuerUrl: string
  certificatePem: string
  random: Sequence
  readings: () => Readings
  /** The identity host's time, epoch milliseconds. */
  now: () => number
  /** Monotonic ms, for the lifetime of tokens. */
  monotonic: () => number
  stats: Stats
}

export interface TokenEndpoint {
  respond(request: SandboxRequest): SandboxResponse
  /** True for an issued token that has not expired and was not revoked. */
  accepts(authorization: string | undefined): boolean
  /** Revokes all tokens issued so far. */
  revokeAll(): void
  /** Replaces the registered certificates. @throws TypeError for an invalid one */
  register(certificates: readonly string[]): void
}

const grantedScope = 'api'
const noStore = { 'cache-control': 'no-store', pragma: 'no-cache' }

export function createTokenEndpoint(options: TokenIssuerOptions): TokenEndpoint {
  const { random, readings } = options
  const counts = options.stats.counts.tokens
  const lives = new Map<string, { from: number; until: number }>()
  const usedIds = new Map<string, number>()
  let keys = [readKey(options.certificatePem)]

  function issue(): SandboxResponse {
    const { expiresIn, tokenKnownAfterSeconds, tokenScope, unknownFields } = readings()
    const token = Buffer.from(Array.from({ length: 32 }, () => random.below(256))).toString('base64url')
    const now = options.monotonic()
    for (const [old, { until }] of lives) if (until <= now) lives.delete(old)
    lives.set(token, { from: now + tokenKnownAfterSeconds * 1000, until: now + expiresIn * 1000 })
    counts.issued++
    const body: Partial<WireToken> = { access_token: token, token_type: 'Bearer', expires_in: expiresIn }
    if (tokenScope !== null) body.scope = tokenScope
    const extra = unknownFields ? { not_before_policy: 0, refresh_expires_in: 0 } : {}
    return jsonResponse(200, { ...body, ...extra }, noStore)
  }

  function refuse(error: string, description: string): SandboxResponse {
    const status = error === 'invalid_client' ? 401 : 400
    return jsonResponse(status, { error, error_description: description }, noStore)
  }

  function checkForm(form: URLSearchParams): SandboxResponse | undefined {
    const repeated = [...form.keys()].find((name) => form.getAll(name).length > 1)
    if (repeated !== undefined) return refuse('invalid_request', `${repeated} is given twice.`)
    const grant = form.get('grant_type')
    if (grant === null) return refuse('invalid_request', 'grant_type is missing.')
    if (grant !== grantType) return refuse('unsupported_grant_type', `grant_type must be ${grantType}.`)
    if (form.get('client_assertion_type') !== clientAssertionType) {
      return refuse('invalid_request', `client_assertion_type must be ${clientAssertionType}.`)
    }
    if (form.get('client_assertion') === null) return refuse('invalid_request', 'client_assertion is missing.')
    const clientId = form.get('client_id')
    if (clientId !== null && clientId !== options.clientId) return refuse('invalid_client', 'client_id is not known.')
    return undefined
  }

  return {
    respond(request) {
      if (request.method !== 'POST')
        return { ...jsonResponse(405, { error: 'invalid_request' }), headers: { allow: 'POST' } }
      if (!isForm(request.headers['content-type'])) {
        return refuse('invalid_request', 'The body must be application/x-www-form-urlencoded.')
      }
      const form = new URLSearchParams(request.body)
      const problem = checkForm(form)
      if (problem !== undefined) return problem
      const refusal = checkAssertion(form.get('client_assertion') ?? '', {
        clientId: options.clientId,
        audience: options.issuerUrl,
        keys,
        now: options.now(),
        usedIds,
      })
      if (refusal !== undefined) {
        counts.refused[refusal.problem] = (counts.refused[refusal.problem] ?? 0) + 1
        return refuse('invalid_client', refusal.description)
      }
      const scopes = (form.get('scope') ?? '').split(' ').filter((scope) => scope !== '')
      if (scopes.some((scope) => scope !== grantedScope))
        return refuse('invalid_scope', `scope must be ${grantedScope}.`)
      return issue()
    },
    accepts(authorization) {
      const token = /^Bearer ([\w-]+)$/.exec(authorization ?? '')?.[1]
      const life = token === undefined ? undefined : lives.get(token)
      const now = options.monotonic()
      return life !== undefined && life.from <= now && now < life.until
    },
    revokeAll() {
      lives.clear()
    },
    register(certificates) {
      keys = certificates.map(readKey)
    },
  }
}

function isForm(contentType: string | readonly string[] | undefined): boolean {
  return typeof contentType === 'string' && /^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType)
}
