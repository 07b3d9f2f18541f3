// Secrets and personal data that a test plants, and the search for them in everything that was written.
import { createPrivateKey } from 'node:crypto'

/** By name: what must not be found, whole. */
export type Canaries = ReadonlyMap<string, string>

/** A valid German IBAN of this account number (10 digits). */
export function ibanOf(account: string): string {
  const national = `37040044${account}`
  // ISO 13616, modulo 97; 1314 is DE in digits.
  const check = 98n - (BigInt(`${national}131400`) % 97n)
  return `DE${String(check).padStart(2, '0')}${national}`
}

/** The lines of a PEM body, of which none may be written: a part of a key is too much already. */
export function linesOfPem(name: string, pem: string): [string, string][] {
  const lines = pem.split('\n').filter((line) => line.length > 20 && !line.startsWith('-----'))
  return lines.map((line, index) => [`${name}, line ${index + 1}`, line])
}

/** The private exponent and the primes, as a JWK holds them. */
export function numbersOfKey(pem: string): [string, string][] {
  const jwk = createPrivateKey(pem).export({ format: 'jwk' })
  return (['d', 'p', 'q'] as const).map((part) => [`private key, ${part}`, jwk[part] ?? ''])
}

/** A long secret by its beginning and its end: a cut one is a leak too. */
export function endsOf(name: string, secret: string): [string, string][] {
  return [
    [`${name}, beginning`, secret.slice(0, 20)],
    [`${name}, end`, secret.slice(-20)],
  ]
}

/** The ways in which a text may stand somewhere. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value)
  const base64 = bytes.toString('base64').replace(/=+$/, '')
  return [
    value,
    value.toLowerCase(),
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
    JSON.stringify(JSON.stringify(value)).slice(3, -3),
    // The last character depends on what follows.
    base64.slice(0, -1),
    bytes.toString('base64url').slice(0, -1),
    bytes.toString('hex'),
    value.replaceAll(/.{4}(?=.)/g, '$& '),
  ]
}

/** Names of the canaries that stand in the text, in any form. */
export function findCanaries(text: string, canaries: Canaries): string[] {
  // Pages and metrics repeat most of their lines: each is searched once.
  const small = [...new Set(text.toLowerCase().split('\n'))].join('\n')
  return [...canaries].filter(([, value]) => isIn(small, value)).map(([name]) => name)
}

function isIn(small: string, value: string): boolean {
  if (value.length < 6) throw new RangeError('a canary this short is found by chance')
  if (value.includes('\n'))
    throw new RangeError('a canary of several lines is not found: lines are searched one by one')
  return formsOf(value).some((form) => small.includes(form.toLowerCase()))
}
