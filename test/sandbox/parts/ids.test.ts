// Ids that are computed from record numbers and lead back to them.
import { expect, test } from 'vitest'
import { createIds, isUuid } from '../../../sandbox/ids.ts'

test('every id is a UUID of its own and leads back to its record', () => {
  const ids = createIds(1, 1)
  const seen = new Set<string>()
  for (let record = 0; record < 50_000; record++) {
    const id = ids.of(record)
    seen.add(id)
    if (ids.find(id) !== record || ids.fromSortKey(ids.sortKey(record)) !== record)
      expect.fail(`record ${record} of ${id} was not found`)
  }
  expect(seen.size).toBe(50_000)
  expect([...seen].every(isUuid)).toBe(true)
})

test('sorting by key sorts by id', () => {
  const ids = createIds(3, 1)
  const records = Array.from({ length: 1000 }, (_, record) => record)
  const byKey = records.toSorted((a, b) => ids.sortKey(a) - ids.sortKey(b)).map(ids.of)
  expect(byKey).toEqual(records.map(ids.of).toSorted())
})

test('another seed or purpose makes other ids', () => {
  const made = [createIds(1, 1), createIds(1, 2), createIds(2, 1)].map((ids) => ids.of(42))
  expect(new Set(made).size).toBe(3)
})

test.each(['', 'x', '../', '00000000-0000-0000-0000-00000000000', 'g0000000-0000-4000-8000-000000000000'])(
  'what is no UUID (%o) is not looked for',
  (text) => {
    expect(isUuid(text)).toBe(false)
    expect(createIds(1, 1).find(text)).toBeUndefined()
  },
)
