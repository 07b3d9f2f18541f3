// The simulated identity host: takes each assertion once, and only a good one; gives tokens that end.
import { checkClaims } from '../../sandbox/api/assertion.ts'
import type { Habits } from './scenario.ts'
import { assertionHeader, clientAssertionType, grantType } from '../../src/platform/wire.ts'

export const clientId = 'simulated-client'
export const issuer = 'https://identity.simulated/auth/realms/main'

export interface IdentityAnswer {
  status: number
  body: string
}

export interface SimulatedIdentity {
  /** `now` in epoch ms of this host's clock, `registered` the key whose certificate is registered now. */
  token(form: string, now: number, registered: number): IdentityAnswer
  /** True when the platform takes this token now; `now` as above. */
  takes(authorization: string | undefined, now: number): boolean
  /** Every token that was given becomes void. */
  revoke(): void
}

export function decode(part: string | undefined): Record<string, unknown> {
  try {
    return JSON.parse(Buffer.from(part ?? '', 'base64url').toString()) as Record<string, unknown>
  } catch {
    return {}
  }
}

export function createSimulatedIdentity(habits: Habits): SimulatedIdentity {
  const { tokenKnownAfterMs, tokenLifeSeconds, expiresIn = tokenLifeSeconds } = habits
  /** Of the whole run: a jti never comes again. */
  const used = new Set<unknown>()
  let tokens = new Map<string, { from: number; until: number }>()
  let given = 0

  function refusal(description: string): IdentityAnswer {
    const body = JSON.stringify({ error: 'invalid_client', error_description: description })
    return { status: 401, body }
  }

  return {
    token(form, now, registered) {
      const fields = new URLSearchParams(form)
      const [header, payload, signature] = (fields.get('client_assertion') ?? '').split('.')
      if (fields.get('grant_type') !== grantType || fields.get('client_assertion_type') !== clientAssertionType) {
        return { status: 400, body: '{"error":"invalid_request"}' }
      }
      if (JSON.stringify(decode(header)) !== JSON.stringify(assertionHeader)) return refusal('header')
      if (decode(signature)['key'] !== registered) return refusal('signature')
      const claims = decode(payload)
      if (used.has(claims['jti'])) return refusal('replayed')
      used.add(claims['jti'])
      const refused = checkClaims(claims, { clientId, audience: issuer, now, usedIds: new Map() })
      if (refused !== undefined) return refusal(refused.problem)
      given += 1
      const value = `token-${given}`
      tokens.set(value, { from: now + tokenKnownAfterMs, until: now + tokenLifeSeconds * 1000 })
      const body = { access_token: value, token_type: 'Bearer', expires_in: expiresIn, scope: 'api' }
      return { status: 200, body: JSON.stringify(body) }
    },
    takes(authorization, now) {
      const token = tokens.get(authorization?.replace(/^Bearer /, '') ?? '')
      return token !== undefined && token.from <= now && now < token.until
    },
    revoke() {
      tokens = new Map()
    },
  }
}
