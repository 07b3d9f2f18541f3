// What a recovery costs in calls: retries, sweeps and looks of a whole outage, counted on the platform's side.
// test/e2e/sizes.e2e.ts has ten times as many records. @see design section 11
import { describe, expect, test } from 'vitest'
import { hourMs, minuteMs } from '../../support/backlog.ts'
import { batches, costOf, evenly, paces } from '../../support/call-costs.ts'

describe.each(paces)('1,000 records at $maxPerSecond/s', (pace) => {
  test.each([
    { over: 'an hour', overMs: hourMs, deliveryMs: 2000 },
    { over: '61 s', overMs: 61_000, deliveryMs: 100 },
    { over: '61 s', overMs: 61_000, deliveryMs: 2000 },
  ])('over $over, delivered in $deliveryMs ms: at most 1.12 calls each', async ({ deliveryMs, overMs }) => {
    const cost = await costOf({ ...pace, failed: evenly(1000, overMs), deliveryMs })
    expect(cost.retry).toBe(1000)
    expect(cost.perRecord).toBeLessThanOrEqual(1.12)
  })
})

test('1,000 in batches of one second, a minute apart: at most 1.1 calls each', async () => {
  const cost = await costOf({ failed: batches(10, 100, minuteMs), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.1)
})

test('1,000 of one second: no more than a look for five of them', async () => {
  const cost = await costOf({ failed: batches(1, 1000, 0), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.2)
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
