// The reconcile parts put together over a platform in memory and a clock that stands still until a test moves it.
import type { CircuitPolicy } from '../../src/reconcile/retry/circuit-breaker.ts'
import type { Config } from '../../src/config/schema.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { PlatformClient } from '../../src/platform/client.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { createReconciler, type Reconciler } from '../../src/reconciler.ts'
import type { WebhookRecord } from '../../src/platform/record.ts'
import { sweepNumbers, type Policy } from '../../src/reconcile/policy.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { Random } from '../../src/runtime/clock.ts'
import { runTogether } from '../../src/runtime/run-together.ts'
import { defaultPolicy, learn, listingOf, testNow, type TestBacklog } from './backlog.ts'
import { loadWith } from './configuration.ts'
import { createFakePlatform, type FakePlatform, type FakePlatformOptions } from './fake-platform.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

/** The defaults of the configuration. */
const { config: defaults } = loadWith({})

export interface ReconcileOptions extends Omit<FakePlatformOptions, 'clock'> {
  policy?: Partial<Policy>
  /** Circuits are off unless a test is about them. */
  circuit?: Partial<CircuitPolicy>
  maxRecords?: number
  sliceRecords?: number
  /** Retries in flight; pages asked for at once. */
  concurrency?: number
  pages?: number
  maxPerSecond?: number
  /** Default 0.5: sleeps and jitter are the same each time. */
  random?: number
}

export interface Reconcile extends AsyncDisposable, Omit<Reconciler, 'backlog' | 'sweep'> {
  clock: VirtualClock
  platform: FakePlatform
  backlog: TestBacklog
  events: TelemetryEvent[]
  /** Reports of the sweeps so far. */
  sweeps(): SweepReport[]
  stop: AbortController
  kill: AbortController
  /** Starts to retry and to confirm; both are ended with the test. */
  start(): Promise<void>
  /** One full sweep. */
  sweep(): Promise<SweepReport>
}

/** No limit, and none ever opens. */
export const noCircuits = { initialLimit: Infinity, maxLimit: Infinity, failureRatio: Infinity }

/** Always the middle: sleeps and jitter are the same each time. */
const steadyRandom: Random = { next: () => 0.5, uuid: () => '11111111-2222-4333-8444-555555555555' }

export function reconcile(options: ReconcileOptions = {}): Reconcile {
  const clock = createVirtualClock(testNow)
  const events: TelemetryEvent[] = []
  const platform = createFakePlatform({ latencyMs: 20, ...options, clock })
  const { concurrency = 8, maxPerSecond = 1000, maxRecords = 100_000 } = options
  const { pages = sweepNumbers.concurrency, sliceRecords = sweepNumbers.sliceRecords } = options
  const config: Config = {
    ...defaults,
    backlog: { maxRecords },
    platform: { ...defaults.platform, maxRequestsPerSecond: maxPerSecond },
    retry: { ...defaults.retry, concurrency },
  }
  const parts = createReconciler(config, {
    policy: {
      ...defaultPolicy,
      circuit: { ...defaultPolicy.circuit, ...(options.circuit ?? noCircuits) },
      sweep: { concurrency: pages, sliceRecords },
      ...options.policy,
    },
    connection: {
      zone: createTimeZone('UTC'),
      tokens: { expiresAt: () => Infinity, probe: () => false, trouble: () => undefined },
      serverClocks: { api: { now: () => clock.now(), isKnown: () => options.knowsTime?.() ?? true } },
      client: (rate): PlatformClient => ({
        ...platform,
        async list(query, signal, purpose = 'list') {
          await rate.acquire(purpose, signal)
          return platform.list(query, signal, purpose)
        },
      }),
    },
    transport: () => Promise.reject(new Error('nothing is asked here but the platform')),
    clock,
    random: { ...steadyRandom, next: () => options.random ?? steadyRandom.next() },
    emit: (event) => events.push(event),
  })
  const { confirm, outcomes, retry, sweeper } = parts
  const stop = new AbortController()
  const kill = new AbortController()
  /** The sweep loop runs from the beginning. */
  const running: Promise<unknown>[] = [parts.sweep(stop.signal).catch(() => undefined)]

  return {
    ...parts,
    clock,
    platform,
    backlog: Object.assign(parts.backlog, { outcomes }),
    events,
    stop,
    kill,
    sweeps: () => events.flatMap((event) => (event.type === 'sweep' ? [event.report] : [])),
    start() {
      const retrying = retry({ stop: stop.signal, kill: kill.signal })
      running.push(runTogether([confirm], stop.signal).catch(() => undefined))
      running.push(retrying.catch(() => undefined))
      return retrying
    },
    sweep: () => clock.run(sweeper.make('full', stop.signal)),
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the test is over'))
      kill.abort(new Error('the test is over'))
      await clock.run(Promise.all(running))
    },
  }
}

/** A backlog with the outcomes of its records; the platform's time is not known. */
export function testBacklog(options: Pick<ReconcileOptions, 'policy' | 'maxRecords'> = {}): TestBacklog {
  return reconcile({ maxRecords: 1000, knowsTime: () => false, ...options }).backlog
}

/** Takes records into the backlog, as a sweep that lists them beside others. */
export function hold(world: Reconcile, records: WebhookRecord[]): void {
  const span = { from: 0, to: Number.MAX_SAFE_INTEGER }
  learn(world.backlog, listingOf(records, { askedAt: 0, verdict: 'missed', span }), world.clock.now())
  world.planner.changed(world.backlog.entries())
}

/** Ticks now, then every `periodMs`, for `forMs`. */
export async function ticks(world: Reconcile, periodMs: number, forMs: number): Promise<void> {
  for (let at = 0; at < forMs; at += periodMs) {
    world.sweeper.tick()
    await world.clock.advance(periodMs)
  }
}
