// One slice: what is listed of it, what is thrown out, and when the listing may call itself complete.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { listSlice, type Listing } from '../../../src/reconcile/sweep/list-slice.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { createFakePlatform, type FakePlatform, type FakePlatformOptions } from '../../support/fake-platform.ts'
import { failedRecord, idOf } from '../../support/records.ts'

const start = 1_700_000_000

/** One failed record in each of the first `count` seconds (and round again). */
function failed(count: number, seconds = 60): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: (start + (index % seconds)) * 1000 + 7 }),
  )
}

type Setting = Partial<Parameters<typeof listSlice>[1]> & { span?: Span }

function list(client: Pick<FakePlatform, 'list'>, { span, ...setting }: Setting = {}): Promise<Listing> {
  const usual = { monotonic: () => 42, status: 'failed', concurrency: 3, maxRecords: 1000, totalsCount: true } as const
  return listSlice(
    span ?? { from: start, to: start + 60 },
    { client, ...usual, ...setting },
    new AbortController().signal,
  )
}

const unreadable = (number?: number) =>
  ({
    unreadable: true,
    id: number === undefined ? undefined : idOf(number),
    field: number === undefined ? 'row' : 'status',
  }) as const
const tenUnreadable = Array.from({ length: 10 }, (_, index) => unreadable(900 + index))
const foreign = [-90, 500].map((second) => failedRecord({ eventLocal: (start + second) * 1000 }))
const resolved = (['successful', 'processing'] as const).map((status) =>
  failedRecord({ eventLocal: start * 1000, status }),
)
const twice = failedRecord({ eventLocal: start * 1000, id: 'abcdefab-0000-4000-8000-00000000000a' })
const noMetadata = { totals: 'none', tellsSize: 'none' } as const
const none = { time: 0, status: 0 }

interface Seen extends Partial<Pick<Listing, 'verdict' | 'unexpected'>> {
  records: number
  calls: number
  unreadable?: number
}

/** Ten rows on a page unless it says otherwise. */
test.each<[string, FakePlatformOptions, Seen]>([
  ['a page and a bit', { records: failed(15) }, { records: 15, calls: 2 }],
  ['whole pages, where the total alone proves nothing', { records: failed(20) }, { records: 20, calls: 3 }],
  ['one record on each page', { records: failed(5), maxPageSize: 1 }, { records: 5, calls: 6 }],
  ['no metadata at all: read twice', noMetadata, { records: 35, calls: 10 }],
  [
    'rows of other times that are not listed at these',
    {
      records: [...failed(5), ...foreign],
      ignores: ['from', 'to'],
      hides: ({ eventId }: { eventId?: string }) => eventId !== undefined,
    },
    { records: 5, unexpected: { time: 2, status: 0 }, verdict: 'missed', calls: 2 },
  ],
  ['no total, on a page', { records: failed(5), totals: 'none' }, { records: 5, calls: 2 }],
  ['a total of zero: read twice', { totals: 'zero' }, { records: 35, calls: 10 }],
  ['a total twice the truth', { totals: 'double' }, { records: 35, calls: 12, verdict: 'missed' }],
  ['a page size that only echoes the question', { tellsSize: 'asked' }, { records: 35, calls: 6 }],
  ['such a page size and no total', { tellsSize: 'asked', totals: 'none' }, { records: 35, calls: 10 }],
  ['the same page again and again', { ignores: ['page'] }, { records: 10, calls: 4, verdict: 'too-many' }],
  ['ties in another order on every page', { order: 'unstable' }, { records: 35, calls: 8 }],
  [
    'rows of another time or status, counted once each',
    { records: [...failed(20), ...foreign, ...resolved], ignores: ['from', 'to', 'status'], maxPageSize: 7 },
    { records: 20, calls: 10, unexpected: { time: 2, status: 2 } },
  ],
  [
    'rows of another time where no event can be searched',
    {
      ...{ records: [...failed(5), ...foreign], ignores: ['from', 'to'] },
      onList({ eventId }) {
        if (eventId !== undefined) throw new PlatformFailure('bad-request', 400, 'list')
      },
    },
    { records: 5, calls: 2, unexpected: { time: 2, status: 0 } },
  ],
  [
    'a row in capitals, which is the same record',
    { records: [twice, { ...twice, id: twice.id.toUpperCase() }] },
    { records: 1, calls: 4, verdict: 'missed' },
  ],
  [
    'a row that cannot be read, on two pages',
    { totals: 'none', unreadable: ({ page }) => (page < 2 ? [unreadable(900)] : []) },
    { records: 35, calls: 10, unreadable: 1 },
  ],
  ...[unreadable(900), unreadable()].map((row): [string, FakePlatformOptions, Seen] => [
    `a row that cannot be read, with id ${row.id ?? 'none'}, on a page that comes again and again`,
    { ignores: ['page'], totals: 'none', unreadable: () => [row] },
    { records: 10, calls: 2, verdict: 'too-many', unreadable: row.id === undefined ? 2 : 1 },
  ]),
  [
    'pages of the same records with an unreadable row that is new on each',
    { ignores: ['page'], totals: 'none', unreadable: ({ page }) => (page < 3 ? [unreadable(900 + page)] : []) },
    { records: 10, calls: 4, verdict: 'too-many', unreadable: 3 },
  ],
  [
    'a full page of nothing but unreadable rows: a part of the span would show no more',
    { records: [], totals: 'none', unreadable: ({ page }) => (page === 0 ? tenUnreadable : []) },
    { records: 0, calls: 4, unreadable: 10 },
  ],
  [
    'pages of nothing but unreadable rows, read on to what can be read',
    { records: [], ...noMetadata, unreadable: ({ page }) => (page < 5 ? [unreadable(), unreadable()] : []) },
    { records: 0, calls: 12, unreadable: 10 },
  ],
])('%s', async (_, options, { calls, records, unexpected = none, unreadable: rows = 0, verdict = 'whole' }) => {
  const platform = createFakePlatform({ records: failed(35), maxPageSize: 10, ...options })
  const result = await list(platform)
  expect(result).toMatchObject({ verdict, unexpected })
  expect([result.records.length, result.unreadable.length]).toEqual([records, rows])
  expect(platform.lists.length).toBeLessThanOrEqual(calls)
})

test('what no list call may hide ends the listing, also where it asks for one event', async () => {
  const onList = ({ eventId }: { eventId?: string }): void => {
    if (eventId !== undefined) throw new Error('no token')
  }
  const records = [...failed(5), ...foreign]
  await expect(list(createFakePlatform({ records, ignores: ['from', 'to'], onList }))).rejects.toThrow('no token')
})

test('pages are read side by side, but no more than allowed', async () => {
  let [under, most] = [0, 0]
  const onList = async (): Promise<void> => {
    under += 1
    most = Math.max(most, under)
    await new Promise(setImmediate)
    under -= 1
  }
  await list(createFakePlatform({ records: failed(100), maxPageSize: 5, onList }), { concurrency: 4 })
  expect(most).toBe(4)
})

test('once a page fails, none behind it is asked for, though an earlier one is still awaited', async () => {
  const first = Promise.withResolvers<void>()
  const platform = createFakePlatform({
    records: failed(400),
    maxPageSize: 10,
    onList: async ({ page }) => {
      if (page === 1) await first.promise
      if (page === 2) throw new PlatformFailure('server-error', 500, 'list')
    },
  })
  const listing = list(platform)
  for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate)
  first.resolve()
  await expect(listing).rejects.toBeInstanceOf(PlatformFailure)
  expect(platform.lists.map(({ page }) => page)).toEqual([0, 1, 2, 3])
})

test.each(['none', 'zero'] as const)('a list that shrinks while it is read, with totals: %s', async (totals) => {
  const records = failed(35)
  const gone = new Set(records.slice(0, 2).map(({ id }) => id))
  const platform = createFakePlatform({
    records,
    maxPageSize: 10,
    totals,
    onList({ page }, { set }) {
      if (page === 1) for (const id of gone) set(id, { status: 'successful' })
    },
  })
  const { records: listed } = await list(platform)
  expect(new Set(listed.map(({ id }) => id))).toEqual(new Set(records.map(({ id }) => id)))
})

test('a list that grows while it is read, of a platform that refuses pages behind the last one', async () => {
  const late = failedRecord({ eventLocal: (start + 59) * 1000 + 900 })
  const platform = createFakePlatform({
    records: failed(35),
    maxPageSize: 10,
    onList({ page }, { add, records }) {
      if (page * 10 >= records.size) throw new PlatformFailure('bad-request', 400, 'list')
      if (page === 1) add(late)
    },
  })
  expect(await list(platform)).toMatchObject({ records: { length: 36 }, verdict: 'whole' })
})

test('a list that shrinks while it is read is read again; in both readings, it is incomplete', async () => {
  const [once, always] = [failed(20), failed(35)]
  const late = failedRecord({ eventLocal: (start + 59) * 1000 + 900 })
  const seen = new Set<number>()
  const platform = createFakePlatform({
    records: once,
    maxPageSize: 10,
    onList: ({ page }, { add, set }) => {
      if (seen.has(page)) return
      seen.add(page)
      if (page === 1) add(late)
      if (page === 2) for (const { id } of once.slice(0, 2)) set(id, { status: 'successful' })
    },
  })
  expect(await list(platform, { concurrency: 1 })).toMatchObject({
    verdict: 'whole',
    records: expect.arrayContaining([late]) as unknown,
  })
  const ids = always.map(({ id }) => id)
  const shrinking = createFakePlatform({
    records: always,
    maxPageSize: 10,
    onList: ({ page }, { set }) => {
      if (page === 1) set(ids.shift() ?? '', { status: 'successful' })
    },
  })
  expect(await list(shrinking, { concurrency: 1 })).toMatchObject({ verdict: 'missed' })
})

test.each<[string, FakePlatformOptions, number, number]>([
  ['by the total: one call', { records: failed(50) }, 49, 1],
  ['without a total: by reading, not by reading all', { records: failed(1000), totals: 'none' }, 50, 19],
])('too many, found out %s', async (_, options, maxRecords, calls) => {
  const platform = createFakePlatform({ maxPageSize: 10, ...options })
  const total = options.totals === undefined ? 50 : undefined
  expect(await list(platform, { maxRecords })).toMatchObject({ verdict: 'too-many', total, unexpected: none })
  expect(platform.lists.length).toBeLessThanOrEqual(calls)
})

test('too many, among them rows of other times that are not listed at these', async () => {
  const others = failed(10).map((record) => ({ ...record, eventLocal: (start - 1000) * 1000 }))
  const records = [...failed(50), ...others]
  const hides = ({ eventId }: { eventId?: string }): boolean => eventId !== undefined
  const platform = createFakePlatform({ records, ignores: ['from', 'to'], maxPageSize: 10, totals: 'none', hides })
  expect(await list(platform, { maxRecords: 25 })).toMatchObject({ verdict: 'too-many' })
})

test.each([1, 15])('a slice of %i seconds is read whole, however many there are', async (seconds) => {
  const platform = createFakePlatform({ records: failed(500, seconds) })
  const result = await list(platform, { span: { from: start, to: start + seconds }, maxRecords: 10 })
  expect(result).toMatchObject({ records: { length: 500 } })
})

test.each([
  [5, 'whole'],
  [6, 'missed'],
])(
  'records of any status that are shown in another order: one that comes with repetition %i: %s',
  async (repetition, verdict) => {
    const [seen, late] = failed(2) as [WebhookRecord, WebhookRecord]
    let readings = 0
    const client = {
      list: ({ page }: { page: number }) => {
        if (page === 0) readings += 1
        const records = page > 0 ? [] : readings > repetition ? [late] : [seen]
        return Promise.resolve({ records, unreadable: [], rows: records.length, total: 2, size: 10 })
      },
    }
    expect(await list(client, { status: 'any', concurrency: 1 })).toMatchObject({ verdict })
  },
)
