// A list that tells untruths: what can be recovered is, the rest is reported, and calls stay bounded.
import { describe, expect, test } from 'vitest'
import { listParameter } from '../../src/platform/wire.ts'
import type { Fault } from '../../sandbox/api/faults.ts'
import { expectArrivedOnce, expectRecovered, startScene, type ListBody } from '../support/hostile-scene.ts'

describe('a part of the list', () => {
  /** True when a call, which is no ping, asks for the second of this record. */
  function asksFor(query: URLSearchParams, eventDateTime: string): boolean {
    const second = eventDateTime.slice(0, 19)
    const [from, to] = [query.get(listParameter.from), query.get(listParameter.to)]
    const isPing = query.get(listParameter.pageSize) === '1'
    return !isPing && (from === null || from <= second) && (to === null || to >= second)
  }

  test.each<[string, Fault]>([
    ['500', { kind: 'status', status: 500 }],
    ['too large', { kind: 'huge-body', mebibytes: 9 }],
  ])('that can never be listed (%s): the rest is recovered, and the skipped second is told', async (_, fault) => {
    await using scene = await startScene({ env: { RECONCILER_WINDOW_LOOKBACK: '11h' } })
    const { daemon, ids, sandbox } = scene
    const poisoned = ids[5] ?? ''
    const { eventDateTime } = sandbox.record(poisoned) ?? { eventDateTime: '' }
    scene.fail('list', fault, { when: ({ query }) => asksFor(query, eventDateTime) })

    const { sweep, retries } = await daemon.round()

    expect(sweep).toMatchObject({ result: 'incomplete' })
    expect(sweep.skippedSlices).toBeGreaterThan(0)
    expect(retries).toEqual({ accepted: ids.length - 1 })
    expect(sandbox.acceptedRetries(poisoned)).toBe(0)
    const skipped = daemon.facts.flatMap((fact) => (fact.type === 'slice-skipped' ? [fact.span] : []))
    expect(skipped.every(({ from, to }) => to - from === 1)).toBe(true)
    // Halving half a day of seconds takes sixteen steps, each with a ping.
    expect(scene.calls().list).toBeLessThan(150)
    await expectRecovered(scene)
  })

  test('the second page of every slice always fails: the first ones are enough in the end', async () => {
    await using scene = await startScene({ records: 150 })
    const isLater = (query: URLSearchParams): boolean => query.get(listParameter.pageNumber) !== '0'
    scene.fail('list', { kind: 'status', status: 500 }, { when: ({ query }) => isLater(query) })

    await expectArrivedOnce(scene, 6)
    expect(scene.calls().list).toBeLessThan(200)
  })
})

describe('metadata', () => {
  type Page = Record<string, unknown>
  const mapped = (fields: Page, to: (value: unknown) => unknown): Page =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, to(value)]))

  test.each<[string, (page: Page) => unknown, number?]>([
    ['none', () => undefined],
    ['a text', () => 'page 1 of 1'],
    ['a page of null', () => ({ page: null })],
    ['totalPages of 1', (page) => ({ page: { ...page, totalPages: 1 } })],
    ['another number', (page) => ({ page: { ...page, number: 7 } })],
    ['numbers as texts', (page) => ({ page: mapped(page, String) })],
    ['negative numbers', (page) => ({ page: mapped(page, () => -1) })],
    ['fractions', (page) => ({ page: mapped(page, (value) => Number(value) + 0.5) })],
    ['a size of 0', (page) => ({ page: { ...page, size: 0 } })],
    ['a total of 0', (page) => ({ page: { ...page, totalElements: 0 } })],
    ['a total of a million', (page) => ({ page: { ...page, totalElements: 1e6 } }), 2500],
    ['a total beyond all bounds', (page) => ({ page: { ...page, totalElements: 1e308 } }), 2500],
  ])('%s: everything is found, in bounded calls', async (_, change, maxCalls = 30) => {
    await using scene = await startScene({ records: 130 })
    scene.changePages((body) => ({ ...body, metadata: change(body.metadata.page) }))

    const { sweep, retries } = await scene.daemon.round()

    expect({ result: sweep.result, retries }).toEqual({
      result: maxCalls === 30 ? 'complete' : (expect.not.stringMatching('failed') as string),
      retries: { accepted: 130 },
    })
    expect(scene.calls().list).toBeLessThan(maxCalls)
    await expectArrivedOnce(scene, 0)
  })

  test('an empty first page with a total: the sweep does not call itself complete', async () => {
    await using scene = await startScene()
    scene.changePages((body) => ({ ...body, data: { webhooks: [] } }))

    expect(await scene.daemon.round()).toMatchObject({ sweep: { result: 'incomplete', listed: 0 }, retries: {} })

    // The time, each of two slices twice, what lies beyond the window, and what is stuck.
    expect(scene.calls().list).toBeLessThanOrEqual(7)
    await expectRecovered(scene)
  })

  test('no records at all: an empty first page is no trouble', async () => {
    await using scene = await startScene({ records: 0 })
    for (let turn = 0; turn < 3; turn += 1) {
      expect(await scene.daemon.round()).toMatchObject({ sweep: { result: 'complete', listed: 0 }, retries: {} })
    }
    // The time, and each time two slices, what lies beyond the window, and what is stuck.
    expect(scene.calls().list).toBeLessThanOrEqual(13)
  })
})

describe('rows', () => {
  test.each<[string, Record<string, unknown>]>([
    ['an id that climbs', { id: '../../admin' }],
    ['a UUID with a tail', { id: '0b8c3c6e-5a65-4b0c-9a53-6f3b3f2a9d10/../../admin' }],
    ['a very long id', { id: 'a'.repeat(100_000) }],
    ['no event time', { eventDateTime: undefined }],
    ['an event time that is no day', { eventDateTime: '2026-02-30T00:00:00' }],
    ['a status of null', { status: null }],
  ])('%s: passed over and counted, the rest of its page goes on', async (_, wire) => {
    await using scene = await startScene()
    const { clock, daemon, ids, sandbox } = scene
    const id = sandbox.addWebhook({ eventInstant: clock.now() - 20_000_000, wire })

    const { sweep, retries } = await daemon.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: ids.length })
    const rows = daemon.facts.flatMap((fact) => (fact.type === 'unreadable' ? [...fact.rows] : []))
    expect(rows.map(({ field }) => field)).toEqual([Object.keys(wire)[0]])
    expect(rows[0]?.id ?? '').toMatch(/^(?:[0-9a-f-]{36})?$/)
    expect(sandbox.acceptedRetries(id)).toBe(0)
    await expectArrivedOnce(scene, 0)
  })

  test.each<[string, Record<string, unknown>]>([
    ['an eventId that is no UUID', { eventId: '../../admin' }],
    ['a subscription of an object', { subscriptionId: {} }],
    ['attempts as text', { numberOfAttempts: '1000000' }],
    ['a last attempt in the year 9999', { lastAttemptDateTime: '9999-12-31T23:59:59' }],
    ['a payload of text', { requestPayload: 'text' }],
    ['fields with the names of a prototype', { constructor: 1, ['__proto__']: { id: 'x' }, toString: null }],
  ])('%s: it is retried all the same', async (_, wire) => {
    await using scene = await startScene({ records: 2 })
    const id = scene.sandbox.addWebhook({ eventInstant: scene.clock.now() - 20_000_000, wire })

    await expectArrivedOnce({ ...scene, ids: [...scene.ids, id] }, 6)
    expect(scene.sandbox.acceptedRetries(id)).toBe(1)
  })

  const between =
    (row: unknown) =>
    ({ data: { webhooks }, metadata }: ListBody) => ({ metadata, data: { webhooks: [row, ...webhooks, row] } })

  test.each([['a text'], [null], [{}]])('%j in the place of a record: passed over', async (row) => {
    await using scene = await startScene()
    scene.changePages(between(row))

    expect((await scene.daemon.round()).retries).toEqual({ accepted: scene.ids.length })
    expect(scene.daemon.facts.some(({ type }) => type === 'unreadable')).toBe(true)
    expect(scene.calls().list).toBeLessThan(60)
    await expectRecovered(scene)
  })

  test('the same record again and again on a page: one retry', async () => {
    await using scene = await startScene()
    scene.changePages((body) => ({ ...body, data: { webhooks: body.data.webhooks.flatMap((row) => [row, row]) } }))
    expect((await scene.daemon.round()).retries).toEqual({ accepted: scene.ids.length })
    expect(scene.sandbox.retriedMoreThanOnce()).toEqual([])
  })
})

describe('filters that are ignored', () => {
  test.each([
    [['status'] as const, { time: 0, status: 5 }],
    [['status', 'from', 'to', 'eventId'] as const, { time: 3, status: 5 }],
  ])('%j: counted, and what was not asked for is not touched', async (ignores, unexpected) => {
    await using scene = await startScene({ readings: { ignores: [...ignores] } })
    const { clock, daemon, ids, sandbox } = scene
    const strangers = [
      ...['successful', 'successful', 'processing', 'cancelled', 'Failed'].map((status) => ({ status, days: 0.2 })),
      ...[8, 9, 400].map((days) => ({ status: 'failed', days })),
    ].map(({ status, days }) => sandbox.addWebhook({ status, eventInstant: clock.now() - days * 86_400_000 }))

    expect(await daemon.round()).toMatchObject({ sweep: { result: 'complete' }, retries: { accepted: ids.length } })

    expect(strangers.map((id) => sandbox.acceptedRetries(id))).toEqual(strangers.map(() => 0))
    expect(sandbox.stats.retries.invalidStatus).toBe(0)
    const told = daemon.facts.filter((fact) => fact.type === 'unexpected')
    expect(Math.max(...told.map(({ wrongTime }) => wrongTime))).toBeGreaterThanOrEqual(unexpected.time)
    expect(Math.max(...told.map(({ wrongStatus }) => wrongStatus))).toBe(unexpected.status)
  })
})
