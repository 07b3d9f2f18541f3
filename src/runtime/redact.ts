// Redacts secrets and account numbers in written texts, as a last defence: no caller should pass any.

/** An IBAN may start at the beginning of a word, or after an escape sequence such as \n. */
const ibanStart = /(?:(?<![A-Za-z0-9])|(?<=\\[nrt]|%[0-9A-Fa-f]{2}))[A-Za-z]{2}\d{2}/g
/** One word, or groups of four with spaces between them, as printed. */
const ibanForm =
  /^(?:[A-Za-z0-9]{15,34}|[A-Za-z0-9]{4}(?:[ \u00a0\u202f][A-Za-z0-9]{4}){2,7}(?:[ \u00a0\u202f][A-Za-z0-9]{1,3})?)(?![A-Za-z0-9])/
const minIbanLength = 15
/** 34 characters in groups, and one more to check that the last word ends. */
const maxFormLength = 43

const characters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'

/** Remainder of ISO 7064 mod 97-10 over the rearranged IBAN; 1 for a valid one. */
function ibanRemainder(iban: string): number {
  let remainder = 0
  for (const character of (iban.slice(4) + iban.slice(0, 4)).toUpperCase()) {
    const value = characters.indexOf(character)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder
}

/** Length of the longest valid IBAN at the start of a text, 0 if there is none. Short words may follow it. */
function ibanLength(text: string): number {
  let [form = ''] = ibanForm.exec(text) ?? []
  while (form.length >= minIbanLength) {
    const iban = form.replaceAll(/[^A-Za-z0-9]/g, '')
    if (iban.length >= minIbanLength && ibanRemainder(iban) === 1) return form.length
    form = form.replace(/[^A-Za-z0-9]?[A-Za-z0-9]+$/, '')
  }
  return 0
}

/** A UUID never matches: its hyphens join nothing, and its longest run of letters and digits is too short. */
function withoutIbans(text: string): string {
  let out = ''
  let copied = 0
  for (const { index } of text.matchAll(ibanStart)) {
    const length = index < copied ? 0 : ibanLength(text.slice(index, index + maxFormLength))
    if (length === 0) continue
    out += `${text.slice(copied, index)}[iban]`
    copied = index + length
  }
  return copied === 0 ? text : out + text.slice(copied)
}

const secretNames =
  'access_token|refresh_token|id_token|client_assertion|client_secret|password|passphrase|private_?key_?passphrase'

/** Between a name and its value, in a form, a header or JSON: quotation marks may be escaped. */
const separator = String.raw`[\\"']*\s*[:=][\\"'\s]*`

/** Applied in this order. */
const rules: readonly (readonly [RegExp, string])[] = [
  // A truncated block has no end mark: redacts everything that may belong to it, or to a token right after it.
  [/-----BEGIN [A-Z0-9 ]+-----(?:[^"]*?-----END [A-Z0-9 ]+-----|[\w+/=\s\\:,.-]*)/g, '[pem]'],
  [new RegExp(String.raw`(\bauthorization${separator}(?:\[[\\"'\s]*)?)(?:\\.|[^"'\\\r\n])+`, 'gi'), '$1[hidden]'],
  [/\b(Bearer)(?:\s|\\[nrt]|%20|\+)+[A-Za-z0-9._~+/=-]+/gi, '$1 [token]'],
  // Recognizes a JWT with spaces or line breaks in its header by its three parts. Precedes the patterns that match its second part.
  [/\b(?:eyA|ew[0ko])[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,}){2,4}/g, '[token]'],
  [/eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}/g, '[token]'],
  // A key or certificate without its first and last line, by the Base64 of a DER prefix.
  [/\bMII[A-Za-z0-9+/]{40,}={0,2}/g, '[pem]'],
  [new RegExp(String.raw`(\b(?:${secretNames})${separator})(?:\\.|[^\s"'\\&,}])+`, 'gi'), '$1[hidden]'],
  [/(\bhttps?:\/\/)[^\s/"'\\@]+@/gi, '$1[hidden]@'],
]

/**
 * The text without JWTs, bearer tokens, Authorization values, PEM blocks, bare keys, credentials in URLs and IBANs. Keeps
 * UUIDs. For values: JSON text may become invalid, use `redactedJson`.
 */
export function redact(text: string): string {
  let clean = text
  for (const [pattern, replacement] of rules) clean = clean.replace(pattern, replacement)
  return withoutIbans(clean)
}

/** Invisible or line-breaking characters that JSON leaves unescaped. They occur only inside strings. */
const invisible = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** JSON text whose strings contain no character that could break or distort a line. */
export function escapeInvisible(line: string): string {
  return line.replace(invisible, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** JSON for people, logs and terminals: redacts each text, and escapes invisible characters. */
export function redactedJson(document: object, indent?: number): string {
  const clean = (_: string, value: unknown): unknown => (typeof value === 'string' ? redact(value) : value)
  return escapeInvisible(JSON.stringify(document, clean, indent))
}

/** Text for people: redacted, without characters that control a terminal or disguise text. */
export function visibleText(text: string): string {
  return redact(text).replaceAll(/(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?')
}

export function shortened(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}...` : text
}

/** An external name or value for a message: no control characters, no secrets, limited length. */
export function shownText(text: string): string {
  return shortened(visibleText(text).replaceAll('\n', '?'), 60)
}
