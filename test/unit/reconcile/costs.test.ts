// What a recovery costs in calls and time: retries, sweeps and checks of a whole outage, counted on the platform's side; and one
// sweep over many records. test/e2e/sizes.e2e.ts has ten times as many. @see docs/architecture.md "Outcomes"
import { expect, test } from 'vitest'
import { hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { batches, costOf, evenly, paces, type Outage } from '../../support/call-costs.ts'
import { sweepCases, sweepCost } from '../../support/sweep-costs.ts'

const before = testNow - 100 * hourMs
const long = { failed: evenly(1000, 88 * hourMs, before), deliveryMs: 400, subscriptions: 4 }
const short = { failed: evenly(1000, hourMs), deliveryMs: 400 }

test.each<[string, Outage, calls: number]>([
  ...paces.map((pace): [string, Outage, number] => [
    `over 61 s, at ${pace.maxPerSecond}/s`,
    { ...pace, failed: evenly(1000, 61_000), deliveryMs: 2000 },
    1.09,
  ]),
  ['over 88 hours', long, 1.1],
  ['over 88 hours among 10,000 of others', { ...long, delivered: evenly(10_000, 88 * hourMs, before) }, 1.25],
  ['over an hour among 20,000 of others', { ...short, delivered: evenly(20_000, hourMs) }, 1.26],
  ['in batches of one second, a minute apart', { ...short, failed: batches(10, 100, minuteMs) }, 1.08],
  ['of three seconds, delivered late', { failed: batches(3, 333, 1000), deliveryMs: 60_000 }, 1.8],
])('a thousand records %s: few calls each', async (_, outage, calls) => {
  expect((await costOf(outage)).perRecord).toBeLessThanOrEqual(calls)
})

test.each([
  { deliveryMs: 300, seconds: 8, lists: 220 },
  { deliveryMs: 5000, seconds: 60, lists: 382 },
])(
  '10,000 delivered in $deliveryMs ms: $seconds s and $lists list calls at most',
  async ({ deliveryMs, lists, seconds }) => {
    const quick = { maxPerSecond: 2000, latencyMs: 20, concurrency: 64, subscriptions: 4 }
    const cost = await costOf({ ...quick, failed: evenly(10_000, hourMs), deliveryMs })
    expect(cost.list + cost.confirm).toBeLessThanOrEqual(lists)
    expect(cost.seconds).toBeLessThanOrEqual(seconds)
  },
)

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

test.each(sweepCases(100_000))('a sweep over 100,000 records $name: few calls', async ({ most, seconds }) => {
  const cost = await sweepCost(seconds())
  expect(cost).toMatchObject({ records: 100_000, incompleteSlices: 0 })
  expect(cost.calls).toBeLessThanOrEqual(most)
  // A slice holds ten thousand records, or a few seconds: no page number is ever higher.
  expect(cost.deepestPage).toBeLessThanOrEqual(1000)
})
