// GET /records of the whole daemon, beside a sandbox: which records it gives, in which pages, and what it refuses.
import { describe, expect, test } from 'vitest'
import { createRecordsEndpoint, createResponseEndpoint } from '../../src/ops/records-endpoint.ts'
import { renderPage } from '../../src/ops/page.ts'
import { findForPage, readRecordsQuery, type FoundOnPage } from '../../src/ops/records-page.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { sweepNumbers } from '../../src/reconcile/policy.ts'
import { gapsOf } from '../../src/records/records.ts'
import { jsonLines } from '../support/command.ts'
import { beginDay, emptyPage, hourMs, pagesOf, token } from '../support/daemon.ts'
import type { DaemonOptions, Day, RunningDaemon } from '../support/daemon.ts'
import { team, textOf } from '../support/ops-server.ts'

/** 40 due, 30 of them of one subscription, and 7 exhausted records, which nothing retries. */
async function observed(day: Day, answer?: Parameters<Day['start']>[1]): Promise<RunningDaemon> {
  day.seed(40, [100, 12], { subscriptions: 4 })
  day.seed(7, [90, 80], { attempts: 30 })
  return day.start({ RECONCILER_RETRY_ENABLED: 'false' }, answer)
}

function asker(given: string): Parameters<ReturnType<typeof createResponseEndpoint>>[1] {
  return { headers: { authorization: `Bearer ${given}` }, socket: { remoteAddress: '127.0.0.1' } } as never
}

test('all that is held comes once, the oldest event first, in pages of any size', async () => {
  await using day = await beginDay()
  day.seed(60, [100, 12])
  const daemon = await observed(day)
  expect(await daemon.records('')).toMatchObject({ count: 100 })
  expect(daemon.ops().status().unlisted).toBeNull()
  const whole = await daemon.records('limit=1000')
  expect(whole).toMatchObject({ status: 200, source: 'memory', count: 107, next: null, incomplete: null, error: null })
  const ids = whole.records.map(({ webhookId }) => webhookId)
  expect(new Set(ids).size).toBe(107)
  expect(whole.records.map(({ event }) => event)).toEqual(whole.records.map(({ event }) => event).toSorted())
  for (const limit of [1, 10, 106, 107]) {
    const pages = await pagesOf(daemon, `limit=${limit}`)
    expect(Math.max(...pages.map(({ count }) => count))).toBeLessThanOrEqual(limit)
    expect(pages.flatMap((page) => page.records.map(({ webhookId }) => webhookId))).toEqual(ids)
  }
})

test('parameters narrow, and their values widen', async () => {
  await using day = await beginDay()
  const daemon = await observed(day)
  const { records } = await daemon.records('limit=1000')
  const [first, second] = records
  const { eventId = '', subscriptionId = '', webhookId = '' } = first ?? {}
  const count = async (query: string): Promise<number> => (await daemon.records(`limit=1000&${query}`)).count
  expect(await count('decision=exhausted')).toBe(7)
  expect(await count('decision=exhausted&decision=blocked')).toBe(47)
  expect(await count('decision=awaiting')).toBe(0)
  expect(await count(`webhook=${webhookId}&webhook=${second?.webhookId.toUpperCase()}`)).toBe(2)
  expect(await count(`event=${eventId}`)).toBe(1)
  const own = records.filter((one) => one.subscriptionId === subscriptionId).length
  expect(await count(`subscription=${subscriptionId}`)).toBe(own)
  const [day4, day3] = [await count('since=85h&source=memory'), await count('since=85h&until=20h&source=memory')]
  expect(day4).toBeLessThan(47)
  expect(day3).toBeLessThan(day4)
  const failing = records.filter(({ responseStatusCode: code }) => code !== null && code >= 500).length
  expect(await count('response=5xx')).toBe(failing)
  // Receivers have codes of their own.
  expect(await count('response=999')).toBe(0)
  const missing = '00000000-0000-4000-8000-000000000000'
  expect(await daemon.records(`webhook=${webhookId}&webhook=${missing}`)).toMatchObject({
    count: 1,
    notFound: [missing],
  })
})

test('a record has its decision, its reason and its next retry, and nothing of its payload', async () => {
  await using day = await beginDay()
  const daemon = await observed(day)
  const [record] = (await daemon.records('decision=exhausted&limit=1')).records
  expect(record).toMatchObject({
    status: 'failed',
    decision: 'exhausted',
    why: 'max-attempts',
    explanation: 'It has reached retry.maxAttempts.',
    nextRetry: null,
    nextRetryBy: 'never',
    attempts: 30,
    lastAttempt: expect.stringMatching(/^20/) as string,
  })
  expect(Object.keys(record ?? {})).not.toContain('requestPayload')
})

test('lines say the same as the document, and their end shows that they are whole', async () => {
  await using day = await beginDay()
  const daemon = await observed(day)
  const { records } = await daemon.records('limit=20')
  const answer = await day.clock.run(createRecordsEndpoint(daemon.ops().records)('limit=20&format=ndjson', {} as never))
  expect(answer.contentType).toContain('application/x-ndjson')
  const lines = jsonLines(await day.clock.run(textOf(answer)))
  expect(lines[0]).toMatchObject({ schemaVersion: 1, source: 'memory' })
  expect(lines.slice(1, -1)).toEqual(records)
  expect(lines.at(-1)).toMatchObject({ end: true, count: 20, error: null })
})

const newer = 'The last sweep failed: newer failures are not known.'

test('while the list fails the answer says that newer failures are not known', async () => {
  await using day = await beginDay()
  const daemon = await observed(day)
  day.sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 503 } })
  await daemon.goOn(2)
  const page = await daemon.records('limit=1')
  expect(page).toMatchObject({ count: 1, incomplete: newer })
  const ofEvent = await daemon.records(`event=${page.records[0]?.eventId ?? ''}`)
  expect(ofEvent).toMatchObject({ source: 'memory', incomplete: expect.stringContaining('HTTP 503') as string })
  expect(ofEvent.records).toEqual(page.records)
  expect(await daemon.records(`event=${page.records[0]?.webhookId ?? ''}`)).toMatchObject({ status: 503 })
})

test('before the first full sweep the answer says that it is not whole', async () => {
  await using day = await beginDay()
  day.seed(5, [2, 1])
  const daemon = await day.start({}, ({ url }) => (url.pathname.endsWith('/webhooks') ? { status: 503 } : undefined))
  expect(await daemon.records('')).toMatchObject({
    count: 0,
    incomplete: `${newer} No full sweep has ended yet since the start.`,
  })
})

test('after a full sweep that missed rows the answer says so, as the page does', async () => {
  await using day = await beginDay()
  const body = { ...emptyPage, metadata: { page: { ...emptyPage.metadata.page, totalElements: 1 } } }
  const daemon = await day.start({}, ({ url }) =>
    url.searchParams.get(listParameter.pageSize) === '100' ? { body } : undefined,
  )
  const incomplete = 'The last full sweep did not see the whole window.'
  expect(daemon.ops().status().summary.notices).toMatchObject([{ text: incomplete }])
  expect(await daemon.records('')).toMatchObject({ count: 0, incomplete })
})

describe('the page', () => {
  const find = async (daemon: RunningDaemon, query: string): Promise<FoundOnPage | undefined> => {
    const params = readRecordsQuery(query)
    return params && daemon.clock.run(findForPage(params, daemon.ops().records))
  }

  test('finds a record by the id of its event or webhook, and says what it does not hold', async () => {
    await using day = await beginDay()
    const daemon = await observed(day)
    const lists = daemon.lists()
    const [record] = (await daemon.records('limit=1')).records
    for (const id of [record?.eventId, record?.webhookId.toUpperCase(), ` ${record?.webhookId}`])
      expect(await find(daemon, `event=${id}`), id).toMatchObject({ records: [{ webhookId: record?.webhookId }] })
    const none = await find(daemon, 'event=00000000-0000-4000-8000-000000000000')
    const text = renderPage(daemon.ops().status(), {
      refreshes: false,
      commandPrefix: '',
      ...(none && { found: none }),
    })
    expect(text.replaceAll(/\s+/g, ' ')).toContain(
      'id: it may be delivered, in delivery, excluded, outside the window, or mistyped.',
    )
    expect(text).toContain('webhook-reconciler explain 00000000-0000-4000-8000-000000000000')
    expect(text).not.toMatch(/<p[^>]*>\s*<\/p>/)
    expect(await find(daemon, 'event=<script>')).toMatchObject({
      records: undefined,
      problem: expect.stringContaining('UUID') as string,
    })
    expect(await find(daemon, 'event=&refresh=off')).toBeUndefined()
    expect(daemon.lists()).toBe(lists)
  })

  test('lists the records of a cause, a hundred a page', async () => {
    await using day = await beginDay()
    day.seed(250, [100, 12], { attempts: 30, subscriptions: 1 })
    const daemon = await day.start()
    const ids = new Set<string>()
    const sizes: number[] = []
    let query: string | undefined = 'decision=exhausted'
    while (query !== undefined) {
      const found: FoundOnPage | undefined = await find(daemon, query)
      for (const { webhookId } of found?.records ?? []) ids.add(webhookId)
      sizes.push(found?.records?.length ?? 0)
      query = found?.next
    }
    expect([sizes, ids.size]).toEqual([[100, 100, 50], 250])
    expect(await find(daemon, 'decision=exhausted&cursor=x')).toMatchObject({
      problem: expect.stringContaining('cursor') as string,
    })
    const refused = { records: undefined, problem: expect.stringContaining('subscription') as string }
    expect(await find(daemon, 'subscription=nobody')).toMatchObject(refused)
  })
})

describe('what the daemon does not hold is listed on the platform', () => {
  /** A span of 2,400 records is no single slice. */
  const shortSlices = { policy: { sweep: { ...sweepNumbers, sliceRecords: 800 } } }

  test('an event that was delivered, one of before the window, and a span that begins there; each once in pages', async () => {
    await using day = await beginDay()
    const old = day.seed(25, [400, 200], { attempts: 3 })
    day.seed(15, [100, 12], { attempts: 30 })
    const [delivered = ''] = day.seed(1, [50, 49])
    const daemon = await day.start()
    await daemon.goOn(1)
    const eventId = daemon.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.eventId] : []))[0] ?? ''
    const { records: arrived } = await daemon.records(`event=${eventId}`)
    expect(arrived).toMatchObject([
      { webhookId: delivered, status: 'successful', decision: 'successful', nextRetry: null },
    ])
    const { records: held } = await daemon.records(`event=${eventId}&source=memory`)
    expect(held).toEqual([])

    const whole = await daemon.records('since=500h&limit=1000')
    expect(whole).toMatchObject({ source: 'platform', count: 40, next: null, error: null, incomplete: null })
    expect(whole.records.filter(({ decision }) => decision === 'outside')).toHaveLength(25)
    const paged = (await pagesOf(daemon, 'since=500h&limit=7')).flatMap(({ records }) => records)
    expect(paged).toEqual(whole.records)
    expect(await daemon.records(`webhook=${old[3]}&webhook=${old[4]}`)).toMatchObject({ source: 'platform', count: 2 })
  })

  test('a client that disconnects before the first byte blocks no retry', async () => {
    await using day = await beginDay()
    const now = day.clock.now()
    const daemon = await day.start()
    const { control, records } = daemon.ops()
    await control.pause.pause()
    day.seed(4, [0.5, 0.25])
    const filter = { from: now - 2 * hourMs }
    expect(await day.clock.run(records.records.fromPlatform({ filter, limit: 2, after: undefined }))).toBeDefined()
    await control.pause.resume()
    await daemon.goOn(5)
    expect(day.sandbox.counts()).toMatchObject({ successful: 4 })
  })

  test('without a token nothing is asked of the platform', async () => {
    await using day = await beginDay()
    const daemon = await observed(day)
    const lists = daemon.lists()
    for (const query of [
      'since=500h',
      `event=${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}`,
      'since=1h&source=platform',
    ]) {
      const { error, status } = await daemon.records(query, 'Bearer no')
      expect([status, error]).toEqual([401, expect.stringContaining('source=memory')])
    }
    expect(daemon.lists()).toBe(lists)
    expect(await daemon.records('source=platform')).toMatchObject({ status: 400 })
  })

  test('a platform that fails is 503 before a record, and an error with the place behind those that came', async () => {
    await using day = await beginDay()
    day.seed(2400, [400, 200], { attempts: 3 })
    let left = Infinity
    const fail: DaemonOptions['instead'] = ({ method, url }) => {
      if (method !== 'GET' || !url.pathname.endsWith('/webhooks')) return undefined
      left -= 1
      return left < 0 ? { status: 500 } : undefined
    }
    const daemon = await day.start({}, fail, shortSlices)
    left = 0
    expect(await daemon.records('since=500h')).toMatchObject({
      status: 503,
      error: expect.stringContaining('500') as string,
    })
    left = 14
    const broken = await daemon.records('since=500h&limit=10000')
    expect(broken.count).toBeGreaterThan(0)
    expect(broken.count).toBeLessThan(2400)
    expect(broken.error).toContain('500')
    left = Infinity
    const rest = await daemon.records(`since=500h&limit=10000&cursor=${broken.next}`)
    expect(rest).toMatchObject({ error: null, next: null, count: 2400 - broken.count })
  })

  test('a page that takes too long says where to go on, also where nothing has fitted so far', async () => {
    await using day = await beginDay()
    day.seed(2400, [400, 200], { attempts: 3 })
    const daemon = await day.start({}, undefined, shortSlices)
    day.sandbox.faults.set({ operation: 'list', fault: { kind: 'latency', ms: 3000 } })
    for (const [query, all] of [
      ['', 2400],
      ['&type=none', 0],
    ] as const) {
      const pages = await pagesOf(daemon, `since=500h&limit=10000${query}`)
      const sum = pages.reduce((listed, { count }) => listed + count, 0)
      expect([sum, pages.length > 1, pages.some(({ error }) => error !== null)]).toEqual([all, true, false])
    }
    day.sandbox.faults.set({ operation: 'list', fault: { kind: 'latency', ms: 25_000 } })
    const { error } = await daemon.records('since=500h')
    expect(error).toBe('The platform listed nothing within 20 s: name a shorter time, or ask again.')
    const id = '00000000-0000-4000-8000-000000000000'
    expect(await daemon.records(`webhook=${id}`)).toMatchObject({
      incomplete: 'The list is too long to search: give the event, or a time.',
    })
    const words = day.clock.run(createResponseEndpoint(daemon.ops().records)(`event=${id}`, asker(token)))
    expect(await textOf(await words)).toContain('The platform did not respond within 20 s: ask again.')
  })

  test('the receiver’s words to an event, with the token alone; a platform that fails is 503', async () => {
    await using day = await beginDay()
    let fails = false
    const daemon = await observed(day, () => (fails ? { status: 503 } : undefined))
    const [{ eventId = '', webhookId = '' } = {}] = (await daemon.records('limit=1')).records
    const another = day.sandbox.addWebhook({ eventId, subscriptionId: team })
    const { records } = daemon.ops()
    const asked = async (query: string, given: string, changes = {}): Promise<[status: number, body: unknown]> => {
      const answered = await day.clock.run(createResponseEndpoint({ ...records, ...changes })(query, asker(given)))
      return [answered.status, JSON.parse(await textOf(answered))]
    }
    const error = (text: string): object => ({ error: expect.stringContaining(text) as string })
    expect(await asked(`event=${eventId}`, token)).toMatchObject([
      200,
      { responses: [{ webhookId }, { webhookId: another }] },
    ])
    expect(await asked(`event=${eventId}`, 'no')).toMatchObject([401, error('token')])
    expect(await asked('event=x', token)).toMatchObject([400, error('event: a UUID')])
    expect(await asked('', token)).toMatchObject([400, error('event')])
    expect(await asked(`event=${eventId}&limit=1`, token)).toMatchObject([400, error('limit')])
    fails = true
    expect(await asked(`event=${eventId}`, token)).toMatchObject([503, error('503')])
    const standsBy = () => ({ leader: undefined })
    const none = 'This instance stands by. No instance is known to lead: the status says why.'
    expect(await asked('', token, { standsBy })).toEqual([409, { error: none, leader: null }])
    const bug = { receiverResponses: () => Promise.reject(new TypeError('a bug')) }
    await expect(asked(`event=${eventId}`, token, { records: bug })).rejects.toThrow('a bug')
  })
})

describe('a request at fault is answered with the field and what is allowed', () => {
  const uuid = '123e4567-e89b-12d3-a456-426614174000'
  test.each<[query: string, said: string]>([
    ['evnt=x', 'There is no field "evnt": known are event, webhook,'],
    ['__proto__=x', 'There is no field "__proto__"'],
    [`${'x'.repeat(5000)}=1`, `There is no field "${'x'.repeat(40)}":`],
    ['event=', 'event: a UUID such as'],
    [`event=${uuid}&event=${uuid}`, 'event: one value, not 2.'],
    [`webhook=${uuid}/../x`, 'webhook: a UUID such as'],
    [
      Array.from({ length: 1001 }, () => `webhook=${uuid}`).join('&'),
      'webhook: 1 to 1000 ids, not 1001. To select more, give a time: since, or --since TIME.',
    ],
    ['since=2026-01-15T12:00:00', 'since: a moment with its zone'],
    ['since=999999999999d', 'since: a moment with its zone'],
    ['until=', 'until: a moment with its zone'],
    ['since=1h&until=1h', 'since: a moment before until.'],
    ['type=', 'type: an event type of 1 to 200 characters.'],
    [`type=${'x'.repeat(201)}`, 'type: an event type of 1 to 200 characters.'],
    ['subscription=nobody', 'subscription: an id (a whole UUID, as explain shows it), or a name'],
    ['response=5XX', 'response: a status code such as 503'],
    ['decision=gone', 'decision: one of due, backing-off,'],
    ['limit=0', 'limit: a number from 1 to 10000.'],
    ['limit=10001', 'limit: a number from 1 to 10000.'],
    ['limit=1e3', 'limit: a number from 1 to 10000.'],
    ['format=xml', 'format: one of json, ndjson.'],
    ['source=receiver', 'source: one of'],
    ['cursor=', 'cursor: "next" of the previous page'],
    ['cursor=x', 'cursor: "next" of the previous page'],
    [`cursor=0000000000000000.1.1.${uuid}`, 'cursor: it is from another list'],
  ])('%.60s', async (query, said) => {
    await using day = await beginDay()
    const daemon = await day.start()
    const { error, status } = await daemon.records(query)
    expect([status, error]).toEqual([400, expect.stringContaining(said)])
  })

  test('a cursor of another list', async () => {
    await using day = await beginDay()
    const daemon = await observed(day)
    const { next } = await daemon.records('limit=1&decision=exhausted')
    expect(await daemon.records(`limit=5&decision=exhausted&cursor=${next}`)).toMatchObject({ status: 200, count: 5 })
    expect(await daemon.records(`limit=5&cursor=${next}`)).toMatchObject({ status: 400 })
  })
})

test('what the backlog may lack is said beside the records', async () => {
  const backlog = { evictions: { known: () => ({ records: 7000 }) } }
  const sweeper = { findings: () => ({ unreadable: { rows: 2 } }), unlisted: () => [{}, {}] }
  expect(gapsOf({ backlog, sweeper } as never, 'part')).toBe(
    '7,000 records are only counted (backlog.maxRecords). 2 parts of the window cannot be listed. 2 rows cannot be read.',
  )
  const one = {
    backlog: { evictions: { known: () => ({ records: 1 }) } },
    sweeper: { findings: () => ({ unreadable: { rows: 1 } }), unlisted: () => [{}] },
  }
  expect(gapsOf(one as never, 'part')).toBe(
    '1 record is only counted (backlog.maxRecords). 1 part of the window cannot be listed. 1 row cannot be read.',
  )
  await using day = await beginDay()
  day.seed(3, [100, 12], { eventTypes: ['card-closed'] })
  day.seed(2, [400, 200], { eventTypes: ['card-created'] })
  const daemon = await day.start({
    ...{ RECONCILER_LEDGER_URL: undefined, RECONCILER_SELECT_EVENT_TYPES: 'card-created' },
  })
  const counted = (records: number): string =>
    `Up to ${records} more are only counted: the platform lists them by time (since, or --since TIME).`
  for (const [query, since, count] of [
    ['decision=excluded', '110h', 3],
    ['until=190h', '500h', 2],
  ] as const) {
    expect(await daemon.records(query)).toMatchObject({ source: 'memory', count: 0, incomplete: counted(count) })
    const listed = await daemon.records(`${query}&since=${since}`)
    expect(listed).toMatchObject({ source: 'platform', count, incomplete: null })
  }
  expect(await daemon.records('since=500h&source=memory')).toMatchObject({ incomplete: counted(2) })
  expect(await daemon.records('since=160h&source=memory')).toMatchObject({ incomplete: null })
  expect(await daemon.records('group=unprocessed')).toMatchObject({
    count: 0,
    incomplete: 'There is no ledger to compare with (ledger.url).',
  })
})
