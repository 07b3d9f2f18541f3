// The reconcile parts put together over a platform in memory and a clock that stands still until a test moves it.
import { createGates, type Gates } from '../../src/reconcile/retry/gates.ts'
import { createTimeZone } from '../../src/platform/time-zone.ts'
import { createRateLimiter, type RateLimiter } from '../../src/platform/rate-limiter.ts'
import {
  createCircuits,
  type Circuits,
  type CircuitEvent,
  type CircuitPolicy,
} from '../../src/reconcile/retry/circuits.ts'
import { createBacklog } from '../../src/reconcile/retry/backlog.ts'
import { createConfirmer, type Confirmer } from '../../src/reconcile/confirm/confirmer.ts'
import { createDispatcher, type Dispatcher, type RetryEvent } from '../../src/reconcile/retry/dispatcher.ts'
import {
  createPlatformBreaker,
  type PlatformBreaker,
  type TroubleEvent,
} from '../../src/reconcile/retry/platform-breaker.ts'
import { createOutcomes, verdictOf, type Outcome } from '../../src/reconcile/confirm/outcomes.ts'
import type { Policy } from '../../src/reconcile/policy.ts'
import { createSweeper, type Sweeper } from '../../src/reconcile/sweep/sweeper.ts'
import type { SweeperEvent, SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { Clock, Random } from '../../src/runtime/clock.ts'
import type { PlatformClient } from '../../src/platform/client.ts'
import { defaultPolicy, minuteMs, testNow, type TestBacklog } from './backlog.ts'
import { createFakePlatform, type FakePlatform, type FakePlatformOptions } from './fake-platform.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export type ReconcileEvent = RetryEvent | TroubleEvent | SweeperEvent | CircuitEvent | OutcomeToldEvent

/** An outcome, as it becomes known. */
export interface OutcomeToldEvent {
  type: 'outcome'
  id: string
  outcome: Outcome
  timeOffsetMs: number | undefined
}

/** Circuits are off unless a test is about them. */
const circuitsOff: CircuitPolicy = {
  enabled: false,
  initialLimit: 5,
  maxLimit: 10_000,
  failureRatio: 0.9,
  cooldownMs: 30_000,
  maxCooldownMs: 600_000,
  probeTimeoutMs: 120_000,
}

export interface ReconcileOptions extends Omit<FakePlatformOptions, 'clock'> {
  policy?: Partial<Policy>
  circuit?: Partial<CircuitPolicy>
  zone?: string
  startMs?: number
  maxRecords?: number
  sliceRecords?: number
  /** Retries in flight; pages asked for at once. */
  concurrency?: number
  pages?: number
  maxPerSecond?: number
  retriesEnabled?: boolean
  /** A platform of the test's own in the place of the one in memory. */
  client?: (parts: { clock: Clock; rate: RateLimiter }) => PlatformClient
}

export interface Reconcile extends AsyncDisposable {
  clock: VirtualClock
  platform: FakePlatform
  backlog: TestBacklog
  rate: RateLimiter
  breaker: PlatformBreaker
  circuits: Circuits
  gates: Gates
  dispatcher: Dispatcher
  confirmer: Confirmer
  /** Pauses, or resumes, as an operator does. */
  setPaused: (paused: boolean) => void
  sweeper: Sweeper
  /** The sweep loop, which runs from the beginning: rejects with a bug. */
  sweeping: Promise<never>
  facts: ReconcileEvent[]
  /** Reports of the sweeps so far. */
  sweeps(): SweepReport[]
  stop: AbortController
  kill: AbortController
  /** Starts dispatcher, confirmer and breaker; they are ended with the test. */
  start(): Promise<void>
  /** One full sweep. */
  sweep(): Promise<SweepReport>
  /** Resolves when the sweep that was started last has ended. */
  swept(): Promise<void>
}

/** Always the middle: sleeps and jitter are the same each time. */
export const steadyRandom: Random = { next: () => 0.5, uuid: () => '11111111-2222-4333-8444-555555555555' }

export function reconcile(options: ReconcileOptions = {}): Reconcile {
  const clock = createVirtualClock(options.startMs ?? testNow)
  const policy: Policy = { ...defaultPolicy, ...options.policy }
  const zone = createTimeZone(options.zone ?? 'UTC')
  const facts: ReconcileEvent[] = []
  let ended = Promise.withResolvers<undefined>()
  const emit = (event: ReconcileEvent): void => {
    facts.push(event)
    if (event.type !== 'sweep') return
    ended.resolve(undefined)
    ended = Promise.withResolvers()
  }
  const platform = createFakePlatform({ latencyMs: 20, ...options, clock })
  const maxRecords = options.maxRecords ?? 100_000
  const circuits = createCircuits({ ...circuitsOff, ...options.circuit }, emit)
  const cache = createBacklog({
    policy,
    zone,
    maxRecords,
  })
  const outcomes = createOutcomes({
    backlog: cache,
    policy: policy.outcome,
    zone,
    onSettled({ outcome, pending, record, timeOffsetMs }) {
      circuits.settle(pending.ticket, verdictOf(outcome, record.responseStatusCode), clock.monotonic())
      emit({ type: 'outcome', id: record.id, outcome, timeOffsetMs })
      dispatcher.settled(record)
    },
    onUndecided({ ticket }) {
      circuits.free(ticket)
      dispatcher.wake()
    },
    onCheckDue(record) {
      confirmer.follow(record)
    },
  })
  const backlog = Object.assign(cache, { outcomes })
  let paused = false
  const rate = createRateLimiter({
    clock,
    maxPerSecond: options.maxPerSecond ?? 1000,
    areChecksLate: () => confirmer.overdueMs() > 10_000,
  })
  const client = options.client?.({ clock, rate }) ?? platform
  const stop = new AbortController()
  const kill = new AbortController()
  const breaker = createPlatformBreaker({
    clock,
    random: steadyRandom,
    emit,
    probe: async (signal) => {
      await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    },
    wake: () => {
      dispatcher.wake()
    },
  })
  const gates = createGates({
    retriesEnabled: options.retriesEnabled ?? true,
    pause: { since: () => (paused ? 0 : undefined) },
    receiver: { isDown: () => false, since: () => undefined },
    breaker,
    rate,
    circuits,
    awaited: () => outcomes.pending().size,
    maxAwaited: maxRecords / 2,
    clock,
  })
  const { concurrency = 8 } = options
  const dispatcher = createDispatcher({
    client,
    backlog,
    outcomes,
    policy,
    rate,
    breaker,
    circuits,
    gates,
    receiver: { up: () => undefined },
    clock,
    concurrency,
    emit,
  })
  const { sliceRecords = 5000, pages = 4 } = options
  const confirmer = createConfirmer({
    client,
    backlog,
    outcomes,
    clock,
    random: steadyRandom,
    concurrency: pages,
    firstCheckMs: policy.outcome.firstCheckMs,
    isFull: (subscriptionId) => circuits.isFull(subscriptionId),
  })
  const sweeper = createSweeper({
    client,
    backlog,
    outcomes,
    dispatcher,
    policy,
    zone,
    clock,
    random: steadyRandom,
    sliceRecords,
    concurrency: pages,
    maxRecords,
    stuckAfterMs: 15 * minuteMs,
    pausedForMs: rate.pausedForMs,
    pausedMs: rate.pausedMs,
    isClosed: (subscriptionId) => {
      const now = clock.monotonic()
      return !circuits.isOpen(subscriptionId, now) && !circuits.isRecovering(subscriptionId, now)
    },
    emit,
  })
  const sweeping = sweeper.run(stop.signal)
  const running: Promise<unknown>[] = [sweeping.catch(() => undefined)]
  let retrying: Promise<void> | undefined

  return {
    clock,
    platform,
    backlog,
    rate,
    breaker,
    circuits,
    gates,
    dispatcher,
    confirmer,
    setPaused(value) {
      paused = value
      dispatcher.wake()
    },
    sweeper,
    sweeping,
    facts,
    stop,
    kill,
    sweeps: () => facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report] : [])),
    start() {
      running.push(breaker.run(stop.signal).catch(() => undefined))
      running.push(confirmer.run(stop.signal).catch(() => undefined))
      retrying = dispatcher.run({ stop: stop.signal, kill: kill.signal })
      running.push(retrying.catch(() => undefined))
      return retrying
    },
    sweep: () => clock.run(sweeper.full(stop.signal)),
    swept: () => clock.run(Promise.race([ended.promise, sweeping])),
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the test is over'))
      kill.abort(new Error('the test is over'))
      await clock.run(Promise.all(running))
    },
  }
}

/** Ticks now, then every `periodMs`, for `forMs`. */
export async function ticks(world: Reconcile, periodMs: number, forMs: number): Promise<void> {
  for (let at = 0; at < forMs; at += periodMs) {
    world.sweeper.tick()
    await world.clock.advance(periodMs)
  }
}
