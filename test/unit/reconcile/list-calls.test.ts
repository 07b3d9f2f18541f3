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
  let records = 0
  for await (const step of sweep([newest, { from: week.from, to: newest.from }], options, signal)) {
    if ('skipped' in step) throw new Error('nothing is skipped here')
    expect(step.listed.complete).toBe(true)
    records += step.listed.records.length
  }
  return { calls: client.calls(), records, deepest: client.deepestPage() }
}

const apart = (7 * 24 * hour) / 200

test.each([
  ['evenly spread over the window', () => spread(week)],
  ['all within one hour', () => spread({ from: week.from + 100 * hour, to: week.from + 101 * hour })],
  ['all within an hour across slice edges', () => spread({ from: week.from + 50 * apart - 1800, to: week.from + 50 * apart + 1800 })],
  ['all within the newest hour', () => spread({ from: week.to - hour, to: week.to })],
  ['in 200 one-second batches', () => batches(200, week.from + 1234, apart)],
  ['in 200 one-second batches on slice edges', () => batches(200, week.from, apart)],
  ['in 200 one-second batches just before slice edges', () => batches(200, week.from + apart - 1, apart)],
  ['in 200 one-second batches, ten seconds apart', () => batches(200, week.from + 5000, 10)],
  ['in 200 one-second batches, two seconds apart', () => batches(200, week.from + 5000, 2)],
  ['in 200 adjacent seconds', () => batches(200, week.from + 5000, 1)],
  ['in 10 one-second batches', () => batches(10, week.from + 5000, 50_000)],
])('a million records %s', async (_, seconds) => {
  const { calls, records, deepest } = await cost(seconds())
  console.log(_, calls, deepest)
  expect(records).toBe(million)
})
