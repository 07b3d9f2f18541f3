// The reconcile parts put together, over list calls that a test answers, and a clock that stands still until it moves it.
import type { CircuitPolicy } from '../../src/reconcile/retry/circuit-breaker.ts'
import type { Config } from '../../src/config/schema.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { PlatformClient } from '../../src/platform/client.ts'
import type { ListPage, ListQuery } from '../../src/platform/operations.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { createReconciler, type Reconciler } from '../../src/reconciler.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { Random } from '../../src/runtime/clock.ts'
import { defaultPolicy, testNow, type TestBacklog } from './backlog.ts'
import { loadWith } from './configuration.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

/** The defaults of the configuration. */
const { config: defaults } = loadWith({})

export interface ReconcileOptions {
  /** Circuits are off unless a test is about them. */
  circuit?: Partial<CircuitPolicy>
  maxRecords?: number
  /** Default 0.5: sleeps and jitter are the same each time. */
  random?: number
  /** True when a response has given the platform's time. Default yes. */
  knowsTime?: boolean
  /** Comes before an empty page is the answer to a list call; may reject. */
  beforeList?: (query: ListQuery) => Promise<void>
}

export interface Reconcile extends AsyncDisposable, Omit<Reconciler, 'backlog' | 'sweep'> {
  clock: VirtualClock
  backlog: TestBacklog
  events: TelemetryEvent[]
  /** Starts the retry loop; it is ended with the test. */
  start(): Promise<void>
  /** One full sweep. */
  sweep(): Promise<SweepReport>
}

/** No limit, and none ever opens. */
export const noCircuits = { initialLimit: Infinity, maxLimit: Infinity, failureRatio: Infinity }

/** Always the middle: sleeps and jitter are the same each time. */
const steadyRandom: Random = { next: () => 0.5, uuid: () => '11111111-2222-4333-8444-555555555555' }

export function reconcile(options: ReconcileOptions = {}): Reconcile {
  const { circuit = noCircuits, knowsTime = true, maxRecords = 1000, random } = options
  const clock = createVirtualClock(testNow)
  const events: TelemetryEvent[] = []
  const config: Config = { ...defaults, backlog: { maxRecords } }

  async function list(query: ListQuery): Promise<ListPage> {
    await options.beforeList?.(query)
    return { records: [], unreadable: [], rows: 0, size: 100, total: 0 }
  }
  const client: PlatformClient = {
    now: () => clock.now(),
    knowsTime: () => knowsTime,
    list,
    ping: async () => void (await list({ status: 'failed', page: 0, size: 1 })),
    retry: () => Promise.reject(new Error('no test of parts sends a retry')),
  }
  const parts = createReconciler(config, {
    policy: { ...defaultPolicy, circuit: { ...defaultPolicy.circuit, ...circuit } },
    connection: {
      zone: createTimeZone('UTC'),
      tokens: {
        get: () => Promise.reject(new Error('no test of parts sends a retry')),
        ...{ isHeld: () => true, probe: () => false, trouble: () => undefined },
      },
      serverClocks: { api: { now: () => clock.now(), isKnown: () => knowsTime } },
      client: () => client,
    },
    transport: () => Promise.reject(new Error('nothing is asked here but the platform')),
    clock,
    random: { ...steadyRandom, next: () => random ?? steadyRandom.next() },
    emit: (event) => events.push(event),
  })
  const { outcomes, retry, sweeper } = parts
  const stop = new AbortController()
  const running: Promise<unknown>[] = []

  return {
    ...parts,
    clock,
    backlog: Object.assign(parts.backlog, { outcomes }),
    events,
    start() {
      const retrying = retry({ stop: stop.signal, kill: stop.signal })
      running.push(retrying.catch(() => undefined))
      return retrying
    },
    sweep: () => clock.run(sweeper.make('full', stop.signal)),
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the test is over'))
      await clock.run(Promise.all(running))
    },
  }
}

/** A backlog with the outcomes of its records; the platform's time is not known. */
export function testBacklog(maxRecords?: number): TestBacklog {
  return reconcile({ knowsTime: false, ...(maxRecords !== undefined && { maxRecords }) }).backlog
}
