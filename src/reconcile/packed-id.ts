// Ids in memory: a UUID takes 16 characters of a byte each in place of 36, as a backlog holds two for each of very many records.

const uuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i
const bytes = Buffer.alloc(16)
/** Before any other text. It is no byte, so no packed UUID begins with it. */
const asItIs = '\u0100'

/** Any text. Only a UUID in lower case gets short, so that each comes back as it was. */
export function packId(id: string): string {
  return id === id.toLowerCase() ? keyOf(id) : asItIs + id
}

export function unpackId(packed: string): string {
  if (packed.startsWith(asItIs)) return packed.slice(asItIs.length)
  const hex = Buffer.from(packed, 'latin1').toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** What a record is found by: the same for both cases of a UUID. */
export function keyOf(id: string): string {
  if (!uuid.test(id)) return asItIs + id
  bytes.write(id.replaceAll('-', ''), 'hex')
  return bytes.toString('latin1')
}

/** The key of a packed id: mostly itself. */
export function keyOfPacked(packed: string): string {
  return packed.startsWith(asItIs) ? keyOf(unpackId(packed)) : packed
}
