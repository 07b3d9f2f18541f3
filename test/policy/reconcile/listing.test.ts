// One slice: what is listed of it, what is thrown out, and when the listing may call itself complete.
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { FiltersIgnored, listSlice, type Listing, type TooMany } from '../../../src/reconcile/sweep/list-slice.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import {
  createFakePlatform,
  failedRecord,
  idOf,
  type FakePlatform,
  type FakePlatformOptions,
} from '../../support/fake-platform.ts'

const start = 1_700_000_000
const minute: Span = { from: start, to: start + 60 }
const never = new AbortController().signal

/** One failed record in each of the first `count` seconds (and round again). */
function failed(count: number, seconds = 60): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: (start + (index % seconds)) * 1000 + 7 }),
  )
}

interface Setting {
  span?: Span
  maxRecords?: number
  totalsCount?: boolean
  concurrency?: number
  signal?: AbortSignal
}

function list(client: FakePlatform, setting: Setting = {}): Promise<Listing | TooMany> {
  const { span = minute, maxRecords = 1000, totalsCount = true, concurrency = 3, signal = never } = setting
  return listSlice(
    span,
    { client, monotonic: () => 42, status: 'failed', concurrency, maxRecords, totalsCount },
    signal,
  )
}

async function listing(platform: FakePlatform, setting: Setting = {}): Promise<Listing> {
  const result = await list(platform, setting)
  if ('tooMany' in result) throw new Error('too many')
  return result
}

function ids(result: Listing): string[] {
  return result.records.map(({ id }) => id).toSorted()
}

describe('a quiet platform', () => {
  test.each([
    ['a page and a bit', 15, 10, 2],
    ['whole pages, where the total alone proves nothing', 20, 10, 3],
    ['less than a page', 9, 10, 1],
    ['one record on each page', 5, 1, 6],
  ])('%s: no call more than needed', async (_, count, maxPageSize, calls) => {
    const platform = createFakePlatform({ records: failed(count), maxPageSize })
    expect(ids(await listing(platform))).toEqual(platform.failedIds().toSorted())
    expect(platform.lists).toHaveLength(calls)
  })

  test('asks for a second more on either side and keeps what the slice owns', async () => {
    const edges = [-1_001, -1_000, -1, 0, 59_999, 60_000, 60_999, 61_000]
    const platform = createFakePlatform({ records: edges.map((ms) => failedRecord({ eventLocal: start * 1000 + ms })) })
    const result = await listing(platform)
    expect(platform.lists[0]).toMatchObject({ from: start - 1, to: start + 60, status: 'failed', size: 100 })
    expect(result.records.map(({ eventLocal }) => eventLocal - start * 1000)).toEqual([0, 59_999])
    expect(result.unexpected).toEqual({ time: 0, status: 0 })
  })

  test('pages are read side by side, but no more than allowed', async () => {
    let under = 0
    let most = 0
    const platform = createFakePlatform({
      records: failed(100),
      maxPageSize: 5,
      onList: async () => {
        under += 1
        most = Math.max(most, under)
        await new Promise(setImmediate)
        under -= 1
      },
    })
    await listing(platform, { concurrency: 4 })
    expect(most).toBe(4)
  })
})

describe('answers that lie or lack something', () => {
  const cases: [string, FakePlatformOptions, { complete: boolean; calls: number }][] = [
    ['no metadata at all', { totals: 'none', tellsSize: 'none' }, { complete: true, calls: 5 }],
    ['no total', { totals: 'none' }, { complete: true, calls: 4 }],
    ['no page size', { tellsSize: 'none' }, { complete: true, calls: 5 }],
    ['a total of zero', { totals: 'zero' }, { complete: true, calls: 4 }],
    ['a total twice the truth', { totals: 'double' }, { complete: false, calls: 12 }],
    ['a page size that only echoes the question', { tellsSize: 'asked' }, { complete: true, calls: 6 }],
    [
      'a page size that only echoes the question, no total',
      { tellsSize: 'asked', totals: 'none' },
      { complete: true, calls: 1 },
    ],
    ['the same page again and again', { ignores: ['page'] }, { complete: false, calls: 9 }],
    [
      'the same page again and again, no metadata',
      { ignores: ['page'], totals: 'none', tellsSize: 'none' },
      { complete: false, calls: 4 },
    ],
    ['ties in another order on every page', { order: 'unstable' }, { complete: true, calls: 8 }],
  ]

  test.each(cases)('%s', async (_, readings, { complete, calls }) => {
    const platform = createFakePlatform({ records: failed(35), maxPageSize: 10, ...readings })
    const result = await listing(platform)
    expect(result.complete).toBe(complete)
    expect(platform.lists.length).toBeLessThanOrEqual(calls)
    const lists = readings.ignores !== undefined || (readings.tellsSize === 'asked' && readings.totals === 'none')
    expect(result.records).toHaveLength(lists ? 10 : 35)
  })

  test('rows of another time or status are counted once each, and never handed on', async () => {
    const platform = createFakePlatform({
      records: [
        ...failed(20),
        ...[-90, 500].map((second) => failedRecord({ eventLocal: (start + second) * 1000 })),
        ...(['successful', 'processing', 'other'] as const).map((status) =>
          failedRecord({ eventLocal: start * 1000, status }),
        ),
      ],
      ignores: ['from', 'to', 'status'],
      maxPageSize: 7,
    })
    const result = await listing(platform)
    expect(result.records).toHaveLength(20)
    expect(result.unexpected).toEqual({ time: 2, status: 3 })
  })

  test('a row in capitals is the same record', async () => {
    const record = failedRecord({ eventLocal: start * 1000, id: 'abcdefab-0000-4000-8000-00000000000a' })
    const platform = createFakePlatform({ records: [record, { ...record, id: record.id.toUpperCase() }] })
    const result = await listing(platform)
    expect(result.records).toHaveLength(1)
  })
})

describe('rows that cannot be read', () => {
  const row = (number?: number) =>
    ({
      unreadable: true,
      id: number === undefined ? undefined : idOf(number),
      field: number === undefined ? 'row' : 'status',
    }) as const

  test('the rest of their page goes on, and each is reported once', async () => {
    const platform = createFakePlatform({
      records: failed(25),
      maxPageSize: 10,
      totals: 'none',
      unreadable: ({ page }) => (page < 2 ? [row(900)] : []),
    })
    const result = await listing(platform)
    expect(result.records).toHaveLength(25)
    expect(result.unreadable).toEqual([row(900)])
  })

  test.each([
    ['with an id', row(900)],
    ['without an id', row()],
  ])('%s on a page that comes again and again do not keep the reading up', async (_, unreadable) => {
    const platform = createFakePlatform({
      records: failed(30),
      maxPageSize: 10,
      ignores: ['page'],
      totals: 'none',
      unreadable: () => [unreadable],
    })
    expect((await listing(platform)).complete).toBe(false)
    expect(platform.lists).toHaveLength(4)
  })

  test('pages of nothing but unreadable rows are read on to what can be read', async () => {
    const platform = createFakePlatform({
      totals: 'none',
      tellsSize: 'none',
      unreadable: ({ page }) => (page < 5 ? [row(), row()] : []),
    })
    const result = await listing(platform)
    expect(result.unreadable).toHaveLength(10)
    expect(result.complete).toBe(true)
  })
})

describe('a list that changes while it is read', () => {
  test('as many rows as were promised, but fewer than that in the end: it is read again', async () => {
    const records = failed(20)
    const late = failedRecord({ eventLocal: (start + 59) * 1000 + 900 })
    const seen = new Set<number>()
    const platform = createFakePlatform({
      records,
      maxPageSize: 10,
      onList: ({ page }, list) => {
        if (seen.has(page)) return
        seen.add(page)
        if (page === 1) list.add(late)
        if (page === 2) for (const { id } of records.slice(0, 2)) list.set(id, { status: 'successful' })
      },
    })
    const result = await listing(platform, { concurrency: 1 })
    expect(ids(result)).toContain(late.id)
    expect(result.complete).toBe(true)
  })

  test('one that shrinks in every reading is incomplete for that alone', async () => {
    const records = failed(35)
    let next = 0
    const platform = createFakePlatform({
      records,
      maxPageSize: 10,
      onList: ({ page }, list) => {
        // Each first page is followed by an outcome of a record that it has shown.
        if (page === 1) list.set(records[next]?.id ?? '', { status: 'successful' })
        if (page === 1) next += 1
      },
    })
    const result = await listing(platform, { concurrency: 1 })
    expect(result).toMatchObject({ complete: false, shrank: true })
    expect(platform.failedIds().every((id) => ids(result).includes(id))).toBe(true)
  })
})

describe('too many', () => {
  test('by the total: one call', async () => {
    const platform = createFakePlatform({ records: failed(50), maxPageSize: 10 })
    expect(await list(platform, { maxRecords: 49 })).toEqual({ tooMany: true, total: 50, showsForeignTimes: false })
    expect(platform.lists).toHaveLength(1)
  })

  test.each([
    ['without a total', { totals: 'none' } as const],
    ['with a total that lies', { totals: 'zero' } as const],
  ])('%s: found out by reading, not by reading all', async (_, readings) => {
    const platform = createFakePlatform({ records: failed(1000), maxPageSize: 10, ...readings })
    expect(await list(platform, { maxRecords: 50 })).toMatchObject({ tooMany: true, total: undefined })
    expect(platform.lists.length).toBeLessThan(20)
  })

  test.each([
    ['a second', 1],
    ['a few seconds, which the seconds asked for on either side would only make dearer,', 15],
  ])('%s is read whole', async (_, seconds) => {
    const platform = createFakePlatform({ records: failed(500, seconds), maxPageSize: 100 })
    const result = await listing(platform, { span: { from: start, to: start + seconds }, maxRecords: 10 })
    expect(result.records).toHaveLength(500)
  })

  test('a platform that answers a second with everything it has is not read to the end', async () => {
    const elsewhere = Array.from({ length: 300 }, (_, index) =>
      failedRecord({ eventLocal: (start + 1000 + index) * 1000 }),
    )
    const platform = createFakePlatform({ records: elsewhere, ignores: ['from', 'to'], maxPageSize: 10 })
    const one = list(platform, { span: { from: start, to: start + 1 }, maxRecords: 50 })
    await expect(one).rejects.toBeInstanceOf(FiltersIgnored)
    expect(platform.lists.length).toBeLessThan(12)
  })
})
