// Sanitizes text received from the platform: one line, bounded length, secrets and account numbers redacted.
import { redact } from '../../runtime/redact.ts'

const removed = '[removed]'

/**
 * Stricter than the redaction of log lines, because free text may quote the request: also matches partial or invalid IBANs, and
 * any run longer than a word: opaque tokens, signatures, ids.
 */
const suspicious: readonly RegExp[] = [
  /\bbasic\s+(?=\S*\d)\S+/gi,
  /\b[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,4})?\b/gi,
  /[\w+/=~-]{40,}/g,
  /(?=[\w+/=~-]*\d)(?=[\w+/=~-]*[a-z])[\w+/=~-]{20,}/gi,
]

/** Longer texts are first truncated at a word, so that the search stays cheap. */
const looksAt = 4096

/** The start of a long text, up to the last whole word. */
function beginning(text: string): string {
  return text.length <= looksAt ? text : text.slice(0, looksAt).replace(/\S+$/, '')
}

/**
 * External text without control characters, secrets and account numbers.
 * @param maxLength in characters, default 200
 */
export function foreignText(text: string, maxLength = 200): string {
  const plain = beginning(text.toWellFormed())
    // Control characters, format characters (bidirectional overrides, zero width), line separators.
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const safe = suspicious.reduce((left, pattern) => left.replaceAll(pattern, removed), redact(plain))
  const characters = [...safe]
  return characters.length <= maxLength ? safe : `${characters.slice(0, maxLength - 1).join('')}…`
}
