// The parts put together, from the configuration to the platform's JSON, on a clock that a test moves.
import { afterEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { createConnection, type Connection } from '../../src/platform/connection.ts'
import { lostAfterMsOf } from '../../src/reconcile/confirm/evidence.ts'
import { connectionsOf, createReconciler, toPolicy, type Reconciler } from '../../src/reconciler.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { dayMs, hourMs, minuteMs, testNow } from '../support/backlog.ts'
import { createFakeHttp, type FakeHttp, type FakeHttpOptions } from '../support/fake-http.ts'
import {
  accepted,
  createFakePlatform,
  failedRecord,
  type FakePlatform,
  type FakePlatformOptions,
} from '../support/fake-platform.ts'
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
  connection: Connection
  reconciler: Reconciler
  platform: FakePlatform
  http: FakeHttp
  facts: TelemetryEvent[]
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
  onRetry?: FakePlatformOptions['onRetry']
  /** How far the server's clock is ahead of the host's. */
  skewMs?: number
}

function world(setting: Setting = {}): World {
  const skewMs = setting.skewMs ?? 0
  const clock = createVirtualClock(testNow - skewMs)
  const origin = clock.monotonic()
  const serverNow = (): number => testNow + clock.monotonic() - origin
  const server = { ...clock, now: serverNow }
  const { instead, onRetry } = setting
  const platform = createFakePlatform({
    records: setting.records ?? [],
    clock: server,
    latencyMs: 20,
    ...(onRetry && { onRetry }),
  })
  const http = createFakeHttp({ platform, monotonic: () => clock.monotonic(), serverNow, ...(instead && { instead }) })
  const facts: TelemetryEvent[] = []
  const signing = { sign: () => Promise.resolve('a.b.c'), bits: 4096, fingerprint: 'f' }
  const key = { current: () => signing, reload: () => false, lastReload: () => undefined }
  const config = configOf(setting.env)
  const parts = {
    clock,
    random: steadyRandom,
    transport: http.transport,
    emit: (fact: TelemetryEvent) => facts.push(fact),
  }
  const connection = createConnection(config, { ...parts, key })
  const reconciler = createReconciler(config, { ...parts, policy: toPolicy(config, 30_000), connection })
  const stop = new AbortController()
  const running: Promise<unknown>[] = []
  ends.push(async () => {
    stop.abort(new Error('the test is over'))
    await clock.run(Promise.allSettled(running))
    expect(clock.sleepers()).toBe(0)
  })
  return {
    clock,
    connection,
    reconciler,
    platform,
    http,
    facts,
    start() {
      running.push(
        connection.tokens.run(stop.signal),
        reconciler.receiver.run(stop.signal),
        reconciler.confirm(stop.signal),
        reconciler.sweep(stop.signal),
        reconciler.retry({ stop: stop.signal, kill: stop.signal }),
      )
    },
    async tickEvery(periodMs, forMs) {
      for (let at = 0; at < forMs; at += periodMs) {
        reconciler.sweeper.tick()
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
      window: { lookback: 7 * dayMs, settle: minuteMs, expiryWarning: 6 * hourMs },
      select: { eventTypes: [], modules: [], subscriptionIds: [] },
      backoff: { initial: minuteMs, multiplier: 2, max: 6 * hourMs, jitter: 0.5 },
      maxAttempts: 30,
      outcome: { firstCheck: 500, giveUpAfter: hourMs, stuckAfter: 15 * minuteMs, probeTimeout: 2 * minuteMs },
      periodMs: 30_000,
    })
  })

  test.each([
    ['5m', '30s', 30_000],
    ['20s', '2m', 20_000],
  ])('given up after %s, probes after %s: a retry that seems not taken is looked for %i ms', (giveUp, probe, ms) => {
    const env = { RECONCILER_OUTCOME_GIVE_UP_AFTER: giveUp, RECONCILER_CIRCUIT_PROBE_TIMEOUT: probe }
    expect(lostAfterMsOf(toPolicy(configOf(env), 30_000).outcome)).toBe(ms)
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
      maxAttempts: 5,
      backoff: { jitter: 0 },
    })
  })

  test('there are connections for retries, a sweep, checks and a probe', () => {
    const config = configOf({ RECONCILER_RETRY_CONCURRENCY: '3', RECONCILER_SWEEP_CONCURRENCY: '5' })
    expect(connectionsOf(config)).toBe(3 + 2 * 5 + 1)
  })
})

describe('at work', () => {
  test('everything that is due is delivered, with one token; the state shows it', async () => {
    const { clock, connection, reconciler, http, platform, start, tickEvery } = world({ records: due(150) })
    start()
    await tickEvery(1000, 2000)
    expect(reconciler.state()).toMatchObject({ rateLimit: 20 })
    expect(reconciler.state().failed.due).toBeGreaterThan(50)
    expect(reconciler.state().oldestOpenAt).toBeGreaterThanOrEqual(testNow - 2 * dayMs)
    await clock.advance(minuteMs)
    expect(platform.failedIds()).toEqual([])
    expect(http.calls).toMatchObject({ token: 1, retry: 150 })
    expect(reconciler.state()).toMatchObject({ inFlight: 0, beyondWindow: 0 })
    expect(reconciler.backlog.size()).toBe(0)
    expect(connection.tokens.expiresAt()).toBeGreaterThan(clock.now())
  })

  test.each([
    ['behind', 5 * minuteMs],
    ['ahead', -5 * minuteMs],
  ])('a host clock that is five minutes %s changes nothing of what is retried when', async (_, skewMs) => {
    const young = failedRecord({ eventLocal: testNow - 90_000, lastAttemptLocal: testNow - 89_000 })
    const { connection, platform, start, tickEvery } = world({ records: [young], skewMs })
    start()
    await tickEvery(30_000, 5 * minuteMs)
    const at = (platform.retries[0]?.at ?? 0) - testNow
    // Backed off from 30 s to a minute, and listed once it had settled.
    expect(at).toBeLessThan(minuteMs)
    expect(connection.serverClocks.api.aheadOfHostMs()).toBeGreaterThan(skewMs - 1100)
    expect(connection.serverClocks.api.aheadOfHostMs()).toBeLessThan(skewMs + 1100)
  })

  test('a host clock that is set makes nothing due before its time, and shows as skew', async () => {
    const rests = failedRecord({ eventLocal: testNow - dayMs, attempts: 9, lastAttemptLocal: testNow - minuteMs })
    const { clock, connection, reconciler, platform, start, tickEvery } = world({ records: [rests] })
    start()
    await tickEvery(30_000, minuteMs)
    clock.jump(-10 * dayMs)
    await tickEvery(30_000, minuteMs)
    clock.jump(20 * dayMs)
    await tickEvery(30_000, minuteMs)
    expect(platform.retries).toEqual([])
    expect(reconciler.backlog.size()).toBe(1)
    expect(connection.serverClocks.api.aheadOfHostMs()).toBeCloseTo(-10 * dayMs, -4)
  })

  test('in observation nothing is touched, and all is blocked', async () => {
    const { reconciler, http, start, tickEvery } = world({
      records: due(20),
      env: { RECONCILER_RETRY_ENABLED: 'false' },
    })
    start()
    await tickEvery(30_000, hourMs)
    expect(http.calls.retry).toBe(0)
    expect(reconciler.state().failed).toMatchObject({ blocked: 20, due: 0 })
  })
})

describe('outcomes', () => {
  /** Takes a retry on, and delivers it two seconds later; `arrives` says whether the receiver takes it. */
  function later(setting: Omit<Setting, 'onRetry'>, arrives: () => boolean): World {
    const made = world({
      ...setting,
      onRetry(record, platform, id) {
        if (record?.status !== 'failed') return { result: 'already-resolved', reason: 'conflict', sent: true }
        platform.set(id, { status: 'processing' })
        void made.clock.sleep(2000).then(() => {
          const status = arrives() ? 'successful' : 'failed'
          platform.set(id, { status, attempts: record.attempts + 1, lastAttemptLocal: platform.now() })
        })
        return accepted(platform.records.get(id))
      },
    })
    return made
  }

  function told({ facts }: World): string[] {
    return facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
  }

  test('an accepted retry is awaited, shown as such, and reported once when the platform shows what became of it', async () => {
    const made = later({ records: due(5) }, () => true)
    const { clock, reconciler, start, tickEvery } = made
    start()
    await tickEvery(1000, 1000)
    expect(reconciler.state()).toMatchObject({ awaiting: 5, inFlight: 0 })
    expect(reconciler.state().failed).toMatchObject({ awaiting: 5, due: 0 })
    expect(told(made)).toEqual([])
    await clock.advance(10_000)
    expect(told(made)).toEqual(Array.from({ length: 5 }, () => 'recovered'))
    expect(reconciler.state().awaiting).toBe(0)
    expect(reconciler.backlog.size()).toBe(0)
    // From the event, and from the PATCH, to the look that saw it.
    const [first] = made.facts.filter((fact) => fact.type === 'outcome')
    expect(first?.sinceEventMs).toBeGreaterThan(2 * dayMs - minuteMs)
    expect(first?.sinceRetryMs).toBeGreaterThanOrEqual(2000)
    expect(first?.sinceRetryMs).toBeLessThan(10_000)
  })

  test('a dead receiver gets five to nine, then the circuit is open, in the state too; when it is up, all recover', async () => {
    let isUp = false
    const made = later({ records: due(200) }, () => isUp)
    const { clock, reconciler, platform, start, tickEvery } = made
    start()
    await tickEvery(1000, 20_000)
    const sent = platform.retries.length
    expect(sent).toBeGreaterThanOrEqual(5)
    expect(sent).toBeLessThanOrEqual(9)
    expect(told(made)).toEqual(Array.from({ length: sent }, () => 'failed-again'))
    expect(reconciler.state().circuitCounts).toEqual({ closed: 0, 'half-open': 0, open: 1 })
    expect(reconciler.circuits.views(clock.monotonic()).map(({ state }) => state)).toContain('open')
    expect(reconciler.state().failed).toMatchObject({ blocked: 200 - sent, 'backing-off': sent, due: 0 })
    isUp = true
    await tickEvery(30_000, 20 * minuteMs)
    expect(platform.failedIds()).toEqual([])
    expect(reconciler.state().circuitCounts.open).toBe(0)
    expect(reconciler.circuits.views(clock.monotonic())).toEqual([])
  })

  test('a probe that the operator asks for goes out in the middle of a cooldown', async () => {
    let isUp = false
    const made = later({ records: due(200) }, () => isUp)
    const { clock, reconciler, platform, start, tickEvery } = made
    start()
    await tickEvery(1000, 20_000)
    expect(reconciler.circuits.views(clock.monotonic())).toMatchObject([{ state: 'open' }])
    const sent = platform.retries.length
    await clock.advance(1000)
    expect(platform.retries.length).toBe(sent)
    isUp = true
    expect(reconciler.probe()).toEqual({ circuits: 1, underWay: 0 })
    await clock.advance(1000)
    expect(platform.retries.length).toBe(sent + 1)
    expect(reconciler.probe()).toEqual({ circuits: 0, underWay: 1 })
    expect(made.facts.filter(({ type }) => type === 'operator')).toEqual([
      { type: 'operator', command: 'probe', circuits: 1 },
      { type: 'operator', command: 'probe', circuits: 0 },
    ])
    await tickEvery(30_000, 20 * minuteMs)
    expect(platform.failedIds()).toEqual([])
  })

  test('circuit.enabled: false sends everything, no matter what comes of it', async () => {
    const made = later({ records: due(200), env: { RECONCILER_CIRCUIT_ENABLED: 'false' } }, () => false)
    made.start()
    await made.tickEvery(1000, 20_000)
    expect(made.platform.retries.length).toBe(200)
    expect(made.reconciler.state().circuitCounts).toEqual({ closed: 1, 'half-open': 0, open: 0 })
  })

  test("while the operator's pause lasts nothing is retried, all is blocked, and outcomes are still found", async () => {
    const made = later({ records: due(30) }, () => true)
    const { clock, reconciler, platform, start, tickEvery } = made
    start()
    await tickEvery(1000, 1000)
    expect(reconciler.pause.pause()).toBe(true)
    const sent = platform.retries.length
    await tickEvery(30_000, 10 * minuteMs)
    expect(platform.retries.length).toBe(sent)
    expect(told(made).length).toBe(sent)
    expect(reconciler.state().pausedSince).toBeDefined()
    expect(reconciler.state().failed).toMatchObject({ blocked: 30 - sent, due: 0, awaiting: 0 })
    reconciler.pause.resume()
    await clock.advance(minuteMs)
    expect(platform.failedIds()).toEqual([])
  })
})

describe('the health address of the receiver', () => {
  test('while it answers 503 nothing is retried and all is blocked; at its first 200 everything goes', async () => {
    const health = 'http://receiver.test:8080/health'
    let status = 503
    const { clock, reconciler, platform, start, tickEvery, facts } = world({
      records: due(20),
      env: { RECONCILER_RECEIVER_HEALTH_URL: health },
      instead: ({ url }) => (url.href === health ? { status } : undefined),
    })
    start()
    await tickEvery(30_000, 5 * minuteMs)
    expect(platform.retries).toEqual([])
    expect(reconciler.state()).toMatchObject({ receiver: { up: false, detail: 'HTTP 503' } })
    expect(reconciler.state().failed).toMatchObject({ blocked: 20, due: 0 })
    status = 200
    await clock.advance(20_000)
    expect(platform.failedIds()).toEqual([])
    expect(reconciler.state()).toMatchObject({ receiver: { up: true } })
    expect(facts.filter(({ type }) => type === 'receiver')).toHaveLength(2)
  })
})

test.each([
  [
    'that has not answered yet holds all',
    { RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.test:8080/health' },
    'receiver-down',
  ],
  ['that is not configured holds nothing', {}, undefined],
])('a health address %s', (_, env, gate) => {
  expect(world({ env }).reconciler.gates.of('')).toBe(gate)
})

describe('when the API refuses every token', () => {
  test('PATCHes stop, tokens are not fetched in a storm, and all goes on when it lets us in again', async () => {
    let refusing = false
    const { reconciler, http, platform, start, tickEvery } = world({
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
    expect(reconciler.breaker.trouble()).toBe('unauthorized')
    expect(reconciler.state().failed.blocked).toBeGreaterThan(0)
    refusing = false
    await tickEvery(30_000, 20 * minuteMs)
    expect(platform.failedIds()).toEqual([])
    expect(reconciler.breaker.trouble()).toBeUndefined()
  })
})
