// Ids in memory: a UUID takes 16 one-byte characters instead of 36, because a backlog holds two for each of very many records.
import { uuidPattern } from '../runtime/uuid.ts'

/** Prefix of any other text. It is no byte, so no packed UUID begins with it. */
const asItIs = '\u0100'
/** The places of the bytes of a UUID. */
const places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34]
const hexOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const hyphenAndHexOf = hexOf.map((hex) => `-${hex}`)
const textsOf = places.map((place) => ([9, 14, 19, 24].includes(place) ? hyphenAndHexOf : hexOf))
/** The one that is packed. */
const bytes = Buffer.alloc(places.length)

/** Of a hexadecimal digit. */
const valueOf = (code: number): number => (code & 15) + (code > 0x39 ? 9 : 0)
const byteAt = (id: string, place: number): number =>
  16 * valueOf(id.charCodeAt(place)) + valueOf(id.charCodeAt(place + 1))

/** Packs any text; an empty one stays empty. Only a lower-case UUID becomes shorter, so that unpacking restores every text. */
export function packId(id: string): string {
  if (id === '') return ''
  return id === id.toLowerCase() ? keyOf(id) : asItIs + id
}

export function unpackId(packed: string): string {
  if (packed === '') return ''
  if (packed.startsWith(asItIs)) return packed.slice(asItIs.length)
  // By table, five times as fast as a Buffer: each retry unpacks its ids several times.
  let id = ''
  for (let byte = 0; byte < packed.length; byte += 1) id += textsOf[byte]?.[packed.charCodeAt(byte)] ?? ''
  return id
}

/** The key of an id, ignoring the case of a UUID. */
export function keyOf(id: string): string {
  if (!uuidPattern.test(id)) return asItIs + id
  for (let byte = 0; byte < 16; byte += 1) bytes[byte] = byteAt(id, places[byte] ?? 0)
  return bytes.toString('latin1')
}

/** The key of a packed id: usually itself. */
export function keyOfPacked(packed: string): string {
  return packed.startsWith(asItIs) ? keyOf(unpackId(packed)) : packed
}
