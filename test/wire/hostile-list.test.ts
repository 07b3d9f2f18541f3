// A list that misbehaves in every way: what can be recovered is, the rest is reported, calls stay bounded, and nothing is lost once it is well.
import { describe, expect, test } from 'vitest'
import type { Reason } from '../../src/platform/http/http.ts'
import { listParameter } from '../../src/platform/wire.ts'
import type { Fault, FaultRule } from '../../sandbox/api/faults.ts'
import type { Readings } from '../../sandbox/options.ts'
import type { Exchange } from '../support/gateway.ts'
import { startScene, startTrap, wireFor, type Scene } from '../support/hostile-scene.ts'

const listFault = (fault: Fault, more: Partial<FaultRule> = {}): FaultRule => ({ operation: 'list', fault, ...more })
const text = (body: string, contentType = 'application/json'): Fault => ({
  kind: 'status',
  status: 200,
  body: { text: body, contentType },
})

/** With any answer of the list to all calls, the first sweep makes no more of them than this. */
const mostCalls = 4

async function expectRecovered(scene: Scene): Promise<void> {
  scene.sandbox.faults.set()
  scene.change(undefined)
  expect(await scene.recover()).toEqual([])
}

const permanent: [string, Fault, Reason][] = [
  ['400', { kind: 'status', status: 400 }, 'bad-request'],
  ['401', { kind: 'status', status: 401 }, 'unauthorized'],
  ['403', { kind: 'status', status: 403 }, 'forbidden'],
  ['404 of a gateway', { kind: 'status', status: 404, body: 'html' }, 'not-found'],
  ['409', { kind: 'status', status: 409 }, 'conflict'],
  ['418', { kind: 'status', status: 418 }, 'other'],
  ['422', { kind: 'status', status: 422 }, 'bad-request'],
  ['500', { kind: 'status', status: 500 }, 'server-error'],
  ['502 in HTML', { kind: 'status', status: 502, body: 'html' }, 'server-error'],
  ['503', { kind: 'status', status: 503 }, 'server-error'],
  ['504 without a body', { kind: 'status', status: 504, body: 'empty' }, 'server-error'],
  ['HTML under 200', { kind: 'status', status: 200, body: 'html' }, 'invalid-body'],
  ['nothing under 200', { kind: 'status', status: 200, body: 'empty' }, 'invalid-body'],
  ['no content', { kind: 'status', status: 204, body: 'empty' }, 'invalid-body'],
  ['an error under 200', { kind: 'status', status: 200, body: 'error' }, 'other'],
  ['null', text('null'), 'invalid-body'],
  ['a number', text('12'), 'invalid-body'],
  ['no data', text('{"metadata":{}}'), 'invalid-body'],
  ['data of null', text('{"data":null}'), 'invalid-body'],
  ['webhooks that are no list', text('{"data":{"webhooks":{"0":{}}}}'), 'invalid-body'],
  ['half of the JSON', { kind: 'broken-json' }, 'invalid-body'],
  ['deeply nested JSON', text('['.repeat(200_000)), 'invalid-body'],
  ['a body over 8 MiB', { kind: 'huge-body', mebibytes: 9 }, 'too-large'],
  ['a body that is cut', { kind: 'cut' }, 'connection'],
  ['a body that drips', { kind: 'drip', bytes: 1, everyMs: 1000 }, 'timeout'],
  ['no answer', { kind: 'hang' }, 'timeout'],
  ['reset', { kind: 'reset', when: 'before' }, 'connection'],
  ['reset with the answer', { kind: 'reset', when: 'after' }, 'connection'],
]

describe('every list call', () => {
  test.concurrent.each(permanent)('%s: it fails, nothing is retried, calls are few', async (_, fault, reason) => {
    await using scene = await startScene(wireFor(fault))
    scene.sandbox.faults.set(listFault(fault))

    const { sweep, retries } = await scene.round()

    expect(sweep).toMatchObject({ result: 'failed', failure: { stage: 'list', reason } })
    expect(retries).toEqual({})
    expect(Object.keys(scene.reasons('list'))).toEqual([reason])
    expect(scene.reasons('list')[reason]).toBeLessThanOrEqual(mostCalls)
    expect(scene.calls().retry).toBe(0)
    expect(scene.calls().token).toBeLessThanOrEqual(3)
    await expectRecovered(scene)
  })

  test.concurrent.each([301, 302, 303, 304, 307, 308])('%i: never followed', async (status) => {
    await using trap = await startTrap()
    await using scene = await startScene({ http: true })
    scene.sandbox.faults.set(listFault({ kind: 'redirect', status, location: `${trap.url}/webhooks` }))

    const { sweep } = await scene.round()

    expect(sweep).toMatchObject({ result: 'failed', failure: { reason: 'redirect' } })
    expect(scene.reasons('list').redirect).toBeLessThanOrEqual(mostCalls)
    expect(trap.visits).toEqual([])
    await expectRecovered(scene)
    expect(trap.visits).toEqual([])
  })

  test('for sixty sweeps at once: the repeats inside of calls stay rare', async () => {
    await using scene = await startScene()
    scene.sandbox.faults.set(listFault({ kind: 'status', status: 500 }))
    for (let turn = 0; turn < 60; turn += 1) await scene.round()
    // A slice and a look whether the platform answers at all; of these a tenth again, and a few to begin with.
    expect(scene.calls().list).toBeLessThanOrEqual(60 * 2 * 1.1 + 5)
    await expectRecovered(scene)
  })
})

describe('some list calls', () => {
  test.concurrent.each<[string, Fault, number]>([
    ['500 twice', { kind: 'status', status: 500 }, 2],
    ['502 in HTML, once', { kind: 'status', status: 502, body: 'html' }, 1],
    ['503 twice', { kind: 'throttle', status: 503, retryAfter: { seconds: 3 } }, 2],
    ['429 twice, in seconds', { kind: 'throttle', retryAfter: { seconds: 3 } }, 2],
    ['429 twice, with a date', { kind: 'throttle', retryAfter: { seconds: 3, form: 'date' } }, 2],
    ['429 twice, without a time', { kind: 'throttle', retryAfter: 'absent' }, 2],
    ['reset once', { kind: 'reset', when: 'before' }, 1],
    ['cut once', { kind: 'cut' }, 1],
    ['broken once', { kind: 'broken-json' }, 1],
    ['no answer once', { kind: 'hang' }, 1],
    ['401 once', { kind: 'status', status: 401 }, 1],
  ])('%s, in the middle of a sweep: it is whole all the same', async (_, fault, count) => {
    await using scene = await startScene(wireFor(fault))
    scene.sandbox.faults.set(listFault(fault, { skip: 2, count }))

    const { sweep, retries } = await scene.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: scene.ids.length })
    expect(scene.calls().token).toBe(1)
    expect(await scene.recover(0)).toEqual([])
  })

  test.each([
    ['seconds', 1000],
    ['date', 0],
  ] as const)('Retry-After in %s is waited for', async (form, least) => {
    await using scene = await startScene()
    scene.sandbox.faults.set(listFault({ kind: 'throttle', retryAfter: { seconds: 12, form } }, { skip: 1, count: 1 }))
    await scene.round()
    const lists = scene.sandbox.requestLog().filter(({ operation }) => operation === 'list')
    const refused = lists.findIndex(({ status }) => status === 429)
    const waited = (lists[refused + 1]?.at ?? 0) - (lists[refused]?.at ?? 0)
    // The date gives whole seconds.
    expect(waited).toBeGreaterThanOrEqual(10_500 + least)
    expect(waited).toBeLessThan(60_000)
  })

  test('a Retry-After of a year is not: five minutes are enough', async () => {
    await using scene = await startScene()
    scene.sandbox.faults.set(
      listFault({ kind: 'throttle', retryAfter: { seconds: 31_536_000 } }, { skip: 1, count: 1 }),
    )
    const startedAt = scene.clock.monotonic()
    expect((await scene.round()).sweep.result).toBe('complete')
    const tookMs = scene.clock.monotonic() - startedAt
    expect(tookMs).toBeGreaterThanOrEqual(300_000)
    expect(tookMs).toBeLessThan(360_000)
  })

  test('a token that ends in the middle: one new one for all', async () => {
    await using scene = await startScene()
    await scene.run(scene.daemon.reconciler.client.list({ page: 0, size: 1 }, new AbortController().signal))
    await scene.advance(20_000)
    let seen = 0
    const ends = (): boolean => {
      seen += 1
      if (seen === 3) scene.sandbox.revokeTokens()
      return false
    }
    scene.sandbox.faults.set(listFault({ kind: 'no-date' }, { when: ends }))

    const { sweep, retries } = await scene.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: scene.ids.length })
    expect(scene.sandbox.stats.tokens.issued).toBe(2)
  })
})

/** True when what a call asks for takes in the second of this record. */
function asksFor(query: URLSearchParams, eventDateTime: string): boolean {
  const second = eventDateTime.slice(0, 19)
  const [from, to] = [query.get(listParameter.from), query.get(listParameter.to)]
  return (from === null || from <= second) && (to === null || to >= second) && query.get(listParameter.pageSize) !== '1'
}

describe('a part of the list', () => {
  test.concurrent.each<[string, Fault]>([
    ['500', { kind: 'status', status: 500 }],
    ['HTML', { kind: 'status', status: 200, body: 'html' }],
    ['too large', { kind: 'huge-body', mebibytes: 9 }],
    ['no answer', { kind: 'hang' }],
  ])('that can never be listed (%s): the rest is recovered, and the log says what is left out', async (_, fault) => {
    await using scene = await startScene({
      ...wireFor(fault),
      env: { RECONCILER_WINDOW_LOOKBACK: '11h' },
    })
    const poisoned = scene.ids[5] ?? ''
    const { eventDateTime } = scene.sandbox.record(poisoned) ?? { eventDateTime: '' }
    scene.sandbox.faults.set(listFault(fault, { when: ({ query }) => asksFor(query, eventDateTime) }))

    const { sweep, retries } = await scene.round()

    expect(sweep).toMatchObject({ result: 'incomplete' })
    expect(sweep.skippedSlices).toBeGreaterThan(0)
    expect(retries).toEqual({ accepted: scene.ids.length - 1 })
    expect(scene.sandbox.acceptedRetries(poisoned)).toBe(0)
    const skipped = scene.daemon.facts.flatMap((fact) => (fact.type === 'slice-skipped' ? [fact.span] : []))
    expect(skipped.every(({ from, to }) => to - from === 1)).toBe(true)
    // Halving half a day of seconds takes sixteen steps, each with a look whether the platform answers at all.
    expect(scene.calls().list).toBeLessThan(150)
    await expectRecovered(scene)
  })

  test('the second page of every slice always fails: the first ones are enough in the end', async () => {
    await using scene = await startScene({ records: 150 })
    const isLater = (query: URLSearchParams): boolean => query.get(listParameter.pageNumber) !== '0'
    scene.sandbox.faults.set(listFault({ kind: 'status', status: 500 }, { when: ({ query }) => isLater(query) }))

    expect(await scene.recover()).toEqual([])
    expect(scene.calls().list).toBeLessThan(200)
  })
})

describe('metadata', () => {
  const page = (changes: Record<string, unknown>) => (metadata: { page: Record<string, unknown> }) => ({
    page: { ...metadata.page, ...changes },
  })
  test.each<[string, (metadata: { page: Record<string, unknown> }) => unknown]>([
    ['none', () => undefined],
    ['null', () => null],
    ['empty', () => ({})],
    ['a page of null', () => ({ page: null })],
    ['a text', () => 'page 1 of 1'],
    ['totalPages of 0', page({ totalPages: 0 })],
    ['totalPages of 1', page({ totalPages: 1 })],
    ['totalPages of a million', page({ totalPages: 1_000_000 })],
    ['another number', page({ number: 7 })],
    ['numbers as texts', (metadata) => ({ page: mapped(metadata.page, String) })],
    ['negative numbers', (metadata) => ({ page: mapped(metadata.page, () => -1) })],
    ['fractions', (metadata) => ({ page: mapped(metadata.page, (value) => Number(value) + 0.5) })],
    ['no size', page({ size: undefined })],
    ['a size of 0', page({ size: 0 })],
    ['no total', page({ totalElements: undefined })],
    ['a total of 0', page({ totalElements: 0 })],
  ])('%s: everything is found', async (_, change) => {
    await using scene = await startScene({ records: 130 })
    scene.change((exchange) => changed(exchange, (body) => ({ ...body, metadata: change(body.metadata) })))

    const { sweep, retries } = await scene.round()

    expect({ result: sweep.result, retries }).toEqual({ result: 'complete', retries: { accepted: 130 } })
    expect(scene.calls().list).toBeLessThan(30)
    expect(await scene.recover(0)).toEqual([])
  })

  test.each([1e6, 1e15, 1e308])('a total of %d: everything is found, in bounded calls', async (totalElements) => {
    await using scene = await startScene({ records: 130 })
    scene.change((exchange) =>
      changed(exchange, (body) => ({ ...body, metadata: { page: { ...body.metadata.page, totalElements } } })),
    )

    const { sweep, retries } = await scene.round()

    expect(sweep.result).not.toBe('failed')
    expect(retries).toEqual({ accepted: 130 })
    expect(scene.calls().list).toBeLessThan(2500)
    expect(await scene.recover(0)).toEqual([])
  })

  test('an empty first page with a total: the sweep does not call itself complete', async () => {
    await using scene = await startScene()
    const empty = (body: Body): unknown => ({ ...body, data: { webhooks: [] } })
    scene.change((exchange) => changed(exchange, empty))

    const { sweep, retries } = await scene.round()

    expect(sweep).toMatchObject({ result: 'incomplete', listed: 0 })
    expect(retries).toEqual({})
    // The time, each of two slices twice, what lies beyond the window, and what is stuck.
    expect(scene.calls().list).toBeLessThanOrEqual(7)
    await expectRecovered(scene)
  })
})

interface Body {
  data: { webhooks: Record<string, unknown>[] }
  metadata: { page: Record<string, unknown> }
}

function mapped(fields: Record<string, unknown>, to: (value: unknown) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, to(value)]))
}

/** Changes the good answers to list calls. */
function changed(exchange: Exchange, change: (body: Body) => unknown): { body: string } | undefined {
  if (exchange.method !== 'GET' || exchange.status !== 200) return undefined
  return { body: JSON.stringify(change(JSON.parse(exchange.body) as Body)) }
}

describe('records', () => {
  const uuid = '0b8c3c6e-5a65-4b0c-9a53-6f3b3f2a9d10'
  const odd: [string, Record<string, unknown>][] = [
    ['an id that climbs', { id: '../../admin' }],
    ['an id that climbs, escaped', { id: '%2e%2e%2fadmin' }],
    ['an id of dots', { id: '..' }],
    ['a UUID with a tail', { id: `${uuid}/../../admin` }],
    ['a UUID with a query', { id: `${uuid}?x=1` }],
    ['a UUID and a line break', { id: `${uuid}\n` }],
    ['an empty id', { id: '' }],
    ['a number for an id', { id: 12 }],
    ['no id', { id: undefined }],
    ['an id of an object', { id: { toString: 'x' } }],
    ['a very long id', { id: 'a'.repeat(100_000) }],
    ['no event time', { eventDateTime: undefined }],
    ['an event time of null', { eventDateTime: null }],
    ['an event time in words', { eventDateTime: 'yesterday' }],
    ['an event time that is no day', { eventDateTime: '2026-02-30T00:00:00' }],
    ['an event time as a number', { eventDateTime: 1_760_000_000 }],
    ['a status of null', { status: null }],
    ['a status of a list', { status: ['failed'] }],
  ]

  test.each(odd)('%s: passed over and counted, the rest of its page goes on', async (_, wire) => {
    await using scene = await startScene()
    const { sandbox } = scene
    const id = sandbox.addWebhook({ eventInstant: scene.clock.now() - 20_000_000, wire })

    const { sweep, retries } = await scene.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: scene.ids.length })
    const rows = scene.daemon.facts.flatMap((fact) => (fact.type === 'unreadable' ? [...fact.rows] : []))
    expect(rows.map(({ field }) => field)).toEqual([Object.keys(wire)[0]])
    expect(rows[0]?.id ?? '').toMatch(/^(?:[0-9a-f-]{36})?$/)
    expect(sandbox.acceptedRetries(id)).toBe(0)
    expect(await scene.recover(0)).toEqual([])
  })

  test.each<[string, Record<string, unknown>]>([
    ['no eventId', { eventId: undefined }],
    ['an eventId that is no UUID', { eventId: '../../admin' }],
    ['no subscription', { subscriptionId: undefined }],
    ['a subscription of an object', { subscriptionId: {} }],
    ['no attempts', { numberOfAttempts: undefined }],
    ['attempts of null', { numberOfAttempts: null }],
    ['negative attempts', { numberOfAttempts: -3 }],
    ['attempts as text', { numberOfAttempts: '1000000' }],
    ['no last attempt', { lastAttemptDateTime: undefined }],
    ['a last attempt in words', { lastAttemptDateTime: 'just now' }],
    ['a last attempt in the year 9999', { lastAttemptDateTime: '9999-12-31T23:59:59' }],
    ['no payload', { requestPayload: undefined }],
    ['a payload of text', { requestPayload: 'text' }],
    ['a payload of null in null', { requestPayload: { webhook: null } }],
    ['a type of a list', { requestPayload: { webhook: { type: ['a'], module: {} } } }],
    ['a status code as text', { responseStatusCode: '500' }],
    ['headers of a list', { responseHeaders: [1, 2] }],
    ['fields with the names of a prototype', { constructor: 1, ['__proto__']: { id: 'x' }, toString: null }],
  ])('%s: it is retried all the same', async (_, wire) => {
    await using scene = await startScene({ records: 2 })
    const id = scene.sandbox.addWebhook({ eventInstant: scene.clock.now() - 20_000_000, wire })

    expect(await scene.recover()).toEqual([])
    expect(scene.sandbox.record(id)).toMatchObject({ status: 'successful' })
    expect(scene.sandbox.acceptedRetries(id)).toBe(1)
  })

  test.each([['a text'], [null], [12], [[]], [{}]])('%j in the place of a record: passed over', async (row) => {
    await using scene = await startScene()
    scene.change((exchange) =>
      changed(exchange, (body) => ({ ...body, data: { webhooks: [row, ...body.data.webhooks, row] } })),
    )

    const { retries } = await scene.round()

    expect(retries).toEqual({ accepted: scene.ids.length })
    expect(scene.daemon.facts.some(({ type }) => type === 'unreadable')).toBe(true)
    expect(scene.calls().list).toBeLessThan(60)
    await expectRecovered(scene)
  })

  test('the same record again and again on a page: one retry', async () => {
    await using scene = await startScene()
    scene.change((exchange) =>
      changed(exchange, (body) => ({ ...body, data: { webhooks: body.data.webhooks.flatMap((row) => [row, row]) } })),
    )
    expect((await scene.round()).retries).toEqual({ accepted: scene.ids.length })
    expect(scene.sandbox.retriedMoreThanOnce()).toEqual([])
  })
})

describe('bodies that the sandbox does not play', () => {
  test.concurrent('33 MiB that never announce their length', async () => {
    await using scene = await startScene({ http: true })
    const mebibyte = Buffer.alloc(2 ** 20, ' ')
    scene.change(() => (response) => {
      let left = 33
      const more = (): void => {
        while (left > 0 && !response.destroyed) {
          left -= 1
          if (!response.write(mebibyte)) {
            response.once('drain', more)
            return
          }
        }
        response.end()
      }
      more()
    })
    const { sweep } = await scene.round()
    expect(sweep).toMatchObject({ result: 'failed', failure: { reason: 'too-large' } })
    await expectRecovered(scene)
  })

  test.concurrent('a compressed body that was not asked for', async () => {
    await using scene = await startScene({ http: true })
    const { gzipSync } = await import('node:zlib')
    scene.change(({ body }) => ({ headers: { 'content-encoding': 'gzip' }, body: gzipSync(body) }))
    const { sweep } = await scene.round()
    expect(sweep).toMatchObject({ result: 'failed', failure: { reason: 'invalid-body' } })
    await expectRecovered(scene)
  })

  test.concurrent('a byte order mark before the JSON', async () => {
    await using scene = await startScene({ http: true })
    scene.change(({ body }) => ({ body: `\ufeff${body}` }))
    expect((await scene.round()).retries).toEqual({ accepted: scene.ids.length })
  })
})

describe('filters that are ignored', () => {
  test.each<[string, Readings['ignores'], { time: number; status: number }]>([
    ['status', ['status'], { time: 0, status: 5 }],
    ['from and to', ['from', 'to'], { time: 3, status: 0 }],
    ['all of them', ['status', 'from', 'to', 'eventId'], { time: 3, status: 5 }],
  ])('%s: counted, and what was not asked for is not touched', async (_, ignores, unexpected) => {
    await using scene = await startScene({ readings: { ignores } })
    const { clock, sandbox } = scene
    const strangers = [
      ...['successful', 'successful', 'processing', 'cancelled', 'Failed'].map((status) => ({ status, days: 0.2 })),
      ...[8, 9, 400].map((days) => ({ status: 'failed', days })),
    ].map(({ status, days }) => sandbox.addWebhook({ status, eventInstant: clock.now() - days * 86_400_000 }))

    const { sweep, retries } = await scene.round()

    expect(sweep.result).toBe('complete')
    expect(retries).toEqual({ accepted: scene.ids.length })
    expect(strangers.map((id) => sandbox.acceptedRetries(id))).toEqual(strangers.map(() => 0))
    expect(sandbox.stats.retries.invalidStatus).toBe(0)
    const facts = scene.daemon.facts.filter((fact) => fact.type === 'unexpected')
    expect(Math.max(...facts.map(({ wrongTime }) => wrongTime))).toBeGreaterThanOrEqual(unexpected.time)
    expect(Math.max(...facts.map(({ wrongStatus }) => wrongStatus))).toBe(unexpected.status)
  })
})

describe('nothing to do', () => {
  test('an empty window: a few calls, complete, nothing listed', async () => {
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
    await using scene = await startScene({ env: { RECONCILER_WINDOW_NOT_BEFORE: tomorrow } })
    const { sweep, retries } = await scene.round()
    expect(sweep).toMatchObject({ result: 'complete', listed: 0 })
    expect(retries).toEqual({})
    expect(scene.calls()).toMatchObject({ retry: 0, other: 0 })
    expect(scene.calls().list).toBeLessThanOrEqual(4)
  })

  test('no records at all: an empty first page is no trouble', async () => {
    await using scene = await startScene({ records: 0 })
    for (let turn = 0; turn < 3; turn += 1) {
      expect(await scene.round()).toMatchObject({ sweep: { result: 'complete', listed: 0 }, retries: {} })
    }
    // The time, and each time two slices, what lies beyond the window, and what is stuck.
    expect(scene.calls().list).toBeLessThanOrEqual(13)
  })
})
