// Made-up records: as many, as old and as failed as asked, and the same for the same seed.
import { expect, test } from 'vitest'
import { webhookStatuses } from '../../../src/platform/wire.ts'
import { defaultReadings } from '../../../sandbox/options.ts'
import { renderRecord } from '../../../sandbox/render.ts'
import { newRecord, seedRecords, type SeedOptions } from '../../../sandbox/seed.ts'
import { createStore, type Store } from '../../../sandbox/store.ts'
import { createZone } from '../../../sandbox/zone.ts'

const now = Date.parse('2025-03-04T12:00:00Z')
const hour = 3_600_000
const context = { seed: 1, zone: createZone('UTC'), now }
const everything = { from: -Infinity, to: Infinity }

function seeded(options: Partial<SeedOptions>, seed = 1): Store {
  const store = createStore(seed)
  seedRecords(store, { count: 1000, from: now - hour, to: now, ...options }, { ...context, seed })
  return store
}

function counts(store: Store): Record<string, number> {
  return Object.fromEntries(webhookStatuses.map((status, code) => [status, store.byEvent.count(1 << code, everything)]))
}

test.each([
  [{}, { failed: 1000, processing: 0, successful: 0 }],
  [{ failed: 0 }, { failed: 0, processing: 0, successful: 1000 }],
  [{ failed: 0.29 }, { failed: 290, processing: 0, successful: 710 }],
  [
    { failed: 0.5, processing: 0.25 },
    { failed: 500, processing: 250, successful: 250 },
  ],
  [
    { failed: 0, processing: 1 },
    { failed: 0, processing: 1000, successful: 0 },
  ],
  [
    { failed: 0.001, processing: 0.999 },
    { failed: 1, processing: 999, successful: 0 },
  ],
])('shares %o give exactly %o', (shares, expected) => {
  expect(counts(seeded(shares))).toEqual(expected)
})

test.each(['even', 'random', 'batches'] as const)(
  'event times spread %s lie in [from, to) and never go back',
  (spread) => {
    const store = seeded({ spread })
    let before = (now - hour) * 1000
    for (let record = 0; record < store.size; record++) {
      const time = store.eventMicrosOf(record)
      expect(time).toBeGreaterThanOrEqual(before)
      expect(time).toBeLessThan(now * 1000)
      before = time
    }
  },
)

test('batches put about a hundred events into a few milliseconds', () => {
  const store = seeded({ spread: 'batches' })
  const clusters = new Set(
    Array.from({ length: 1000 }, (_, record) => Math.floor(store.eventMicrosOf(record) / 1_000_000)),
  )
  expect(clusters.size).toBeLessThanOrEqual(20)
})

test('last attempts come after their event and not after now', () => {
  const store = seeded({})
  for (let record = 0; record < store.size; record++) {
    expect(store.lastAttemptMicrosOf(record)).toBeGreaterThanOrEqual(store.eventMicrosOf(record))
    expect(store.lastAttemptMicrosOf(record)).toBeLessThanOrEqual(now * 1000)
  }
})

test('without a last attempt nothing is known of one', () => {
  const record = renderRecord(seeded({ lastAttemptAfterMs: null }), 5, 1, defaultReadings)
  expect(record).toMatchObject({
    numberOfAttempts: 0,
    lastAttemptDateTime: null,
    responseStatusCode: null,
    responsePayload: null,
    responseHeaders: null,
    lastAttemptErrorMessage: null,
  })
})

test.each([
  [7, [7]],
  [{ min: 2, max: 4 }, [2, 3, 4]],
  [(position: number) => position % 2, [0, 1]],
])('attempts %o are of %o', (attempts, allowed) => {
  const store = seeded({ attempts })
  const found = new Set(Array.from({ length: 1000 }, (_, record) => store.attemptsOf(record)))
  expect([...found].sort()).toEqual(allowed)
})

test('the same seed makes the same records, another one others', () => {
  const rendered = (seed: number): unknown[] => {
    const store = seeded({}, seed)
    return Array.from({ length: 50 }, (_, record) => renderRecord(store, record, seed, defaultReadings))
  }
  expect(rendered(5)).toEqual(rendered(5))
  expect(rendered(5)).not.toEqual(rendered(6))
})

test('seeding twice keeps the first records and the order', () => {
  const store = seeded({ count: 100 })
  const first = store.idOf(0)
  seedRecords(store, { count: 100, from: now - 3 * hour, to: now - 2 * hour }, context)
  expect(store.idOf(0)).toBe(first)
  const [oldest] = store.byEvent.slice(15, everything, { offset: 0, limit: 1, descending: false })
  expect(oldest).toBe(100)
  expect(new Set(Array.from({ length: 200 }, (_, record) => store.idOf(record))).size).toBe(200)
})

test('a record as told is kept as told, ids in any case', () => {
  const store = createStore(1)
  const id = 'ABCDEF01-0000-4000-8000-000000000001'
  const record = store.add(
    newRecord({ id, eventId: id, wire: { numberOfAttempts: 'three', status: undefined } }, context),
  )
  expect(store.find(id.toLowerCase())).toBe(record)
  expect(store.findEvent(id.toLowerCase())).toBe(record)
  expect(renderRecord(store, record, 1, defaultReadings)).toMatchObject({
    id,
    numberOfAttempts: 'three',
    status: undefined,
  })
})

test('the id that a record would have had does not find a record with an id of its own', () => {
  const store = createStore(1)
  const own = 'abcdef01-0000-4000-8000-000000000001'
  store.add(newRecord({ id: own }, context))
  expect(store.find(store.webhookIds.of(0))).toBeUndefined()
})

test('an id that was not made here finds nothing, though it looks like one', () => {
  const store = seeded({ count: 10 })
  const id = store.idOf(3)
  const forged = `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`
  expect(store.find(forged)).toBeUndefined()
  expect(store.find(store.webhookIds.of(10))).toBeUndefined()
})

test('seeds without subscriptions or event types are refused', () => {
  expect(() => seeded({ subscriptions: [] })).toThrow(/subscriptions/)
  expect(() => seeded({ eventTypes: [] })).toThrow(/eventTypes/)
})
