// Costs in calls at full size, where the quick tests take a tenth: a sweep over a million records, a recovery of ten thousand.
import { expect, test } from 'vitest'
import { hourMs, minuteMs } from '../support/backlog.ts'
import { batches, costOf, evenly, paces } from '../support/call-costs.ts'
import { sweepCases, sweepCost } from '../support/sweep-costs.ts'

const million = 1_000_000

test.each(sweepCases(million))('a sweep over a million records $name', async ({ most, seconds }) => {
  const cost = await sweepCost(seconds())
  expect(cost).toMatchObject({ records: million, incompleteSlices: 0 })
  expect(cost.slices).toBeGreaterThan(0)
  expect(cost.calls).toBeLessThanOrEqual(most)
  // A slice holds ten thousand records, or a few seconds: no page number is ever higher.
  expect(cost.deepestPage).toBeLessThanOrEqual(1000)
})

const spans = [
  { over: 'an hour', overMs: hourMs, deliveryMs: 2000 },
  { over: '61 s', overMs: 61_000, deliveryMs: 100 },
  { over: '61 s', overMs: 61_000, deliveryMs: 2000 },
]

test.each(paces.flatMap((pace) => spans.map((span) => ({ ...pace, ...span }))))(
  '10,000 records at $maxPerSecond/s over $over, delivered in $deliveryMs ms: at most 1.12 calls each',
  async ({ overMs, ...outage }) => {
    const cost = await costOf({ ...outage, failed: evenly(10_000, overMs) })
    expect(cost.retry).toBe(10_000)
    expect(cost.perRecord).toBeLessThanOrEqual(1.12)
  },
)

test('10,000 in batches of one second, a minute apart: at most 1.1 calls each', async () => {
  const cost = await costOf({ failed: batches(100, 100, minuteMs), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.1)
})

test('10,000 of one second, at 20 calls a second: fewer checks than records', async () => {
  const cost = await costOf({ failed: batches(1, 10_000, 0), deliveryMs: 400 })
  expect(cost.perRecord).toBeLessThanOrEqual(1.8)
})
