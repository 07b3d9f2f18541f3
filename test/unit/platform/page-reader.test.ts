// Pages whose rows are too large or too slow for one response: each row is read once, in bounded calls, and pages grow again.
import { expect, test } from 'vitest'
import { createPageReader } from '../../../src/platform/page-reader.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { ListPage } from '../../../src/platform/operations.ts'
import { failedRecord } from '../../support/records.ts'

const { signal } = new AbortController()
const maxBytes = 8 * 1024 * 1024
const [kB, MB] = [1000, 1_000_000]

interface Setting {
  count?: number
  bytesOf: (row: number) => number
  secondsOf?: (size: number) => number
  /** More rows are refused. */
  maxSize?: number
  /** The last rows again behind them, in place of none. */
  endsAgain?: boolean
}

function readerOf({ bytesOf, count = 250, endsAgain = false, maxSize = 100, secondsOf = () => 0.05 }: Setting) {
  const records = Array.from({ length: count }, (_, row) => failedRecord({ eventLocal: row * 1000 }))
  const asked: number[] = []
  const list = createPageReader(({ page, size }) => {
    asked.push(size)
    const first = size * (endsAgain ? Math.min(page, Math.ceil(count / size) - 1) : page)
    const shown = records.slice(first, first + size)
    const bytes = shown.reduce((sum, _, index) => sum + bytesOf(first + index), 100)
    const seconds = secondsOf(size)
    if (size > maxSize) return Promise.reject(new PlatformFailure('bad-request', undefined, 'list'))
    if (bytes > maxBytes) return Promise.reject(new PlatformFailure('too-large', undefined, 'list'))
    if (seconds >= 10) return Promise.reject(new PlatformFailure('timeout', undefined, 'list'))
    const answer = { records: shown, unreadable: [], rows: shown.length, size, total: count }
    return Promise.resolve({ page: answer, bytes, seconds })
  }, 10_000)
  async function readAll(): Promise<ListPage[]> {
    const pages: ListPage[] = []
    do pages.push(await list({ page: pages.length, size: 100 }, signal))
    while ((pages.at(-1)?.rows ?? 0) >= (pages.at(-1)?.size ?? 1))
    return pages
  }
  return { asked, list, readAll, records }
}

test.each<[string, Setting, number, number]>([
  ['small rows', { bytesOf: () => kB }, 3, 3],
  ['100 rows of 100 kB', { bytesOf: () => 100 * kB }, 14, 11],
  ['3 MB each', { bytesOf: () => 3 * MB, count: 60 }, 65, 61],
  ['small rows, of which 50 are not refused', { bytesOf: () => kB, maxSize: 50 }, 8, 7],
  ['one of 5 MB among small ones', { bytesOf: (row) => (row === 137 ? 5 * MB : kB) }, 12, 4],
])('%s: each row once, in at most so many calls, and then in fewer', async (_, setting, first, later) => {
  const { asked, readAll, records } = readerOf(setting)
  for (const calls of [first, later]) {
    asked.length = 0
    const pages = await readAll()
    expect(pages.flatMap((page) => page.records)).toEqual(records)
    expect(pages.every(({ total }) => total === records.length)).toBe(true)
    expect(asked.length).toBeLessThanOrEqual(calls)
  }
})

test('in parts, a page ends where its last rows come again', async () => {
  const { asked, list, records } = readerOf({ bytesOf: () => kB, count: 130, maxSize: 50, endsAgain: true })
  await list({ page: 0, size: 100 }, signal)
  const { rows, records: read } = await list({ page: 1, size: 100 }, signal)
  expect([rows, read]).toEqual([30, records.slice(100)])
  expect(asked).toEqual([100, 50, 50, 50, 50])
})

test.each([0, 1])('where five rows are refused, the size is not the reason (%i are not)', async (maxSize) => {
  const { asked, list } = readerOf({ bytesOf: () => kB, maxSize })
  for (let calls = 0; calls < 2; calls += 1)
    await expect(list({ page: 1, size: 100 }, signal)).rejects.toMatchObject({ reason: 'bad-request' })
  expect(asked).toEqual([100, 50, 25, 5, 100])
})

test('a row that no answer has room for is unreadable, and its neighbours are read', async () => {
  const { asked, readAll, records } = readerOf({ bytesOf: (row) => (row === 137 ? 9 * MB : kB) })
  const pages = await readAll()
  expect(pages.flatMap((page) => page.records)).toEqual(records.filter((_, row) => row !== 137))
  expect(pages.flatMap(({ unreadable }) => unreadable)).toEqual([{ unreadable: true, id: undefined, field: 'size' }])
  expect(pages.reduce((sum, { rows }) => sum + rows, 0)).toBe(250)
  expect(asked.length).toBeLessThanOrEqual(30)
})

test('pages that take too long get smaller, also after any call did, and grow again when the platform is quick', async () => {
  let [perCall, perRow] = [6, 0]
  const { asked, readAll, records } = readerOf({ bytesOf: () => kB, secondsOf: (size) => perCall + size * perRow })
  await readAll()
  await readAll()
  asked.length = perCall = 0
  perRow = 0.15
  await expect(readAll()).rejects.toMatchObject({ reason: 'timeout' })
  expect((await readAll()).flatMap((page) => page.records)).toEqual(records)
  expect(Math.max(...asked.slice(1))).toBe(50)
  perRow = 0.001
  asked.length = 0
  await readAll()
  expect(Math.max(...asked)).toBe(100)
})

test.each([
  ['a first call that takes long', 1.7, [5.3]],
  ['a platform that takes long for any call', 6, [6]],
  ['an outage', 1.7, [1.7, ...Array.from({ length: 9 }, () => 10)]],
  ['a question that is not answered', 1.7, [10]],
])('after %s, a page is read with one call again: it is not its rows that take time', async (_, usual, first) => {
  const { asked, list, readAll, records } = readerOf({ bytesOf: () => kB, secondsOf: () => first.shift() ?? usual })
  await list({ page: 0, size: 1 }, signal).catch(() => undefined)
  while (first.length > 0) await expect(list({ page: 0, size: 100 }, signal)).rejects.toThrow('')
  await readAll()
  await readAll()
  asked.length = 0
  expect((await readAll()).flatMap((page) => page.records)).toEqual(records)
  expect(asked).toEqual([100, 100, 100])
})

test('rows of which five take too long are read one by one, but for one call in twenty', async () => {
  const { asked, list, readAll, records } = readerOf({ bytesOf: () => kB, secondsOf: (size) => size * 2.1 })
  for (let size = 100; size > 5; size /= 2) await list({ page: 0, size: 100 }, signal).catch(() => undefined)
  asked.length = 0
  expect((await readAll()).flatMap((page) => page.records)).toEqual(records)
  expect(asked.slice(0, 22)).toEqual([5, ...new Array<number>(20).fill(1), 5])
})

test('a failure that says nothing about the size is no reason to ask for less', async () => {
  const failure = new PlatformFailure('server-error', 500, 'list')
  const list = createPageReader(() => Promise.reject(failure), 10_000)
  await expect(list({ page: 0, size: 5 }, signal)).rejects.toBe(failure)
})

test('a platform whose every answer is too large, whatever the size, fails after few calls', async () => {
  const { asked, list } = readerOf({ bytesOf: () => 9 * MB })
  await expect(list({ page: 0, size: 100 }, signal)).rejects.toMatchObject({ reason: 'too-large' })
  expect(asked).toEqual([100, 50, 25, 5, 1, 1, 1, 1])
})
