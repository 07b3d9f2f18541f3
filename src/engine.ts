// Puts the parts together: platform and reconcile, as the daemon and the one-off commands use them. Starts nothing by itself.
import type { Clock, Random } from './runtime/clock.ts'
import type { Config } from './config/schema.ts'
import type { TelemetryEvent, Emit } from './observe/events.ts'
import type { EngineState } from './observe/snapshot.ts'
import type { Certificate, Reloadable, SigningKey } from './platform/credentials.ts'
import { createPlatformClient, type PlatformClient } from './platform/client.ts'
import type { Transport } from './platform/http.ts'
import { createTimeZone } from './platform/time-zone.ts'
import { createRateLimiter } from './platform/rate-limiter.ts'
import { createServerClock } from './platform/server-clock.ts'
import { createTokenCache, type TokenCache } from './platform/token.ts'
import { tokenPath } from './platform/wire.ts'
import { createCircuits, type CircuitView } from './reconcile/retry/circuits.ts'
import { createBacklog, type Backlog } from './reconcile/retry/backlog.ts'
import { createConfirmer, type Confirmer } from './reconcile/confirm/confirmer.ts'
import { decide, decisions } from './reconcile/decide.ts'
import { createDispatcher, type Dispatcher } from './reconcile/retry/dispatcher.ts'
import { nextAttempt } from './reconcile/failed-record.ts'
import { createPlatformBreaker, type PlatformBreaker } from './reconcile/retry/platform-breaker.ts'
import { createGates, type Gates } from './reconcile/retry/gates.ts'
import { createOutcomes, verdictOf, type Outcomes, type Settled } from './reconcile/confirm/outcomes.ts'
import { createPause, type Pause } from './reconcile/retry/operator-pause.ts'
import type { Policy } from './reconcile/policy.ts'
import { createReceiverHealth, type ReceiverHealth } from './reconcile/retry/receiver-health.ts'
import { createSweeper, type Sweeper } from './reconcile/sweep/sweeper.ts'

export interface EngineOptions {
  config: Config
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
  clock: Clock
  random: Random
  transport: Transport
  key: Reloadable<SigningKey>
  certificate: Reloadable<Certificate> | undefined
  emit: Emit
}

export interface Engine {
  client: PlatformClient
  tokens: TokenCache
  backlog: Backlog
  outcomes: Outcomes
  dispatcher: Dispatcher
  confirmer: Confirmer
  breaker: PlatformBreaker
  receiver: ReceiverHealth
  pause: Pause
  /** Ends the cooldowns of all open circuits; returns how many. */
  probe(): number
  sweeper: Sweeper
  policy: Policy
  /** What blocks retries now. */
  gates: Gates
  /** The circuits that are not closed. */
  circuits(): CircuitView[]
  /** What it knows at present. */
  state(): EngineState
}

/** A check of an outcome that is overdue by more than this gets as much of the rate as retries do. */
const toleratedLateMs = 10_000

/** A failure is doubted for this many times `outcome.firstCheck`. */
const doubtedChecks = 4

export function toPolicy(config: Config, periodMs: number): Policy {
  const { circuit, outcome, window, retry, select } = config
  return {
    window: {
      lookbackMs: window.lookback,
      settleMs: window.settle,
      notBefore: window.notBefore,
      expiryWarningMs: window.expiryWarning,
    },
    select,
    backoff: {
      initialMs: retry.backoff.initial,
      multiplier: retry.backoff.multiplier,
      maxMs: retry.backoff.max,
      jitter: retry.backoff.jitter,
    },
    maxAttempts: retry.maxAttempts,
    orderPerEntity: retry.orderPerEntity,
    outcome: {
      firstCheckMs: outcome.firstCheck,
      doubtMs: doubtedChecks * outcome.firstCheck,
      giveUpAfterMs: outcome.giveUpAfter,
      lostAfterMs: Math.min(outcome.giveUpAfter, circuit.probeTimeout),
    },
    periodMs,
  }
}

/** Connections to each origin: what retries, a sweep, checks and a probe can use at the same time. */
export function connectionsOf(config: Config): number {
  return config.retry.concurrency + 2 * config.sweep.concurrency + 1
}

export function createEngine(options: EngineOptions): Engine {
  const { clock, config, random, transport } = options
  const policy = toPolicy(config, options.periodMs)
  const zone = createTimeZone(config.platform.timeZone)
  const serverClocks = { auth: createServerClock(clock), api: createServerClock(clock) }
  const rate = createRateLimiter({
    clock,
    maxPerSecond: config.platform.maxRequestsPerSecond,
    maxRetriesPerSecond: config.retry.maxPerSecond,
    areChecksLate: () => confirmer.overdueMs() > toleratedLateMs,
  })
  const tokens = createTokenCache({
    tokenUrl: new URL(config.auth.issuerUrl + tokenPath),
    issuer: config.auth.issuerUrl,
    clientId: config.auth.clientId,
    scope: config.auth.scope,
    assertionLifetimeMs: config.auth.assertionLifetime,
    requestTimeoutMs: config.platform.requestTimeout,
    key: options.key,
    transport,
    clock,
    random,
    serverClock: serverClocks.auth,
    emit,
  })
  const client = createPlatformClient({
    baseUrl: config.platform.baseUrl,
    requestTimeoutMs: config.platform.requestTimeout,
    zone,
    tokens,
    transport,
    rate,
    serverClock: serverClocks.api,
    clock,
    random,
    emit,
  })
  const circuits = createCircuits(
    {
      enabled: config.circuit.enabled,
      initialLimit: config.circuit.initialLimit,
      maxLimit: config.circuit.maxLimit,
      failureRatio: config.circuit.failureRatio,
      cooldownMs: config.circuit.cooldown,
      maxCooldownMs: config.circuit.maxCooldown,
      probeTimeoutMs: config.circuit.probeTimeout,
    },
    emit,
  )
  const backlog = createBacklog({
    policy,
    zone,
    maxRecords: config.backlog.maxRecords,
  })
  const outcomes = createOutcomes({
    backlog,
    policy: policy.outcome,
    zone,
    knowsTime: () => client.knowsTime(),
    onSettled,
    onUndecided: ({ ticket }) => {
      circuits.free(ticket)
      dispatcher.wake()
    },
    onCheckDue: (record) => {
      confirmer.follow(record)
    },
  })
  const wake = (): void => {
    dispatcher.wake()
  }
  const pause = createPause({ now: () => clock.now(), wake, emit })
  const receiver = createReceiverHealth({
    healthUrl: config.receiver.healthUrl,
    intervalMs: config.receiver.interval,
    timeoutMs: config.receiver.timeout,
    transport,
    clock,
    wake,
    emit,
  })
  const breaker = createPlatformBreaker({
    clock,
    random,
    emit,
    probe: async (signal) => {
      await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    },
    wake,
  })
  const gates = createGates({
    retriesEnabled: config.retry.enabled,
    pause,
    receiver,
    breaker,
    rate,
    circuits,
    awaited: () => outcomes.pending().size,
    maxAwaited: Math.max(1, Math.floor(config.backlog.maxRecords / 2)),
    clock,
  })
  const dispatcher = createDispatcher({
    client,
    backlog,
    outcomes,
    policy,
    rate,
    breaker,
    circuits,
    gates,
    receiver,
    clock,
    concurrency: config.retry.concurrency,
    emit,
  })
  const confirmer = createConfirmer({
    client,
    backlog,
    outcomes,
    clock,
    random,
    concurrency: config.sweep.concurrency,
    firstCheckMs: config.outcome.firstCheck,
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
    random,
    sliceRecords: config.sweep.sliceRecords,
    concurrency: config.sweep.concurrency,
    maxRecords: config.backlog.maxRecords,
    stuckAfterMs: config.outcome.stuckAfter,
    pausedForMs: rate.pausedForMs,
    pausedMs: rate.pausedMs,
    gateOf: gates.of,
    isClosed: (subscriptionId) => {
      const now = clock.monotonic()
      return !circuits.isOpen(subscriptionId, now) && !circuits.isRecovering(subscriptionId, now)
    },
    emit,
  })

  function onSettled({ monotonic, outcome, pending, record, seenAt, timeOffsetMs }: Settled): void {
    circuits.settle(pending.ticket, verdictOf(outcome, record.responseStatusCode), clock.monotonic())
    emit({
      type: 'outcome',
      id: record.id,
      eventId: record.eventId,
      subscriptionId: record.subscriptionId,
      eventType: record.eventType,
      attempt: nextAttempt({ attempts: pending.baseline.attempts, tries: record.tries - 1 }),
      outcome,
      sinceEventMs: seenAt - record.eventAt,
      sinceRetryMs: monotonic - pending.sentAt,
      responseStatusCode: outcome === 'unknown' ? null : record.responseStatusCode,
      timeOffsetMs,
    })
    dispatcher.settled(record)
  }

  function probe(): number {
    const ended = circuits.endCooldowns(clock.monotonic())
    emit({ type: 'operator', command: 'probe', circuits: ended })
    dispatcher.wake()
    return ended
  }

  /** What a full sweep has shown lets circuits be forgotten. */
  function afterFullSweep(): void {
    const open = new Set<string>()
    for (const entry of backlog.entries()) {
      const { decision } = decide(entry, policy, { now: client.now() })
      if (decision !== 'parked') open.add(entry.subscriptionId)
    }
    circuits.forgetIdle((subscriptionId) => open.has(subscriptionId), clock.monotonic())
  }

  function emit(event: TelemetryEvent): void {
    if (event.type === 'sweep' && event.report.failed !== undefined) afterFullSweep()
    options.emit(event)
  }

  function state(): EngineState {
    const now = client.now()
    const summary = backlog.summary(now, gates.of)
    const leftOut = backlog.leftOut.counts()
    return {
      failed: summary.counts,
      oldestOpenAt: summary.oldestOpenAt,
      expiring: summary.expiring,
      awaiting: outcomes.pending().size,
      backlogRecords: backlog.size(),
      onlyCounted: decisions.reduce((sum, name) => (name === 'excluded' ? sum : sum + leftOut[name]), 0),
      beyondWindow: sweeper.beyondWindow(),
      stuckProcessing: sweeper.stuckProcessing(),
      circuitCounts: circuits.counts(clock.monotonic()),
      gates: gates.shut(),
      receiver: config.receiver.healthUrl === undefined ? undefined : { up: receiver.up() },
      pausedSince: pause.since(),
      trouble: breaker.trouble(),
      inFlight: dispatcher.inFlight(),
      rateLimit: rate.limit(),
      throttledForMs: rate.pausedForMs(),
      tokenExpiresAt: tokens.expiresAt(),
      certificateExpiresAt: options.certificate?.current().notAfter,
      keyReloadSuccessful: options.key.lastReloadOk(),
      // Against the host's clock as it is now, which is what an operator can put right.
      skewMs: {
        auth: serverClocks.auth.aheadOfHostMs(),
        api: serverClocks.api.aheadOfHostMs(),
      },
    }
  }

  return {
    client,
    tokens,
    backlog,
    outcomes,
    dispatcher,
    confirmer,
    breaker,
    receiver,
    pause,
    probe,
    sweeper,
    policy,
    gates,
    circuits: () => circuits.views(clock.monotonic()),
    state,
  }
}
