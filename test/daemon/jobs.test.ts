// Retry jobs of the whole daemon, beside a sandbox: each record that an operator asks for is sent once, and has an outcome or a reason.
import { expect, test } from 'vitest'
import { beginDay, minuteMs, type Day, type RunningDaemon } from '../support/daemon.ts'
import { balanced, startJob } from '../support/jobs.ts'

/** Failed records of half a day ago, which are not due for hours: 9 tries of the daemon's own would be needed. */
const seed = (day: Day, count: number, attempts = 30): string[] =>
  day.seed(count, [14, 12], { attempts, subscriptions: 2 })

const named = { selection: { since: '1d' }, exhausted: true }

test('exhausted records go out because an operator asked, and are in outcomes, metrics and audit as all others', async () => {
  await using day = await beginDay()
  seed(day, 120)
  const daemon = await day.start()
  expect(day.sandbox.stats.requests.retry).toEqual({})
  const id = await startJob(daemon, named)
  await daemon.goOn(2)
  const job = await daemon.job('GET', `/${id}`)
  expect(job).toMatchObject({ state: 'ended', stoppedBy: null, sums: { found: 120, asked: 120, recovered: 120 } })
  balanced(job)
  expect(day.sandbox.stats.requests.retry).toEqual({ 200: 120 })
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(120)
  const whys = daemon.facts.flatMap((fact) => (fact.type === 'retry' ? [fact.why] : []))
  expect(new Set(whys)).toEqual(new Set(['asked-for']))
  const asked = daemon.facts.filter((fact) => fact.type === 'operator')
  expect(asked).toEqual([
    expect.objectContaining({ command: 'retry', job: id, by: 'token', selection: named.selection, exhausted: true }),
    { type: 'operator', command: 'retry-ended', job: id, sums: { found: 120, asked: 120, recovered: 120 } },
  ])
  // No other client is named for it.
  expect(JSON.stringify(daemon.ops().status().summary)).not.toContain('else')
  expect(job.retried).toHaveLength(100)
  expect((await daemon.job('GET', `/${id}?limit=1000`)).retried).toHaveLength(120)
  const rest = await daemon.job('GET', `/${id}?limit=20&cursor=${job.next}`)
  expect([rest.retried.length, rest.next]).toEqual([20, null])
})

test.each(['up', 'down'] as const)(
  'two jobs and the daemon, receiver %s: each of 60 is sent once, and counts in both',
  async (state) => {
    await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000 } })
    seed(day, 60)
    const daemon = await day.start()
    if (state === 'down') day.sandbox.receiver.down()
    const ids = [await startJob(daemon, named), await startJob(daemon, named)]
    // A dead receiver gets few at once: the job waits for its circuits.
    for (let n = 0; n < 200 && (await daemon.job('GET', `/${ids[0]}`)).state !== 'ended'; n += 1) await daemon.goOn(1)
    for (const id of ids) {
      const job = await daemon.job('GET', `/${id}?limit=1000`)
      balanced(job)
      expect(job).toMatchObject({ state: 'ended', sums: { [state === 'up' ? 'recovered' : 'failed-again']: 60 } })
      expect(new Set(job.retried.map(({ webhookId }) => webhookId)).size).toBe(60)
    }
    expect(day.sandbox.stats.requests.retry).toEqual({ 200: 60 })
    expect(day.sandbox.counts()).toMatchObject(state === 'up' ? { failed: 0, successful: 60 } : { failed: 60 })
  },
)

test('a job that is deleted leaves what was not sent, as it was; another that wants it keeps it', async () => {
  await using day = await beginDay()
  seed(day, 40)
  const daemon = await day.start()
  await daemon.ops().control.pause.pause()
  const [first, second] = [await startJob(daemon, named), await startJob(daemon, named)]
  const none = await startJob(daemon, { selection: { since: '1d', type: 'none' } })
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${none}`)).toMatchObject({ state: 'ended', sums: { asked: 0 }, blockedBy: [] })
  const waiting = await daemon.job('GET', `/${first}`)
  expect(waiting).toMatchObject({ state: 'running', sums: { waiting: 40 }, blockedBy: ['paused'] })
  expect((await daemon.records('decision=blocked')).count).toBe(40)
  const cancelled = await daemon.job('DELETE', `/${first}`)
  expect(cancelled).toMatchObject({ stoppedBy: 'cancelled', sums: { left: 40 }, blockedBy: ['paused'] })
  expect(await daemon.job('DELETE', `/${first}`)).toEqual(cancelled)
  expect((await daemon.records('decision=blocked')).count).toBe(40)
  const gone = await daemon.job('DELETE', `/${second}`)
  balanced(gone)
  expect((await daemon.records('decision=exhausted')).count).toBe(40)
  await daemon.ops().control.pause.resume()
  await daemon.goOn(2)
  expect(day.sandbox.stats.requests.retry).toEqual({})
})

test('without exhausted the attempt limit holds; a rate is kept; a dry run changes nothing', async () => {
  await using day = await beginDay()
  seed(day, 5)
  const daemon = await day.start()
  const dry = await startJob(daemon, { selection: { since: '1d' }, dryRun: true })
  const whole = await startJob(daemon, { ...named, dryRun: true })
  const limited = await startJob(daemon, { selection: { since: '1d' } })
  await day.clock.advance(10)
  expect(await daemon.job('GET', `/${dry}`)).toMatchObject({ stoppedBy: 'dry-run', sums: { exhausted: 5, asked: 0 } })
  expect(await daemon.job('GET', `/${whole}`)).toMatchObject({ stoppedBy: 'dry-run', sums: { asked: 5, left: 5 } })
  expect(await daemon.job('GET', `/${limited}`)).toMatchObject({ state: 'ended', sums: { exhausted: 5, asked: 0 } })
  expect(day.sandbox.stats.requests.retry).toEqual({})
  const id = await startJob(daemon, { ...named, rate: 0.1 })
  await day.clock.advance(25_000)
  expect(day.sandbox.stats.requests.retry).toEqual({ 200: 3 })
  await day.clock.advance(minuteMs)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { recovered: 5 } })
  // It is kept for an hour after its end, and 50 of them at most.
  await day.clock.advance(61 * minuteMs)
  const last = await startJob(daemon, { ...named, dryRun: true })
  expect((await daemon.job('GET', `/${id}`)).status).toBe(404)
  for (let count = 0; count < 50; count += 1) {
    await startJob(daemon, { ...named, dryRun: true })
    await day.clock.advance(10)
  }
  await startJob(daemon, { ...named, dryRun: true })
  expect((await daemon.job('GET', `/${last}`)).status).toBe(404)
})

/** A subscription to pause, and the number of records of all others. */
async function withOthers(daemon: RunningDaemon): Promise<{ others: number; paused: string | undefined }> {
  const { records } = await daemon.records('limit=1000')
  const paused = records[0]?.subscriptionId
  return { others: records.filter(({ subscriptionId }) => subscriptionId !== paused).length, paused }
}

test('a job with a rate goes on beside a subscription that is paused, and keeps it when that is resumed', async () => {
  await using day = await beginDay()
  seed(day, 40)
  const daemon = await day.start()
  const { others, paused } = await withOthers(daemon)
  await daemon.ops().control.pause.pause({ subscriptionId: paused })
  const id = await startJob(daemon, { ...named, rate: 1 })
  await daemon.goOn(2)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ sums: { recovered: others, waiting: 40 - others } })
  await daemon.ops().control.pause.resume(paused)
  await day.clock.advance(5000)
  expect(day.sandbox.stats.requests.retry[200]).toBeLessThanOrEqual(others + 6)
  await daemon.goOn(2)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { recovered: 40 } })
})

test('a job with a rate requests other records after the subscription of the requested one is paused', async () => {
  await using day = await beginDay()
  seed(day, 40)
  const daemon = await day.start()
  const { others, paused } = await withOthers(daemon)
  const { pause } = daemon.ops().control
  await pause.pause()
  const id = await startJob(daemon, { ...named, rate: 1 })
  await daemon.goOn(1)
  await pause.pause({ subscriptionId: paused })
  await pause.resume()
  await daemon.goOn(2)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ sums: { recovered: others, waiting: 40 - others } })
})

test('records that are sent for another reason take no time of a job with a rate', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.fail({ status: 422 })
  seed(day, 20)
  const daemon = await day.start()
  const { others, paused } = await withOthers(daemon)
  const id = await startJob(daemon, { ...named, rate: 0.1 })
  await startJob(daemon, { selection: { since: '1d', subscription: [paused] }, exhausted: true })
  await day.clock.advance((others + 2) * 10_000)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { 'failed-again': 20 } })
})

test('records that the daemon does not hold are found: named though excluded, beyond the window, of an event', async () => {
  await using day = await beginDay()
  const [inside = ''] = seed(day, 1)
  const old = day.seed(3, [300, 250], { attempts: 30 })
  const daemon = await day.start({ RECONCILER_SELECT_EVENT_TYPES: 'nothing-has-this-type' })
  const missing = '00000000-0000-4000-8000-000000000000'
  const excluded = await startJob(daemon, named)
  const byId = await startJob(daemon, { selection: { webhooks: [inside, missing] }, exhausted: true })
  await daemon.goOn(2)
  expect(await daemon.job('GET', `/${excluded}`)).toMatchObject({ state: 'ended', sums: { asked: 0 } })
  const named2 = await daemon.job('GET', `/${byId}`)
  expect(named2).toMatchObject({
    listing: { source: 'platform', notFound: [missing] },
    sums: { found: 1, recovered: 1 },
  })
  const ofTime = await startJob(daemon, { selection: { since: '400h' }, exhausted: true })
  const beyond = await startJob(daemon, { selection: { webhooks: old }, exhausted: true })
  await daemon.goOn(3)
  expect(await daemon.job('GET', `/${ofTime}`)).toMatchObject({ sums: { found: 3, excluded: 3 } })
  expect(await daemon.job('GET', `/${beyond}`)).toMatchObject({ state: 'ended', sums: { recovered: 3 } })
  expect((await daemon.records('')).count).toBe(0)
  const young = day.sandbox.seed({ count: 1, from: day.clock.now() - 2000, to: day.clock.now() - 1000 })
  await daemon.ops().control.pause.pause()
  await startJob(daemon, { selection: { webhooks: young } })
  await day.clock.advance(1000)
  const { records } = await daemon.records('since=1m&source=platform')
  expect(records).toMatchObject([{ decision: 'blocked', nextRetryBy: 'gate' }])
})

test.each([
  [500, 'server.error'],
  [409, 'webhook.busy'],
  [403, 'access.denied'],
])('an excluded record whose retry is refused with %i can be requested again', async (status, code) => {
  await using day = await beginDay()
  const webhooks = seed(day, 1)
  let isRefusing = true
  const daemon = await day.start({ RECONCILER_SELECT_EVENT_TYPES: 'nothing-has-this-type' }, ({ method }) =>
    isRefusing && method === 'PATCH' ? { status, body: { code, message: 'no' } } : undefined,
  )
  const refused = await startJob(daemon, { selection: { webhooks }, exhausted: true })
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${refused}`)).toMatchObject({ state: 'ended', sums: { refused: 1 } })
  isRefusing = false
  const again = await startJob(daemon, { selection: { webhooks }, exhausted: true })
  await daemon.goOn(5)
  expect(await daemon.job('GET', `/${again}`)).toMatchObject({ state: 'ended', sums: { recovered: 1 } })
})

test("a failed record of an event ahead of the platform's clock is shown and retried, by the id of its event or webhook", async () => {
  await using day = await beginDay({ timeZone: 'Europe/Berlin' })
  const [a, b] = [1, 2].map(() => day.sandbox.addWebhook({ eventInstant: day.clock.now() - 10 * minuteMs }))
  const daemon = await day.start({ RECONCILER_PLATFORM_TIME_ZONE: 'UTC' })
  const event = day.sandbox.record(b ?? '')?.eventId
  for (const [query, selection] of [
    [`webhook=${a}`, { webhooks: [a] }],
    [`event=${event}`, { event }],
  ] as const) {
    const { records } = await daemon.records(query)
    expect(records).toMatchObject([{ decision: 'settling', nextRetry: expect.stringContaining('T12:51:00') as string }])
    const id = await startJob(daemon, { selection })
    await daemon.goOn(2)
    expect(await daemon.job('GET', `/${id}`)).toMatchObject({ sums: { found: 1, recovered: 1 } })
  }
})

test('a record that another job requests is left to its rules by a job that may not send it', async () => {
  await using day = await beginDay()
  const webhooks = seed(day, 2)
  const daemon = await day.start({ RECONCILER_SELECT_EVENT_TYPES: 'nothing-has-this-type' })
  await daemon.ops().control.pause.pause()
  await startJob(daemon, { selection: { webhooks }, exhausted: true })
  await day.clock.advance(2000)
  const [ofTime, ofIds] = [await startJob(daemon, named), await startJob(daemon, { selection: { webhooks } })]
  await day.clock.advance(2000)
  expect(await daemon.job('GET', `/${ofTime}`)).toMatchObject({ state: 'ended', sums: { excluded: 2, asked: 0 } })
  expect(await daemon.job('GET', `/${ofIds}`)).toMatchObject({ state: 'ended', sums: { exhausted: 2, asked: 0 } })
})

test.each([
  ['excluded', { RECONCILER_SELECT_EVENT_TYPES: 'nothing-has-this-type' }, [14, 12]],
  ['beyond the window', {}, [300, 250]],
] as const)('a record that is %s is neither sent nor held after its job was cancelled', async (_, env, hours) => {
  await using day = await beginDay()
  const webhooks = day.seed(20, hours, { attempts: 1 })
  const daemon = await day.start({ ...env, RECONCILER_RETRY_MAX_PER_SECOND: '1' })
  const id = await startJob(daemon, { selection: { webhooks } })
  await day.clock.advance(5000)
  const { sums } = await daemon.job('DELETE', `/${id}`)
  await day.clock.advance(10_000)
  expect((await daemon.records('')).count).toBe(sums.left)
  await daemon.goOn(1)
  expect((await daemon.records('')).count).toBe(0)
})

test('a record whose retry is in flight for another job, and is throttled, is sent again though that job was cancelled', async () => {
  await using day = await beginDay()
  seed(day, 1)
  const response = Promise.withResolvers<void>()
  let isThrottled = true
  const daemon = await day.start({}, ({ method }) =>
    method === 'PATCH' && isThrottled ? response.promise.then(() => ({ status: 429 })) : undefined,
  )
  const first = await startJob(daemon, named)
  await day.clock.advance(3000)
  const second = await startJob(daemon, named)
  await day.clock.advance(2000)
  await daemon.job('DELETE', `/${first}`)
  isThrottled = false
  response.resolve()
  await daemon.goOn(5)
  expect(await daemon.job('GET', `/${second}`)).toMatchObject({ state: 'ended', sums: { recovered: 1 } })
})

test('a dry run that still lists when a retry of another job is throttled sends nothing', async () => {
  await using day = await beginDay()
  seed(day, 1)
  const [response, list] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const daemon = await day.start({}, ({ method, url }) => {
    if (method === 'PATCH') return response.promise.then(() => ({ status: 429 }))
    return url.search.includes('From=2025') ? list.promise.then(() => ({ status: 500 })) : undefined
  })
  const first = await startJob(daemon, named)
  await day.clock.advance(3000)
  const dry = await startJob(daemon, { selection: { since: '20d' }, exhausted: true, dryRun: true })
  await day.clock.advance(2000)
  await daemon.job('DELETE', `/${first}`)
  response.resolve()
  await daemon.goOn(2)
  list.resolve()
  await daemon.goOn(2)
  expect(await daemon.job('GET', `/${dry}`)).toMatchObject({ stoppedBy: 'dry-run', sums: { found: 1, left: 1 } })
  expect(daemon.facts.filter(({ type }) => type === 'retry')).toHaveLength(1)
})

test.each([30, 1])(
  'a job with a rate keeps it for records before the window, which had %i attempts',
  async (attempts) => {
    await using day = await beginDay()
    day.seed(12, [300, 200], { attempts })
    const daemon = await day.start()
    const id = await startJob(daemon, { selection: { since: '20d' }, exhausted: true, rate: 0.1 })
    await daemon.goOn(1)
    expect(day.sandbox.stats.requests.retry[200]).toBeLessThanOrEqual(7)
    await daemon.goOn(2)
    expect(await daemon.job('GET', `/${id}`)).toMatchObject({ state: 'ended', sums: { recovered: 12 } })
    expect(daemon.facts.filter(({ type }) => type === 'expired')).toEqual([])
  },
)

test('records before the window neither expire soon nor have expired: not while a job waits, and not when it fails', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.down()
  day.seed(5, [720, 480], { subscriptions: 1 })
  const daemon = await day.start()
  const shown = async (): Promise<object> => {
    const { expired, firstExpiry, missing, oldestOpenEvent, summary } = daemon.ops().status()
    const { headline, notices } = summary
    const texts = [headline, ...notices.map(({ text }) => text)].join(' ')
    const said = /expires? soon|left the window/.exec(texts)?.[0]
    const metric = await daemon.metric('expiring_webhooks')
    return { expired, firstExpiry, missing, oldestOpenEvent, said, metric }
  }
  const calm = { expired: 0, firstExpiry: null, oldestOpenEvent: null, said: undefined, metric: 0 }
  await daemon.ops().control.pause.pause()
  const wanted = { selection: { since: '31d' } }
  const ids = [await startJob(daemon, wanted)]
  await daemon.goOn(1)
  // Found in the backlog, then in the list.
  ids.push(await startJob(daemon, { ...wanted, rate: 1 }))
  await daemon.goOn(1)
  expect(await shown()).toEqual({ ...calm, missing: 5 })
  await daemon.ops().control.pause.resume()
  await daemon.goOn(5)
  for (const id of ids)
    expect(await daemon.job('GET', `/${id}`)).toMatchObject({ sums: { found: 5, 'failed-again': 5 } })
  expect(await shown()).toEqual({ ...calm, missing: 0 })
})

test('a record that expired is missing once while a job retries it, has expired once, and is not missing when it has arrived', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000, meanwhile: 'failed' } })
  day.seed(1, [168 - 5 / 60, 167], { attempts: 30 })
  const daemon = await day.start()
  await daemon.goOn(3, 20 * minuteMs)
  const shown = (): object => daemon.ops().status()
  expect(shown()).toMatchObject({ expired: 1, missing: 1 })
  const listed = async (): Promise<readonly object[]> => (await daemon.records('since=14d')).records
  expect(await listed()).toMatchObject([{ decision: 'exhausted', nextRetryBy: 'never' }])
  day.sandbox.receiver.down()
  await startJob(daemon, { selection: { since: '14d' }, exhausted: true })
  await daemon.goOn(5)
  expect([shown(), await daemon.metric('expired_webhooks_total')]).toMatchObject([{ expired: 1, missing: 1 }, 1])
  day.sandbox.receiver.up()
  await daemon.ops().control.pause.pause()
  await startJob(daemon, { selection: { since: '14d' }, exhausted: true })
  await day.clock.advance(1000)
  expect(shown()).toMatchObject({ expired: 0, missing: 1 })
  expect(await listed()).toMatchObject([{ decision: 'blocked', nextRetryBy: 'gate' }])
  await daemon.ops().control.pause.resume()
  await day.clock.advance(1000)
  expect(await listed()).toMatchObject([{ decision: 'awaiting', nextRetryBy: 'outcome' }])
  await daemon.goOn(2)
  expect(shown()).toMatchObject({ expired: 0, missing: 0 })
})

test('an event that was delivered: nothing is asked for, and the job says that it is not failed', async () => {
  await using day = await beginDay()
  seed(day, 1, 1)
  const daemon = await day.start()
  const event = daemon.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.eventId] : []))[0]
  const id = await startJob(daemon, { selection: { event } })
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({
    listing: { notFailed: 1, processing: 0 },
    sums: { found: 0 },
  })
})

test('an event that is being delivered has not arrived', async () => {
  await using day = await beginDay()
  const event = '11111111-1111-4111-8111-111111111111'
  day.sandbox.addWebhook({ eventId: event, status: 'processing', eventInstant: day.clock.now() - 60 * minuteMs })
  const daemon = await day.start()
  const id = await startJob(daemon, { selection: { event } })
  await daemon.goOn(1)
  expect(await daemon.job('GET', `/${id}`)).toMatchObject({
    listing: { notFailed: 1, processing: 1 },
    sums: { found: 0 },
  })
})
