// Checks a client assertion as strictly as the specification allows. @see docs/platform-api.md "Assertion", RFC 7523 section 3
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { assertionHeader } from '../../src/platform/wire.ts'
import { jsonFields } from '../fields.ts'
import { maxAssertionLifetimeSeconds } from './wire.ts'

/** Why an assertion was refused. */
export type AssertionProblem =
  'malformed' | 'header' | 'signature' | 'jti' | 'iss' | 'sub' | 'aud' | 'iat' | 'exp' | 'lifetime' | 'replayed'

/** The key of a certificate, or a public key, in PEM. @throws TypeError */
export function readKey(pem: string): KeyObject {
  try {
    return createPublicKey(pem)
  } catch (cause) {
    throw new TypeError('The sandbox cannot read the certificate: name an X.509 certificate in PEM.', { cause })
  }
}

export interface AssertionPolicy {
  clientId: string
  /** The issuer URI. */
  audience: string
  /** Registered for the service account; one of them must verify the signature. */
  keys: readonly KeyObject[]
  /** The server's time, epoch milliseconds. */
  now: number
  /** By jti: when it is forgotten, epoch milliseconds. An accepted jti is added. */
  usedIds: Map<string, number>
}

export interface AssertionRefusal {
  problem: AssertionProblem
  description: string
}

/** Undefined if the assertion is valid; it cannot be used again. */
export function checkAssertion(assertion: string, policy: AssertionPolicy): AssertionRefusal | undefined {
  const parts = assertion.split('.')
  const [header, payload, signature] = parts
  if (parts.length !== 3 || !isBase64Url(header) || !isBase64Url(payload) || !isBase64Url(signature)) {
    return refusal('malformed', 'The assertion is not three base64url parts.')
  }
  const headerFields = jsonFields(decoded(header))
  if (headerFields === undefined) return refusal('malformed', 'The header is not a JSON object.')
  if (!sameFields(headerFields, assertionHeader)) {
    return refusal('header', 'The header must be alg RS256 and typ JWT, and nothing else.')
  }
  if (!policy.keys.some((key) => isSignedBy(key, `${header}.${payload}`, signature))) {
    return refusal('signature', 'No registered certificate verifies the signature.')
  }
  const claims = jsonFields(decoded(payload))
  if (claims === undefined) return refusal('malformed', 'The payload is not a JSON object.')
  return checkClaims(claims, policy)
}

/** The same for the claims. */
export function checkClaims(
  claims: Record<string, unknown>,
  policy: Omit<AssertionPolicy, 'keys'>,
): AssertionRefusal | undefined {
  const { jti, iss, sub, aud, iat, exp } = claims
  if (typeof jti !== 'string' || jti === '') return refusal('jti', 'jti must be a text.')
  if (iss !== policy.clientId) return refusal('iss', 'iss must be the client id.')
  if (sub !== policy.clientId) return refusal('sub', 'sub must be the client id.')
  if (aud !== policy.audience) return refusal('aud', 'aud must be the issuer URI, as one text.')
  if (!isSeconds(iat)) return refusal('iat', 'iat must be whole seconds since 1970.')
  if (!isSeconds(exp)) return refusal('exp', 'exp must be whole seconds since 1970.')
  if (iat * 1000 > policy.now) return refusal('iat', 'iat is in the future.')
  if (exp * 1000 <= policy.now) return refusal('exp', 'The assertion has expired.')
  if (exp - iat > maxAssertionLifetimeSeconds || exp <= iat) {
    return refusal('lifetime', 'exp must be after iat, by at most 10 minutes.')
  }
  return useOnce(jti, exp * 1000, policy)
}

/** A jti is remembered until its assertion expires, because it could be replayed until then. @see RFC 7523 section 3, jti */
function useOnce(
  jti: string,
  expiresAt: number,
  { usedIds, now }: Pick<AssertionPolicy, 'usedIds' | 'now'>,
): AssertionRefusal | undefined {
  if ((usedIds.get(jti) ?? -Infinity) > now) return refusal('replayed', 'jti was used before.')
  for (const [id, forgetAt] of usedIds) {
    // In the order of arrival, so nearly in the order of expiry: the first unexpired jti ends the search.
    if (forgetAt > now) break
    usedIds.delete(id)
  }
  usedIds.delete(jti)
  usedIds.set(jti, expiresAt)
  return undefined
}

function refusal(problem: AssertionProblem, description: string): AssertionRefusal {
  return { problem, description }
}

function isBase64Url(text: string | undefined): text is string {
  return text !== undefined && /^[A-Za-z0-9_-]+$/.test(text)
}

const decoded = (part: string): string => Buffer.from(part, 'base64url').toString()

function sameFields(fields: Record<string, unknown>, wanted: Record<string, string>): boolean {
  const names = Object.keys(wanted)
  return Object.keys(fields).length === names.length && names.every((name) => fields[name] === wanted[name])
}

function isSignedBy(key: KeyObject, input: string, signature: string): boolean {
  return verify('RSA-SHA256', Buffer.from(input), key, Buffer.from(signature, 'base64url'))
}

function isSeconds(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
