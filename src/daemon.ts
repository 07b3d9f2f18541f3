// The daemon: starts the engine's loops, the schedule and the ops server, and takes them down again in order.
import type { Clock, Random } from './clock.ts'
import { formatDuration } from './config/duration.ts'
import type { Config } from './config/schema.ts'
import { createEngine, type Engine } from './engine.ts'
import { errorFields } from './error-fields.ts'
import type { Fact } from './facts.ts'
import type { Log, LogFields } from './log.ts'
import { publishFact, publishState } from './metrics/publish.ts'
import { createMetrics, type Metrics } from './metrics/registry.ts'
import { createNarrator } from './narrate.ts'
import { startOpsServer } from './ops/server.ts'
import type { CertificateSource } from './platform/certificate.ts'
import type { Transport } from './platform/http.ts'
import type { KeySource } from './platform/private-key.ts'
import type { Schedule } from './schedule.ts'
import { createGrace, untilAborted } from './shutdown.ts'
import { createTicker, every, type Ticker } from './ticker.ts'

export interface DaemonOptions {
  config: Config
  version: string
  nodeVersion: string
  clock: Clock
  random: Random
  log: Log
  transport: Transport
  schedule: Schedule
  key: KeySource
  certificate: CertificateSource | undefined
  /** Aborted to stop in good order. */
  stop: AbortSignal
}

const heartbeatMs = 900_000
const certificateCheckMs = 60_000
/** A loop that has not turned for so long is stuck. */
const longestBeatMs = 120_000

/** What has been seen to work since the start. */
interface Seen {
  token: boolean
  page: boolean
  /** When a sweep last ended without failing, epoch ms. */
  sweptAt: number | undefined
}

function see(seen: Seen, fact: Fact, now: number): void {
  if (fact.type === 'token-refreshed' && fact.result === 'success') seen.token = true
  if (fact.type === 'platform-request' && fact.operation === 'list' && fact.reason === 'ok') seen.page = true
  if (fact.type === 'sweep' && fact.report.result !== 'failed') seen.sweptAt = now
}

function notReady(seen: Seen, stopping: boolean): string[] {
  return [
    ...(stopping ? ['stopping'] : []),
    ...(seen.token ? [] : ['no access token yet']),
    ...(seen.page ? [] : ['no list page of the platform yet']),
  ]
}

function heartbeat(engine: Engine, now: number, sweptAt: number | undefined): LogFields {
  const { summary, rateLimit, inFlight, backlogRecords } = engine.state()
  const { oldestOpenAt } = summary
  const seconds = (since: number | undefined): number | undefined =>
    since === undefined ? undefined : Math.round((now - since) / 1000)
  return {
    ...summary.counts,
    backlogRecords,
    inFlight,
    oldestAgeSeconds: seconds(oldestOpenAt) ?? 0,
    lastSweepAgeSeconds: seconds(sweptAt),
    requestsPerSecond: Math.round(rateLimit * 10) / 10,
    trouble: engine.guard.trouble(),
  }
}

/** Follows auth.certificateFile; a file that can't be read keeps the last certificate, and is told once. */
async function followCertificate(certificate: CertificateSource, log: Log): Promise<void> {
  try {
    if (await certificate.refresh()) log.info('certificate read again')
  } catch (error) {
    log.error('the changed certificate file cannot be used', {
      problem: error instanceof Error ? error.message : 'unknown',
    })
  }
}

/** What a person wants to be sure of when it has started: where it points, and what it may do there. */
function startedFields({ config, version, nodeVersion }: DaemonOptions, port: number): LogFields {
  const { platform, retry, schedule, select, window } = config
  const selected = Object.entries(select).filter(([, names]) => names.length > 0)
  return {
    version,
    nodeVersion,
    port,
    platform: platform.baseUrl,
    issuer: config.auth.issuerUrl,
    schedule: schedule.cron,
    lookback: formatDuration(window.lookback),
    ...(window.notBefore !== undefined && { notBefore: new Date(window.notBefore).toISOString() }),
    ...(selected.length > 0 && { selectedBy: selected.map(([name]) => name) }),
    retries: retry.enabled ? 'enabled' : 'observe only',
  }
}

function prepareMetrics(options: DaemonOptions): Metrics {
  const metrics = createMetrics({ processMetrics: true })
  metrics.set('build_info', 1, { version: options.version, node_version: options.nodeVersion })
  return metrics
}

/** What keeps the process from being alive. While it stops its loops rest, and that is as it should be. */
function notAlive(engine: Engine, ticker: Ticker, stopping: boolean): string[] {
  if (stopping) return []
  return [
    ...(engine.dispatcher.silentForMs() > longestBeatMs ? ['the dispatch loop is stuck'] : []),
    ...(ticker.isLate() ? ['the schedule is stuck'] : []),
  ]
}

/** Everything that goes on beside the retries. A loop ends with `signal`; one that ends otherwise met a bug. */
async function background(
  engine: Engine,
  options: DaemonOptions,
  signal: AbortSignal,
  lastSweepAt: () => number | undefined,
): Promise<void> {
  const { certificate, clock, log } = options
  const loops = [
    engine.tokens.start(signal),
    engine.guard.run(signal),
    every(heartbeatMs, clock, signal, () => {
      log.info('heartbeat', heartbeat(engine, clock.now(), lastSweepAt()))
    }),
  ]
  if (certificate !== undefined) {
    loops.push(every(certificateCheckMs, clock, signal, () => followCertificate(certificate, log)))
  }
  await Promise.all(
    loops.map((loop) =>
      loop.catch((error: unknown) => {
        if (!signal.aborted) throw error
      }),
    ),
  )
}

interface Work {
  engine: Engine
  ticker: Ticker
  /** Ends retries in flight. */
  kill: AbortSignal
  /** Called when the wish to stop has come. */
  onStop: () => void
  lastSweepAt: () => number | undefined
}

/** Sweeps and retries until `stop`; resolves when all has ended. Rejects with the first bug, at once. */
async function work(options: DaemonOptions, { engine, ticker, kill, onStop, lastSweepAt }: Work): Promise<void> {
  const { schedule, stop } = options
  const ending = new AbortController()
  const bug = Promise.withResolvers<never>()
  try {
    const retrying = engine.dispatcher.run({ stop: ending.signal, kill })
    const rest = background(engine, options, ending.signal, lastSweepAt)
    for (const part of [retrying, rest, bug.promise]) part.catch(bug.reject)
    await schedule.start(() => {
      ticker.tick(ending.signal, bug.reject)
    })
    ticker.standIn(ending.signal, bug.reject).catch((error: unknown) => {
      if (!ending.signal.aborted) bug.reject(error)
    })
    await Promise.race([untilAborted(stop), bug.promise])
    onStop()
    await schedule.stop()
    ending.abort()
    await retrying
    await Promise.all([rest, engine.sweeper.idle()])
  } finally {
    ending.abort()
    await schedule.stop()
  }
}

/**
 * Runs until `stop` is aborted, then lets retries in flight finish within `shutdown.grace`.
 * @throws ConfigurationError when the port is taken; anything else that it throws is a bug.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { clock, config, log, schedule, stop } = options
  const metrics = prepareMetrics(options)
  const narrator = createNarrator(log)
  const seen: Seen = { token: false, page: false, sweptAt: undefined }
  let isOver = false

  function report(fact: Fact): void {
    // What the end of the process cuts off is nobody's failure.
    if (isOver) return
    see(seen, fact, clock.now())
    publishFact(metrics, fact, clock.now())
    narrator.tell(fact)
  }

  const engine = createEngine({ ...options, periodMs: schedule.periodMs, report })
  const ticker = createTicker({ sweeper: engine.sweeper, clock: options.clock, periodMs: options.schedule.periodMs })
  const server = await startOpsServer({
    host: config.server.host,
    port: config.server.port,
    metrics: async () => {
      publishState(metrics, { ...engine.state(), nextTickAt: schedule.nextAt() })
      return { text: await metrics.text(), contentType: metrics.contentType }
    },
    live: () => notAlive(engine, ticker, stop.aborted),
    ready: () => notReady(seen, stop.aborted),
    onError: (error) => {
      log.error('a request to the ops server failed', errorFields(error))
    },
    clock,
  })
  log.info('started', startedFields(options, server.port))
  const { inFlight } = engine.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  try {
    const onStop = (): void => {
      server.drain()
    }
    if (!stop.aborted)
      await work(options, { engine, ticker, kill: grace.signal, onStop, lastSweepAt: () => seen.sweptAt })
    log.info('stopped', { cutOff: grace.cutOff() })
  } finally {
    isOver = true
    grace.end()
    await server.close()
  }
}
