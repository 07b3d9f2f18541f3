// Ids in memory: short, and what comes out is what went in.
import { expect, test } from 'vitest'
import { keyOf, keyOfPacked, packId, unpackId } from '../../../src/reconcile/packed-id.ts'

const id = '3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f'

test.each([
  ['a UUID', id],
  ['one in capital letters', id.toUpperCase()],
  ['one of the highest bytes', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  ['no id', ''],
  ['another text', 'order 7'],
  ['one as long as a packed UUID', '0123456789abcdef'],
  ['one of other characters', '\u0100\u{1f600}'],
])('%s comes back as it was', (_, text) => {
  expect(unpackId(packId(text))).toBe(text)
})

test('a UUID takes 16 characters of a byte each, and has one key in either case; another text is told apart from it', () => {
  expect(packId(id)).toMatch(/^[\0-\xff]{16}$/)
  for (const form of [id, id.toUpperCase()]) {
    expect(keyOf(form)).toBe(packId(id))
    expect(keyOfPacked(packId(form))).toBe(packId(id))
  }
  expect(keyOf(packId(id))).not.toBe(packId(id))
})
