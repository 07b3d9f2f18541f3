// What the daemon shows of itself: the status, the first line.
import { describe, expect, test } from 'vitest'
import type { Fault } from '../../sandbox/api/faults.ts'
import type { Line } from '../support/log.ts'
import { createRules, ofTarget, type Alert } from '../support/promql/rules.ts'
import { parseSamples } from '../support/samples.ts'
import { beginDay, hourMs, startDaemon, withControl, withReceiver } from '../support/daemon.ts'

describe('what it shows', () => {
  test('a status with what it has done, and what holds it', async () => {
    await using scene = startDaemon({ env: { ...withControl, ...withReceiver, RECONCILER_INSTANCE_NAME: 'blue' } })
    await scene.clock.settle()
    const at = scene.clock.now()
    void scene.ops().control.pause.pause()
    await scene.clock.advance(1000)
    expect(scene.ops().status()).toMatchObject({
      schemaVersion: 2,
      summary: { level: 'waiting', headline: 'Retries are paused by an operator. Nothing is missing.' },
      instance: 'blue',
      version: '1.2.3',
      startedAt: new Date(at),
      now: new Date(at + 1000),
      failed: { due: 0, blocked: 0 },
      pauses: [{ subscriptionId: null, since: new Date(at), until: null, reason: null }],
      holding: ['paused'],
      gates: [{ gate: 'paused', since: new Date(at), subscriptions: null }],
      receiver: { up: true },
      circuits: { notClosed: 0, list: [] },
      sweeps: [{ kind: 'full', result: 'complete', endedAt: new Date(at), listed: 0 }],
      nextTick: new Date(at + 1000 + 3_600_000),
      tokenExpires: new Date(at + 3_600_000),
    })
    const gate = (): Promise<number> => scene.metric('gates', { gate: 'paused' })
    expect(await gate()).toBe(1)
    void scene.ops().control.pause.resume()
    expect(scene.ops().status()).toMatchObject({ pauses: [], holding: [] })
    expect(await gate()).toBe(0)
  })

  test('what is missing, why, and how it went on', async () => {
    await using day = await beginDay()
    const { clock, sandbox } = day
    const scene = await day.start({ ...withControl, RECONCILER_RETRY_ENABLED: 'false' })
    expect(scene.ops().status()).toMatchObject({
      holding: ['disabled'],
      receiver: null,
      missing: 0,
      causes: { total: 0 },
    })
    const eventInstant = clock.now() - 2 * hourMs
    sandbox.addWebhook({ eventInstant, attempts: 1, lastAttempt: eventInstant, responseStatusCode: 503 })
    await clock.advance(60_000)
    await scene.goOn(1, 1000)
    const { causes, history, missing, timeZone } = scene.ops().status()
    expect(missing).toBe(1)
    expect(causes).toMatchObject({
      total: 1,
      onlyCounted: 0,
      list: [{ responseStatusCode: 503, records: 1, nextRetry: null }],
    })
    expect(history.map((minute) => minute.missing).slice(-3)).toEqual([0, 0, 1])
    expect(timeZone).toEqual({ platform: 'UTC', offsetSeconds: null, actualOffset: null })
  })

  test('a first line with its settings, and with the receiver without its query', async () => {
    const first = async (env: Record<string, string>): Promise<Line['fields'] | undefined> => {
      const scene = startDaemon({ env })
      await scene.clock.settle()
      await scene.end()
      return scene.lines.find(({ event }) => event === 'daemon_started')?.fields
    }
    const settings = {
      RECONCILER_SCHEDULE_CRON: '0 0 4 * * *',
      RECONCILER_WINDOW_LOOKBACK: '36h',
      RECONCILER_WINDOW_NOT_BEFORE: '2026-01-02T03:04:05+02:00',
      RECONCILER_SELECT_EVENT_TYPES: 'account-activated',
      RECONCILER_RETRY_ENABLED: 'false',
      RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.example/healthz?api_key=CANARY',
    }
    expect(await first(settings)).toMatchObject({
      platform: 'https://api.example.com/v1',
      issuer: 'https://id.example.com/auth/realms/main',
      schedule: '0 0 4 * * *',
      lookback: '36h',
      notBefore: '2026-01-02T01:04:05.000Z',
      selectedBy: ['eventTypes'],
      receiverHealth: 'http://receiver.example/healthz',
      retries: 'observe only',
    })
    expect((await first({}))?.['receiverHealth']).toBeUndefined()
  })
})

test('records that expired by a wrong clock of the platform are missing once when it is right again', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  day.seed(20, [20, 10], { attempts: 30 })
  const daemon = await day.start()
  await daemon.goOn(1)
  const missing = (): unknown => daemon.ops().status().missing
  expect(missing()).toBe(20)
  sandbox.read({ skewMs: { identity: 0, api: 8 * 24 * hourMs } })
  await daemon.goOn(5)
  expect(daemon.facts).toContainEqual({ type: 'expired', records: 20, again: 0 })
  sandbox.read({ skewMs: 0 })
  await daemon.goOn(10)
  expect(missing()).toBe(20)
})

test('with a long settling time, the headline says up to which event nothing is missing', async () => {
  await using day = await beginDay()
  const daemon = await day.start({ RECONCILER_WINDOW_SETTLE: '30m' })
  day.seed(100, [0.4, 0.1])
  await daemon.goOn(5)
  expect(daemon.ops().status().summary.headline).toMatch(/^Nothing is missing of events up to \S+ UTC; newer/)
})

test('deliveries that a low rate does not retry before they leave the window need a person', async () => {
  await using day = await beginDay()
  day.seed(100, [1.6, 1.55])
  const env = { RECONCILER_WINDOW_LOOKBACK: '2h', RECONCILER_RETRY_MAX_PER_SECOND: '0.03' }
  const daemon = await day.start(env)
  await daemon.goOn(3)
  expect(daemon.ops().status().summary).toMatchObject({
    level: 'trouble',
    headline: expect.stringMatching(/^\d+ deliveries expire soon/) as string,
  })
})

test('while the platform fails each retry, no receiver is to be brought up in a hurry', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.down()
  day.seed(30, [46, 44])
  const daemon = await day.start({ RECONCILER_WINDOW_LOOKBACK: '2d' })
  day.sandbox.receiver.up()
  day.sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 503, body: 'html' } })
  await daemon.goOn(60)
  const { notices } = daemon.ops().status().summary
  expect(notices.find(({ text }) => text.includes('expire soon'))?.advice).toMatch(/^Ask the platform's operator/)
})

test('failures older than the window are in the headline, after a restart as well', async () => {
  await using day = await beginDay()
  day.seed(50, [300, 200])
  const daemon = await day.start()
  await daemon.goOn(5)
  expect(daemon.ops().status().summary.headline).toBe(
    '50 failed deliveries are older than window.lookback, and not retried. No other missing delivery is known.',
  )
})

test('a rejection of all calls names what all need; a retry that then fails otherwise, whom to ask', async () => {
  await using day = await beginDay()
  const { sandbox } = day
  day.seed(20, [20, 10])
  sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 403 } })
  const daemon = await day.start()
  const failing = async (operation: 'api' | 'retry', status: number): Promise<unknown> => {
    sandbox.faults.set({ operation, fault: { kind: 'status', status } })
    await daemon.goOn(10)
    return daemon.ops().status().summary
  }
  expect(await failing('api', 403)).toMatchObject({
    headline: 'The platform rejects all calls. At least 20 deliveries are missing.',
    advice: expect.stringContaining('permission to list and retry webhooks') as string,
  })
  expect(await failing('retry', 500)).toMatchObject({
    detail: expect.stringContaining('The last retry: HTTP 500') as string,
    advice: expect.stringContaining("With another: ask the platform's operator") as string,
  })
})

test.each<[string, Fault]>([
  ['no permission', { kind: 'status', status: 403 }],
  ['a gateway without PATCH', { kind: 'status', status: 405, body: 'html' }],
  ['an error', { kind: 'status', status: 500 }],
  ['no response', { kind: 'hang' }],
  ['a rate limit', { kind: 'status', status: 429 }],
])('a platform that lists, but accepts no retry, pages within 20 min: %s', async (_, fault) => {
  await using day = await beginDay()
  day.seed(20, [20, 10])
  day.sandbox.faults.set({ operation: 'retry', fault })
  const daemon = await day.start()
  const { scrape } = createRules()
  let alerts: readonly Alert[] = []
  for (let minute = 0; minute < 20; minute += 1) {
    await daemon.goOn(1)
    const samples = [...parseSamples(await daemon.ops().metrics())]
    const scraped = samples.map(([series, value]) => [ofTarget(series, 'job="a",instance="a"'), value] as const)
    alerts = scrape(day.clock.now(), scraped)
  }
  expect(alerts).toContainEqual(expect.objectContaining({ alertstate: 'firing', severity: 'critical' }))
})
