// Lists whose pages end early, whose totals mean something else, or that leave a second out: all that can be listed is, by few calls.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import type { HttpRequest, HttpResponse, Transport } from '../../src/platform/http/http.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { beginDay, hourMs, type DaemonOptions } from '../support/daemon.ts'

/** Nothing is retried, so that each record that was listed stays missing. */
const observing = { RECONCILER_RETRY_ENABLED: 'false' }

interface WirePage {
  data: { webhooks: object[] }
  metadata: { page?: { size: number; totalElements: number } }
}

type Page = NonNullable<WirePage['metadata']['page']>

/** Each page of records with something changed. */
const showing =
  (change: (page: WirePage, request: HttpRequest) => void) =>
  (transport: Transport): Transport =>
  async (request): Promise<HttpResponse> => {
    const response = await transport(request)
    if (request.method !== 'GET' || response.status !== 200) return response
    const page = JSON.parse(response.body) as WirePage
    change(page, request)
    return { ...response, body: JSON.stringify(page) }
  }

const numberOf = ({ url }: HttpRequest): number => Number(url.searchParams.get(listParameter.pageNumber))

function totals(total: (page: Page) => number): DaemonOptions['between'] {
  return showing(({ metadata: { page } }) => {
    if (page !== undefined) page.totalElements = total(page)
  })
}

/** No rows behind the third page. */
const empty = (changed: object = {}): DaemonOptions['between'] =>
  showing(({ data, metadata }, request) => {
    if (numberOf(request) > 2) data.webhooks = []
    if (metadata.page !== undefined) Object.assign(metadata.page, changed)
  })
/** No more rows than this, of the first page, and none of the others in the total. */
const limitedTo = (rows: number) =>
  showing(({ data, metadata: { page } }, request) => {
    data.webhooks = numberOf(request) > 0 ? [] : data.webhooks.slice(0, rows)
    if (page !== undefined) page.totalElements = Math.min(page.totalElements, rows)
  })
const limited = limitedTo(100)
/** Each page behind this one is another one. */
const behind =
  (page: string, last = 2) =>
  (transport: Transport): Transport =>
  (request) => {
    const url = new URL(request.url)
    if (numberOf(request) > last) url.searchParams.set(listParameter.pageNumber, page)
    return transport({ ...request, url })
  }
const [lastAgain, refused] = [behind('2'), behind('none')]
/** The page's size is its number of rows. */
const sizeOfRows = showing(({ data, metadata: { page } }) => {
  if (page !== undefined) page.size = data.webhooks.length
})

let calls = 0
const small = { maxPageSize: 10 }

test.each<[string, ReadingsInput, DaemonOptions['between'], sliceRecords: number, calls: number]>([
  ['of all records, no matter what was asked', small, totals(() => 600), 100, 250],
  ['of a thousand million', small, totals(() => 1e9), 100, 250],
  [
    'of another thousand million each time: a thousand slices at most',
    small,
    totals(() => 1e9 + (calls += 1)),
    100,
    5000,
  ],
  ['that are true, and the last page again behind the third', small, lastAgain, 4000, 300],
  ['that are true, and no rows behind the third page', small, empty(), 4000, 300],
  ['none, and no rows behind the third page', small, empty({ totalElements: undefined }), 4000, 300],
  ['that are true, and pages behind the third are refused', small, refused, 4000, 300],
  ['of the first page, and no rows behind it', {}, limited, 4000, 150],
  ['of half a page, and no rows behind it', {}, limitedTo(50), 4000, 250],
  ['none, and pages behind the third are refused', { ...small, totals: 'absent' }, refused, 4000, 300],
  ['that are true, with a page size that is the number of rows', {}, sizeOfRows, 4000, 40],
  ['twice the truth, with a page size that is the number of rows', { totals: 'high' }, sizeOfRows, 4000, 40],
])('totals %s: all records are listed', async (_, readings, between, sliceRecords, most) => {
  await using day = await beginDay(readings)
  day.seed(600, [160, 2], { spread: 'even' })
  const daemon = await day.start(observing, undefined, {
    ...(between && { between }),
    policy: { sweep: { sliceRecords, concurrency: 4 } },
  })
  expect(daemon.ops().status().missing).toBe(600)
  expect(daemon.lists()).toBeLessThan(most)
})

test.each([
  [1, true, 'complete'],
  [30, true, 'complete'],
  // The first page of many shows the same.
  [30, false, 'incomplete'],
])(
  '%i records on a page without a size, shown again behind it, with the total of all %s: %s',
  async (count, isOfAll, result) => {
    await using day = await beginDay()
    day.seed(count, [24, 23])
    const strip = showing(({ data, metadata: { page } }) => {
      if (page !== undefined)
        Object.assign(page, { size: undefined, ...(!isOfAll && { totalElements: data.webhooks.length }) })
    })
    const daemon = await day.start(observing, undefined, { between: (transport) => strip(behind('0', 0)(transport)) })
    expect(daemon.ops().status()).toMatchObject({ missing: count, sweeps: [{ result }] })
  },
)

test('a thousand records in each of four adjacent seconds, of which a slice holds 400: few calls', async () => {
  await using day = await beginDay()
  for (let second = 0; second < 4; second += 1) {
    const at = day.clock.now() - 24 * hourMs + second * 1000
    day.sandbox.seed({ count: 1000, from: at, to: at, attempts: 3 })
  }
  const daemon = await day.start(observing, undefined, { policy: { sweep: { sliceRecords: 400, concurrency: 4 } } })
  expect(daemon.ops().status().missing).toBe(4000)
  expect(daemon.lists()).toBeLessThan(100)
})

test.each<[string, order: 'event-asc' | 'event-desc', burstAt: number]>([
  ['before', 'event-asc', 20],
  ['after', 'event-desc', 10],
])(
  'most of the listed records in one second, %s those that are neither listed nor counted: all are listed',
  async (...[, order, at]) => {
    await using day = await beginDay({ order })
    day.seed(80, [at, at - 1 / 3600])
    day.seed(70, [19, 11])
    const daemon = await day.start(observing, undefined, { between: limited })
    expect(daemon.ops().status()).toMatchObject({ missing: 150, sweeps: [{ result: 'complete' }] })
  },
)

test('an unreadable row among those that are listed and counted: all others are listed', async () => {
  await using day = await beginDay()
  const [broken = ''] = day.seed(150, [20, 10])
  const spoilt = showing(({ data: { webhooks } }) => {
    for (const row of webhooks as Record<string, unknown>[]) if (row['id'] === broken) row['status'] = 'lost'
  })
  const daemon = await day.start(observing, undefined, { between: (transport) => spoilt(limited(transport)) })
  expect(daemon.ops().status()).toMatchObject({ missing: 149, unreadable: { rows: 1 } })
})
