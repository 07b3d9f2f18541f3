// What a full sweep over very many failed records costs: its list calls, and how deep its pages go.
import { sweep } from '../../src/reconcile/sweep/sweep.ts'
import type { Span } from '../../src/reconcile/window.ts'
import { createBulkPlatform } from './bulk-platform.ts'

export interface SweepCost {
  calls: number
  records: number
  deepestPage: number
  /** Slices that were listed, and how many of them were incomplete. */
  slices: number
  incompleteSlices: number
}

const hour = 3600
const week: Span = { from: 1_700_000_000, to: 1_700_000_000 + 7 * 24 * hour }
const { signal } = new AbortController()

function* spread(total: number, span: Span): Generator<number> {
  const seconds = span.to - span.from
  for (let index = 0; index < total; index += 1) yield span.from + Math.floor((seconds * index) / total)
}

/** `count` batches of `size` records in one second each, the first at `first`, `apart` seconds from one to the next. */
function* batches(count: number, size: number, first: number, apart: number): Generator<number> {
  for (let batch = 0; batch < count; batch += 1) {
    for (let index = 0; index < size; index += 1) yield first + Math.floor(batch * apart)
  }
}

/** The newest hour first, then the rest, as a full sweep does. */
export async function sweepCost(seconds: Iterable<number>): Promise<SweepCost> {
  const client = createBulkPlatform(seconds)
  const newest = { from: week.to - hour, to: week.to }
  const fence = (): Promise<() => void> => Promise.resolve(() => undefined)
  const options = { client, monotonic: () => 0, concurrency: 4, sliceRecords: 5000, fence }
  const ids = new Set<string>()
  let [slices, incompleteSlices] = [0, 0]
  for await (const step of sweep([newest, { from: week.from, to: newest.from }], options, signal)) {
    if (step.listed === undefined) throw new Error('nothing is skipped here')
    slices += 1
    if (!step.listed.complete) incompleteSlices += 1
    for (const { id } of step.listed.records) ids.add(id)
  }
  return { calls: client.calls(), records: ids.size, deepestPage: client.deepestPage(), slices, incompleteSlices }
}

export interface SweepCase {
  name: string
  /** Calls that may be made at most. */
  most: number
  /** Event times, epoch seconds. */
  seconds: () => Iterable<number>
}

/** Ways in which that many records (a multiple of 100,000) stand in a week. */
export function sweepCases(total: number): SweepCase[] {
  const pages = total / 100
  // 17 % more than the pages, and some for spans that turn out to be empty.
  const bound = 1.17 * pages + 100
  // Where thousands stand in every second, the second asked for on either side of a slice costs more.
  const denseBound = 1.19 * pages + 100
  const count = total / 5000
  const apart = (7 * 24 * hour) / count
  const inBatches = (first: number, gap: number) => (): Iterable<number> => batches(count, 5000, first, gap)
  return [
    { name: 'evenly spread over the window', most: bound, seconds: () => spread(total, week) },
    {
      name: 'all within one hour',
      most: bound,
      seconds: () => spread(total, { from: week.from + 100 * hour, to: week.from + 101 * hour }),
    },
    {
      name: 'all within the newest hour',
      most: bound,
      seconds: () => spread(total, { from: week.to - hour, to: week.to }),
    },
    { name: 'in one-second batches of 5,000', most: bound, seconds: inBatches(week.from + 1234, apart) },
    { name: 'in such batches on slice edges', most: bound, seconds: inBatches(week.from, apart) },
    { name: 'in such batches just before slice edges', most: bound, seconds: inBatches(week.from + apart - 1, apart) },
    { name: 'in such batches, two seconds apart', most: denseBound, seconds: inBatches(week.from + 5000, 2) },
    { name: 'in such batches in adjacent seconds', most: denseBound, seconds: inBatches(week.from + 5000, 1) },
    {
      name: 'in one-second batches of 100,000',
      most: denseBound,
      seconds: () => batches(total / 100_000, 100_000, week.from + 5000, 50_000),
    },
  ]
}
