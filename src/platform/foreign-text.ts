// Makes a stranger's text fit for a log line or a message: one short line, and nothing that looks like a secret or an account.
import { redact } from '../runtime/redact.ts'

const removed = '[removed]'

/**
 * Stricter than what is taken out of our own log lines: a platform's free text may quote what it was sent. Half an IBAN
 * or one with an error in it counts, and any long run that no word of a language has: opaque tokens, signatures, ids.
 */
const suspicious: readonly RegExp[] = [
  /\bbasic\s+(?=\S*\d)\S+/gi,
  /\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,4})?\b/gi,
  /[\w+/=~-]{40,}/g,
  /(?=[\w+/=~-]*\d)(?=[\w+/=~-]*[a-z])[\w+/=~-]{20,}/gi,
]

/** More is dropped before it is looked at, up to the word that is cut: each look stays cheap, whatever is sent. */
const looksAt = 4096

/** The beginning of a long text, without the word that the cut goes through. */
function beginning(text: string): string {
  return text.length <= looksAt ? text : text.slice(0, looksAt).replace(/\S+$/, '')
}

/**
 * A text from outside without control characters, secrets and accounts.
 * @param maxLength in characters, default 200
 */
export function foreignText(text: string, maxLength = 200): string {
  const plain = beginning(text.toWellFormed())
    // Controls, format characters (bidirectional overrides, zero width), line separators.
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const safe = suspicious.reduce((left, pattern) => left.replaceAll(pattern, removed), redact(plain))
  const characters = [...safe]
  return characters.length <= maxLength ? safe : `${characters.slice(0, maxLength - 1).join('')}…`
}
