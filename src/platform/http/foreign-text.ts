// Sanitizes text received from the platform: one line, bounded length, secrets and account numbers redacted.
import { redact } from '../../runtime/redact.ts'

const removed = '[removed]'

/**
 * Stricter than the redaction of log lines: a free text may quote the request. Half an IBAN or one with an error counts,
 * and any long run that no word of a language has: opaque tokens, signatures, ids.
 */
const suspicious: readonly RegExp[] = [
  /\bbasic\s+(?=\S*\d)\S+/gi,
  /\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,4})?\b/gi,
  /[\w+/=~-]{40,}/g,
  /(?=[\w+/=~-]*\d)(?=[\w+/=~-]*[a-z])[\w+/=~-]{20,}/gi,
]

/** Longer texts are cut at a word before they are searched, so that the search stays cheap. */
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
