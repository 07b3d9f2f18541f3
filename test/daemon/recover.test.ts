// Days of the daemon beside a sandbox, in virtual time: what it shows while it observes and recovers, a dead receiver, a pause, refused tokens.
import { expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import { subscriptionIds } from '../../sandbox/records/seed.ts'
import { beginDay, hourMs, withControl } from '../support/daemon.ts'

test('retry.enabled: false shows what would be done, and touches nothing', async () => {
  await using day = await beginDay()
  day.seed(50, [100, 12])
  day.seed(7, [90, 80], { attempts: 30 })
  const daemon = await day.start({ RECONCILER_RETRY_ENABLED: 'false' })
  await daemon.goOn(2)

  // The second full sweep comes by the schedule, and reports nothing new.
  expect(daemon.lines.filter(({ event, level }) => event === 'full_sweep_completed' && level === 'info')).toHaveLength(
    1,
  )
  expect(await daemon.metric('failed_webhooks', { decision: 'blocked' })).toBe(50)
  expect(await daemon.metric('failed_webhooks', { decision: 'exhausted' })).toBe(7)
  expect(await daemon.metric('failed_webhooks')).toBe(57)
  expect(await daemon.metric('oldest_failed_event_timestamp_seconds')).toBeGreaterThan(0)
  expect(await daemon.metric('retries_total')).toBe(0)
  expect(day.sandbox.stats.requests.retry).toEqual({})
})

test('lists that lag behind by up to 2 minutes: each record is sent once, and no own result is a failure', async () => {
  await using day = await beginDay({
    maxLagMs: 120_000,
    delivery: { mode: 'async', delayMs: 5000, meanwhile: 'failed' },
  })
  const { sandbox } = day
  day.seed(150, [48, 2])
  const daemon = await day.start()
  await daemon.goOn(20)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 150 })
  expect(sandbox.stats.requests.retry).toEqual({ 200: 150 })
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(150)
})

test.each([{ status: 429, retryAfter: 'absent' } as const, { status: 503, retryAfter: 30 } as const])(
  'a subscription that the platform limits alone by %j holds up no other',
  async (refusal) => {
    const { limited, others } = { limited: 40, others: 900 }
    await using day = await beginDay()
    const [one = '', ...rest] = subscriptionIds(10)
    day.sandbox.read({
      limits: [{ kind: 'bucket', perSecond: 0.001, operations: ['retry'], subscriptionIds: [one], ...refusal }],
    })
    const refused = day.seed(limited, [164, 163], { subscriptions: [one] })
    day.seed(others, [48, 12], { subscriptions: rest })
    const daemon = await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' })
    await daemon.goOn(5)
    const { drain, gates, missing, summary, throttled } = daemon.ops().status()
    expect(missing).toBe(limited - 1)
    expect(gates).toMatchObject([{ gate: 'subscription-throttled', subscriptions: 1 }])
    expect(daemon.facts).not.toContainEqual(expect.objectContaining({ type: 'trouble' }))
    expect([drain.limitedBy, throttled?.deliveries]).toEqual(['throttled', limited - 1])
    // Its first records leave the window soon.
    expect(summary).toMatchObject({
      level: 'trouble',
      advice: expect.stringContaining('let retries through') as string,
    })

    // The limit is over: what fails now fails at its receiver.
    day.sandbox.receiver.fail({ status: 422, webhookIds: refused.slice(-3) })
    day.sandbox.read({ limits: [] })
    await daemon.goOn(30)
    expect(daemon.ops().status()).toMatchObject({ missing: 3, throttled: null, refusedAgain: 3 })
    day.sandbox.receiver.heal()
    await daemon.goOn(60)
    expect(day.sandbox.counts()).toMatchObject({ failed: 0, successful: limited + others })
  },
)

test('one of three servers that lists nothing: all is recovered, with few more calls than of sound ones', async () => {
  await using day = await beginDay()
  day.sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 404 }, probability: 0.33 })
  day.seed(150, [48, 2])
  const daemon = await day.start()
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ failed: 0, successful: 150 })
  expect(daemon.lists()).toBeLessThan(800)
})

test('attempts that are shown as failed while they are under way: after two mistakes there are no more', async () => {
  await using day = await beginDay({
    countedAt: 'start',
    delivery: { mode: 'async', delayMs: 20_000, meanwhile: 'failed' },
  })
  const { sandbox } = day
  day.seed(40, [48, 12])
  const daemon = await day.start({ RECONCILER_SCHEDULE_CRON: '0 * * * * *' })
  await daemon.goOn(90)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 40 })
  const mistakes = await daemon.metric('outcomes_total', { outcome: 'failed-again' })
  expect(mistakes).toBeGreaterThan(0)
  day.seed(100, [48, 12])
  await daemon.goOn(90)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 140 })
  expect(await daemon.metric('outcomes_total', { outcome: 'failed-again' })).toBe(mistakes)
})

test('a dead receiver: five to nine retries, then the circuit is open until it is up, or an operator probes', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 2000 } })
  const { clock, sandbox } = day
  sandbox.receiver.down()
  const count = 200
  day.seed(count, [48, 12], { subscriptions: 1 })
  const daemon = await day.start({ ...withControl, RECONCILER_CIRCUIT_COOLDOWN: '5m' })
  const sent = sandbox.stats.retries.accepted
  expect(sent).toBeGreaterThanOrEqual(5)
  expect(sent).toBeLessThanOrEqual(9)
  expect(await daemon.metric('outcomes_total', { outcome: 'failed-again' })).toBe(sent)
  expect(daemon.ops().status()).toMatchObject({ circuits: { notClosed: 1, list: [{ state: 'open' }] } })
  expect(daemon.ops().status().failed).toMatchObject({ blocked: count - sent, due: 0 })

  sandbox.receiver.up()
  await clock.advance(1000)
  expect(sandbox.stats.retries.accepted).toBe(sent)
  expect(daemon.ops().control.probe()).toEqual({ circuits: 1, underWay: 0, platform: false })
  await clock.advance(1000)
  expect(sandbox.stats.retries.accepted).toBe(sent + 3)
  expect(daemon.ops().control.probe()).toMatchObject({ circuits: 0, underWay: 1 })
  await daemon.goOn(20)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: count })
  expect(daemon.ops().status()).toMatchObject({ circuits: { notClosed: 0 } })
})

test('a dead receiver of few records, which all back off: an operator probes with one of them, unless it is paused, and with none that is exhausted', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 2000 } })
  const { clock, sandbox } = day
  const subscriptionId = 'aaaaaaaa-0000-4000-8000-000000000001'
  sandbox.receiver.down()
  day.seed(9, [48, 12], { subscriptions: [subscriptionId] })
  const daemon = await day.start({ RECONCILER_RETRY_BACKOFF_INITIAL: '6h' })
  await daemon.goOn(55)
  day.seed(9, [48, 12], { subscriptions: ['aaaaaaaa-0000-4000-8000-000000000002'], attempts: 29 })
  await daemon.goOn(5)
  expect(daemon.ops().status()).toMatchObject({
    circuits: { list: Array(2).fill({ state: 'half-open', outstanding: 0 }) },
    failed: { 'backing-off': 9, exhausted: 9 },
  })
  const { pause, probe } = daemon.ops().control
  await pause.pause({ subscriptionId })
  expect(probe()).toMatchObject({ circuits: 0, underWay: 0 })
  await pause.resume(subscriptionId)
  await clock.advance(10_000)
  const sent = sandbox.stats.retries.accepted
  expect(sent).toBe(18)
  expect(probe()).toMatchObject({ circuits: 1, underWay: 0 })
  await clock.advance(1000)
  expect(probe()).toMatchObject({ circuits: 0, underWay: 1 })
  await clock.advance(10_000)
  expect(sandbox.stats.retries.accepted).toBe(sent + 1)
})

test('a receiver that takes deliveries again ends the backoffs of its failures, but of none that it refuses', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  const subscriptions = ['aaaaaaaa-0000-4000-8000-000000000001']
  sandbox.receiver.fail({ status: 422, eventTypes: ['account-activated'] })
  day.seed(5, [48, 12], { subscriptions, eventTypes: ['account-activated'] })
  const daemon = await day.start({ RECONCILER_RETRY_BACKOFF_INITIAL: '6h' })
  expect(daemon.ops().status().failed).toMatchObject({ 'backing-off': 5 })
  sandbox.receiver.down()
  day.seed(150, [48, 12], { subscriptions, eventTypes: ['incoming-transfer-completed'] })
  await daemon.goOn(120)
  expect(daemon.ops().status().failed['backing-off']).toBeGreaterThan(40)
  sandbox.receiver.up()
  const sent = sandbox.stats.retries.accepted
  await daemon.goOn(15)
  expect(sandbox.stats.retries.accepted).toBeLessThanOrEqual(sent + 153)
  expect(sandbox.counts()).toMatchObject({ failed: 5, successful: 150 })
  expect(daemon.ops().status().failed).toMatchObject({ 'backing-off': 5, due: 0 })
})

test('records that fail again after each closing of their circuit go out for it once an hour, and back off otherwise', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  const [types, subscriptions] = [['account-activated'], ['aaaaaaaa-0000-4000-8000-000000000001']]
  sandbox.receiver.fail({ status: 500, eventTypes: types })
  day.seed(100, [48, 12], { subscriptions, eventTypes: types })
  const daemon = await day.start({ RECONCILER_RETRY_BACKOFF_INITIAL: '6h' })
  for (let closing = 0; closing < 12; closing += 1) {
    day.seed(4, [48, 12], { subscriptions, eventTypes: ['incoming-transfer-completed'] })
    await daemon.goOn(15)
  }
  const retries = daemon.facts.filter((fact) => fact.type === 'retry')
  const counts = [...Map.groupBy(retries, ({ webhookId }) => webhookId).values()].map(({ length }) => length)
  expect(Math.max(...counts)).toBeLessThanOrEqual(4)
  expect(sandbox.counts()).toMatchObject({ failed: 100, successful: 48 })
})

test("during the operator's pause nothing is retried, all is blocked, and outcomes are still found", async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 90_000 } })
  const { sandbox } = day
  day.seed(30, [48, 12])
  const daemon = await day.start(withControl)
  await daemon.ops().control.pause.pause()
  const sent = sandbox.stats.retries.accepted
  expect(sent).toBeGreaterThan(0)
  expect(sent).toBeLessThan(30)
  await daemon.goOn(10)
  expect(sandbox.stats.retries.accepted).toBe(sent)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(sent)
  expect(daemon.ops().status()).toMatchObject({
    holding: ['paused'],
    failed: { blocked: 30 - sent, due: 0, awaiting: 0 },
  })
  await daemon.ops().control.pause.resume()
  await daemon.goOn(10)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 30 })
})

test("a subscription's pause holds its retries alone, and ends by itself at its time", async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  day.seed(100, [48, 12], { subscriptions: 2 })
  const daemon = await day.start({ RECONCILER_RETRY_MAX_PER_SECOND: '0.2' })
  const causes = () => daemon.ops().status().causes.list
  const { subscriptionId = '' } = causes()[0] ?? {}
  const records = causes().reduce((sum, one) => sum + (one.subscriptionId === subscriptionId ? one.records : 0), 0)
  void daemon.ops().control.pause.pause({ subscriptionId, until: clock.now() + 2 * hourMs, reason: 'INC-7' })
  await daemon.goOn(60)
  const held = daemon.ops().status()
  expect(new Set(causes().map((one) => one.subscriptionId))).toEqual(new Set([subscriptionId]))
  for (const { nextRetry, nextRetryBy } of causes())
    expect([nextRetryBy, Number(nextRetry) - clock.now()]).toEqual(['time', hourMs])
  expect(held).toMatchObject({
    ...{ holding: ['subscription-paused'], failed: { blocked: records, due: 0 }, drain: { limitedBy: 'paused' } },
    summary: { level: 'waiting', detail: expect.stringContaining('Reason: INC-7.') as string },
  })
  expect(daemon.facts.filter(({ type }) => type === 'operator')).toHaveLength(1)
  sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 429 } })
  await daemon.goOn(10)
  expect(daemon.ops().status()).toMatchObject({
    holding: ['subscription-paused', 'throttled'],
    drain: { limitedBy: 'paused' },
  })
  sandbox.faults.set()
  await daemon.goOn(50)
  expect(daemon.facts).toContainEqual(expect.objectContaining({ command: 'resume', via: 'end', subscriptionId }))
  await daemon.goOn(10)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 100 })
})

test('when the API refuses every token, PATCHes stop, tokens are not fetched in a storm, and all recovers after it', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  day.seed(1000, [100, 12])
  const daemon = await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '10' })
  sandbox.faults.set({ operation: 'api', fault: { kind: 'status', status: 401 } })
  const before = sandbox.requestLog().length
  await daemon.goOn(20, 30_000)
  const calls = sandbox.requestLog().slice(before)
  const made = (wanted: string): number => calls.filter(({ operation }) => operation === wanted).length
  expect(made('retry')).toBeLessThanOrEqual(2 * 24)
  expect(made('token')).toBeLessThanOrEqual(60)
  expect(made('list')).toBeLessThanOrEqual(100)
  expect(daemon.ops().status().holding).toContain('unauthorized')
  sandbox.faults.set()
  await daemon.goOn(60, 30_000)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 1000 })
  expect(daemon.ops().status().holding).toEqual([])
})

test.each([
  ['a 403', { unauthorizedStatus: 403 }],
  ['a login page', { voidToken: 'page' }],
  ['a redirect to one', { voidToken: 'redirect' }],
  ['a 400 with a code', { unauthorizedStatus: 400 }],
  ['a 500 with a code', { unauthorizedStatus: 500 }],
] as const)('tokens that are void, and are answered with %s, are replaced within two minutes', async (_, readings) => {
  await using day = await beginDay(readings)
  const { sandbox } = day
  const daemon = await day.start()
  sandbox.revokeTokens()
  day.seed(20, [48, 12])
  await daemon.goOn(3)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 20 })
  expect(sandbox.stats.tokens.issued).toBe(2)
})

test('a pause that comes while a token is awaited holds the retries that wait for it', async () => {
  await using day = await beginDay({ expiresIn: 300 })
  const { clock, sandbox } = day
  let areTokensSlow = false
  const daemon = await day.start({}, undefined, {
    between: (transport) => async (request) => {
      const response = await transport(request)
      if (areTokensSlow && request.method === 'POST') await clock.sleep(200_000)
      return response
    },
  })
  const { pause } = daemon.ops().control
  await pause.pause()
  day.seed(20, [48, 12])
  await daemon.goOn()
  areTokensSlow = true
  await clock.advance(230_000)
  expect(await daemon.metric('access_token_expiry_timestamp_seconds')).toBeLessThan(clock.now() / 1000)
  await pause.resume()
  await clock.advance(5000)
  await pause.pause()
  await daemon.goOn()
  expect(await daemon.metric('access_token_expiry_timestamp_seconds')).toBeGreaterThan(clock.now() / 1000)
  expect(sandbox.stats.requests.retry).toEqual({})
  await pause.resume()
  await daemon.goOn(3)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 20 })
})

test.each<[string, FaultRule[], ticks: number, gapMs: number, tokens: number]>([
  ['all calls', [{ operation: 'api', fault: { kind: 'status', status: 500 } }], 240, 60_000, 9],
  [
    'all calls, half of them by resets',
    [
      { operation: 'api', fault: { kind: 'reset', when: 'before' }, probability: 0.5 },
      { operation: 'api', fault: { kind: 'status', status: 500 } },
    ],
    ...([240, 60_000, 9] as const),
  ],
  [
    'one list after an hour without any',
    [{ operation: 'list', fault: { kind: 'status', status: 500 }, count: 1 }],
    1,
    4 * hourMs,
    0,
  ],
])('a platform that fails %s for four hours costs few tokens', async (_, rules, ticks, gapMs, tokens) => {
  await using day = await beginDay({ expiresIn: 100_000 })
  const daemon = await day.start()
  await day.clock.advance(hourMs)
  day.sandbox.faults.set(...rules)
  await daemon.goOn(ticks, gapMs)
  expect(day.sandbox.stats.tokens.issued).toBe(1 + tokens)
})

test('tokens that the API knows only after four seconds are used then, and the former one until then', async () => {
  await using day = await beginDay({ tokenKnownAfterSeconds: 4, expiresIn: 20 })
  const { clock, sandbox } = day
  day.seed(80, [48, 12])
  const daemon = await day.start()
  await daemon.goOn(2)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 80 })
  await daemon.goOn(20)
  // One for each renewal, at 60 to 70 % of its life.
  expect(sandbox.stats.tokens.issued).toBeLessThanOrEqual(Math.ceil(clock.monotonic() / 12_000))
})

test.each([200, 302, 404, 405, 502])(
  'a gateway that answers retries with a page (HTTP %i) uses up no attempt, and all is recovered after it',
  async (status) => {
    await using day = await beginDay()
    const { sandbox } = day
    day.seed(60, [48, 12])
    sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status, body: 'html' } })
    const backoff = { RECONCILER_RETRY_BACKOFF_INITIAL: '1s', RECONCILER_RETRY_BACKOFF_MAX: '1m' }
    const daemon = await day.start({ ...backoff, RECONCILER_RETRY_MAX_ATTEMPTS: '2' })
    await daemon.goOn(20, 30_000)
    expect(daemon.ops().status()).toMatchObject({ missing: 60, failed: { exhausted: 0 } })
    sandbox.faults.set()
    await daemon.goOn(20, 30_000)
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 60 })
    expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(60)
  },
)

test('without a token, gates and records wait for its next request', async () => {
  await using day = await beginDay({ expiresIn: 120 })
  const { sandbox } = day
  sandbox.receiver.down()
  day.seed(20, [48, 12])
  const daemon = await day.start()
  sandbox.faults.set({ operation: 'token', fault: { kind: 'status', status: 503 } })
  /** How long before the next token request each says that it waits, in seconds. */
  const early = { records: [] as number[], gate: [] as number[] }
  for (let step = 0; step < 60; step += 1) {
    await daemon.goOn(1, 5000)
    const { causes, gates, now, tokenExpires, tokenTrouble } = daemon.ops().status()
    if (tokenTrouble === null || (tokenExpires !== null && tokenExpires > now)) continue
    const nextTry = Math.max(Number(now), Number(tokenTrouble.nextTry))
    const opensIn = gates.flatMap(({ gate, opensInSeconds }) => (gate === 'no-token' ? [opensInSeconds ?? 0] : []))
    early.gate.push(...opensIn.map((seconds) => Math.round((nextTry - Number(now)) / 1000 - seconds)))
    early.records.push(
      ...causes.list.map(({ nextRetry }) => Math.ceil((nextTry - Number(nextRetry ?? Infinity)) / 1000)),
    )
  }
  expect([early.gate.length > 10, early.records.length > 10]).toEqual([true, true])
  expect(Math.max(...early.gate, ...early.records)).toBeLessThanOrEqual(0)
})
