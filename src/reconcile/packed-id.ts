// Ids in memory: a UUID takes 16 one-byte characters instead of 36, because a backlog holds two for each of very many records.

const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i
/** Position of the first digit of each byte in a UUID. */
const places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]
const digits = Buffer.from('0123456789abcdef')
/** Reused for each id, which is twice as fast. */
const bytes = Buffer.alloc(16)
const text = Buffer.from('00000000-0000-0000-0000-000000000000')
/** Prefix of any other text. It is no byte, so no packed UUID begins with it. */
const asItIs = '\u0100'

/** The value of a hexadecimal digit, by its character code. */
const valueOf = (code: number): number => (code & 15) + 9 * (code >> 6)

/** Packs any text; an empty one stays empty. Only a lower-case UUID becomes shorter, so that unpacking restores every text. */
export function packId(id: string): string {
  if (id === '') return ''
  return id === id.toLowerCase() ? keyOf(id) : asItIs + id
}

export function unpackId(packed: string): string {
  if (packed === '') return ''
  if (packed.startsWith(asItIs)) return packed.slice(asItIs.length)
  for (let index = 0; index < places.length; index += 1) {
    const byte = packed.charCodeAt(index)
    const place = places[index] ?? 0
    text[place] = digits[byte >> 4] ?? 0
    text[place + 1] = digits[byte & 15] ?? 0
  }
  return text.toString('latin1')
}

/** The key of an id, ignoring the case of a UUID. */
export function keyOf(id: string): string {
  if (!uuid.test(id)) return asItIs + id
  for (let index = 0; index < places.length; index += 1) {
    const place = places[index] ?? 0
    bytes[index] = 16 * valueOf(id.charCodeAt(place)) + valueOf(id.charCodeAt(place + 1))
  }
  return bytes.toString('latin1')
}

/** The key of a packed id: usually itself. */
export function keyOfPacked(packed: string): string {
  return packed.startsWith(asItIs) ? keyOf(unpackId(packed)) : packed
}
