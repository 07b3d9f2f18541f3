// The seeded pseudo-randomness: the same seed gives the same values.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSequence, hash, uuidOf } from '../../../sandbox/records/hash.ts'

const word = fc.integer({ min: 0, max: 2 ** 32 - 1 })

test('a UUID of any words is a version 4 one', () => {
  fc.assert(
    fc.property(word, word, word, word, (a, b, c, d) =>
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuidOf(a, b, c, d)),
    ),
  )
})

test('hash depends on each of its parts and on their order', () => {
  const values = [hash(1, 2, 3, 4), hash(2, 1, 3, 4), hash(1, 3, 2, 4), hash(1, 2, 4, 3), hash(1, 2, 3), hash(1, 2)]
  expect(new Set(values).size).toBe(values.length)
})

test('a sequence repeats by its seed, stays in its limits and is about uniform', () => {
  const [one, same, other] = [createSequence(7), createSequence(7), createSequence(8)]
  const values = Array.from({ length: 10_000 }, () => one.below(10))
  expect(Array.from({ length: 10_000 }, () => same.below(10))).toEqual(values)
  expect(Array.from({ length: 10_000 }, () => other.below(10))).not.toEqual(values)
  for (let digit = 0; digit < 10; digit++) {
    const share = values.filter((value) => value === digit).length / values.length
    expect(share).toBeGreaterThan(0.08)
    expect(share).toBeLessThan(0.12)
  }
  expect(one.digits(17)).toMatch(/^\d{17}$/)
  expect(one.chance(1)).toBe(true)
  expect(one.chance(0)).toBe(false)
})
