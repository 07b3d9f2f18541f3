// The signed assertion that a token is asked for with. @see RFC 7523 section 3, platform-api.md 5.3
import type { SigningKey } from './credentials.ts'
import { maxAssertionLifetimeSeconds } from './wire.ts'

export interface AssertionOptions {
  /** Issuer and subject. */
  clientId: string
  /** The one audience: the OIDC issuer URI of the environment that is called. */
  issuer: string
  /** Whole seconds, 1 to 600. */
  lifetimeSeconds: number
  /** Epoch seconds, never in the server's future. */
  issuedAt: number
  /** Unique: new for every HTTP try. */
  jti: string
}

/**
 * Signs an assertion: the header and the claims of the specification and nothing else.
 * @throws RangeError for a lifetime that the platform would refuse
 */
export function buildAssertion(key: SigningKey, options: AssertionOptions): Promise<string> {
  const { clientId, issuer, lifetimeSeconds, issuedAt, jti } = options
  if (!Number.isInteger(lifetimeSeconds) || lifetimeSeconds < 1 || lifetimeSeconds > maxAssertionLifetimeSeconds) {
    throw new RangeError(`an assertion lives 1 to ${maxAssertionLifetimeSeconds} whole seconds, not ${lifetimeSeconds}`)
  }
  return key.sign({ jti, iss: clientId, sub: clientId, aud: issuer, iat: issuedAt, exp: issuedAt + lifetimeSeconds })
}
