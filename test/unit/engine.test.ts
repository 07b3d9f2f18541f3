// The parts put together, from the configuration to the platform's JSON, on a clock that a test moves.
import { afterEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { connectionsOf, createEngine, toPolicy, type Engine } from '../../src/engine.ts'
import type { Fact } from '../../src/facts.ts'
import { dayMs, hourMs, minuteMs, testNow } from '../support/backlog.ts'
import { createFakeHttp, type FakeHttp, type FakeHttpOptions } from '../support/fake-http.ts'
import { createFakePlatform, failedRecord, type FakePlatform } from '../support/fake-platform.ts'
import { steadyRandom } from '../support/reconcile.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

function configOf(env: Record<string, string> = {}): Config {
  return loadConfig({
    env: {
      RECONCILER_PLATFORM_BASE_URL: 'https://api.test/v1/instance',
      RECONCILER_AUTH_AUTH_URL: 'https://auth.test',
      RECONCILER_AUTH_REALM: 'realm',
      RECONCILER_AUTH_CLIENT_ID: 'client',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: '/key.pem',
      ...env,
    },
    hostName: 'test',
    readFile: () => {
      throw new Error('no file is read here')
    },
  }).config
}

interface World {
  clock: VirtualClock
  engine: Engine
  platform: FakePlatform
  http: FakeHttp
  facts: Fact[]
  /** Runs the loops as the daemon does. */
  start(): void
  tickEvery(periodMs: number, forMs: number): Promise<void>
}

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

interface Setting {
  records?: ReturnType<typeof failedRecord>[]
  env?: Record<string, string>
  instead?: FakeHttpOptions['instead']
  /** How far the server's clock is ahead of the host's. */
  skewMs?: number
}

function world(setting: Setting = {}): World {
  const skewMs = setting.skewMs ?? 0
  const clock = createVirtualClock(testNow - skewMs)
  const origin = clock.monotonic()
  const serverNow = (): number => testNow + clock.monotonic() - origin
  const server = { ...clock, now: serverNow }
  const platform = createFakePlatform({ records: setting.records ?? [], clock: server, latencyMs: 20 })
  const { instead } = setting
  const http = createFakeHttp({ platform, now: () => clock.now(), serverNow, ...(instead && { instead }) })
  const facts: Fact[] = []
  const signing = { sign: () => Promise.resolve('a.b.c'), bits: 4096, fingerprint: 'f' }
  const engine = createEngine({
    config: configOf(setting.env),
    periodMs: 30_000,
    clock,
    random: steadyRandom,
    transport: http.transport,
    key: { current: () => signing, refresh: () => Promise.resolve(false) },
    certificate: undefined,
    report: (fact) => facts.push(fact),
  })
  const stop = new AbortController()
  const running: Promise<unknown>[] = []
  ends.push(async () => {
    stop.abort(new Error('the test is over'))
    await clock.run(Promise.allSettled([...running, engine.sweeper.idle()]))
    expect(clock.sleepers()).toBe(0)
  })
  return {
    clock,
    engine,
    platform,
    http,
    facts,
    start() {
      running.push(
        engine.tokens.start(stop.signal),
        engine.guard.run(stop.signal),
        engine.dispatcher.run({ stop: stop.signal, kill: stop.signal }),
      )
    },
    async tickEvery(periodMs, forMs) {
      for (let at = 0; at < forMs; at += periodMs) {
        engine.sweeper.tick(stop.signal)
        await clock.advance(periodMs)
      }
    },
  }
}

function due(count: number): ReturnType<typeof failedRecord>[] {
  return Array.from({ length: count }, (_, index) => failedRecord({ eventLocal: testNow - 2 * dayMs + index * 1000 }))
}

describe('from the configuration', () => {
  test('the policy is what the defaults say', () => {
    expect(toPolicy(configOf(), 30_000)).toEqual({
      window: { lookbackMs: 7 * dayMs, settleMs: minuteMs, notBefore: undefined },
      select: { eventTypes: [], modules: [], subscriptionIds: [] },
      backoff: { initialMs: minuteMs, multiplier: 2, maxMs: 6 * hourMs, jitter: 0.5 },
      maxAttempts: 30,
      enabled: true,
      periodMs: 30_000,
    })
  })

  test('and what the operator set, subscriptions in the case in which records carry them', () => {
    const policy = toPolicy(
      configOf({
        RECONCILER_WINDOW_NOT_BEFORE: '2026-01-10T00:00:00Z',
        RECONCILER_SELECT_SUBSCRIPTION_IDS: 'AAAAAAAA-0000-4000-8000-000000000001',
        RECONCILER_SELECT_MODULES: 'accounts,incoming-transfers',
        RECONCILER_RETRY_ENABLED: 'false',
        RECONCILER_RETRY_MAX_ATTEMPTS: '5',
        RECONCILER_RETRY_BACKOFF_JITTER: '0',
      }),
      1000,
    )
    expect(policy).toMatchObject({
      window: { notBefore: Date.UTC(2026, 0, 10) },
      select: {
        modules: ['accounts', 'incoming-transfers'],
        subscriptionIds: ['aaaaaaaa-0000-4000-8000-000000000001'],
      },
      enabled: false,
      maxAttempts: 5,
      backoff: { jitter: 0 },
    })
  })

  test('there are connections for retries, two sweeps side by side and a probe', () => {
    const config = configOf({ RECONCILER_RETRY_CONCURRENCY: '3', RECONCILER_SWEEP_CONCURRENCY: '5' })
    expect(connectionsOf(config)).toBe(3 + 2 * 5 + 1)
  })
})

describe('at work', () => {
  test('everything that is due is delivered, with one token; the state tells it', async () => {
    const { clock, engine, http, platform, start, tickEvery } = world({ records: due(150) })
    start()
    await tickEvery(1000, 2000)
    expect(engine.state()).toMatchObject({ rateLimit: 20, certificateExpiresAt: undefined })
    expect(engine.state().summary.counts.due).toBeGreaterThan(50)
    expect(engine.state().summary.oldestOpenAt).toBeGreaterThanOrEqual(testNow - 2 * dayMs)
    await clock.advance(minuteMs)
    expect(platform.failedIds()).toEqual([])
    expect(http.calls).toMatchObject({ token: 1, retry: 150 })
    expect(engine.state()).toMatchObject({ backlogRecords: 0, inFlight: 0, beyondWindow: 0 })
    expect(engine.state().tokenExpiresAt).toBeGreaterThan(clock.now())
  })

  test.each([
    ['behind', 5 * minuteMs],
    ['ahead', -5 * minuteMs],
  ])('a host clock that is five minutes %s changes nothing of what is retried when', async (_, skewMs) => {
    const young = failedRecord({ eventLocal: testNow - 90_000, lastAttemptLocal: testNow - 89_000 })
    const { engine, platform, start, tickEvery } = world({ records: [young], skewMs })
    start()
    await tickEvery(30_000, 5 * minuteMs)
    const at = (platform.retries[0]?.at ?? 0) - testNow
    // Backed off from 30 s to a minute, and listed once it had settled.
    expect(at).toBeLessThan(minuteMs)
    expect(engine.state().skewMs.api).toBeGreaterThan(skewMs - 1100)
    expect(engine.state().skewMs.api).toBeLessThan(skewMs + 1100)
  })

  test('a host clock that is set makes nothing due before its time, and shows as skew', async () => {
    const rests = failedRecord({ eventLocal: testNow - dayMs, attempts: 9, lastAttemptLocal: testNow - minuteMs })
    const { clock, engine, platform, start, tickEvery } = world({ records: [rests] })
    start()
    await tickEvery(30_000, minuteMs)
    clock.jump(-10 * dayMs)
    await tickEvery(30_000, minuteMs)
    clock.jump(20 * dayMs)
    await tickEvery(30_000, minuteMs)
    expect(platform.retries).toEqual([])
    expect(engine.state().backlogRecords).toBe(1)
    expect(engine.state().skewMs.api).toBeCloseTo(-10 * dayMs, -4)
  })

  test('in observation nothing is touched, and all is held', async () => {
    const { engine, http, start, tickEvery } = world({ records: due(20), env: { RECONCILER_RETRY_ENABLED: 'false' } })
    start()
    await tickEvery(30_000, hourMs)
    expect(http.calls.retry).toBe(0)
    expect(engine.state().summary.counts).toMatchObject({ held: 20, due: 0 })
  })
})

describe('when the API refuses every token', () => {
  test('PATCHes stop, tokens are not fetched in a storm, and all goes on when it lets us in again', async () => {
    let refusing = false
    const { engine, http, platform, start, tickEvery } = world({
      records: due(1000),
      instead: ({ method }) => (refusing && method !== 'POST' ? { status: 401 } : undefined),
    })
    start()
    await tickEvery(30_000, 30_000)
    expect(platform.failedIds().length).toBeGreaterThan(300)
    refusing = true
    const before = { ...http.calls }
    await tickEvery(30_000, 10 * minuteMs)
    expect(http.calls.retry - before.retry).toBeLessThanOrEqual(2 * 8)
    expect(http.calls.token - before.token).toBeLessThanOrEqual(60)
    expect(http.calls.list - before.list).toBeLessThanOrEqual(100)
    expect(engine.guard.trouble()).toBe('unauthorized')
    expect(engine.state().summary.counts.held).toBeGreaterThan(0)
    refusing = false
    await tickEvery(30_000, 20 * minuteMs)
    expect(platform.failedIds()).toEqual([])
    expect(engine.guard.trouble()).toBeUndefined()
  })
})
