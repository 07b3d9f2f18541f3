// A sweep of a platform that misbehaves: where it cuts, goes round, gives up in time, and never asks without end. That each failed record
// is listed once, or the sweep says that it may not be: test/contract/recovery.test.ts, and while others change: the simulation.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { FiltersIgnored } from '../../../src/reconcile/sweep/list-slice.ts'
import { sweep, type SkippedSlice, type SweepOptions } from '../../../src/reconcile/sweep/sweep.ts'
import type { Fence } from '../../../src/reconcile/retry/dispatcher.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { createFakePlatform, type FakePlatformOptions } from '../../support/fake-platform.ts'
import { failedRecord } from '../../support/records.ts'

const start = 1_700_000_000
const week: Span = { from: start, to: start + 604_800 }

function failed(count: number, apart = 1000): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) => failedRecord({ eventLocal: (start + index * apart) * 1000 }))
}

interface Setting extends Partial<Pick<SweepOptions, 'sliceRecords' | 'fence' | 'inOrder'>> {
  span?: Span
}

async function run(client: SweepOptions['client'], setting: Setting = {}) {
  const { span = week, sliceRecords = 100, ...fencing } = setting
  /** `from`: the first second of each listed slice. */
  const found = { ids: [] as string[], from: [] as number[], skipped: [] as SkippedSlice[] }
  const swept = { ...found, incomplete: 0, slices: 0 }
  const options = { client, monotonic: () => 0, concurrency: 4, sliceRecords, ...fencing }
  for await (const step of sweep(span, options, new AbortController().signal)) {
    swept.slices += 1
    if (step.skipped !== undefined) swept.skipped.push(step.skipped)
    swept.ids.push(...(step.listed?.records ?? []).map(({ id }) => id))
    if (step.listed !== undefined) swept.from.push(step.listed.span.from)
    if (step.listed !== undefined && step.listed.verdict !== 'whole') swept.incomplete += 1
  }
  return swept
}

/** A platform of 600 records, whose list calls fail where the test says so. */
function failing(isBad: (query: ListQuery) => boolean, error: unknown, options: FakePlatformOptions = {}) {
  const onList = (query: ListQuery): void => {
    if (isBad(query)) throw error
  }
  return createFakePlatform({ records: failed(600), maxPageSize: 10, onList, ...options })
}

const covers = ({ from, to }: ListQuery, second: number): boolean =>
  from !== undefined && to !== undefined && from <= second && second <= to
const trouble = (reason: PlatformFailure['reason']): PlatformFailure => new PlatformFailure(reason, undefined, 'list')

test('a second with more than 100,000 records is read up to there, and what is left is reported with its time', async () => {
  const platform = createFakePlatform({ records: failed(130_000, 0) })
  const span = { from: start, to: start + 1 }
  const swept = await run(platform, { span })
  expect(swept).toMatchObject({ incomplete: 1, skipped: [{ span }] })
  expect(swept.ids.length).toBeGreaterThanOrEqual(100_000)
  expect(platform.lists.length).toBeLessThanOrEqual(1002)
})

describe('totals that say nothing', () => {
  test.each(['all', 'huge'] as const)('%s: found out once, then the pages alone count', async (totals) => {
    const platform = createFakePlatform({ records: failed(550), maxPageSize: 10, totals })
    expect(await run(platform)).toMatchObject({ ids: { length: 550 }, incomplete: 0 })
    expect(platform.lists.length).toBeLessThan(5 * 55)
  })

  test('a thousand million, another each time, which never shows itself as ignored: a thousand slices at most', async () => {
    const platform = createFakePlatform({ records: failed(500), maxPageSize: 10 })
    const { slices, ...swept } = await run({
      ...platform,
      list: async (query, signal) => ({ ...(await platform.list(query, signal)), total: 1e9 + platform.lists.length }),
    })
    expect(swept).toMatchObject({ ids: { length: 500 }, incomplete: slices })
    expect(slices).toBeLessThanOrEqual(1000)
    expect(platform.lists.length).toBeLessThan(10_000)
  })
})

type List = SweepOptions['client']['list']
const lastAgain = (list: List): List => {
  return (query, signal) => list({ ...query, page: Math.min(query.page, 2) }, signal)
}
const noRows = (list: List): List => {
  return async (query, signal) => ({ ...(await list(query, signal)), ...(query.page > 2 && { records: [], rows: 0 }) })
}
const refused = (list: List): List => {
  return async (query, signal) => {
    if (query.page > 2) throw trouble('bad-request')
    return list(query, signal)
  }
}

test.each([
  ['the last one comes again', 'true', lastAgain],
  ['no rows follow', 'true', noRows],
  ['no rows follow', 'none', noRows],
  ['others are refused', 'true', refused],
  ['others are refused', 'none', refused],
] as const)('pages end early: %s, totals: %s: shorter spans show all', async (_, totals, limited) => {
  const platform = createFakePlatform({ records: failed(600), maxPageSize: 10, totals })
  const { ids, incomplete, skipped } = await run({ ...platform, list: limited(platform.list) }, { sliceRecords: 4000 })
  expect([new Set(ids).size, incomplete, skipped]).toEqual([600, 0, []])
  expect(platform.lists.length).toBeLessThan(500)
})

test.each(['none', 'double'] as const)(
  'a page size that is the number of rows, totals: %s: no call for each record',
  async (totals) => {
    const platform = createFakePlatform({ records: failed(300), totals })
    const list: List = async (query, signal) => {
      const page = await platform.list(query, signal)
      return { ...page, size: page.rows === 0 ? undefined : page.rows }
    }
    const { ids } = await run({ ...platform, list }, { sliceRecords: 4000 })
    expect(ids).toHaveLength(300)
    expect(platform.lists.length).toBeLessThan(20)
  },
)

describe('what cannot be listed', () => {
  test.each([
    ['at the start', start],
    ['in the middle', start + 250_000],
    ['at the end', week.to - 1],
  ])('a second %s that always fails is gone round; the rest is listed', async (_, bad) => {
    const platform = failing((query) => covers(query, bad), trouble('server-error'))
    const swept = await run(platform)
    expect(swept.skipped.length).toBeLessThanOrEqual(3)
    for (const { span } of swept.skipped)
      expect([span.to - span.from, Math.abs(span.from - bad) <= 1]).toEqual([1, true])
    const isNear = ({ eventLocal }: WebhookRecord): boolean => Math.abs(eventLocal / 1000 - bad) <= 1
    const far = [...platform.records.values()].filter((record) => !isNear(record))
    expect(new Set(swept.ids)).toEqual(new Set(far.map(({ id }) => id)))
    expect(platform.lists.length).toBeLessThan(300)
  })

  test('a hundred bad seconds: bounded calls, and everything else is listed', async () => {
    const records = failed(600)
    const bad = records.filter((_, index) => index % 6 === 0).map(({ eventLocal }) => eventLocal / 1000)
    const isBad = (query: ListQuery): boolean => query.size > 1 && bad.some((second) => covers(query, second))
    const platform = failing(isBad, trouble('invalid-body'), { records })
    const { ids, skipped } = await run(platform)
    expect(platform.lists.length).toBeLessThan(3000)
    const isSkipped = ({ eventLocal }: WebhookRecord): boolean =>
      skipped.some(({ span }) => eventLocal / 1000 >= span.from && eventLocal / 1000 < span.to)
    expect(skipped.length).toBeGreaterThan(0)
    expect(ids.length + records.filter(isSkipped).length).toBe(600)
  })

  test('a platform that takes no bounds at all: nothing is listed, after few calls', async () => {
    const platform = failing(({ from }) => from !== undefined, trouble('bad-request'))
    const { ids, skipped } = await run(platform, { sliceRecords: 1000 })
    expect([ids.length, skipped.length > 0]).toEqual([0, true])
    expect(platform.lists.length).toBeLessThanOrEqual(150)
  })

  test.each([0.6, 0.4, 0.2, 0.01])(
    'the last %s of a span alone, in order: at least half of that is listed',
    async (share) => {
      const first = week.to - share * (week.to - week.from)
      const platform = failing(({ from = Infinity }) => from < first, trouble('bad-request'), {
        records: failed(6048, 100),
      })
      const { from, ids, skipped } = await run(platform, { sliceRecords: 10_000, inOrder: true })
      expect(ids.length).toBeGreaterThan(6048 * (share / 2) - 10)
      expect(from).toEqual(from.toSorted())
      expect(skipped.length).toBeLessThan(100)
      expect(platform.lists.length).toBeLessThan(1000)
    },
  )

  test('a platform that answers each second with all it has ends it, before that is read to its end', async () => {
    const platform = failing(() => false, undefined, { ignores: ['from', 'to'], maxPageSize: 10 })
    const span = { from: start, to: start + 1 }
    await expect(run(platform, { span, sliceRecords: 25 })).rejects.toBeInstanceOf(FiltersIgnored)
    expect(platform.lists.length).toBeLessThan(16)
  })

  test.each(['unauthorized', 'forbidden', 'throttled'] as const)('%s ends it, after few calls', async (reason) => {
    const platform = failing(({ page }) => page === 2, trouble(reason))
    await expect(run(platform, { sliceRecords: 1000 })).rejects.toMatchObject({ reason })
    expect(platform.lists.length).toBeLessThanOrEqual(9)
  })
})

test.each([
  ['', undefined],
  [' also when the platform fails', trouble('forbidden')],
  [' also when there is a bug', new TypeError('oops')],
])('the fence covers every second that is asked for, one slice at a time, and is taken down%s', async (_, error) => {
  const open = new Set<Span>()
  const fence = (span: Span): Promise<Fence> => {
    expect(open.size).toBe(0)
    open.add(span)
    return Promise.resolve({ isBroken: false, release: () => open.delete(span) })
  }
  const platform = failing(({ from = -Infinity, to = Infinity }) => {
    const [span = { from: Infinity, to: -Infinity }] = open
    expect(span.from).toBeLessThanOrEqual(from)
    // A bound that is taken in belongs to what is listed.
    expect(span.to).toBeGreaterThan(to)
    return error !== undefined
  }, error)
  const swept = run(platform, { fence })
  if (error !== undefined) await expect(swept).rejects.toBe(error)
  else expect((await swept).slices).toBeGreaterThan(3)
  expect(open.size).toBe(0)
})

test('a slice in which retries went on may miss some', async () => {
  const fence = (): Promise<Fence> => Promise.resolve({ isBroken: true, release: () => undefined })
  const { incomplete, slices } = await run(
    failing(() => false, trouble('throttled')),
    { fence },
  )
  expect(incomplete).toBe(slices)
})
