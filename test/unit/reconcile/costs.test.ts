// What a recovery costs in calls and time: retries, sweeps and checks of a whole outage, counted on the platform's side; and one
// sweep over many records. @see docs/architecture.md "Outcomes"
import { expect, test } from 'vitest'
import { sweepNumbers } from '../../../src/reconcile/policy.ts'
import { sweep } from '../../../src/reconcile/sweep/sweep.ts'
import { dayMs, hourMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { createFakePlatform } from '../../support/fake-platform.ts'
import { failedRecord } from '../../support/records.ts'
import { reconcile, type ReconcileOptions } from '../../support/reconcile.ts'

interface Outage extends Pick<ReconcileOptions, 'concurrency' | 'latencyMs' | 'maxPerSecond'> {
  /** Event times of what failed, local ms. */
  failed: readonly number[]
  /** Event times of what was delivered between. */
  delivered?: readonly number[]
  /** Time of one delivery. */
  deliveryMs: number
  /** More than one subscription takes turns. Default 1. */
  subscriptions?: number
}

/** Calls, and virtual seconds, until all is seen to be recovered; a tick every half minute. */
async function costOf(outage: Outage): Promise<Record<'retry' | 'list' | 'confirm' | 'seconds', number>> {
  const { delivered = [], deliveryMs, failed, subscriptions = 1, ...pace } = outage
  const records = failed.map((eventLocal, index) =>
    failedRecord({ eventLocal, subscriptionId: `subscription-${index % subscriptions}` }),
  )
  const others = delivered.map((eventLocal) => failedRecord({ eventLocal, status: 'successful' }))
  await using world = reconcile({
    latencyMs: 100,
    maxPerSecond: 20,
    ...pace,
    records: [...records, ...others],
    circuit: {},
    deliver: () => ({ afterMs: deliveryMs, code: 200 }),
  })
  const { clock, events, platform, sweeper } = world
  void world.start()
  let [recovered, seen, seconds] = [0, 0, 0]
  for (; recovered < records.length; seconds += 1) {
    if (seconds * secondMs > dayMs) throw new Error('not recovered within a day')
    if (seconds % 30 === 0) sweeper.tick()
    await clock.advance(secondMs)
    for (const event of events.slice(seen))
      if (event.type === 'outcome' && event.outcome === 'recovered') recovered += 1
    seen = events.length
  }
  const confirm = platform.lists.filter(({ purpose }) => purpose === 'confirm').length
  return { retry: platform.retries.length, list: platform.lists.length - confirm, confirm, seconds }
}

const begin = testNow - dayMs

/** That many events, evenly over a time, all in the past. */
function evenly(count: number, overMs: number, from = begin): number[] {
  return Array.from({ length: count }, (_, index) => from + Math.floor((index * overMs) / count))
}

/** Batches of events in one second each, `everyMs` apart. */
function batches(count: number, size: number, everyMs: number, from = begin): number[] {
  return Array.from({ length: count * size }, (_, index) => from + Math.floor(index / size) * everyMs)
}

const before = testNow - 100 * hourMs
const long = { failed: evenly(1000, 88 * hourMs, before), deliveryMs: 400, subscriptions: 4 }
const short = { failed: evenly(1000, hourMs), deliveryMs: 400 }
const burst = { failed: evenly(1000, 61_000), deliveryMs: 2000 }

test.each<[string, Outage, calls: number]>([
  ['over 61 s', burst, 1.09],
  ['over 61 s, at 2000/s', { ...burst, maxPerSecond: 2000, latencyMs: 20, concurrency: 64 }, 1.09],
  ['over 88 hours', long, 1.1],
  ['over 88 hours among 10,000 of others', { ...long, delivered: evenly(10_000, 88 * hourMs, before) }, 1.25],
  ['in batches of one second, a minute apart', { ...short, failed: batches(10, 100, minuteMs) }, 1.08],
  ['of three seconds, delivered late', { failed: batches(3, 333, 1000), deliveryMs: 60_000 }, 1.8],
])('a thousand records %s: few calls each', async (_, outage, calls) => {
  const { confirm, list, retry } = await costOf(outage)
  expect((retry + list + confirm) / outage.failed.length).toBeLessThanOrEqual(calls)
})

test.each([
  { deliveryMs: 400, checks: 1 },
  { deliveryMs: 2000, checks: 3 },
  { deliveryMs: 30_000, checks: 7 },
])('a lonely record, delivered in $deliveryMs ms: $checks checks', async ({ deliveryMs, checks }) => {
  const one = await costOf({ failed: evenly(1, hourMs), deliveryMs })
  expect([one.retry, one.confirm]).toEqual([1, checks])
})

test.each<[string, number[], calls: number]>([
  ['20,000 records over the window', evenly(20_000, 7 * dayMs, testNow - 7 * dayMs), 207],
  ['20,000 records over an hour', evenly(20_000, hourMs), 219],
  [
    '40,000 records in batches of 5,000 in adjacent seconds',
    batches(8, 5000, 1000, testNow - 7 * dayMs + 5_000_000),
    546,
  ],
])('a sweep over %s: few calls', async (_, events, calls) => {
  const client = createFakePlatform({ records: events.map((eventLocal) => failedRecord({ eventLocal })) })
  const options = { client, monotonic: () => 0, ...sweepNumbers }
  const span = { from: (testNow - 7 * dayMs) / 1000, to: testNow / 1000 }
  const ids = new Set<string>()
  for await (const { listed } of sweep(span, options, new AbortController().signal)) {
    expect(listed?.verdict).toBe('whole')
    for (const { id } of listed?.records ?? []) ids.add(id)
  }
  expect(ids.size).toBe(events.length)
  expect(client.lists.length).toBeLessThanOrEqual(calls)
  // A slice holds eight thousand records, or a few seconds: no page number is ever higher.
  expect(Math.max(...client.lists.map(({ page }) => page))).toBeLessThanOrEqual(250)
})
