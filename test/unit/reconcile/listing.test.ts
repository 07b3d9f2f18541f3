// One slice: what is listed of its pages, what is thrown out, and when the listing may call itself complete.
import { expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { ListPage, ListQuery } from '../../../src/platform/operations.ts'
import type { UnreadableRow, WebhookRecord } from '../../../src/platform/record.ts'
import {
  FiltersIgnored,
  listSlice,
  type Listing,
  type ListingOptions,
} from '../../../src/reconcile/sweep/list-slice.ts'
import { sweep } from '../../../src/reconcile/sweep/sweep.ts'
import type { Span } from '../../../src/reconcile/window.ts'
import { failedRecord } from '../../support/records.ts'

const span: Span = { from: 1_700_000_000, to: 1_700_000_060 }

/** A record for each letter: `x`, `y` and `z` of another time, `s` of another status, and of a letter and its capital one in another case. */
function recordOf(letter: string): WebhookRecord {
  const id = `record-${letter}`
  const eventLocal = (span.from + ('xyz'.includes(letter) ? 500 : 0)) * 1000
  return failedRecord({ id, eventId: id, eventLocal, status: letter === 's' ? 'successful' : 'failed' })
}

const fail = (): never => {
  throw new PlatformFailure('bad-request', 400, 'list')
}

/** Digits are rows that cannot be read, `?` without an id. */
function unreadableOf(digit: string): UnreadableRow {
  return { unreadable: true, id: digit === '?' ? undefined : `record-${digit}`, field: 'status' }
}

interface Answers {
  /** The pages of each reading, parted by spaces, a character for a row; the last one comes again. Behind the last page, all are empty. */
  readings: readonly string[]
  total?: number
  size?: number
  /** What a list of one event shows. Default: one row. */
  ofEvent?: () => number
}

function pagesOf({ ofEvent = () => 1, readings, size, total }: Answers) {
  const asked: ListQuery[] = []
  let reading = -1
  async function list(query: ListQuery): Promise<ListPage> {
    asked.push(query)
    await Promise.resolve()
    if (query.eventId !== undefined) return { records: [], unreadable: [], rows: ofEvent(), size, total }
    if (query.page === 0) reading += 1
    const rows = [...((readings[reading] ?? readings.at(-1) ?? '').split(' ')[query.page] ?? '')]
    const isReadable = (row: string): boolean => /[a-z]/i.test(row)
    const records = rows.filter(isReadable).map(recordOf)
    const unreadable = rows.filter((row) => !isReadable(row)).map(unreadableOf)
    return { records, unreadable, rows: rows.length, size, total }
  }
  return { asked, list }
}

const usual = { monotonic: () => 42, status: 'failed', concurrency: 3, maxRecords: 1000, totalsCount: true } as const

const listed = (
  list: ListingOptions['client']['list'],
  { seconds = 60, ...setting }: Partial<ListingOptions> & { seconds?: number } = {},
): Promise<Listing> =>
  listSlice(
    { ...span, to: span.from + seconds },
    { ...usual, client: { list }, ...setting },
    new AbortController().signal,
  )

interface Expected extends Partial<Pick<Listing, 'verdict' | 'unexpected'>> {
  calls: number
  unreadable?: number
}

const three = { size: 3 }

test.each<[string, Answers, records: string, Expected, Partial<ListingOptions>?]>([
  ['a page and a bit', { ...three, total: 4, readings: ['abc d'] }, 'abcd', { calls: 2 }],
  ['whole pages, where the total alone proves nothing', { ...three, total: 3, readings: ['abc'] }, 'abc', { calls: 2 }],
  ['no metadata at all: read twice', { readings: ['abc d'] }, 'abcd', { calls: 6 }],
  ['no total, on a page: read once', { ...three, readings: ['ab'] }, 'ab', { calls: 2 }],
  ['a total of zero: read twice', { ...three, total: 0, readings: ['abc d'] }, 'abcd', { calls: 6 }],
  ['a total twice the truth', { ...three, total: 8, readings: ['abc d'] }, 'abcd', { calls: 6, verdict: 'missed' }],
  ['a page size that only echoes the question', { size: 100, total: 4, readings: ['abc d'] }, 'abcd', { calls: 4 }],
  ['such a page size and no total', { size: 100, readings: ['abc d'] }, 'abcd', { calls: 6 }],
  [
    'the same page again and again',
    { ...three, total: 30, readings: ['abc abc abc abc abc abc abc abc abc abc'] },
    'abc',
    { calls: 3, verdict: 'too-many' },
    { concurrency: 1 },
  ],
  ['ties in another order', { ...three, total: 5, readings: ['abc ac', 'abc bde'] }, 'abcde', { calls: 5 }],
  ['a list that grows: read on', { ...three, total: 4, readings: ['abc def g'] }, 'abcdefg', { calls: 6 }],
  ['a list that shrinks, without a total', { ...three, readings: ['abc ef', 'bcd ef'] }, 'abcdef', { calls: 6 }],
  ['a list that shrinks: read again', { ...three, total: 6, readings: ['abc ef', 'bcd efg'] }, 'abcdefg', { calls: 6 }],
  [
    'a list that shrinks in both readings',
    { ...three, total: 6, readings: ['abc ef', 'bce fg'] },
    'abcefg',
    { calls: 6, verdict: 'missed' },
  ],
  [
    'a record in capitals, which is the same',
    { ...three, total: 2, readings: ['aA'] },
    'a',
    { calls: 3, verdict: 'missed' },
  ],
  [
    'rows of another time or status, counted once each',
    { ...three, total: 4, readings: ['axs xab'] },
    'ab',
    { calls: 4, unexpected: { time: 1, status: 1 } },
  ],
  [
    'rows of another time that are not listed at these',
    { ...three, total: 2, readings: ['ax'], ofEvent: () => 0 },
    'a',
    { calls: 2, unexpected: { time: 1, status: 0 }, verdict: 'missed' },
  ],
  [
    'rows of another time where no event can be searched',
    { ...three, total: 2, readings: ['ax'], ofEvent: fail },
    'a',
    { calls: 2, unexpected: { time: 1, status: 0 } },
  ],
  [
    'a row that cannot be read, on two pages',
    { ...three, total: 4, readings: ['ab1 1cd'] },
    'abcd',
    { calls: 6, unreadable: 1 },
  ],
  [
    'rows without an id that cannot be read',
    { ...three, readings: ['ab? ab? ab?'] },
    'ab',
    { calls: 2, unreadable: 2, verdict: 'too-many' },
  ],
  ['pages of nothing but these, read on', { readings: ['?? ?? a'] }, 'a', { calls: 8, unreadable: 4 }],
  ['a full page of nothing but unreadable rows', { ...three, readings: ['123'] }, '', { calls: 2, unreadable: 3 }],
  [
    'too many by the total: one call',
    { ...three, total: 50, readings: ['abc'] },
    'abc',
    { calls: 1, verdict: 'too-many' },
    { maxRecords: 49 },
  ],
  [
    'too many without a total: not all are read',
    { ...three, readings: ['abc def ghi jkl mno'] },
    'abcdefghi',
    { calls: 3, verdict: 'too-many' },
    { maxRecords: 6 },
  ],
])('%s', async (_, answers, records, expected, setting) => {
  const { calls, unexpected = { time: 0, status: 0 }, unreadable = 0, verdict = 'whole' } = expected
  const { asked, list } = pagesOf(answers)
  const listing = await listed(list, setting)
  const letters = listing.records.map(({ id }) => id.slice(-1)).toSorted()
  expect([letters.join(''), listing.verdict, asked.length]).toEqual([records, verdict, calls])
  expect([listing.unreadable.length, listing.unexpected]).toEqual([unreadable, unexpected])
})

test.each([1, 15])('a slice of %i seconds is read whole, however many there are', async (seconds) => {
  const { list } = pagesOf({ ...three, total: 7, readings: ['abc def g'] })
  expect(await listed(list, { seconds, maxRecords: 3 })).toMatchObject({ records: { length: 7 }, verdict: 'whole' })
})

/** As many readings as it takes, and a record that only the last one shows. */
test.each([
  [5, 'whole'],
  [6, 'missed'],
])('records of any status in another order: one that comes with repetition %i: %s', async (repetition, verdict) => {
  const { list } = pagesOf({ ...three, total: 2, readings: [...new Array<string>(repetition).fill('a'), 'b'] })
  expect(await listed(list, { status: 'any' })).toMatchObject({ verdict })
})

test('a second with more than 100,000 rows is read up to there, and what is left is reported with its time', async () => {
  const [second, asked] = [{ from: span.from, to: span.from + 1 }, [] as number[]]
  function list({ page }: ListQuery): Promise<ListPage> {
    asked.push(page)
    const records = [recordOf(String.fromCodePoint(97 + page))]
    return Promise.resolve({ records, unreadable: [], rows: 50_000, size: 50_000, total: 130_000 })
  }
  const client = { list, ping: () => Promise.resolve() }
  const options = { client, monotonic: () => 42, concurrency: 3, sliceRecords: 100 }
  const steps = await Array.fromAsync(sweep(second, options, new AbortController().signal))
  expect(steps).toMatchObject([{ listed: { verdict: 'capped' }, skipped: { span: second } }])
  expect(asked).toEqual([0, 1, 2])
})

test('what no list call may hide ends the listing, also where it asks for one event', async () => {
  const ofEvent = (): number => {
    throw new Error('no token')
  }
  await expect(listed(pagesOf({ ...three, total: 2, readings: ['ax'], ofEvent }).list)).rejects.toThrow('no token')
})

test('more rows of other times than a slice holds end the listing', async () => {
  const { asked, list } = pagesOf({ ...three, readings: ['axy xyz abc'] })
  await expect(listed(list, { maxRecords: 2 })).rejects.toBeInstanceOf(FiltersIgnored)
  expect(asked).toHaveLength(2)
})

test('pages are read side by side, but no more than allowed; once one fails, none behind it is asked for', async () => {
  const first = Promise.withResolvers<void>()
  const { asked, list } = pagesOf({ ...three, total: 30, readings: ['abc def ghi jkl mno'] })
  const listing = listed(async (query) => {
    const page = await list(query)
    if (query.page === 1) await first.promise
    if (query.page === 2) fail()
    return page
  })
  for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate)
  first.resolve()
  await expect(listing).rejects.toBeInstanceOf(PlatformFailure)
  expect(asked.map(({ page }) => page)).toEqual([0, 1, 2, 3])
})
