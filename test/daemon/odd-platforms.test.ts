// Platforms and receivers that change in the middle of an incident: what arrives, and what is said meanwhile.
import { expect, test } from 'vitest'
import { TransportError, type Transport } from '../../src/platform/http/http.ts'
import {
  beginDay,
  emptyPage,
  hourMs,
  minuteMs,
  startDaemon,
  type DaemonOptions,
  type Reply,
} from '../support/daemon.ts'

const subscription = 'aaaaaaaa-0000-4000-8000-000000000001'
const other = 'aaaaaaaa-0000-4000-8000-000000000002'

const inEnvelope = { data: {}, metadata: { page: {} }, code: 'svc.unavailable', message: 'Down' }

test.each<[string, unknown]>([
  ['of failed records alone turn empty', undefined],
  ['turn empty', emptyPage],
  ['turn into errors that look like empty ones', inEnvelope],
])('lists that %s drop nothing', async (_, body) => {
  await using day = await beginDay()
  day.sandbox.receiver.down()
  day.seed(60, [30, 1], { subscriptions: [subscription] })
  let isChanged = false
  const daemon = await day.start({}, ({ method }) => (isChanged && method === 'GET' && body ? { body } : undefined))
  await daemon.goOn(30)
  isChanged = true
  day.sandbox.read({ statusHides: body === undefined })
  await daemon.goOn(40)
  expect(daemon.ops().status()).toMatchObject({ missing: 60, summary: { level: 'trouble' } })
  const { job } = await daemon.job('POST', '', { dryRun: true, selection: { since: '7d' } })
  await day.clock.advance(minuteMs)
  expect(await daemon.job('GET', `/${job}`)).toMatchObject({ sums: { found: 60 } })
})

test.each([1, 2])(
  'a receiver that fails each delivery at the first %i retries gets all within half a day',
  async (count) => {
    await using day = await beginDay()
    const ids = day.seed(300, [2, 1], { subscriptions: [subscription] })
    for (const id of ids) day.sandbox.receiver.fail({ webhookIds: [id], count, status: 504 })
    const daemon = await day.start({ RECONCILER_WINDOW_LOOKBACK: '1d' })
    await daemon.goOn(12 * 12, 5 * minuteMs)
    expect(day.sandbox.counts()).toMatchObject({ successful: 300, failed: 0 })
  },
)

test.each([402, 405, 410, 421, 499])(
  'a dead receiver that responds with HTTP %i gets few deliveries',
  async (status) => {
    await using day = await beginDay()
    day.seed(300, [30, 1], { subscriptions: [subscription] })
    day.sandbox.receiver.fail({ status })
    const daemon = await day.start()
    await daemon.goOn(60)
    expect(daemon.requests.filter(({ method }) => method === 'PATCH').length).toBeLessThan(100)
    expect(daemon.ops().status().summary.headline).toMatch(`returns HTTP ${status}`)
  },
)

test('a delivery queue of the platform that is stuck for three hours is not blamed on the receiver', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 3 * hourMs, meanwhile: 'failed' } })
  day.seed(100, [30, 1], { subscriptions: [subscription] })
  const daemon = await day.start()
  await daemon.goOn(131)
  expect(JSON.stringify(daemon.ops().status())).not.toMatch(/receiver keeps failing|Fix the receiver/)
})

test('a dead receiver is named where each retry is processing for longer than an outcome is awaited', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 2 * hourMs } })
  day.sandbox.receiver.down()
  day.seed(10, [30, 1], { subscriptions: [subscription] })
  const daemon = await day.start()
  await daemon.goOn(5 * 60)
  expect(daemon.ops().status().summary.headline).toBe('The receiver does not respond to 10 deliveries.')
})

test('deliveries are not said to be stuck in processing for as long as a full sweep rests', async () => {
  await using day = await beginDay({
    delivery: { mode: 'async', delayMs: 28 * minuteMs },
    faults: [{ operation: 'list', fault: { kind: 'latency', ms: 6000 } }],
  })
  day.seed(10, [30, 1], { subscriptions: [subscription] })
  const daemon = await day.start()
  await daemon.goOn(28)
  expect(daemon.ops().status().stuckProcessing).toBe(10)
  await daemon.goOn(4)
  expect(daemon.ops().status().stuckProcessing).toBe(0)
})

test.each<[string, (id: string) => Reply]>([
  ['refused', () => ({ status: 422, body: { code: 'NOT_NOW' } })],
  ['accepted, and never made', (id) => ({ body: { data: { webhook: { id } } } })],
])('retries of one subscription that are %s are said beside those of one that works', async (_, answer) => {
  await using day = await beginDay()
  const ids = new Set(day.seed(60, [30, 1], { subscriptions: [subscription] }))
  const daemon = await day.start({}, ({ method, url }) => {
    const id = url.pathname.split('/').at(-1) ?? ''
    return method === 'PATCH' && ids.has(id) ? answer(id) : undefined
  })
  for (let turn = 0; turn < 40; turn += 1) {
    day.seed(5, [0.2, 0.1], { subscriptions: [other] })
    await daemon.goOn(6)
  }
  const { causes, missing, summary } = daemon.ops().status()
  expect(causes.list.reduce((sum, { unattempted }) => sum + unattempted, 0)).toBe(60)
  expect({ missing, summary }).toMatchObject({
    missing: 60,
    summary: {
      level: 'trouble',
      headline: expect.stringMatching(/^The platform shows no attempt after the last /) as string,
    },
  })
})

test('a dead receiver whose deliveries are shown as successful for a minute is named all the same', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: minuteMs, meanwhile: 'successful' } })
  day.sandbox.receiver.down()
  day.seed(200, [30, 1], { subscriptions: [subscription] })
  const daemon = await day.start()
  for (let minute = 0; minute < 150; minute += 1) {
    await daemon.goOn()
    expect(daemon.ops().status().summary.headline).not.toContain('succeed again')
  }
  const { circuits, missing, recovered, summary } = daemon.ops().status()
  expect({ missing, notClosed: circuits.notClosed }).toEqual({ missing: 200, notClosed: 1 })
  expect(recovered).toEqual({ lastDay: 0, lastAt: null })
  expect(summary).toMatchObject({ level: 'trouble', headline: expect.stringMatching(/does not respond/) as string })
})

test('a list of all times that is never answered does not stop recovery', async () => {
  await using day = await beginDay()
  day.seed(300, [30, 1])
  day.sandbox.faults.set({
    ...{ operation: 'list', fault: { kind: 'hang' } },
    when: ({ query }) => !query.has('data.webhook.eventDateTimeFrom'),
  })
  const daemon = await day.start()
  await daemon.goOn(120)
  expect(day.sandbox.counts()).toMatchObject({ successful: 300, failed: 0 })
})

test('a limit of three calls a second that is said by HTTP 403 is learned', async () => {
  await using day = await beginDay()
  day.seed(600, [30, 1])
  let [level, at] = [5, day.clock.monotonic()]
  const body = { code: 'svc.rate_limit_exceeded', message: 'Too many requests', messageParameters: [] }
  const daemon = await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' }, ({ method }) => {
    const now = day.clock.monotonic()
    level = Math.min(5, level + ((now - at) / 1000) * 3)
    at = now
    if (method === 'POST') return undefined
    if (level < 1) return { status: 403, body }
    level -= 1
    return undefined
  })
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ successful: 600, failed: 0 })
})

const page = { headers: { 'content-type': 'text/html' }, body: '<html>' }

test.each<[string, Reply | undefined]>([
  ['HTTP 500 with a code', { status: 500, body: { code: 'svc.internal', message: 'Failed' } }],
  ['HTTP 529', { status: 529 }],
  ['HTTP 403 of a firewall', { status: 403, ...page }],
  ['a page of 200', page],
  ['connections that are closed', undefined],
])('a limit of two calls a second that is said by %s is learned', async (_, reply) => {
  await using day = await beginDay()
  day.seed(600, [30, 1])
  let [level, at] = [4, day.clock.monotonic()]
  const between: DaemonOptions['between'] = (transport) => async (request) => {
    const now = day.clock.monotonic()
    level = Math.min(4, level + ((now - at) / 1000) * 2)
    at = now
    if (request.method === 'POST') return transport(request)
    if (level >= 1) {
      level -= 1
      return transport(request)
    }
    await day.clock.sleep(1, request.signal)
    if (reply === undefined) throw new TransportError('connection', 'ECONNRESET')
    const body = typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body ?? {})
    return { status: 200, headers: {}, ...reply, body, sentAt: now, receivedAt: day.clock.monotonic() }
  }
  const daemon = await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' }, undefined, { between })
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ successful: 600, failed: 0 })
})

test.each([
  ['no server sends', (): boolean => true],
  ['the API alone sends', (method: string): boolean => method === 'POST'],
])('where %s a Date, a host that was suspended for six hours has its new failures retried', async (_, isOf) => {
  const between: DaemonOptions['between'] = (transport) => async (request) => {
    const response = await transport(request)
    const headers = Object.entries(response.headers).filter(([name]) => name !== 'date' || !isOf(request.method))
    return { ...response, headers: Object.fromEntries(headers) }
  }
  await using day = await beginDay()
  const daemon = await day.start({}, undefined, { between })
  await daemon.goOn(10)
  day.clock.jump(6 * hourMs)
  day.sandbox.revokeTokens()
  day.seed(100, [3, 1])
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ successful: 100, failed: 0 })
})

test('after a suspend of ten minutes, no clock is called wrong', async () => {
  await using day = await beginDay()
  const daemon = await day.start()
  await daemon.goOn(5)
  day.clock.jump(10 * minuteMs)
  const said: unknown[] = []
  for (let minute = 0; minute < 40; minute += 1) {
    await daemon.goOn(1)
    const { clock, summary } = daemon.ops().status()
    said.push(
      ...summary.notices.map(({ text }) => text),
      ...Object.values(clock.skewSeconds).filter((seconds) => Math.abs(seconds) > 1),
    )
  }
  expect(said).toEqual([])
})

test('a token that the API accepts two minutes after its issue is used', async () => {
  await using day = await beginDay({ tokenKnownAfterSeconds: 120 })
  day.seed(100, [30, 1])
  const daemon = await day.start()
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ successful: 100, failed: 0 })
})

test.each([404, 409, 422, 500])(
  'HTTP %i to each retry, once a receiver is up again, is not blamed on it',
  async (status) => {
    await using day = await beginDay()
    day.sandbox.receiver.down()
    day.seed(40, [30, 1])
    let isRejecting = false
    const body = { code: 'svc.rejected', message: 'm', messageParameters: [] }
    const daemon = await day.start({}, ({ method }) =>
      isRejecting && method === 'PATCH' ? { status, body } : undefined,
    )
    await daemon.goOn(5)
    day.sandbox.receiver.up()
    isRejecting = true
    await daemon.goOn(120)
    expect(daemon.ops().status().summary.headline).toMatch(/^None of the last/)
  },
)

/** Rejects the retries of these records. */
const rejecting =
  (ids: readonly string[], reply: Reply): NonNullable<DaemonOptions['instead']> =>
  ({ method, url }) =>
    method === 'PATCH' && ids.includes(url.pathname.split('/').at(-1) ?? '') ? reply : undefined

const rejections: readonly [string, Reply][] = [
  ['HTTP 403 with a code', { status: 403, body: { code: 'svc.forbidden', message: 'no', messageParameters: [] } }],
  ['HTTP 404 without one', { status: 404 }],
]

test.each(rejections)('%s to nine of ten retries of a subscription leaves the tenth in time', async (_, reply) => {
  await using day = await beginDay()
  const ids = day.seed(300, [100, 24], { subscriptions: [subscription] })
  const rejected = ids.filter((_id, index) => (index * 7919) % 10 !== 0)
  const daemon = await day.start({}, rejecting(rejected, reply))
  await daemon.goOn(60)
  expect(day.sandbox.counts().successful).toBe(30)
})

test.each(rejections)('%s to all retries of many subscriptions holds up no other one', async (_, reply) => {
  await using day = await beginDay()
  const many = Array.from({ length: 100 }, (_unused, n) => `cccccccc-0000-4000-8000-${String(n).padStart(12, '0')}`)
  const daemon = await day.start({}, rejecting(day.seed(100, [30, 1], { subscriptions: many }), reply))
  await daemon.goOn(240)
  day.seed(20, [0.2, 0.1], { subscriptions: [other] })
  await daemon.goOn(30)
  expect(day.sandbox.counts().successful).toBeGreaterThan(0)
})

test.each(rejections)('run --once: %s to the retries of one subscription leaves none of another', async (_, reply) => {
  await using day = await beginDay()
  const rejected = day.seed(20, [100, 12], { subscriptions: [subscription] })
  day.seed(500, [100, 12], { subscriptions: [other] })
  const { clock, sandbox } = day
  await using daemon = startDaemon({ clock, sandbox, once: true, instead: rejecting(rejected, reply) })
  expect(await clock.run(daemon.running)).not.toBe(0)
  expect(sandbox.counts().successful).toBe(500)
})

test('one record refused with Retry-After: 3600 does not hide the failures of others', async () => {
  await using day = await beginDay()
  const ids = day.seed(1, [30, 1], { subscriptions: [subscription] })
  const reply = { status: 429, body: {}, headers: { 'retry-after': '3600' } }
  const daemon = await day.start({}, rejecting(ids, reply))
  await daemon.goOn(240)
  day.seed(20, [0.2, 0.1], { subscriptions: [other] })
  await daemon.goOn(5)
  expect(daemon.ops().status().missing).toBe(21)
  await daemon.goOn(240)
  expect(day.sandbox.counts().successful).toBe(20)
})

test('a dead receiver is no storm where each retry makes a new record, and the old one successful', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  day.seed(100, [30, 1], { subscriptions: [subscription] })
  let retries = 0
  const between: DaemonOptions['between'] = (transport) => async (request) => {
    const response = await transport(request)
    const old = sandbox.record(request.url.pathname.split('/').at(-1) ?? '')
    if (request.method !== 'PATCH' || old === undefined) return response
    retries += 1
    const eventInstant = Date.parse(`${String(old.eventDateTime).slice(0, 23)}Z`)
    sandbox.addWebhook({
      ...{ eventId: String(old.eventId), subscriptionId: subscription },
      eventInstant,
      lastAttempt: clock.now(),
    })
    return response
  }
  const daemon = await day.start({}, undefined, { between })
  await daemon.goOn(120)
  expect(retries).toBeLessThan(1000)
  const said = { missing: 100, recovered: { lastDay: 0 }, summary: { level: 'trouble' } }
  expect(daemon.ops().status()).toMatchObject(said)
})

interface Row {
  id: string
  status: string
}

/** Changes each record as the platform shows it. */
const showing =
  (change: (row: Row) => void) =>
  (transport: Transport): Transport =>
  async (request) => {
    const response = await transport(request)
    if (!request.url.pathname.includes('/webhooks')) return response
    const body = JSON.parse(response.body) as { data?: { webhooks?: Row[]; webhook?: Row } }
    for (const row of [...(body.data?.webhooks ?? []), ...(body.data?.webhook ? [body.data.webhook] : [])]) change(row)
    return { ...response, body: JSON.stringify(body) }
  }

test('records in a status that is new stay missing until they have arrived', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 3 * hourMs } })
  day.seed(10, [30, 1])
  const between = showing((row) => {
    if (row.status === 'processing') row.status = 'retrying'
  })
  const daemon = await day.start({ RECONCILER_OUTCOME_GIVE_UP_AFTER: '10m' }, undefined, { between })
  await daemon.goOn(2 * 60)
  expect(daemon.ops().status()).toMatchObject({ missing: 10, summary: { level: 'trouble' } })
  await daemon.goOn(2 * 60)
  expect(daemon.ops().status()).toMatchObject({ missing: 0, summary: { level: 'well' } })
})

test.each(['9999-12-31T23:59:59', '0001-01-01T00:00:00'])('%s as the last attempt is no time zone', async (date) => {
  await using day = await beginDay()
  day.seed(100, [30, 1])
  const between = showing((row) => {
    if (day.sandbox.acceptedRetries(row.id) > 0) Object.assign(row, { lastAttemptDateTime: date })
  })
  const daemon = await day.start({}, undefined, { between })
  await daemon.goOn(60)
  expect(daemon.ops().status()).toMatchObject({ missing: 0, summary: { level: 'well' } })
})

test('records all arrive of a platform that cuts the pages first, and then filters them', async () => {
  await using day = await beginDay({ ignores: ['status'] })
  const now = day.clock.now()
  day.sandbox.seed({ count: 300, from: now - 40 * hourMs, to: now - 20 * hourMs, failed: 0, attempts: 1 })
  day.seed(20, [30, 25])
  const between: DaemonOptions['between'] = (transport) => async (request) => {
    const response = await transport(request)
    const status = request.url.searchParams.get('data.webhook.status')
    const body = JSON.parse(response.body) as { data?: { webhooks?: Row[] } }
    if (status === null || body.data?.webhooks === undefined) return response
    const webhooks = body.data.webhooks.filter((row) => row.status === status)
    return { ...response, body: JSON.stringify({ ...body, data: { webhooks } }) }
  }
  const daemon = await day.start({}, undefined, { between })
  await daemon.goOn(5)
  expect(day.sandbox.counts()).toMatchObject({ successful: 320, failed: 0 })
})
