// A sweep over a platform that misbehaves: it cuts, goes round, gives up in time, and never asks without end.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { FiltersIgnored } from '../../../src/reconcile/sweep/list-slice.ts'
import { sweep, type SkippedSlice, type SweepOptions } from '../../../src/reconcile/sweep/sweep.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { createBulkPlatform } from '../../support/bulk-platform.ts'
import { createFakePlatform, failedRecord, type Readings } from '../../support/fake-platform.ts'

const start = 1_700_000_000
const week: Span = { from: start, to: start + 604_800 }
const never = new AbortController().signal

function failed(count: number, apart = 1000): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) => failedRecord({ eventLocal: (start + index * apart) * 1000 }))
}

interface Swept {
  ids: string[]
  skipped: SkippedSlice[]
  incomplete: number
  slices: number
}

interface Setting {
  span?: Span
  sliceRecords?: number
  fence?: (span: Span) => Promise<() => void>
  signal?: AbortSignal
}

async function run(platform: SweepOptions['client'], setting: Setting = {}): Promise<Swept> {
  const { span = week, sliceRecords = 100, fence = () => Promise.resolve(() => undefined), signal = never } = setting
  const swept: Swept = { ids: [], skipped: [], incomplete: 0, slices: 0 }
  const options = { client: platform, monotonic: () => 0, concurrency: 4, sliceRecords, fence }
  for await (const step of sweep([span], options, signal)) {
    swept.slices += 1
    if (step.skipped !== undefined) swept.skipped.push(step.skipped)
    swept.ids.push(...(step.listed?.records ?? []).map(({ id }) => id))
    if (step.listed?.complete === false) swept.incomplete += 1
  }
  return swept
}

function fails(query: ListQuery, second: number): boolean {
  return query.from !== undefined && query.to !== undefined && query.from <= second && second <= query.to
}

const trouble = (reason: PlatformFailure['reason']): PlatformFailure => new PlatformFailure(reason, undefined, 'list')

describe('parameters that are ignored', () => {
  const all = ['event-asc', 'event-desc', 'id', 'unstable'] as const

  test.each(
    all.flatMap((order) =>
      (['true', 'all', 'none', 'zero', 'huge'] as const).map((totals): [string, Readings] => [
        `order ${order}, totals ${totals}`,
        { order, totals, ignores: ['from', 'to'] },
      ]),
    ),
  )('both bounds, %s: the sweep fails by name, after few calls', async (_, readings) => {
    const platform = createFakePlatform({ records: failed(500), maxPageSize: 10, ...readings })
    await expect(run(platform)).rejects.toBeInstanceOf(FiltersIgnored)
    // Where totals are shown, the first and the last second of the slice give it away.
    const tells = readings.totals === 'true' || readings.totals === 'all' || readings.totals === 'huge'
    expect(platform.lists.length).toBeLessThanOrEqual(tells ? 3 : 200)
  })

  test.each(
    all.flatMap((order) =>
      ([['from'], ['to']] as const).map((ignores): [string, Readings] => [
        `${ignores[0]}, order ${order}`,
        { order, ignores },
      ]),
    ),
  )('one bound (%s): the sweep fails, or lists everything; it never goes on without end', async (_, readings) => {
    const platform = createFakePlatform({ records: failed(500), maxPageSize: 10, ...readings })
    const swept = await run(platform).catch((error: unknown) => error)
    if (!(swept instanceof FiltersIgnored)) expect((swept as Swept).ids).toHaveLength(500)
    expect(platform.lists.length).toBeLessThan(2000)
  })
})

test('a second with more than 100,000 records is read up to there, and what is left is reported with its time', async () => {
  const platform = createBulkPlatform(Array.from({ length: 130_000 }, () => start))
  const swept = await run(platform, { span: { from: start, to: start + 1 } })
  expect(swept).toMatchObject({
    incomplete: 1,
    skipped: [{ span: { from: start, to: start + 1 }, reason: 'too-many-records' }],
  })
  expect(swept.ids.length).toBeGreaterThanOrEqual(100_000)
  expect(platform.calls()).toBeLessThanOrEqual(1002)
})

describe('totals that say nothing', () => {
  test.each([['all'], ['huge']] as const)('%s: found out once, then the pages alone count', async (totals) => {
    const platform = createFakePlatform({ records: failed(550), maxPageSize: 10, totals })
    const swept = await run(platform)
    expect(swept.ids).toHaveLength(550)
    expect(swept.incomplete).toBe(0)
    expect(platform.lists.length).toBeLessThan(3 * 55)
  })

  test('a total of a thousand million cuts into no more than a thousand slices', async () => {
    let calls = 0
    const platform = createFakePlatform({
      records: failed(500),
      maxPageSize: 10,
      // A total that differs each time never shows itself as one that is ignored.
      onList: () => {
        calls += 1
      },
      totals: 'huge',
    })
    const list = platform.list.bind(platform)
    const swept = await run({
      ...platform,
      list: async (query, signal) => {
        const page = await list(query, signal)
        return { ...page, total: (page.total ?? 0) + calls }
      },
    })
    expect(swept.ids).toHaveLength(500)
    expect(swept.slices).toBeLessThanOrEqual(1000)
    expect(swept.incomplete).toBe(swept.slices)
    expect(calls).toBeLessThan(10_000)
  })
})

describe('what cannot be listed', () => {
  test.each([
    ['at the start', start],
    ['in the middle', start + 250_000],
    ['at the end', week.to - 1],
  ])('a second %s that always fails is gone round; the rest is listed', async (_, bad) => {
    const platform = createFakePlatform({
      records: failed(600),
      maxPageSize: 20,
      onList: (query) => {
        if (fails(query, bad)) throw trouble('server-error')
      },
    })
    const swept = await run(platform)
    const lost = swept.skipped.map(({ span }) => span)
    expect(lost.length).toBeLessThanOrEqual(3)
    expect(lost.every(({ from, to }) => to - from === 1 && Math.abs(from - bad) <= 1)).toBe(true)
    const near = new Set(
      [...platform.records.values()]
        .filter(({ eventLocal }) => Math.abs(eventLocal / 1000 - bad) <= 1)
        .map(({ id }) => id),
    )
    expect(swept.ids.toSorted()).toEqual(
      platform
        .failedIds()
        .filter((id) => !near.has(id))
        .toSorted(),
    )
    expect(platform.lists.length).toBeLessThan(300)
  })

  test('a hundred bad seconds: bounded calls, and everything else is listed', async () => {
    const records = failed(600)
    const bad = records.filter((_, index) => index % 6 === 0).map(({ eventLocal }) => eventLocal / 1000)
    const platform = createFakePlatform({
      records,
      maxPageSize: 10,
      onList: (query) => {
        if (query.size > 1 && bad.some((second) => fails(query, second))) throw trouble('invalid-body')
      },
    })
    const swept = await run(platform)
    expect(swept.skipped.length).toBeGreaterThan(0)
    expect(platform.lists.length).toBeLessThan(3000)
    const skipped = (id: string): boolean => {
      const second = (platform.records.get(id)?.eventLocal ?? 0) / 1000
      return swept.skipped.some(({ span }) => second >= span.from && second < span.to)
    }
    expect(swept.ids.length + platform.failedIds().filter(skipped).length).toBe(600)
  })

  test('a platform that takes no bounds at all fails the sweep, after few calls', async () => {
    const platform = createFakePlatform({
      records: failed(600),
      onList: ({ from }) => {
        if (from !== undefined) throw trouble('bad-request')
      },
    })
    await expect(run(platform)).rejects.toMatchObject({ reason: 'bad-request' })
    expect(platform.lists.length).toBeLessThan(150)
  })

  test.each(['unauthorized', 'forbidden', 'throttled'] as const)('%s fails the sweep at once', async (reason) => {
    const platform = createFakePlatform({
      records: failed(600),
      maxPageSize: 10,
      onList: ({ page }) => {
        if (page === 2) throw trouble(reason)
      },
    })
    await expect(run(platform, { sliceRecords: 1000 })).rejects.toMatchObject({ reason })
    expect(platform.lists.length).toBeLessThan(10)
  })
})

describe('the fence', () => {
  /** Keeps book of what is fenced; the test looks at it while the platform is asked. */
  function book(): { fence: NonNullable<Setting['fence']>; open: Set<Span>; most: () => number } {
    const open = new Set<Span>()
    let most = 0
    return {
      open,
      most: () => most,
      fence: (span) => {
        open.add(span)
        most = Math.max(most, open.size)
        return Promise.resolve(() => open.delete(span))
      },
    }
  }

  test('covers every second that is asked for, one slice at a time, and is taken down', async () => {
    const { fence, open, most } = book()
    const platform = createFakePlatform({
      records: failed(600),
      maxPageSize: 10,
      onList: ({ from = -Infinity, to = Infinity }) => {
        const [span = { from: Infinity, to: -Infinity }] = open
        expect(span.from).toBeLessThanOrEqual(from)
        // A bound that is taken in belongs to what is listed.
        expect(span.to).toBeGreaterThan(to)
      },
    })
    const swept = await run(platform, { fence })
    expect(swept.slices).toBeGreaterThan(3)
    expect(most()).toBe(1)
    expect(open.size).toBe(0)
  })

  test.each([
    ['when the platform fails', trouble('forbidden')],
    ['when there is a bug', new TypeError('oops')],
  ])('is taken down %s', async (_, error) => {
    const { fence, open } = book()
    const platform = createFakePlatform({
      onList: () => {
        throw error
      },
    })
    await expect(run(platform, { fence })).rejects.toBe(error)
    expect(open.size).toBe(0)
  })
})
