// Characters of any kind for properties, from control characters to the last plane of Unicode.
import fc from 'fast-check'

const [firstSurrogate, surrogates, codePoints] = [0xd800, 0x800, 0x110000]

/**
 * Any code point but half of a pair, for `fc.string({ unit })`. fast-check's own `binary` is the same, and costs a second
 * and a table of a million entries in each worker.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: codePoints - surrogates - 1 })
  .map((number) => String.fromCodePoint(number < firstSurrogate ? number : number + surrogates))
