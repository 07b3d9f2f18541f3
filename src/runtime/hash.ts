// A hash of a text, equal in every process.

/** FNV-1a of the text's UTF-16 units, continued from `hash`: 32 bits, unsigned. */
export function hashOf(text: string, hash = 0x811c9dc5): number {
  let result = hash
  for (let index = 0; index < text.length; index += 1) {
    result = Math.imul(result ^ text.charCodeAt(index), 0x01000193)
  }
  return result >>> 0
}
