// Made-up records: as many, as old and as failed as asked, and the same for the same seed.
import { expect, test } from 'vitest'
import { readingsSchema } from '../../../sandbox/options.ts'
import { createSequence } from '../../../sandbox/records/hash.ts'
import { renderRecord } from '../../../sandbox/records/render.ts'
import { newRecord, seedRecords, type SeedContext, type SeedOptions } from '../../../sandbox/records/seed.ts'
import { createStore, type StoredRecord } from '../../../sandbox/records/store.ts'
import { createZone } from '../../../sandbox/records/zone.ts'

const now = Date.parse('2025-03-04T12:00:00Z')
const hour = 3_600_000
const readings = readingsSchema.parse({})

function contextOf(seed = 1): SeedContext {
  return { zone: createZone('UTC'), now, ids: createSequence(seed) }
}

function seeded(options: Partial<SeedOptions>, context = contextOf()): StoredRecord[] {
  return seedRecords({ count: 1000, from: now - hour, to: now, ...options }, context)
}

function counts(records: readonly StoredRecord[]): Record<string, number> {
  const of = (status: string): number => records.filter((record) => record.status === status).length
  return { failed: of('failed'), processing: of('processing'), successful: of('successful') }
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

test.each(['even', 'random'] as const)('event times spread %s lie in [from, to) and never go back', (spread) => {
  let before = (now - hour) * 1000
  for (const { eventMicros } of seeded({ spread })) {
    expect(eventMicros).toBeGreaterThanOrEqual(before)
    expect(eventMicros).toBeLessThan(now * 1000)
    before = eventMicros
  }
})

test('last attempts come after their event and not after now', () => {
  for (const { eventMicros, lastAttemptMicros } of seeded({})) {
    expect(lastAttemptMicros).toBeGreaterThanOrEqual(eventMicros)
    expect(lastAttemptMicros).toBeLessThanOrEqual(now * 1000)
  }
})

test.each([
  [7, [7]],
  [{ min: 2, max: 4 }, [2, 3, 4]],
])('attempts %o are of %o', (attempts, allowed) => {
  const found = new Set(seeded({ attempts }).map((record) => record.attempts))
  expect([...found].sort()).toEqual(allowed)
})

test('the same seed makes the same records, another one others', () => {
  const rendered = (seed: number): unknown[] =>
    seeded({ count: 50 }, contextOf(seed)).map((record) => renderRecord(record, readings))
  expect(rendered(5)).toEqual(rendered(5))
  expect(rendered(5)).not.toEqual(rendered(6))
})

test('seeding twice keeps the first records, the order and the ids apart', () => {
  const store = createStore()
  const context = contextOf()
  const first = seeded({ count: 100 }, context)
  const older = seedRecords({ count: 100, from: now - 3 * hour, to: now - 2 * hour }, context)
  store.add(first)
  store.add(older)
  expect(store.inOrder('event')).toEqual([...older, ...first])
  expect(new Set([...older, ...first].flatMap(({ id, eventId }) => [id, eventId])).size).toBe(400)
})

test('a record as given is kept as given, ids in any case', () => {
  const store = createStore()
  const id = 'ABCDEF01-0000-4000-8000-000000000001'
  const record = newRecord({ id, eventId: id, wire: { numberOfAttempts: 'three', status: undefined } }, contextOf())
  store.add([record])
  expect(store.find(id.toLowerCase())).toBe(record)
  expect(store.findEvent(id.toLowerCase())).toBe(record)
  expect(store.find('abcdef01-0000-4000-8000-000000000002')).toBeUndefined()
  expect(renderRecord(record, readings)).toMatchObject({ id, numberOfAttempts: 'three', status: undefined })
})

test('seeds without subscriptions or event types are refused', () => {
  expect(() => seeded({ subscriptions: [] })).toThrow(/subscriptions/)
  expect(() => seeded({ eventTypes: [] })).toThrow(/eventTypes/)
})
