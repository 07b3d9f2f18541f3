// Puts the parts together: platform and reconcile, as the daemon and the one-off commands use them. Starts nothing by itself.
import { createSteadyClock, type Clock, type Random } from './clock.ts'
import type { Config } from './config/schema.ts'
import type { Report } from './facts.ts'
import type { State } from './metrics/publish.ts'
import type { CertificateSource } from './platform/certificate.ts'
import { createPlatformClient, type PlatformClient } from './platform/client.ts'
import type { Transport } from './platform/http.ts'
import { createZone } from './platform/local-time.ts'
import type { KeySource } from './platform/private-key.ts'
import { createRate } from './platform/rate.ts'
import { createSkew } from './platform/skew.ts'
import { createTokenManager, type TokenManager } from './platform/token.ts'
import { tokenPath } from './platform/wire.ts'
import { createBacklog, type Backlog } from './reconcile/backlog.ts'
import { createDispatcher, type Dispatcher } from './reconcile/dispatch.ts'
import { createGuard, type Guard } from './reconcile/guard.ts'
import type { Policy } from './reconcile/policy.ts'
import { createSweeper, type Sweeper } from './reconcile/sweeper.ts'

export interface EngineOptions {
  config: Config
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
  clock: Clock
  random: Random
  transport: Transport
  key: KeySource
  certificate: CertificateSource | undefined
  report: Report
}

export interface Engine {
  client: PlatformClient
  tokens: TokenManager
  backlog: Backlog
  dispatcher: Dispatcher
  guard: Guard
  sweeper: Sweeper
  /** What metrics and reports show of the present moment. */
  state(): Omit<State, 'nextTickAt'>
}

export function toPolicy(config: Config, periodMs: number): Policy {
  const { window, retry, select } = config
  return {
    window: { lookbackMs: window.lookback, settleMs: window.settle, notBefore: window.notBefore },
    select,
    backoff: {
      initialMs: retry.backoff.initial,
      multiplier: retry.backoff.multiplier,
      maxMs: retry.backoff.max,
      jitter: retry.backoff.jitter,
    },
    maxAttempts: retry.maxAttempts,
    enabled: retry.enabled,
    periodMs,
  }
}

/** Connections to each origin: what retries, sweeps and a probe can use at the same time. */
export function connectionsOf(config: Config): number {
  return config.retry.concurrency + 2 * config.sweep.concurrency + 1
}

/** Tells when a request was sent and answered on the clock that the engine lives by: the host's may have been set meanwhile. */
function timedBy(clock: Clock, host: Clock, transport: Transport): Transport {
  return async (request) => {
    const answer = await transport(request)
    const ahead = clock.now() - host.now()
    return { ...answer, sentAt: answer.sentAt + ahead, receivedAt: answer.receivedAt + ahead }
  }
}

export function createEngine(options: EngineOptions): Engine {
  const { config, random, report } = options
  const clock = createSteadyClock(options.clock)
  const transport = timedBy(clock, options.clock, options.transport)
  const policy = toPolicy(config, options.periodMs)
  const zone = createZone(config.platform.timeZone)
  const skews = { auth: createSkew(), api: createSkew() }
  const rate = createRate({
    clock,
    maxPerSecond: config.platform.maxRequestsPerSecond,
    maxRetriesPerSecond: config.retry.maxPerSecond,
  })
  const tokens = createTokenManager({
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
    skew: skews.auth,
    report,
  })
  const client = createPlatformClient({
    baseUrl: config.platform.baseUrl,
    requestTimeoutMs: config.platform.requestTimeout,
    zone,
    tokens,
    transport,
    rate,
    skew: skews.api,
    clock,
    random,
    report,
  })
  const backlog = createBacklog({ policy, zone, maxRecords: config.backlog.maxRecords })
  const guard = createGuard({
    clock,
    random,
    report,
    probe: async (signal) => {
      await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    },
    wake: () => {
      dispatcher.wake()
    },
  })
  const dispatcher = createDispatcher({
    client,
    backlog,
    policy,
    rate,
    guard,
    clock,
    concurrency: config.retry.concurrency,
    report,
  })
  const sweeper = createSweeper({
    client,
    backlog,
    dispatcher,
    policy,
    zone,
    clock,
    random,
    sliceRecords: config.sweep.sliceRecords,
    concurrency: config.sweep.concurrency,
    maxRecords: config.backlog.maxRecords,
    report,
  })

  return {
    client,
    tokens,
    backlog,
    dispatcher,
    guard,
    sweeper,
    state: () => ({
      summary: backlog.summary(client.now(), guard.trouble() !== undefined),
      backlogRecords: backlog.size(),
      beyondWindow: sweeper.beyondWindow(),
      inFlight: dispatcher.inFlight(),
      rateLimit: rate.limit(),
      tokenExpiresAt: tokens.expiresAt(),
      certificateExpiresAt: options.certificate?.current().notAfter,
      // Against the host's clock as it is now, which is what an operator can put right.
      skewMs: {
        auth: skews.auth.estimate() + clock.now() - options.clock.now(),
        api: skews.api.estimate() + clock.now() - options.clock.now(),
      },
    }),
  }
}
