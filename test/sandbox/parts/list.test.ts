// The list operation without HTTP: parameters under every reading, and pages that agree with sorting and filtering by hand.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hash } from '../../../sandbox/hash.ts'
import { createLister, parseListQuery, type ListQuery } from '../../../sandbox/list.ts'
import { defaultReadings, type ListOrder, type Readings } from '../../../sandbox/options.ts'
import { newRecord, seedRecords } from '../../../sandbox/seed.ts'
import { createStore, failed, processing, successful, type Store } from '../../../sandbox/store.ts'
import { createZone } from '../../../sandbox/zone.ts'

const now = Date.parse('2025-03-04T12:00:00Z')
const context = { seed: 1, zone: createZone('UTC'), now }
const orders: ListOrder[] = ['event-asc', 'event-desc', 'id', 'shuffled']

function parsed(query: string, readings: Partial<Readings> = {}): ListQuery {
  const result = parseListQuery(new URLSearchParams(query), { ...defaultReadings, ...readings })
  if ('problem' in result) throw new Error(`${result.parameter} ${result.problem}`)
  return result
}

test.each([
  ['', { number: 0, size: 20 }],
  ['metadata.page.number=3&metadata.page.size=100', { number: 3, size: 100 }],
  ['metadata.page.size=250', { size: 100, askedSize: 250 }],
  ['data.webhook.status=failed', { mask: 1 << failed }],
  ['data.webhook.status=failed&data.webhook.status=processing', { mask: (1 << failed) | (1 << processing) }],
  ['data.webhook.status=failed,successful', { mask: (1 << failed) | (1 << successful) }],
  ['unknown.parameter=1', { number: 0 }],
])('reads "%s"', (query, expected) => {
  expect(parsed(query)).toMatchObject(expected)
})

test.each([
  'metadata.page.number=-1',
  'metadata.page.number=1.5',
  'metadata.page.number=',
  'metadata.page.number=9999999999999',
  'metadata.page.size=0',
  'metadata.page.size=ten',
  'data.webhook.status=FAILED',
  'data.webhook.status=',
  'data.webhook.status=failed,',
  'data.webhook.eventId=1',
  'data.webhook.eventDateTimeFrom=2025-03-04',
  'data.webhook.eventDateTimeTo=2025-03-04T12:00:00Z',
])('refuses "%s" and names the parameter', (query) => {
  const [name] = query.split('=')
  expect(parseListQuery(new URLSearchParams(query), defaultReadings)).toMatchObject({ parameter: name })
})

const twice = 'data.webhook.status=failed&data.webhook.status=processing'
const comma = 'data.webhook.status=failed,processing'

test.each([
  ['both', twice, true],
  ['both', comma, true],
  ['repeated', twice, true],
  ['repeated', comma, false],
  ['comma', twice, false],
  ['comma', comma, true],
  ['single', twice, false],
  ['single', comma, false],
  ['single', 'data.webhook.status=failed', true],
] as const)('status encoding %s: "%s" is taken: %s', (statusEncoding, query, taken) => {
  const result = parseListQuery(new URLSearchParams(query), { ...defaultReadings, statusEncoding })
  expect(!('problem' in result)).toBe(taken)
})

test('what a gateway ignores is not even looked at', () => {
  const query =
    'metadata.page.size=x&metadata.page.number=7&data.webhook.status=nonsense&data.webhook.eventDateTimeFrom=x'
  const ignores = ['page.size', 'page.number', 'status', 'from', 'to', 'eventId'] as const
  expect(parsed(query, { ignores })).toEqual(parsed(''))
})

test('a page size above the maximum can be refused; a smaller maximum can hold', () => {
  expect(
    parseListQuery(new URLSearchParams('metadata.page.size=101'), { ...defaultReadings, oversizedPage: 'refuse' }),
  ).toMatchObject({
    parameter: 'metadata.page.size',
  })
  expect(parsed('metadata.page.size=100', { maxPageSize: 7 })).toMatchObject({ size: 7, askedSize: 100 })
})

/** Records around the second 12:00:00, by their distance from it in microseconds. */
const edges = [-1_000_000, -1, 0, 1, 500_000, 999_999, 1_000_000]

test.each([
  ['inclusive', 'second', [0, 1, 500_000, 999_999, 1_000_000]],
  ['exclusive', 'second', [1_000_000]],
  ['inclusive', 'fraction', [0, 1, 500_000, 999_999, 1_000_000]],
  ['exclusive', 'fraction', [1, 500_000, 999_999, 1_000_000]],
] as const)('from %s by the %s gives %o', (from, precision, expected) => {
  expect(atEdges('eventDateTimeFrom', { from, to: 'inclusive', precision })).toEqual(expected)
})

test.each([
  ['inclusive', 'second', [-1_000_000, -1, 0, 1, 500_000, 999_999]],
  ['exclusive', 'second', [-1_000_000, -1]],
  ['inclusive', 'fraction', [-1_000_000, -1, 0]],
  ['exclusive', 'fraction', [-1_000_000, -1]],
] as const)('to %s by the %s gives %o', (to, precision, expected) => {
  expect(atEdges('eventDateTimeTo', { from: 'inclusive', to, precision })).toEqual(expected)
})

function atEdges(parameter: string, bounds: Readings['bounds']): number[] {
  const store = createStore(1)
  for (const micros of edges) store.add(newRecord({ eventInstant: now + micros / 1000 }, context))
  const query = parsed(`data.webhook.${parameter}=2025-03-04T12:00:00`, { bounds })
  const { records } = createLister(store, 1).page(query, 'event-asc')
  return records.map((record) => store.eventMicrosOf(record) - now * 1000)
}

/** The key by which an order sorts, made anew. */
function keyOf(store: Store, order: ListOrder): (record: number) => number | string {
  switch (order) {
    case 'event-asc':
    case 'event-desc':
      return store.eventMicrosOf
    case 'id':
      return store.idOf
    case 'shuffled':
      return () => 0
  }
}

test.each(orders)('pages in order %s hold every match once, through status changes and additions', (order) => {
  const scenario = fc.record({
    seed: fc.integer(),
    mask: fc.integer({ min: 1, max: 7 }),
    size: fc.integer({ min: 1, max: 100 }),
    from: fc.integer({ min: 0, max: 1000 }),
    length: fc.integer({ min: 0, max: 1000 }),
  })
  fc.assert(
    fc.property(scenario, ({ seed, mask, size, from, length }) => {
      const store = createStore(seed)
      const start = now - 1_000_000
      seedRecords(store, { count: 500, from: start, to: now, failed: 0.5, processing: 0.2 }, { ...context, seed })
      const lister = createLister(store, seed)
      const range = { from: (start + from * 1000) * 1000, to: (start + (from + length) * 1000) * 1000 }
      const query = { number: 0, size, askedSize: size, mask, eventId: undefined, range }
      lister.page(query, order)
      // After the first look, so that what is kept must follow.
      for (let change = 0; change < 100; change++) store.setStatus(hash(seed, change) % 500, hash(change, seed) % 3)
      for (let at = 0; at < 5; at++)
        store.add(newRecord({ eventInstant: start + (hash(seed, at, 1) % 1_000_000) }, context))

      const all: number[] = []
      for (let number = 0; ; number++) {
        const { records, page } = lister.page({ ...query, number }, order)
        all.push(...records)
        expect(page.totalPages).toBe(Math.ceil(page.totalElements / size))
        if (records.length < size) {
          expect(all).toHaveLength(page.totalElements)
          break
        }
      }
      const expected = [...Array(store.size).keys()].filter((record) => {
        const time = store.eventMicrosOf(record)
        return time >= range.from && time < range.to && (mask & (1 << store.statusOf(record))) !== 0
      })
      expect(all.toSorted((a, b) => a - b)).toEqual(expected)
      const keys = all.map(keyOf(store, order))
      if (order === 'event-desc') keys.reverse()
      expect(keys).toEqual(keys.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
    }),
    { numRuns: 30 },
  )
})

test('shuffled is another order than that of time, and the same each time', () => {
  const store = createStore(1)
  seedRecords(store, { count: 200, from: now - 1000, to: now }, context)
  const lister = createLister(store, 1)
  const { records } = lister.page(parsed('metadata.page.size=100'), 'shuffled')
  expect(records).not.toEqual(records.toSorted((a, b) => a - b))
  expect(lister.page(parsed('metadata.page.size=100'), 'shuffled').records).toEqual(records)
})

test('offset pages skip rows when each page leaves the list: half of a thousand is never seen', () => {
  const store = createStore(1)
  seedRecords(store, { count: 1000, from: now - 1000, to: now }, context)
  const lister = createLister(store, 1)
  let seen = 0
  for (let number = 0; ; number++) {
    const { records } = lister.page(
      parsed(`data.webhook.status=failed&metadata.page.size=100&metadata.page.number=${number}`),
      'event-asc',
    )
    if (records.length === 0) break
    for (const record of records) store.setStatus(record, successful)
    seen += records.length
  }
  expect(seen).toBe(500)
})

test('a look-up by event finds its record alone, and only if the other filters match', () => {
  const store = createStore(1)
  seedRecords(store, { count: 100, from: now - 1000, to: now }, context)
  const lister = createLister(store, 1)
  const eventId = store.eventIdOf(42)
  expect(lister.page(parsed(`data.webhook.eventId=${eventId.toUpperCase()}`), 'id').records).toEqual([42])
  for (const more of [
    'data.webhook.status=successful',
    'data.webhook.eventDateTimeFrom=2026-01-01T00:00:00',
    'metadata.page.number=1',
  ]) {
    expect(lister.page(parsed(`data.webhook.eventId=${eventId}&${more}`), 'id').records).toEqual([])
  }
  expect(lister.page(parsed(`data.webhook.eventId=${store.idOf(42)}`), 'id').page.totalElements).toBe(0)
})

test('ranges that were kept and forgotten are made anew, in the same order', () => {
  const store = createStore(1)
  seedRecords(store, { count: 1000, from: now - 100_000, to: now }, context)
  const lister = createLister(store, 1)
  const page = (second: number): number[] => {
    const from = `2025-03-04T11:58:${String(second).padStart(2, '0')}`
    return lister.page(parsed(`data.webhook.eventDateTimeFrom=${from}&metadata.page.size=100`), 'id').records
  }
  const first = page(20)
  for (let second = 21; second < 50; second++) page(second)
  expect(page(20)).toEqual(first)
})
