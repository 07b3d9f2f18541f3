// The books: days of the daemon beside a receiver with a ledger, which loses deliveries behind a 200, lags, lies or is down.
import { expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import { renderPage } from '../../src/ops/page.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { findForPage } from '../../src/ops/records-page.ts'
import { beginDay, hourMs, minuteMs, startDaemon, type Day, type RunningDaemon } from '../support/daemon.ts'
import { startReplicas } from '../support/replicas.ts'

const envOf = ({ ledgerUrl }: Sandbox, env: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  RECONCILER_LEDGER_URL: ledgerUrl,
  ...env,
})

const booksOf = async (daemon: RunningDaemon) => {
  const { books, summary } = daemon.ops().status()
  if (books === null) throw new Error('there are no books')
  const { comparedUntil, problem, unprocessed } = books
  const { records } = await daemon.records('group=unprocessed&limit=10000')
  const named = records.map(({ webhookId }) => webhookId).toSorted()
  return { comparedUntil: comparedUntil.getTime(), problem: problem?.text, unprocessed, named, summary }
}

/** Records of the day before, all delivered. */
function seedDelivered({ clock, sandbox }: Day, count: number): string[] {
  const hour = Math.floor(clock.now() / hourMs) * hourMs
  return sandbox.seed({ count, from: hour - 24 * hourMs, to: hour, failed: 0, lastAttemptAfterMs: 500 })
}

test('deliveries of a moment ago show no wrong keys: their hour is compared once they have settled', async () => {
  await using day = await beginDay({ ledger: { lagMs: 5 * minuteMs } })
  const { clock, sandbox } = day
  const hour = Math.floor(clock.now() / hourMs) * hourMs
  sandbox.seed({ count: 100, from: hour - 5 * hourMs, to: hour - 3 * hourMs, attempts: 1 })
  const daemon = await day.start(envOf(sandbox))
  for (let round = 0; round < 40; round += 1) {
    await daemon.goOn(1)
    expect((await booksOf(daemon)).problem).toBeUndefined()
  }
  expect((await booksOf(daemon)).comparedUntil).toBeGreaterThanOrEqual(hour - hourMs)
})

test('a day of deliveries, 37 of them lost behind a 200: exactly these are named within 20 min of their hour, and a restart knows them', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const start = Math.ceil(clock.now() / hourMs) * hourMs
  const count = 4800
  // The day to come: what has not happened yet is not asked for.
  const ids = sandbox.seed({
    count,
    from: start,
    to: start + 24 * hourMs,
    failed: 0,
    lastAttemptAfterMs: 500,
    spread: 'even',
  })
  const lost = ids.filter((_, index) => index % 129 === 13 && index < 37 * 129)
  expect(lost).toHaveLength(37)
  sandbox.ledger.lose(lost)
  const perHour = count / 24
  const named = (hours: number): string[] =>
    ids
      .slice(0, hours * perHour)
      .filter((id) => lost.includes(id))
      .toSorted()
  const env = envOf(sandbox, { RECONCILER_LEDGER_LOOKBACK: '2d' })
  {
    await using daemon = await day.start(env)
    await clock.advance(start - clock.now())
    for (let hour = 1; hour <= 5; hour += 1) {
      await daemon.goOn(5, 12 * minuteMs)
      await clock.advance(start + hour * hourMs + 20 * minuteMs - clock.now())
      expect((await booksOf(daemon)).named).toEqual(named(hour))
      expect((await booksOf(daemon)).comparedUntil).toBe(start + hour * hourMs)
    }
    // One for each empty hour of the lookback and the one that settles next, and three for each look at one of 200: five first ones, four an hour later, two after two.
    expect(await daemon.metric('platform_requests_total', { operation: 'books' })).toBe(49 + 3 * (5 + 4 + 2))
    await daemon.end()
  }
  await clock.advance(19 * hourMs)
  const daemon = await day.start(env)
  await daemon.goOn(12, 5 * minuteMs)
  expect((await booksOf(daemon)).named).toEqual(lost.toSorted())
  expect((await booksOf(daemon)).comparedUntil).toBe(start + 25 * hourMs)
  expect((await booksOf(daemon)).summary).toMatchObject({ level: 'trouble' })
})

test('the notice has share, time and place, and goes when the receiver has imported what it lost', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  const [eu = '', us = ''] = subscriptionIds(2)
  const ids = seedDelivered(day, 960)
  const lost = ids.filter((id) => sandbox.record(id)?.subscriptionId === eu).slice(-37)
  sandbox.ledger.lose(lost)
  const daemon = await day.start(envOf(sandbox, { RECONCILER_SUBSCRIPTIONS: `${eu}=payments-eu` }))
  await daemon.goOn(20)
  const { named, summary, unprocessed } = await booksOf(daemon)
  expect(named).toEqual(lost.toSorted())
  expect(summary.headline).toMatch(
    /^37 deliveries acknowledged with 200 are not processed: [1-9]\d* % of all from \d\d:\d\d to \d\d:\d\d, in subscription payments-eu and all types\. No other missing delivery is known\.$/,
  )
  expect(summary.headline).toContain(`: ${Math.round((100 * 37) / unprocessed.delivered)} % of all`)
  expect(summary.detail).toMatch(/^They were delivered from .* to .*asked twice about each hour/)
  expect(unprocessed.causes.list.reduce((sum, { records }) => sum + records, 0)).toBe(37)
  expect(await daemon.metric('unprocessed_webhooks', { subscription: 'payments-eu' })).toBe(37)
  expect(await daemon.metric('unprocessed_webhooks', { subscription: 'other' })).toBe(0)
  expect(await daemon.metric('delivered_since_unprocessed_webhooks')).toBe(unprocessed.delivered)
  const comparedUntil = await daemon.metric('compared_until_timestamp_seconds')
  const due = await daemon.metric('comparison_due_timestamp_seconds')
  expect(due - comparedUntil).toBe((3 * hourMs + 15 * minuteMs) / 1000)
  expect(ids.filter((id) => sandbox.record(id)?.subscriptionId === us).length).toBeGreaterThan(100)

  const calls = await daemon.metric('platform_requests_total', { operation: 'books' })
  sandbox.ledger.take(lost.map((webhookId) => `${JSON.stringify({ webhookId })}\n`).join(''))
  await daemon.goOn(16)
  expect(await booksOf(daemon)).toMatchObject({
    named: [],
    summary: { level: 'well', headline: 'Nothing is missing.' },
  })
  // To learn that, the ledger alone is asked.
  expect(await daemon.metric('platform_requests_total', { operation: 'books' })).toBe(calls)
})

test.each([
  ['down', 'sent no full response: connection (ECONNRESET)'],
  ['half', 'ends mid-line, like a truncated response: end each line with a line break'],
  ['other', 'has no key of the platform\'s: it has "incoming-transfer-completed,'],
  ['empty', "has no key of the platform's: it has none, the platform "],
] as const)(
  'a ledger that answers as "%s" is named, no delivery counts as lost, and all is compared after it',
  async (answer, text) => {
    await using day = await beginDay()
    const { sandbox } = day
    sandbox.ledger.lose(seedDelivered(day, 960).slice(-5))
    sandbox.read({ ledger: { answer } })
    const daemon = await day.start(envOf(sandbox))
    await daemon.goOn(40)
    const while_ = await booksOf(daemon)
    expect(while_.problem).toContain(text)
    expect([while_.named, while_.summary.level]).toEqual([[], 'trouble'])
    expect(while_.summary.headline).toMatch(/^The ledger .+\. Nothing is missing\.$/)
    expect(await daemon.metric('unprocessed_webhooks')).toBe(0)
    sandbox.read({ ledger: { answer: 'keys' } })
    await daemon.goOn(90)
    expect(await booksOf(daemon)).toMatchObject({ problem: undefined, unprocessed: { total: 5 } })
    expect((await booksOf(daemon)).comparedUntil).toBeGreaterThanOrEqual(day.clock.now() - hourMs - 15 * minuteMs)
  },
)

test('hours that the platform cannot list are named, and delay neither the others nor the ledger', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const lost = seedDelivered(day, 960).slice(-5)
  sandbox.ledger.lose(lost)
  const refusedBefore = new Date(clock.now() - 12 * hourMs).toISOString()
  const daemon = await day.start(envOf(sandbox), ({ url: { searchParams } }) => {
    const from = searchParams.get(listParameter.from)
    const isRefused = from !== null && from < refusedBefore && !searchParams.has(listParameter.status)
    return isRefused ? { status: 400, body: { code: 'too.old', message: 'no' } } : undefined
  })
  await daemon.goOn(40)
  expect(await booksOf(daemon)).toMatchObject({ named: lost.toSorted() })
  expect((await booksOf(daemon)).problem).toContain(
    'The platform cannot list an hour: list: bad-request (HTTP 400): too.old',
  )
  sandbox.ledger.take(lost.map((webhookId) => `${JSON.stringify({ webhookId })}\n`).join(''))
  await daemon.goOn(40)
  expect((await booksOf(daemon)).named).toEqual([])
})

test('a ledger that enters deliveries later than ledger.settle: what it lacked at first is named, and not after it has it', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const ids = seedDelivered(day, 960)
  const lost = ids.slice(-400, -397)
  sandbox.ledger.lose(lost)
  sandbox.read({ ledger: { lagMs: (clock.now() % hourMs) + 40 * minuteMs } })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(20)
  expect((await booksOf(daemon)).named.length).toBeGreaterThan(3)
  sandbox.read({ ledger: { lagMs: 5 * minuteMs } })
  await daemon.goOn(30)
  expect((await booksOf(daemon)).named).toEqual(lost.toSorted())
})

test('what the daemon itself has delivered late is settled before it is missed, and lost behind its 200 it is named', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  seedDelivered(day, 240)
  const hour = Math.floor(clock.now() / hourMs) * hourMs
  const ids = sandbox.seed({ count: 20, from: hour - 3 * hourMs, to: hour - 2 * hourMs, attempts: 1 })
  const [lost = ''] = ids
  sandbox.receiver.fail({ lost: true, webhookIds: [lost] })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(10)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 260 })
  expect((await booksOf(daemon)).named).toEqual([])
  await daemon.goOn(70)
  expect((await booksOf(daemon)).named).toEqual([lost])
})

test('each is in /records?group=unprocessed, in pages and by cause, as the page links them', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  const ids = seedDelivered(day, 960)
  const lost = ids.filter((_, index) => index % 20 === 7)
  sandbox.ledger.lose(lost)
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(20)
  const first = await daemon.records('group=unprocessed&limit=40')
  expect(first).toMatchObject({ source: 'memory', count: 40, incomplete: null })
  expect(first.records[0]).toMatchObject({ status: 'successful', decision: 'successful', nextRetry: null })
  const second = await daemon.records(`group=unprocessed&limit=40&cursor=${first.next}`)
  const events = [...first.records, ...second.records].map(({ event }) => event)
  expect(events).toEqual(events.toSorted())
  expect([...first.records, ...second.records].map(({ webhookId }) => webhookId).toSorted()).toEqual(lost.toSorted())
  const [one] = first.records
  const other = ids.find((id) => !lost.includes(id)) ?? ''
  expect(await daemon.records(`group=unprocessed&webhook=${one?.webhookId}&webhook=${other}`)).toMatchObject({
    count: 1,
    notFound: [other],
  })
  for (const wrong of ['group=failed', 'group=unprocessed&decision=due', 'group=unprocessed&source=platform'])
    expect((await daemon.records(wrong)).status, wrong).toBe(400)

  const view = { refreshes: false, commandPrefix: '' }
  const page = renderPage(daemon.ops().status(), view)
  const [, query = ''] = /Delivered and not processed[^]*?href="\?(group=[^"#]+)#records"/.exec(page) ?? []
  const [cause] = daemon.ops().status().books?.unprocessed.causes.list ?? []
  const found = await day.clock.run(
    findForPage(new URLSearchParams(query.replaceAll('&amp;', '&')), daemon.ops().records),
  )
  expect(found.records).toHaveLength(cause?.records ?? 0)
  expect(found.records?.every(({ eventType }) => eventType === cause?.eventType)).toBe(true)
})

test.each(['nothing', 'other subscriptions', 'other hours'])(
  'the first hour that is compared, all of it lost, beside %s: it is named, also after the ledger was asked again',
  async (others) => {
    await using day = await beginDay()
    const { clock, sandbox } = day
    const [eu = ''] = subscriptionIds(2)
    const ofHour = (from: number) => ({ count: 50, failed: 0, lastAttemptAfterMs: 500, from, to: from + hourMs })
    const isOfOne = others === 'other subscriptions'
    const ids = sandbox.seed(ofHour(clock.now() - 20 * hourMs))
    sandbox.seed(ofHour(clock.now() - 5 * hourMs))
    const lost = ids.filter((id) => !isOfOne || sandbox.record(id)?.subscriptionId === eu)
    sandbox.ledger.lose(lost)
    await using daemon = startDaemon({
      ...{ clock, sandbox, env: envOf(sandbox, isOfOne ? { RECONCILER_SELECT_SUBSCRIPTION_IDS: eu } : {}) },
      between: (transport) => (request) => {
        const url = new URL(request.url)
        if (others === 'other hours' && url.searchParams.has('until')) url.searchParams.set('until', '2100-01-01')
        return transport({ ...request, url })
      },
    })
    await daemon.goOn(30)
    expect(await booksOf(daemon)).toMatchObject({ named: lost.toSorted(), problem: undefined })
  },
)

test('a ledger that has another key than before, and few deliveries: none counts as lost', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const hour = Math.floor(clock.now() / hourMs) * hourMs
  const delivered = { failed: 0, lastAttemptAfterMs: 500 }
  sandbox.seed({ ...delivered, count: 100, from: hour - 20 * hourMs, to: hour })
  sandbox.seed({ ...delivered, count: 3, from: hour + minuteMs, to: hour + 9 * minuteMs })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(20)
  expect((await booksOf(daemon)).problem).toBeUndefined()
  sandbox.read({ ledger: { answer: 'other' } })
  await clock.advance(hour + 80 * minuteMs - clock.now())
  const { named, problem } = await booksOf(daemon)
  expect([named, problem]).toEqual([[], expect.stringContaining("has no key of the platform's: it has ")])
})

test('one that answers as another before late deliveries have settled: none of these counts as lost', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const from = (Math.floor(clock.now() / hourMs) - 3) * hourMs
  const lateMs = clock.now() - from - 2 * minuteMs
  sandbox.seed({ count: 100, failed: 0, from, to: from + hourMs, lastAttemptAfterMs: 500 })
  sandbox.seed({ count: 3, failed: 0, from, to: from + minuteMs, lastAttemptAfterMs: lateMs })
  sandbox.read({ ledger: { lagMs: 5 * minuteMs } })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(4, 15_000)
  sandbox.read({ ledger: { answer: 'other' } })
  await daemon.goOn(20, 2 * minuteMs)
  const { named, problem } = await booksOf(daemon)
  expect([named, problem]).toEqual([[], expect.stringContaining("has no key of the platform's: it has ")])
})

test('what select.* and window.notBefore exclude is not compared: its receiver may have another ledger, or none', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const [eu = ''] = subscriptionIds(2)
  const ids = seedDelivered(day, 960)
  const notBefore = new Date(clock.now() - 12.5 * hourMs).toISOString()
  const isMeant = (id: string): boolean => {
    const record = sandbox.record(id)
    return record?.subscriptionId === eu && record.eventDateTime >= notBefore.slice(0, -1)
  }
  const [lost = ''] = ids.filter(isMeant)
  sandbox.ledger.lose([...ids.filter((id) => !isMeant(id)), lost])
  const daemon = await day.start(
    envOf(sandbox, { RECONCILER_SELECT_SUBSCRIPTION_IDS: eu, RECONCILER_WINDOW_NOT_BEFORE: notBefore }),
  )
  await daemon.goOn(20)
  const { named, problem, summary, unprocessed } = await booksOf(daemon)
  expect([named, problem, unprocessed.subscriptions]).toEqual([[lost], undefined, 1])
  expect(summary.headline).not.toContain('in subscription')
})

test('more lost in an hour than are kept by name count until the ledger has them, too', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const from = (Math.floor(clock.now() / hourMs) - 3) * hourMs
  const lost = sandbox.seed({ count: 1000, failed: 0, from, to: from + hourMs, lastAttemptAfterMs: 500 }).slice(400)
  sandbox.ledger.lose(lost)
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(10)
  const { named, unprocessed } = await booksOf(daemon)
  expect([named.length, unprocessed.total]).toEqual([500, 600])
  sandbox.ledger.take(named.map((webhookId) => `${JSON.stringify({ webhookId })}\n`).join(''))
  for (let minute = 0; minute < 20; minute += 1) {
    await daemon.goOn(1)
    expect((await booksOf(daemon)).unprocessed.total).toBeGreaterThanOrEqual(100)
  }
  expect((await booksOf(daemon)).named).toEqual(lost.filter((id) => !named.includes(id)).toSorted())
})

test('of late deliveries beyond those kept by name, none is lost before it has settled', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const from = (Math.floor(clock.now() / hourMs) - 3) * hourMs
  const ids = sandbox.seed({ count: 100, failed: 0, from, to: from + hourMs, lastAttemptAfterMs: 500 })
  const lateMs = clock.now() - from - 2 * minuteMs
  sandbox.seed({ count: 700, failed: 0, from, to: from + minuteMs, lastAttemptAfterMs: lateMs })
  const lost = ids.slice(0, 1)
  sandbox.ledger.lose(lost)
  sandbox.read({ ledger: { lagMs: 5 * minuteMs } })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(2)
  for (let minute = 0; minute < 20; minute += 1) {
    expect((await booksOf(daemon)).unprocessed.total).toBe(1)
    await daemon.goOn(1)
  }
  expect((await booksOf(daemon)).named).toEqual(lost)
})

test('an hour with an unreadable row is named, with what to do, while later hours are compared', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  seedDelivered(day, 96)
  sandbox.addWebhook({ eventInstant: clock.now() - 9 * hourMs, status: 'successful', wire: { id: 'none' } })
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(20)
  // Its second listing, an hour later, might have been whole.
  expect((await booksOf(daemon)).problem).toBeUndefined()
  await daemon.goOn(80)
  const { comparedUntil, summary } = await booksOf(daemon)
  const since = new Date(comparedUntil).toISOString()
  expect(summary).toMatchObject({
    headline: 'The platform does not list all of an hour. Nothing is missing.',
    detail: `Not all events since ${since.slice(11, 19)} UTC are compared with the ledger: losses among them are unknown.`,
    advice: expect.stringContaining("ask the platform's operator") as string,
  })
  expect((await daemon.records('group=unprocessed')).incomplete).toBe(
    `The platform does not list all of an hour. Not all events since ${since} are compared yet.`,
  )
})

test('deliveries without a key are counted on the page, and in /records: what was lost of them is unknown', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  seedDelivered(day, 96)
  const requestPayload = { webhook: { type: 'card-created', module: 'cards' }, data: { card: { id: 7 } } }
  const times = [5, 5, 9].map((age) => ({ eventInstant: clock.now() - age * hourMs }))
  const delivered = { status: 'successful', responseStatusCode: 200, requestPayload } as const
  sandbox.ledger.lose(times.map((at) => sandbox.addWebhook({ ...delivered, ...at, lastAttempt: at.eventInstant })))
  const daemon = await day.start(envOf(sandbox))
  await daemon.goOn(20)
  const { summary, unprocessed } = await booksOf(daemon)
  expect([summary.level, unprocessed.total]).toEqual(['well', 0])
  expect(summary.notices.map(({ text }) => text)).toContain(
    '3 deliveries have no key and cannot be compared with the ledger.',
  )
  const { incomplete } = await daemon.records('group=unprocessed')
  expect(incomplete).toBe('3 have no key (ledger.key) and cannot be compared.')
})

test('of the rate the books take a tenth at most, though nothing else wants it', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  seedDelivered(day, 20_000)
  const daemon = await day.start(envOf(sandbox, { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '2' }))
  const calls = (): Promise<number> => daemon.metric('platform_requests_total', { operation: 'books' })
  const before = await calls()
  expect((await daemon.records('group=unprocessed')).incomplete).toMatch(
    /^Not all events since \S+ are compared yet\.$/,
  )
  await daemon.goOn(10)
  expect((await calls()) - before).toBeGreaterThan(100)
  expect((await calls()) - before).toBeLessThanOrEqual(0.1 * 2 * 600 + 1)
})

test('only the leader compares, and the next one names the same', async () => {
  await using replicas = await startReplicas({
    aheadMs: [0, 0],
    env: { RECONCILER_LEDGER_URL: 'http://receiver.invalid/ledger' },
  })
  const { clock, sandbox } = replicas
  const hour = Math.floor(clock.now() / hourMs) * hourMs
  const ids = sandbox.seed({ count: 96, from: hour - 24 * hourMs, to: hour, failed: 0, lastAttemptAfterMs: 500 })
  const lost = ids.slice(10, 15)
  sandbox.ledger.lose(lost)
  const countOf = (index: number): number | undefined => replicas.all[index]?.ops().status().books?.unprocessed.total
  await replicas.until(() => replicas.leader() !== undefined)
  const first = replicas.leader()
  const [one, other] = first === replicas.all[0] ? [0, 1] : [1, 0]
  await replicas.until(() => countOf(one) === 5)
  expect(countOf(other)).toBeUndefined()
  expect(replicas.calls.filter(({ by }) => by !== first)).toEqual([])
  void first?.stop()
  await replicas.until(() => countOf(other) === 5)
})
