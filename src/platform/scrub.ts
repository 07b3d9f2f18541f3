// Makes a stranger's text fit to be logged: no control characters, nothing that looks like a secret or an account, short.

const removed = '[removed]'

/** In this order: what is longest first, so that no half of a secret is left over. */
const secrets: readonly RegExp[] = [
  // PEM, with or without its end.
  /-----BEGIN.*?(?:-----END[^-]*-----|$)/g,
  // JSON in Base64url begins so: each part of a JWT but the signature, which is long.
  /eyJ[\w-]*(?:\.[\w-]*)*/g,
  /\b(?:bearer|basic)\s+(?=\S*\d)\S+/gi,
  // IBAN, in one or in groups of four. @see ISO 13616
  /\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,4})?\b/gi,
  // Long runs that no word of a language has: opaque tokens, signatures, hashes, UUIDs.
  /[\w+/=~-]{40,}/g,
  /(?=[\w+/=~-]*\d)(?=[\w+/=~-]*[a-z])[\w+/=~-]{20,}/gi,
]

/**
 * A text from outside, for log lines and messages.
 * @param maxLength in characters, default 200
 */
export function scrub(text: string, maxLength = 200): string {
  const plain = text
    .toWellFormed()
    // Controls, format characters (bidirectional overrides, zero width), line separators.
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const safe = secrets.reduce((left, secret) => left.replaceAll(secret, removed), plain)
  const characters = [...safe]
  return characters.length <= maxLength ? safe : `${characters.slice(0, maxLength - 1).join('')}…`
}
