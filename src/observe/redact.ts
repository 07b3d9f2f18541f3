// The last line of defence: takes out of a finished text what must never be written, whatever let it in.

/**
 * Country, length, and how many characters behind the country are digits (n: all), from the SWIFT IBAN registry.
 * The digits keep hexadecimal ids apart, where a country's letters could stand too.
 */
const ibanCountries = new Map(
  (
    'AD24:10 AE23n AL28 AT20n AZ28 BA20n BE16n BG22 BH22 BI27n BR29 BY28 CH21 CR22n CY28 CZ24n DE22n DJ27n DK18n DO28 EE20n ' +
    'EG29n ES24n FI18n FK18 FO18n FR27 GB22 GE22 GI23 GL18n GR27 GT28 HN28 HR21n HU28n IE22 IL23n IQ23 IS26n IT27 JO30 KW30 ' +
    'KZ20 LB28 LC32 LI21 LT20n LU20 LV21 LY25n MC27 MD24 ME22n MK19 MN20n MR27n MT31 MU30 NI28 NL18 NO15n OM23 PK24 PL28n ' +
    'PS29 PT25n QA29 RO24 RS22n RU33 SA24 SC31 SD18n SE24n SI19n SK24n SM27 SO23n ST25n SV28 TL23n TN24n TR26 UA29 VA22n ' +
    'VG24 XK20n YE30'
  )
    .split(' ')
    .map((entry): [string, { length: number; digits: number }] => {
      const length = Number(entry.slice(2, 4))
      return [entry.slice(0, 2), { length, digits: entry.endsWith('n') ? length - 2 : Number(entry.slice(5) || 2) }]
    }),
)

const longestIban = 34

/** Where an IBAN may start: not inside a word, but right behind a JSON escape such as `\n` whose letter is no part of the text. */
const ibanStart = /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}|(?<=\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9A-Fa-f]{2})[A-Za-z]{2}\d{2}/g

/** Remainder of ISO 7064 mod 97-10 over the rearranged IBAN; 1 for a valid one. */
function ibanRemainder(iban: string): number {
  let remainder = 0
  for (const character of iban.slice(4) + iban.slice(0, 4)) {
    const value = parseInt(character, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder
}

/** End of the valid IBAN that starts at `start`, single spaces or hyphens allowed; undefined when there is none. */
function ibanEnd(text: string, start: number): number | undefined {
  const country = ibanCountries.get(text.slice(start, start + 2).toUpperCase())
  if (country === undefined) return undefined
  const [, run = ''] =
    /^([A-Za-z0-9]+(?:[ \u00a0\u202f-][A-Za-z0-9]+)*)/.exec(text.slice(start, start + 2 * longestIban)) ?? []
  let iban = ''
  for (const [index, character] of Array.from(run).entries()) {
    if (/[A-Za-z0-9]/.test(character)) iban += character
    if (iban.length < country.length) continue
    const wordGoesOn = /[A-Za-z0-9]/.test(run[index + 1] ?? ' ')
    const valid = !wordGoesOn && /^\d+$/.test(iban.slice(2, 2 + country.digits)) && ibanRemainder(iban) === 1
    return valid ? start + index + 1 : undefined
  }
  return undefined
}

const uuid = /(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])/gi
const uuidLength = 36

/** Says of places in a text, which rise from call to call, whether they lie in a UUID: one in a million holds a valid IBAN. */
function uuidsOf(text: string): (index: number) => boolean {
  const starts = Array.from(text.matchAll(uuid), ({ index }) => index)
  let next = 0
  return (index) => {
    while (next < starts.length && index >= (starts[next] ?? 0) + uuidLength) next += 1
    return index >= (starts[next] ?? Infinity)
  }
}

function withoutIbans(text: string): string {
  let out = ''
  let copied = 0
  const isInUuid = uuidsOf(text)
  for (const match of text.matchAll(ibanStart)) {
    if (isInUuid(match.index)) continue
    const end = match.index < copied ? undefined : ibanEnd(text, match.index)
    if (end === undefined) continue
    out += `${text.slice(copied, match.index)}[iban]`
    copied = end
  }
  return copied === 0 ? text : out + text.slice(copied)
}

const secretNames =
  'access_token|refresh_token|id_token|client_assertion|client_secret|password|passphrase|private_?key_?passphrase'

/** A quotation mark inside of a JSON string, or none: a plain one would belong to the line's own structure. */
const innerQuote = String.raw`(?:\\+["']|')?`

/** Tried in this order. None can match half of a JSON escape or a plain quotation mark, so that a JSON line stays one. */
const rules: readonly (readonly [RegExp, string])[] = [
  // A block that was cut off has no end mark: then everything that can belong to it.
  [/-----BEGIN [A-Z0-9 ]+-----(?:[^"]*?-----END [A-Z0-9 ]+-----|(?:\\+[nr]|[A-Za-z0-9+/=\s:,-])*)/g, '[pem]'],
  [/("authorization"\s*:\s*\[?\s*")(?:[^"\\]|\\.)+/gi, '$1[hidden]'],
  [
    new RegExp(
      String.raw`(\bauthorization${innerQuote}\s*[:=]\s*\[?${innerQuote})(?:[A-Za-z]+\s+)?[^\s"'\\,}\]]+`,
      'gi',
    ),
    '$1[hidden]',
  ],
  [/\b(Bearer)(?:\s|\\[nrt]|%20|\+)+[A-Za-z0-9._~+/=-]+/gi, '$1 [token]'],
  // A JWT whose header was written with spaces or line breaks is known by its three parts; before the others, who know its second one.
  [/\b(?:eyA|ew[0ko])[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,}){2,4}/g, '[token]'],
  [/eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}/g, '[token]'],
  // A key or certificate without its first and last line: how DER begins, in Base64.
  [/\bMII[A-Za-z0-9+/]{40,}={0,2}/g, '[pem]'],
  [new RegExp(String.raw`("(?:${secretNames})"\s*:\s*")(?:[^"\\]|\\.)+`, 'gi'), '$1[hidden]'],
  [new RegExp(String.raw`(\b(?:${secretNames})${innerQuote}\s*[:=]\s*${innerQuote})[^\s"'\\&,}]+`, 'gi'), '$1[hidden]'],
  [/(\bhttps?:\/\/)[^\s/"'\\@]+@/gi, '$1[hidden]@'],
]

/**
 * The text without JWTs, bearer tokens, Authorization values, PEM blocks, bare keys, credentials in URLs and IBANs.
 * Leaves UUIDs, hashes and numbers alone. A JSON text stays valid JSON with the same keys.
 */
export function scrub(text: string): string {
  let clean = text
  for (const [pattern, replacement] of rules) clean = clean.replace(pattern, replacement)
  return withoutIbans(clean)
}

/** Invisible or line-breaking characters that JSON leaves as they are. They stand inside of strings only. */
const invisible = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** A JSON text whose strings hold no character that could break or bend a line. */
export function escapeInvisible(line: string): string {
  return line.replace(invisible, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
