// The signed assertion that a token is asked for with. @see RFC 7523 section 3, platform-api.md 5.3
import type { SigningKey } from './private-key.ts'
import type { SkewInterval } from './skew.ts'
import { maxAssertionLifetimeSeconds } from './wire.ts'

export interface AssertionOptions {
  /** Issuer and subject. */
  clientId: string
  /** The one audience: the OIDC issuer URI of the environment that is called. */
  issuer: string
  /** Whole seconds, 1 to 600. */
  lifetimeSeconds: number
  /** Epoch seconds in the server's time, see `assertionTime`. */
  issuedAt: number
  /** Unique: new for every HTTP try. */
  jti: string
}

/** Before the skew is known, hosts with a clock set by NTP are well within this. */
const unknownSkewMarginMs = 5000
/**
 * Clocks drift between two looks at them, and the server refuses an `iat` that is 40 ms ahead. Drift beyond this margin
 * shows in the refusal's Date, and the try is repeated corrected.
 */
const driftMarginMs = 1000

/**
 * When to say that the assertion was issued, in epoch seconds: the earliest time that the learned skew allows, so that
 * it is never in the server's future.
 * @param hostNow host clock, epoch ms
 */
export function assertionTime(hostNow: number, skew: SkewInterval | undefined): number {
  const earliest = skew === undefined ? hostNow - unknownSkewMarginMs : hostNow + skew[0] - driftMarginMs
  return Math.floor(earliest / 1000)
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
