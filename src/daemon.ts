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
  /** Told once, when the ops server listens. */
  onListening?: (port: number) => void
}

const heartbeatMs = 900_000
const certificateCheckMs = 60_000
/** A loop that has not turned for so long is stuck. */
const longestBeatMs = 120_000
/** The schedule may be so late: jitter, and a process that was busy. */
const longestDelayMs = 120_000

/** What has been seen to work since the start. */
interface Seen {
  token: boolean
  page: boolean
}

function see(seen: Seen, fact: Fact): void {
  if (fact.type === 'token-refreshed' && fact.result === 'success') seen.token = true
  if (fact.type === 'platform-request' && fact.operation === 'list' && fact.reason === 'ok') seen.page = true
}

function notReady(seen: Seen, stopping: boolean): string[] {
  return [
    ...(stopping ? ['stopping'] : []),
    ...(seen.token ? [] : ['no access token yet']),
    ...(seen.page ? [] : ['no list page of the platform yet']),
  ]
}

function heartbeat(engine: Engine, now: number): LogFields {
  const { summary, rateLimit, inFlight, backlogRecords } = engine.state()
  const { oldestOpenAt } = summary
  return {
    ...summary.counts,
    backlogRecords,
    inFlight,
    oldestAgeSeconds: oldestOpenAt === undefined ? 0 : Math.round((now - oldestOpenAt) / 1000),
    requestsPerSecond: Math.round(rateLimit * 10) / 10,
    trouble: engine.guard.trouble(),
  }
}

async function every(ms: number, clock: Clock, signal: AbortSignal, act: () => Promise<void> | void): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(ms, signal)
    await act()
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

/**
 * Runs until `stop` is aborted, then lets retries in flight finish within `shutdown.grace`.
 * @throws ConfigurationError when the port is taken; anything else that it throws is a bug.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { certificate, clock, config, log, schedule, stop } = options
  const metrics = prepareMetrics(options)
  const narrator = createNarrator(log)
  const seen: Seen = { token: false, page: false }
  const work = new AbortController()
  const kill = new AbortController()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  let tickDueAt = Infinity
  let isOver = false

  function report(fact: Fact): void {
    // What is cut off by the end of the process is no failure of anybody.
    if (isOver) return
    see(seen, fact)
    publishFact(metrics, fact, clock.now())
    narrator.tell(fact)
  }

  const engine = createEngine({ ...options, periodMs: schedule.periodMs, report })

  function tick(): void {
    tickDueAt = clock.monotonic() + (schedule.nextAt() ?? Infinity) - clock.now()
    engine.sweeper.tick(work.signal)
    engine.sweeper.idle().catch(failure.reject)
  }

  const server = await startOpsServer({
    host: config.server.host,
    port: config.server.port,
    metrics: async () => {
      publishState(metrics, { ...engine.state(), nextTickAt: schedule.nextAt() })
      return { text: await metrics.text(), contentType: metrics.contentType }
    },
    live: () => [
      ...(engine.dispatcher.silentForMs() > longestBeatMs ? ['the dispatch loop is stuck'] : []),
      ...(clock.monotonic() > tickDueAt + longestDelayMs ? ['the schedule is stuck'] : []),
    ],
    ready: () => notReady(seen, stop.aborted),
    onError: (error) => {
      log.error('a request to the ops server failed', errorFields(error))
    },
    clock,
  })

  /** Loops end with `work`; one that ends otherwise met a bug. */
  function background(loop: Promise<void>): Promise<void> {
    return loop.catch((error: unknown) => {
      if (!work.signal.aborted) failure.reject(error)
    })
  }

  /** Gives the retries in flight their grace; how many had to be cut off. */
  async function finish(retries: Promise<void>): Promise<number> {
    const finished = new AbortController()
    let cutOff = 0
    clock.sleep(config.shutdown.grace, finished.signal).then(
      () => {
        cutOff = engine.dispatcher.inFlight()
        log.warn('grace is over: retries in flight are cut off, the next start finds what is still failed', {
          inFlight: cutOff,
        })
        kill.abort()
      },
      () => undefined,
    )
    await retries
    finished.abort()
    return cutOff
  }

  const retrying = engine.dispatcher.run({ stop: work.signal, kill: kill.signal })
  retrying.catch(failure.reject)
  const loops = [
    background(engine.tokens.start(work.signal)),
    background(engine.guard.run(work.signal)),
    background(
      every(heartbeatMs, clock, work.signal, () => {
        log.info('heartbeat', heartbeat(engine, clock.now()))
      }),
    ),
    ...(certificate === undefined
      ? []
      : [background(every(certificateCheckMs, clock, work.signal, () => followCertificate(certificate, log)))]),
  ]

  try {
    options.onListening?.(server.port)
    log.info('started', startedFields(options, server.port))
    if (!stop.aborted) {
      await schedule.start(tick)
      await Promise.race([aborted(stop), failure.promise])
    }
    server.drain()
    const { grace } = config.shutdown
    log.info('stopping', {
      signal: stop.reason instanceof Error ? stop.reason.message : undefined,
      inFlight: engine.dispatcher.inFlight(),
      grace: formatDuration(grace),
    })
    await schedule.stop()
    work.abort()
    const cutOff = await finish(retrying)
    await Promise.all([...loops, engine.sweeper.idle()])
    log.info('stopped', { cutOff })
  } finally {
    isOver = true
    work.abort()
    kill.abort()
    await schedule.stop()
    await server.close()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else
      signal.addEventListener(
        'abort',
        () => {
          resolve()
        },
        { once: true },
      )
  })
}
