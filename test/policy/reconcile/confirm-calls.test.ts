// What a recovery costs in calls and time: retries, sweeps and checks of a whole outage, counted on the platform's side.
// test/e2e/sizes.e2e.ts has ten times as many records. @see docs/architecture.md "Outcomes"
import { describe, expect, test } from 'vitest'
import { hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { batches, costOf, evenly, paces } from '../../support/call-costs.ts'

describe.each(paces)('1,000 records at $maxPerSecond/s', (pace) => {
  test.each([
    { over: 'an hour', overMs: hourMs, deliveryMs: 2000 },
    { over: '61 s', overMs: 61_000, deliveryMs: 100 },
    { over: '61 s', overMs: 61_000, deliveryMs: 2000 },
  ])('over $over, delivered in $deliveryMs ms: at most 1.09 calls each', async ({ deliveryMs, overMs }) => {
    const cost = await costOf({ ...pace, failed: evenly(1000, overMs), deliveryMs })
    expect(cost.retry).toBe(1000)
    expect(cost.perRecord).toBeLessThanOrEqual(1.09)
  })
})

test.each([
  { deliveryMs: 50, seconds: 7, lists: 212 },
  { deliveryMs: 300, seconds: 8, lists: 220 },
  { deliveryMs: 2000, seconds: 27, lists: 236 },
  { deliveryMs: 5000, seconds: 60, lists: 382 },
])('10,000 delivered in $deliveryMs ms: $seconds s and $lists list calls at most', async (row) => {
  const quick = { maxPerSecond: 2000, latencyMs: 20, concurrency: 64, subscriptions: 4 }
  const cost = await costOf({ ...quick, failed: evenly(10_000, hourMs), deliveryMs: row.deliveryMs })
  expect(cost.list + cost.confirm).toBeLessThanOrEqual(row.lists)
  expect(cost.seconds).toBeLessThanOrEqual(row.seconds)
})

const before = testNow - 100 * hourMs

test.each([
  { times: 0, bound: 1.1 },
  { times: 10, bound: 1.25 },
  { times: 200, bound: 2.03 },
])('1,000 over 88 hours among $times times as many of others: at most $bound calls each', async ({ bound, times }) => {
  const cost = await costOf({
    failed: evenly(1000, 88 * hourMs, before),
    delivered: evenly(1000 * times, 88 * hourMs, before),
    deliveryMs: 400,
    subscriptions: 4,
  })
  expect(cost.perRecord).toBeLessThanOrEqual(bound)
})

test.each([
  { times: 4, bound: 1.09 },
  { times: 20, bound: 1.26 },
])('1,000 over an hour among $times times as many of others: at most $bound calls each', async ({ bound, times }) => {
  const cost = await costOf({
    failed: evenly(1000, hourMs),
    delivered: evenly(1000 * times, hourMs),
    deliveryMs: 400,
  })
  expect(cost.perRecord).toBeLessThanOrEqual(bound)
})

test('1,000 in batches of one second, a minute apart: at most 1.08 calls each', async () => {
  const cost = await costOf({ failed: batches(10, 100, minuteMs), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.08)
})

test('9,000 of three seconds in a row, delivered late: at most 1.8 calls each', async () => {
  const cost = await costOf({ failed: batches(3, 3000, 1000), deliveryMs: 60_000 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.8)
})

test('1,000 of one second: at most 1.15 calls each', async () => {
  const cost = await costOf({ failed: batches(1, 1000, 0), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.15)
})

test.each([
  { deliveryMs: 400, checks: 1 },
  { deliveryMs: 2000, checks: 3 },
  { deliveryMs: 30_000, checks: 7 },
])('a lonely record, delivered in $deliveryMs ms: $checks checks', async ({ deliveryMs, checks }) => {
  const one = await costOf({ failed: evenly(1, hourMs), deliveryMs })
  expect([one.retry, one.confirm]).toEqual([1, checks])
  const ten = await costOf({ failed: evenly(10, 10 * hourMs), deliveryMs })
  expect(ten.confirm).toBeLessThanOrEqual(10 * checks)
})
