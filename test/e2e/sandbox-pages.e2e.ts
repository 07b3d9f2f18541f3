// A hundred thousand records in the sandbox: a page costs little more than one of a thousand.
import { expect, test } from 'vitest'
import { pageOf, parseListQuery } from '../../sandbox/api/list.ts'
import { readingsSchema } from '../../sandbox/options.ts'
import { createSequence } from '../../sandbox/records/hash.ts'
import { renderRecord } from '../../sandbox/records/render.ts'
import { seedRecords } from '../../sandbox/records/seed.ts'
import { createStore, type Store } from '../../sandbox/records/store.ts'
import { createZone } from '../../sandbox/records/zone.ts'
import { systemClock } from '../../src/runtime/clock.ts'

const readings = readingsSchema.parse({})
const to = Date.parse('2025-03-08T00:00:00Z')
const from = to - 7 * 86_400_000
/** Of a page of 100,000 to one of 1,000 in the same run: the speed of the machine is no part of it. */
const maxRatio = 10
const rounds = 100

function filled(count: number): Store {
  const store = createStore()
  const context = { zone: createZone('UTC'), now: to, ids: createSequence(1) }
  store.add(seedRecords({ count, from, to, failed: 0.6, processing: 0.1 }, context))
  return store
}

/** Time of a page: the best of many tries, because other work on the machine is not what is measured. */
function bestMs(store: Store, text: string, order: 'event-asc' | 'event-desc'): number {
  const query = parseListQuery(new URLSearchParams(text), readings)
  if ('problem' in query) throw new Error(query.problem)
  const times = Array.from({ length: rounds }, () => {
    const startedAt = systemClock.monotonic()
    const { records } = pageOf(store, query, order)
    const body = JSON.stringify(records.map((record) => renderRecord(record, readings)))
    if (body.length < 50_000) throw new Error('no full page')
    return systemClock.monotonic() - startedAt
  })
  return Math.min(...times)
}

const failed = 'metadata.page.size=100&data.webhook.status=failed'
const slice = '&data.webhook.eventDateTimeFrom=2025-03-05T10:00:00&data.webhook.eventDateTimeTo=2025-03-05T15:59:59'
const [small, large] = [filled(1000), filled(100_000)]

test.each([
  ['first', failed],
  ['deep', `${failed}&metadata.page.number=590`],
  ['of a slice', failed + slice],
])('a page that is %s', (_, query) => {
  for (const order of ['event-asc', 'event-desc'] as const) {
    expect(bestMs(large, query, order), order).toBeLessThan(maxRatio * bestMs(small, failed, order))
  }
})
