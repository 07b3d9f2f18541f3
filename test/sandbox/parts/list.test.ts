// The list operation without HTTP: parameters under every reading, and pages that agree with sorting and filtering by hand.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSequence, hash } from '../../../sandbox/records/hash.ts'
import { pageOf, parseListQuery, type ListRequest } from '../../../sandbox/api/list.ts'
import { readingsSchema, type Readings } from '../../../sandbox/options.ts'
import { newRecord, seedRecords, type SeedContext } from '../../../sandbox/records/seed.ts'
import { createStore, type Store, type StoredRecord } from '../../../sandbox/records/store.ts'
import { createZone } from '../../../sandbox/records/zone.ts'
import { webhookStatuses } from '../../../src/platform/wire.ts'

const now = Date.parse('2025-03-04T12:00:00Z')
const orders = ['event-asc', 'event-desc', 'id', 'shuffled'] as const
const defaultReadings = readingsSchema.parse({})

function contextOf(seed = 1): SeedContext {
  return { zone: createZone('UTC'), now, ids: createSequence(seed) }
}

/** A store with so many records, up to now. */
function filled(count: number, overMs: number, seed = 1, shares: { failed?: number; processing?: number } = {}): Store {
  const store = createStore()
  store.add(seedRecords({ count, from: now - overMs, to: now, ...shares }, contextOf(seed)))
  return store
}

function parsed(query: string, readings: Partial<Readings> = {}): ListRequest {
  const result = parseListQuery(new URLSearchParams(query), { ...defaultReadings, ...readings })
  if ('problem' in result) throw new Error(`${result.parameter} ${result.problem}`)
  return result
}

test.each([
  ['', { number: 0, size: 20 }],
  ['metadata.page.number=3&metadata.page.size=100', { number: 3, size: 100 }],
  ['metadata.page.size=250', { size: 100, askedSize: 250 }],
  ['data.webhook.status=failed', { statuses: ['failed'] }],
  ['data.webhook.status=failed&data.webhook.status=processing', { statuses: ['failed', 'processing'] }],
  ['data.webhook.status=failed,successful', { statuses: ['failed', 'successful'] }],
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

test('a smaller maximum can hold', () => {
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
  const store = createStore()
  for (const micros of edges) store.add([newRecord({ eventInstant: now + micros / 1000 }, contextOf(micros))])
  const query = parsed(`data.webhook.${parameter}=2025-03-04T12:00:00`, { bounds })
  return pageOf(store, query, 'event-asc').records.map(({ eventMicros }) => eventMicros - now * 1000)
}

/** The key by which an order sorts. */
const keys: Record<Readings['order'], (record: StoredRecord) => number | string> = {
  'event-asc': ({ eventMicros }) => eventMicros,
  'event-desc': ({ eventMicros }) => -eventMicros,
  id: ({ id }) => id,
  shuffled: ({ random }) => random,
}

test.each(orders)('pages in order %s hold every match once, through status changes and additions', (order) => {
  const scenario = fc.record({
    seed: fc.integer(),
    statuses: fc.subarray([...webhookStatuses], { minLength: 1 }),
    size: fc.integer({ min: 1, max: 100 }),
    from: fc.integer({ min: 0, max: 1000 }),
    length: fc.integer({ min: 0, max: 1000 }),
  })
  fc.assert(
    fc.property(scenario, ({ seed, statuses, size, from, length }) => {
      const start = now - 1_000_000
      const store = filled(500, 1_000_000, seed, { failed: 0.5, processing: 0.2 })
      const range = { from: (start + from * 1000) * 1000, to: (start + (from + length) * 1000) * 1000 }
      const query = { number: 0, size, askedSize: size, statuses, eventId: undefined, range }
      pageOf(store, query, order)
      // After the first page, so that an order that is kept must follow.
      const all = [...store.inOrder('event')]
      for (let change = 0; change < 100; change++) {
        const record = all[hash(seed, change) % all.length]
        if (record !== undefined) record.status = webhookStatuses[hash(change, seed) % 3] ?? 'failed'
      }
      for (let at = 0; at < 5; at++) {
        const record = newRecord(
          { eventInstant: start + (hash(seed, at, 1) % 1_000_000) },
          contextOf(hash(seed, at, 2)),
        )
        store.add([record])
        all.push(record)
      }

      const listed: StoredRecord[] = []
      for (let number = 0; ; number++) {
        const { records, page } = pageOf(store, { ...query, number }, order)
        listed.push(...records)
        expect(page.totalPages).toBe(Math.ceil(page.totalElements / size))
        if (records.length < size) {
          expect(listed).toHaveLength(page.totalElements)
          break
        }
      }
      const expected = all.filter(
        ({ eventMicros, status }) =>
          eventMicros >= range.from && eventMicros < range.to && (statuses as string[]).includes(status),
      )
      const idsOf = (records: readonly StoredRecord[]): string[] => records.map(({ id }) => id).toSorted()
      expect(idsOf(listed)).toEqual(idsOf(expected))
      const sorted = listed.map(keys[order])
      expect(sorted).toEqual(sorted.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
    }),
    { numRuns: 30 },
  )
})

test('shuffled is another order than that of time, and the same each time', () => {
  const store = filled(200, 1000)
  const query = parsed('metadata.page.size=100')
  const { records } = pageOf(store, query, 'shuffled')
  expect(records).not.toEqual(pageOf(store, query, 'event-asc').records)
  expect(pageOf(store, query, 'shuffled').records).toEqual(records)
})

test('offset pages skip rows when each page leaves the list: half of a thousand is never seen', () => {
  const store = filled(1000, 1000)
  let seen = 0
  for (let number = 0; ; number++) {
    const query = parsed(`data.webhook.status=failed&metadata.page.size=100&metadata.page.number=${number}`)
    const { records } = pageOf(store, query, 'event-asc')
    if (records.length === 0) break
    for (const record of records) record.status = 'successful'
    seen += records.length
  }
  expect(seen).toBe(500)
})

test('a look-up by event finds its record alone, and only if the other filters match', () => {
  const store = filled(100, 1000)
  const record = store.inOrder('event')[42]
  const { eventId = '', id = '' } = record ?? {}
  expect(pageOf(store, parsed(`data.webhook.eventId=${eventId.toUpperCase()}`), 'id').records).toEqual([record])
  for (const more of [
    'data.webhook.status=successful',
    'data.webhook.eventDateTimeFrom=2026-01-01T00:00:00',
    'metadata.page.number=1',
  ]) {
    expect(pageOf(store, parsed(`data.webhook.eventId=${eventId}&${more}`), 'id').records).toEqual([])
  }
  expect(pageOf(store, parsed(`data.webhook.eventId=${id}`), 'id').page.totalElements).toBe(0)
})
