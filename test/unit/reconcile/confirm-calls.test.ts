// What a recovery costs in calls: retries, sweeps and looks of a whole outage, counted on the platform's side. @see design section 11
import { describe, expect, test } from 'vitest'
import { hourMs, minuteMs } from '../../support/backlog.ts'
import { batches, costOf, evenly } from '../../support/call-costs.ts'

/** Calls a second; the time of a call in ms; retries in flight. */
const paces = {
  'at the default of 20/s': { maxPerSecond: 20, latencyMs: 100, concurrency: 8 },
  'at 100/s': { maxPerSecond: 100, latencyMs: 100, concurrency: 8 },
  'at 2000/s': { maxPerSecond: 2000, latencyMs: 20, concurrency: 64 },
}

describe.each(Object.entries(paces))('10,000 records %s', (_, pace) => {
  test.each([
    { over: 'an hour', overMs: hourMs, deliveryMs: 2000 },
    { over: '61 s', overMs: 61_000, deliveryMs: 100 },
    { over: '61 s', overMs: 61_000, deliveryMs: 2000 },
  ])('over $over, delivered in $deliveryMs ms: at most 1.12 calls each', async ({ deliveryMs, overMs }) => {
    const cost = await costOf({ ...pace, failed: evenly(10_000, overMs), deliveryMs })
    expect(cost.retry).toBe(10_000)
    expect(cost.perRecord).toBeLessThanOrEqual(1.12)
  })
})

test('10,000 in batches of one second, a minute apart: at most 1.1 calls each', async () => {
  const cost = await costOf({ failed: batches(100, 100, minuteMs), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.1)
})

test('10,000 of one second: no more than a look for two of them', async () => {
  const cost = await costOf({ failed: batches(1, 10_000, 0), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.5)
})

test.each([
  { deliveryMs: 400, looks: 1 },
  { deliveryMs: 2000, looks: 3 },
  { deliveryMs: 30_000, looks: 7 },
])('a lonely record, delivered in $deliveryMs ms: $looks looks', async ({ deliveryMs, looks }) => {
  const one = await costOf({ failed: evenly(1, hourMs), deliveryMs })
  expect([one.retry, one.confirm]).toEqual([1, looks])
  const ten = await costOf({ failed: evenly(10, 10 * hourMs), deliveryMs })
  expect(ten.confirm).toBeLessThanOrEqual(10 * looks)
})
