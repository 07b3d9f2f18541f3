// The daemon: starts the engine's loops, the schedule and its listeners, and takes them down again in order.
import type { Audit } from './observe/audit.ts'
import { every, type Clock, type Random } from './runtime/clock.ts'
import type { Config } from './config/schema.ts'
import {
  causesOf,
  heartbeat,
  missingOf,
  nothingSeen,
  notReady,
  see,
  startedFields,
  statusState,
  type Seen,
} from './daemon-view.ts'
import { createEngine, type Engine } from './engine.ts'
import type { Fact, Report } from './observe/events.ts'
import { createHistory, type History } from './observe/history.ts'
import { errorFields, type CountedLog, type Log } from './observe/log.ts'
import type { LogOutput } from './observe/log-output.ts'
import { publishFact, publishState } from './observe/publish.ts'
import { createMetrics, type Metrics } from './observe/metrics.ts'
import { createWatch, type Watch } from './observe/progress.ts'
import { createLogReporter } from './observe/log-reporter.ts'
import { startControl, type SweepAsked } from './ops/control.ts'
import type { Listener } from './ops/listen.ts'
import { startOpsServer } from './ops/server.ts'
import { toStatus, type StatusDocument } from './ops/status.ts'
import type { Certificate, Reloadable, SigningKey } from './platform/credentials.ts'
import type { Transport } from './platform/http.ts'
import type { Schedule } from './runtime/schedule.ts'
import { createGrace, untilAborted } from './shutdown.ts'

/** What a simulation puts in the place of the host: no sockets, no metrics of this process, and it hears every fact. */
export interface DaemonHost {
  startServer: typeof startOpsServer
  /** Called only with `control.token`. */
  startControl?: typeof startControl
  processMetrics: boolean
  report: Report
}

export interface DaemonOptions {
  config: Config
  version: string
  nodeVersion: string
  clock: Clock
  random: Random
  log: CountedLog
  /** Where `log` writes; tells of the lines that it drops. */
  logOutput?: Pick<LogOutput, 'listen'> | undefined
  /** With `audit.enabled`. */
  audit?: Audit | undefined
  transport: Transport
  /** The proxies that it goes through, for the log. */
  proxy?: string | undefined
  schedule: Schedule
  key: Reloadable<SigningKey>
  certificate: Reloadable<Certificate> | undefined
  /** Aborted to stop in good order. */
  stop: AbortSignal
  /** Default: the host itself. */
  host?: DaemonHost
}

const heartbeatMs = 900_000
const certificateCheckMs = 60_000
/** A loop that has not turned for so long is stuck. */
const longestBeatMs = 120_000

/**
 * Follows auth.certificateFile; a file that can't be read keeps the last certificate, and is told once. A certificate
 * that is of another key is told when two looks show it: the two files are not exchanged in one moment.
 */
function createCertificateCheck(
  certificate: Reloadable<Certificate>,
  key: Reloadable<SigningKey>,
  log: Log,
): () => Promise<void> {
  const isOther = (): boolean => certificate.current().keyFingerprint !== key.current().fingerprint
  // The start has told it.
  let looks = isOther() ? Infinity : 0
  return async () => {
    try {
      if (await certificate.reload()) log.event('certificate_reloaded', {})
    } catch (error) {
      log.event('certificate_reload_failed', {
        problem: error instanceof Error ? error.message : 'unknown',
      })
    }
    looks = isOther() ? looks + 1 : 0
    if (looks !== 2) return
    const [certificateKey, signingKey] = [certificate.current().keyFingerprint, key.current().fingerprint]
    log.event('certificate_mismatch', { certificateKey, signingKey })
  }
}

function prepareMetrics(options: DaemonOptions): Metrics {
  const metrics = createMetrics({ processMetrics: options.host?.processMetrics ?? true })
  metrics.set('recovery_target_seconds', options.config.recovery.target / 1000)
  metrics.set('build_info', 1, { version: options.version, node_version: options.nodeVersion })
  return metrics
}

/** What keeps the process from being alive. While it stops its loops rest, and that is as it should be. */
function notAlive(engine: Engine, schedule: Schedule, stopping: boolean): string[] {
  if (stopping) return []
  return [
    ...(engine.dispatcher.silentForMs() > longestBeatMs ? ['the dispatch loop is stuck'] : []),
    ...(schedule.isLate() ? ['the schedule is stuck'] : []),
  ]
}

/** Everything that goes on beside the retries. A loop ends with `signal`; one that ends otherwise met a bug. */
async function background(
  engine: Engine,
  options: DaemonOptions,
  signal: AbortSignal,
  lastSweepAt: () => number | undefined,
): Promise<void> {
  const { certificate, clock, key, log } = options
  const loops = [
    engine.tokens.run(signal),
    engine.breaker.run(signal),
    engine.receiver.run(signal),
    engine.confirmer.run(signal),
    engine.sweeper.run(signal),
    every(heartbeatMs, clock, signal, () => {
      log.event('heartbeat', heartbeat(engine, clock.now(), lastSweepAt()))
    }),
  ]
  if (certificate !== undefined) {
    loops.push(every(certificateCheckMs, clock, signal, createCertificateCheck(certificate, key, log)))
  }
  await Promise.all(
    loops.map((loop) =>
      loop.catch((error: unknown) => {
        if (!signal.aborted) throw error
      }),
    ),
  )
}

/** What ends the loops of one life of the daemon, and where their bugs end up. */
interface Life {
  ending: AbortController
  bug: PromiseWithResolvers<never>
}

function createLife(): Life {
  const bug = Promise.withResolvers<never>()
  // Somebody listens only while there is work.
  bug.promise.catch(() => undefined)
  return { ending: new AbortController(), bug }
}

interface Work {
  engine: Engine
  onTick: () => void
  life: Life
  /** Ends retries in flight. */
  kill: AbortSignal
  /** Called when the wish to stop has come. */
  onStop: () => void
  lastSweepAt: () => number | undefined
}

/** Sweeps, retries and confirms until `stop`; resolves when all has ended. Rejects with the first bug, at once. */
async function work(options: DaemonOptions, { engine, onTick, life, kill, onStop, lastSweepAt }: Work): Promise<void> {
  const { schedule, stop } = options
  const { bug, ending } = life
  try {
    const retrying = engine.dispatcher.run({ stop: ending.signal, kill })
    const rest = background(engine, options, ending.signal, lastSweepAt)
    for (const part of [retrying, rest]) part.catch(bug.reject)
    await schedule.start(onTick)
    await Promise.race([untilAborted(stop), bug.promise])
    onStop()
    await schedule.stop()
    // Looking after retries ends at once with the rest: it only reads, and the next start sees what became of them.
    ending.abort()
    await retrying
    await rest
  } finally {
    ending.abort()
    await schedule.stop()
  }
}

interface Shown {
  engine: Engine
  metrics: Metrics
  seen: Seen
  history: History
  watch: Watch
}

/** What Prometheus gets: the state is read when it asks. */
async function scrape(
  { schedule }: DaemonOptions,
  { engine, history, metrics, watch }: Shown,
): Promise<{ text: string; contentType: string }> {
  const state = engine.state()
  const watched = watch.state({ counts: state.summary.counts, recoveredPerMs: history.recoveredPerMs() })
  publishState(metrics, { ...state, ...watched, nextTickAt: schedule.nextAt() })
  return { text: await metrics.text(), contentType: metrics.contentType }
}

function openOpsServer(options: DaemonOptions, shown: Shown): Promise<Listener> {
  const { engine, history, seen } = shown
  const { clock, config, log, schedule, stop } = options

  function status(): StatusDocument {
    const moment = { seen, history, causes: causesOf(engine), now: clock.now(), nextTickAt: schedule.nextAt() }
    return toStatus(statusState(engine, options, moment))
  }

  return (options.host?.startServer ?? startOpsServer)({
    host: config.server.host,
    port: config.server.port,
    metrics: () => scrape(options, shown),
    live: () => notAlive(engine, schedule, stop.aborted),
    ready: () => notReady(seen, stop.aborted),
    status,
    statusPage: config.server.statusPage,
    onError: (error) => {
      log.event('ops_request_failed', errorFields(error))
    },
    clock,
  })
}

/** Undefined without `control.token`: then nothing listens. */
async function openControl(options: DaemonOptions, shown: Shown): Promise<Listener | undefined> {
  const { clock, config, log, stop } = options
  const { host, port, token } = config.control
  if (token === undefined) return undefined

  function sweep(): SweepAsked {
    if (stop.aborted) return 'stopping'
    if (!shown.engine.sweeper.sweepNow()) return 'under-way'
    log.event('sweep_requested', {})
    return 'started'
  }

  return (options.host?.startControl ?? startControl)({
    host,
    port,
    token,
    pause: shown.engine.pause,
    sweep,
    onError: (error) => {
      log.event('ops_request_failed', errorFields(error))
    },
    clock,
  })
}

interface Listeners {
  port: number
  controlPort: number | undefined
  drain(): void
  close(): Promise<void>
}

/** Opens all listeners, or none. */
async function openListeners(options: DaemonOptions, shown: Shown): Promise<Listeners> {
  const server = await openOpsServer(options, shown)
  try {
    const control = await openControl(options, shown)
    return {
      port: server.port,
      controlPort: control?.port,
      drain() {
        server.drain()
        control?.drain()
      },
      async close() {
        await Promise.all([server.close(), control?.close()])
      },
    }
  } catch (error) {
    await server.close()
    throw error
  }
}

/**
 * Runs until `stop` is aborted, then lets retries in flight finish within `shutdown.grace`.
 * @throws ConfigurationError when a port is taken; anything else that it throws is a bug.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { clock, config, log, schedule, stop } = options
  const metrics = prepareMetrics(options)
  log.countLines((level) => {
    metrics.add('log_messages_total', { level })
  })
  options.logOutput?.listen({
    dropped: () => {
      metrics.add('log_lines_dropped_total', {})
    },
    resumed: (lines) => {
      log.event('log_lines_dropped', { lines })
    },
  })
  const reporter = createLogReporter(log, clock)
  const seen = nothingSeen(clock.now())
  const missing = (): number | undefined => (seen.fullySweptAt === undefined ? undefined : missingOf(engine))
  const history = createHistory({ clock, missing })
  const { periodMs } = schedule
  const watch = createWatch({ startedAt: clock.now(), periodMs, nextTickAt: () => schedule.nextAt() })
  let isOver = false

  function report(fact: Fact): void {
    // What the end of the process cuts off is nobody's failure.
    if (isOver) return
    see(seen, fact, clock.now())
    watch.hear(fact, clock.now())
    history.note(fact)
    publishFact(metrics, fact, clock.now())
    reporter.observe(fact)
    options.audit?.tell(fact)
    options.host?.report(fact)
  }

  const engine = createEngine({ ...options, periodMs: schedule.periodMs, report })
  const { sweeper } = engine

  function onTick(): void {
    sweeper.tick()
    watch.ticked(clock.now(), sweeper.restEndsInMs())
  }

  const life = createLife()
  const listeners = await openListeners(options, { engine, metrics, seen, history, watch })
  log.event('daemon_started', startedFields(options, listeners))
  const { inFlight } = engine.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  try {
    if (!stop.aborted) {
      const onStop = listeners.drain
      await work(options, { engine, onTick, life, kill: grace.signal, onStop, lastSweepAt: () => seen.sweptAt })
    }
    log.event('daemon_stopped', { cutOff: grace.cutOff() })
  } finally {
    isOver = true
    grace.end()
    await listeners.close()
  }
}
