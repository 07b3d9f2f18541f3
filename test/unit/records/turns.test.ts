// Work that is cut into steps: however many ask at once, one step is made in a turn of the event loop.
import { expect, test } from 'vitest'
import type { Reconciler } from '../../../src/reconciler.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { RetryJob } from '../../../src/records/job.ts'
import { createJobSearch } from '../../../src/records/job-search.ts'
import { pageOf } from '../../../src/records/memory.ts'
import { createRecords } from '../../../src/records/records.ts'
import { createTurns, finish } from '../../../src/runtime/steps.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { defaultPolicy, due, testNow } from '../../support/backlog.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

/** A backlog of 5,000, and how many of them are looked at, shown or taken in each turn. */
function world() {
  const clock = createVirtualClock()
  const perTurn = new Map<number, number>()
  const count = (records: number): unknown =>
    perTurn.set(clock.monotonic(), (perTurn.get(clock.monotonic()) ?? 0) + records)
  const zone = createTimeZone('UTC')
  const entries = Array.from({ length: 5000 }, (_, n) => {
    const id = `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
    return new FailedRecord(due({ id, eventLocal: testNow - 86_400_000 }), { zone, now: testNow })
  })
  const reconciler = {
    situations: () => () => ({ now: testNow }),
    client: { now: () => testNow },
    sweeper: { unlisted: () => [], findings: () => ({ unreadable: undefined }) },
    backlog: {
      evictions: { known: () => ({ records: 0 }) },
      *entries() {
        for (const entry of entries) {
          count(1)
          yield entry
        }
      },
    },
  }
  const options = {
    ...{
      clock,
      policy: defaultPolicy,
      zone,
      seenWindow: () => 'all' as const,
      newerGap: () => undefined,
      turn: createTurns(clock),
    },
    reconciler: () => reconciler as unknown as Reconciler,
    lister: {} as never,
  }
  return { clock, count, entries, options, most: () => Math.max(...perTurn.values()) }
}

test('20 readers of 5,000 records: a turn has one step of the search, or one batch', async () => {
  const { clock, count, most, options } = world()
  const records = createRecords(options)
  const read = async (): Promise<number> => {
    const { batches } = await records.fromMemory({ filter: {}, limit: 10_000, after: undefined })
    let sum = 0
    for await (const batch of batches) {
      sum += batch.length
      count(batch.length)
    }
    return sum
  }
  const sums = await clock.run(Promise.all(Array.from({ length: 20 }, read)))
  expect(new Set(sums)).toEqual(new Set([5000]))
  expect(most()).toBe(4000)
})

test('20 jobs that select 5,000 records: a turn has one step', async () => {
  const { clock, most, options } = world()
  let taken = 0
  const own = { emit: () => undefined, isFull: () => false, take: () => (taken += 1) }
  const search = createJobSearch({ ...options, ...own })
  const job = {
    filter: { from: testNow - 2 * 86_400_000 },
    ending: new AbortController(),
    items: new Map(),
    listing: {},
  }
  await clock.run(Promise.all(Array.from({ length: 20 }, () => search(job as unknown as RetryJob))))
  expect(taken).toBe(100_000)
  expect(most()).toBeLessThanOrEqual(501)
})

test('pages of 5,000 records of one second hold each once, in order, though they are held in another', () => {
  const { entries } = world()
  const keys: string[] = []
  for (let [after, isLast] = [entries[0], false]; !isLast;) {
    const found = finish(pageOf(entries.toReversed(), { after, fits: () => true, limit: 500 }))
    keys.push(...found.page.map(({ key }) => key))
    ;[after, isLast] = [found.page.at(-1), found.isLast]
  }
  expect(keys).toEqual(entries.slice(1).map(({ key }) => key))
})
