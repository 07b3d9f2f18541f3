// A sandbox and the daemon's reconcilers beside it, in this process on a virtual clock: they recover in rounds, and all that they report is kept.
import { every, systemRandom, type Clock } from '../../src/runtime/clock.ts'
import { createReconciler, toPolicy, type Reconciler } from '../../src/reconciler.ts'
import { createConnection } from '../../src/platform/connection.ts'
import { runTogether, type Task } from '../../src/runtime/run-together.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { RetryResult } from '../../src/platform/operations.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import { finish } from '../../src/runtime/steps.ts'
import { platformEnv, type Sandbox } from '../../sandbox/sandbox.ts'
import { load } from '../support/configuration.ts'
import { inProcessKey, inProcessTransport, quickKeys } from '../support/in-process.ts'
import { startPlatform } from '../support/platform.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'
import type { Aspect } from './axes.ts'
import { backoffMs, maxAttempts, windowMs } from './population.ts'

const env = {
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000',
  RECONCILER_WINDOW_LOOKBACK: `${windowMs.lookback}ms`,
  RECONCILER_WINDOW_SETTLE: `${windowMs.settle}ms`,
  RECONCILER_RETRY_MAX_ATTEMPTS: String(maxAttempts),
  RECONCILER_RETRY_BACKOFF_INITIAL: `${backoffMs.initial}ms`,
  RECONCILER_RETRY_BACKOFF_MAX: `${backoffMs.max}ms`,
  RECONCILER_RETRY_CONCURRENCY: '16',
}

const sweep = { sliceRecords: 10, concurrency: 4 }
/** Rarely: on a virtual clock each look costs, and a day has 86,400 seconds. */
const pingCheckMs = 5000
const settledLookMs = 100

/** What one round did: retries that were sent and outcomes that became known in it, by name; those that are 0 are left out. */
export interface Round {
  sweep: SweepReport
  retries: Partial<Record<RetryResult, number>>
  outcomes: Partial<Record<Outcome, number>>
}

export interface ReconcilerUnderTest extends AsyncDisposable {
  reconciler: Reconciler
  facts: TelemetryEvent[]
  /**
   * One full sweep, then retries until nothing is due and each outcome is known, as `run --once` does.
   * `between` is done after the sweep.
   */
  round(between?: () => Promise<void>): Promise<Round>
}

export interface Stage extends AsyncDisposable {
  clock: VirtualClock
  sandbox: Sandbox
}

/** Starts the platform of an aspect. */
export async function startStage({ place, prefix, readings }: Aspect): Promise<Stage> {
  const clock = createVirtualClock(place?.now)
  const sandbox = await startPlatform({
    ...{ inProcess: true, clock, timeZone: place?.timeZone ?? 'UTC', ...readings },
    ...(prefix !== undefined && { pathPrefix: prefix }),
  })
  return { clock, sandbox, [Symbol.asyncDispose]: () => clock.run(sandbox.close()) }
}

/** Starts the daemon's reconciler on its host's clock. `hear` is called with every fact in the moment in which it is reported. */
export function startDaemon(
  { clock: truth, sandbox }: Stage,
  aspect: Aspect,
  hear: (fact: TelemetryEvent) => void = () => undefined,
): ReconcilerUnderTest {
  const { hostAheadMs = 0, slash = '' } = aspect
  const clock: Clock = { ...truth, now: () => truth.now() + hostAheadMs }
  const place = {
    RECONCILER_PLATFORM_BASE_URL: sandbox.baseUrl + slash,
    RECONCILER_PLATFORM_TIME_ZONE: sandbox.timeZone,
  }
  const { config } = load({ env: { ...platformEnv(sandbox, '/run/key.pem'), ...env, ...place, ...aspect.env } })
  const facts: TelemetryEvent[] = []
  function emit(fact: TelemetryEvent): void {
    facts.push(fact)
    hear(fact)
  }
  const random = systemRandom
  const transport = inProcessTransport(sandbox, clock)
  const key = inProcessKey(quickKeys().privateKeyPem)
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const policy = { ...toPolicy(config, 30_000), sweep, ...aspect.policy }
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  const work = new AbortController()
  const { breaker } = reconciler
  /** Between two rounds no retry loop runs, which would ping the platform. */
  const ping = (): Promise<void> =>
    (breaker.pingAt() ?? Infinity) <= clock.monotonic() ? breaker.ping(work.signal) : Promise.resolve()
  const pinging: Task = (signal) => every(pingCheckMs, clock, signal, ping)
  const beside = runTogether([reconciler.receiver.run, reconciler.confirm, pinging], work.signal)
  beside.catch(() => undefined)

  async function round(between: () => Promise<void> = () => Promise.resolve()): Promise<Round> {
    const from = facts.length
    const sweep = await reconciler.sweeper.make('full', work.signal)
    await between()
    await Promise.race([retryUntilSettled(reconciler, clock, work.signal), beside])
    await sandbox.idle()
    const told = facts.slice(from)
    const sent = told.flatMap((fact) => (fact.type === 'retry' && fact.response.sent ? [fact.response.result] : []))
    const outcomes = told.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
    return { sweep, retries: countsOf(sent), outcomes: countsOf(outcomes) }
  }

  return {
    reconciler,
    facts,
    round: (between) => truth.run(round(between)),
    async [Symbol.asyncDispose]() {
      work.abort()
      await truth.run(beside)
    },
  }
}

/** Retries until nothing is due, and no outcome is awaited. */
async function retryUntilSettled(
  { breaker, retry, state }: Reconciler,
  clock: Clock,
  kill: AbortSignal,
): Promise<void> {
  const stop = new AbortController()
  const retrying = retry({ stop: stop.signal, kill })
  for (let isSettled = false; !isSettled;) {
    await clock.sleep(settledLookMs, kill)
    const { awaiting, failed, inFlight, throttledForMs } = finish(state())
    isSettled = failed.due + awaiting + inFlight + throttledForMs === 0 || breaker.trouble() !== undefined
  }
  stop.abort()
  await retrying
}

function countsOf<Name extends string>(names: readonly Name[]): Partial<Record<Name, number>> {
  const counts: Partial<Record<Name, number>> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
