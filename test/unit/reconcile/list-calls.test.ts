// What a sweep over a million failed records costs: the list calls that it takes, and how deep the pages go.
import { expect, test } from 'vitest'
import { sweep } from '../../../src/reconcile/sweep.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { createBulkPlatform } from '../../support/bulk-platform.ts'

const million = 1_000_000
const hour = 3600
const week: Span = { from: 1_700_000_000, to: 1_700_000_000 + 7 * 24 * hour }
const { signal } = new AbortController()

function* spread(span: Span): Generator<number> {
  const seconds = span.to - span.from
  for (let index = 0; index < million; index += 1) yield span.from + Math.floor((seconds * index) / million)
}

/** `count` batches of one second each, the first at `first`, `apart` seconds from one to the next. */
function* batches(count: number, first: number, apart: number): Generator<number> {
  for (let batch = 0; batch < count; batch += 1) {
    for (let index = 0; index < million / count; index += 1) yield first + Math.floor(batch * apart)
  }
}

/** The newest hour first, then the rest, as a full sweep does. */
async function cost(seconds: Iterable<number>): Promise<{ calls: number; records: number; deepest: number }> {
  const client = createBulkPlatform(seconds)
  const newest = { from: week.to - hour, to: week.to }
  const fence = (): Promise<() => void> => Promise.resolve(() => undefined)
  const options = { client, monotonic: () => 0, concurrency: 4, sliceRecords: 5000, fence }
  const ids = new Set<string>()
  for await (const step of sweep([newest, { from: week.from, to: newest.from }], options, signal)) {
    if ('skipped' in step) throw new Error('nothing is skipped here')
    expect(step.listed.complete).toBe(true)
    for (const { id } of step.listed.records) ids.add(id)
  }
  return { calls: client.calls(), records: ids.size, deepest: client.deepestPage() }
}

const apart = (7 * 24 * hour) / 200
/** What may be asked of a million records: 15 % more than their pages, and a few hundred for what turns out to be empty. */
const bound = 1.15 * 10_000 + 300
/** Where thousands stand in every second, the second asked for on either side of a slice costs more. */
const denseBound = 1.2 * 10_000

test.each([
  ['evenly spread over the window', bound, () => spread(week)],
  ['all within one hour', bound, () => spread({ from: week.from + 100 * hour, to: week.from + 101 * hour })],
  ['all within the newest hour', bound, () => spread({ from: week.to - hour, to: week.to })],
  ['in 200 one-second batches', bound, () => batches(200, week.from + 1234, apart)],
  ['in 200 one-second batches on slice edges', bound, () => batches(200, week.from, apart)],
  ['in 200 one-second batches just before slice edges', bound, () => batches(200, week.from + apart - 1, apart)],
  ['in 200 one-second batches, two seconds apart', denseBound, () => batches(200, week.from + 5000, 2)],
  ['in 200 adjacent seconds', denseBound, () => batches(200, week.from + 5000, 1)],
  ['in 10 one-second batches of 100,000', denseBound, () => batches(10, week.from + 5000, 50_000)],
])('a million records %s', async (_, most, seconds) => {
  const { calls, records, deepest } = await cost(seconds())
  expect(records).toBe(million)
  expect(calls).toBeLessThanOrEqual(most)
  // A slice holds ten thousand records, or a few seconds: no page number is ever higher.
  expect(deepest).toBeLessThanOrEqual(1000)
})
