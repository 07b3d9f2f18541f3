// The index behind the list: whatever is added and moved, it answers as a sorted array would.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createOrderedIndex } from '../../../sandbox/ordered-index.ts'

/** The same by sorting and filtering. */
function naive(keys: number[], statuses: number[], mask: number, range: { from: number; to: number }): number[] {
  return keys
    .map((_, record) => record)
    .sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b)
    .filter((record) => (mask & (1 << (statuses[record] ?? 0))) !== 0)
    .filter((record) => (keys[record] ?? 0) >= range.from && (keys[record] ?? 0) < range.to)
}

// Few different keys, so that many records share one.
const entry = fc.record({ key: fc.integer({ min: 0, max: 40 }), status: fc.integer({ min: 0, max: 3 }) })
const query = fc.record({
  mask: fc.integer({ min: 0, max: 15 }),
  from: fc.constantFrom(-Infinity, 0, 1, 17, 40, 41),
  to: fc.constantFrom(Infinity, 0, 1, 20, 40, 41),
  offset: fc.integer({ min: 0, max: 60 }),
  limit: fc.integer({ min: 1, max: 30 }),
})
const move = fc.record({ at: fc.nat(), status: fc.integer({ min: 0, max: 3 }) })

test('agrees with a sorted array through rebuilding, inserting and moving', () => {
  const scenario = fc.record({
    first: fc.array(entry, { maxLength: 200 }),
    later: fc.array(entry, { maxLength: 100 }),
    moves: fc.array(move, { maxLength: 50 }),
    queries: fc.array(query, { minLength: 1, maxLength: 20 }),
  })
  fc.assert(
    fc.property(scenario, ({ first, later, moves, queries }) => {
      const keys = first.map(({ key }) => key)
      const statuses = first.map(({ status }) => status)
      const index = createOrderedIndex(
        (record) => keys[record] ?? 0,
        (record) => statuses[record] ?? 0,
      )
      index.rebuild(Uint32Array.from(first.keys()))
      for (const { key, status } of later) {
        statuses.push(status)
        index.insert(keys.push(key) - 1)
      }
      for (const { at, status } of keys.length === 0 ? [] : moves) {
        const record = at % keys.length
        const before = statuses[record] ?? 0
        statuses[record] = status
        index.moved(record, before, status)
      }
      for (const { mask, from, to, offset, limit } of queries) {
        const all = naive(keys, statuses, mask, { from, to })
        expect(index.count(mask, { from, to })).toBe(all.length)
        expect(index.slice(mask, { from, to }, { offset, limit, descending: false })).toEqual(
          all.slice(offset, offset + limit),
        )
        const backwards = all.toReversed().slice(offset, offset + limit)
        expect(index.slice(mask, { from, to }, { offset, limit, descending: true })).toEqual(backwards)
      }
      expect([...index.walk()]).toEqual(naive(keys, statuses, 15, { from: -Infinity, to: Infinity }))
    }),
  )
})

test('stays right when thousands are inserted at one place, so that buckets split again and again', () => {
  const keys = Array.from({ length: 10_000 }, (_, record) => (record * 7919) % 997)
  const index = createOrderedIndex(
    (record) => keys[record] ?? 0,
    (record) => record % 4,
  )
  for (const record of keys.keys()) index.insert(record)
  const statuses = keys.map((_, record) => record % 4)
  const all = naive(keys, statuses, 4, { from: 100, to: 900 })
  expect(index.count(4, { from: 100, to: 900 })).toBe(all.length)
  expect(index.slice(4, { from: 100, to: 900 }, { offset: 0, limit: 10_000, descending: false })).toEqual(all)
})
