// The daemon: starts the reconciler's loops, the schedule and its listeners, and takes them down again in order.
import type { Audit } from './observe/audit.ts'
import { every, type Clock, type Random } from './runtime/clock.ts'
import { formatDuration } from './config/duration.ts'
import type { Config } from './config/schema.ts'
import { createReconciler, toPolicy, type Reconciler } from './reconciler.ts'
import type { TelemetryEvent, Emit } from './observe/events.ts'
import { decisions } from './reconcile/decide.ts'
import type { Policy } from './reconcile/policy.ts'
import { createHistory, type History } from './observe/history.ts'
import { errorFields, type CountedLog, type Log } from './observe/log.ts'
import type { LogOutput } from './observe/log-output.ts'
import { publishEvent } from './observe/publish.ts'
import { createMetrics, type Metrics } from './observe/metrics.ts'
import { createProgress, type Progress } from './observe/progress.ts'
import type { CredentialState, Snapshot } from './observe/snapshot.ts'
import { heartbeatFields, startedFields } from './observe/log-daemon.ts'
import { createLogReporter } from './observe/log-reporter.ts'
import { groupByCause } from './ops/causes.ts'
import type { Listener } from './ops/listen.ts'
import { startOpsServer } from './ops/server.ts'
import { maxCauses, maxParked, toStatus } from './ops/status.ts'
import type { StatusDocument } from './ops/status-document.ts'
import type { Certificate, Reloadable, SigningKey } from './platform/credentials.ts'
import { createConnection, type Connection } from './platform/connection.ts'
import type { Transport } from './platform/http.ts'
import type { Schedule } from './runtime/schedule.ts'
import { untilAborted } from './runtime/notifier.ts'
import { runTogether, type Task } from './runtime/run-together.ts'

/** Replaces the host in a simulation: no sockets, no metrics of this process; the simulation gets every event. */
export interface DaemonHost {
  startServer: typeof startOpsServer
  processMetrics: boolean
  emit: Emit
}

export interface DaemonOptions {
  config: Config
  version: string
  nodeVersion: string
  clock: Clock
  random: Random
  log: CountedLog
  /** The output of `log`; it reports the lines that it drops. */
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
/** A loop that has not turned for this long is stuck. */
const longestBeatMs = 120_000

/**
 * Reloads auth.certificateFile when it changes. An unreadable file keeps the last certificate and is logged once. A
 * certificate of another key is logged when two reloads show it: the two files are never replaced at the same moment.
 */
function createCertificateCheck(
  certificate: Reloadable<Certificate>,
  key: Reloadable<SigningKey>,
  log: Log,
): () => Promise<void> {
  const isOther = (): boolean => certificate.current().keyFingerprint !== key.current().fingerprint
  // The start has logged it.
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

export interface GraceOptions {
  /** Aborted by the shutdown request; its reason's message is the signal's name. */
  stop: AbortSignal
  graceMs: number
  /** Retries in flight now. */
  inFlight: () => number
  clock: Clock
  log: Log
}

export interface Grace {
  /** Aborted when the grace is over. */
  readonly signal: AbortSignal
  /** Number of retries in flight at that time; 0 when all had finished. */
  cutOff(): number
  /** Ends the wait, and all work that still listens to `signal`. */
  end(): void
}

/** Logs the shutdown, and the retries that had to be aborted. */
export function createGrace(options: GraceOptions): Grace {
  const { clock, graceMs, inFlight, log, stop } = options
  const kill = new AbortController()
  let cutOff = 0

  function begin(): void {
    if (kill.signal.aborted) return
    log.event('shutdown_started', {
      signal: stop.reason instanceof Error ? stop.reason.message : undefined,
      inFlight: inFlight(),
      grace: formatDuration(graceMs),
    })
    clock.sleep(graceMs, kill.signal).then(
      () => {
        cutOff = inFlight()
        kill.abort()
        if (cutOff === 0) return
        log.event('shutdown_grace_expired', { inFlight: cutOff })
      },
      () => undefined,
    )
  }

  if (stop.aborted) begin()
  else stop.addEventListener('abort', begin, { once: true })

  return {
    signal: kill.signal,
    cutOff: () => cutOff,
    end() {
      stop.removeEventListener('abort', begin)
      kill.abort()
    },
  }
}

/** The parts of the daemon, for its loops, its listener and the log. */
interface DaemonParts {
  connection: Connection
  reconciler: Reconciler
  policy: Policy
  metrics: Metrics
  progress: Progress
  history: History
  /** All values that are shown, at this moment. */
  snapshot: () => Snapshot
  /** Stops the reports: calls that the end of the process aborts are not failures. */
  end: () => void
}

/** Number of missing deliveries, without iterating over them; undefined before the first full sweep has ended. */
function missingOf(reconciler: Reconciler, progress: Progress): number | undefined {
  if (progress.state().lastFullSweepAt === undefined) return undefined
  const leftOut = reconciler.backlog.leftOut.counts()
  return decisions.reduce(
    (sum, decision) => (decision === 'excluded' ? sum : sum + leftOut[decision]),
    reconciler.backlog.size(),
  )
}

function createParts(options: DaemonOptions): DaemonParts {
  const { audit, certificate, clock, config, host, key, log, logOutput, nodeVersion, random } = options
  const { schedule, transport, version } = options
  const { periodMs } = schedule
  const startedAt = clock.now()
  const build = { version, node_version: nodeVersion }
  const metrics = createMetrics({ processMetrics: host?.processMetrics ?? true, build })
  log.countLines((level) => {
    metrics.add('log_messages_total', { level })
  })
  logOutput?.listen({
    dropped: () => {
      metrics.add('log_lines_dropped_total', {})
    },
    resumed: (lines) => {
      log.event('log_lines_dropped', { lines })
    },
  })
  const reporter = createLogReporter(log, clock)
  const progress = createProgress({ startedAt, periodMs, nextTickAt: () => schedule.nextAt() })
  let isOver = false
  const history = createHistory({ clock, missing: () => missingOf(reconciler, progress) })

  function emit(event: TelemetryEvent): void {
    if (isOver) return
    progress.observe(event, clock.now())
    history.note(event)
    publishEvent(metrics, event)
    reporter.observe(event)
    audit?.tell(event)
    host?.emit(event)
  }

  const policy = toPolicy(config, periodMs)
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })

  function credentials(): CredentialState {
    const { api, auth } = connection.serverClocks
    return {
      tokenExpiresAt: connection.tokens.expiresAt(),
      certificateExpiresAt: certificate?.current().notAfter,
      keyReloadSuccessful: key.lastReloadOk(),
      // Compared with the host's present clock, the one that an operator can correct.
      skewMs: { auth: auth.aheadOfHostMs(), api: api.aheadOfHostMs() },
    }
  }

  return {
    connection,
    reconciler,
    policy,
    metrics,
    progress,
    history,
    snapshot: () => ({
      ...reconciler.state(),
      ...credentials(),
      ...progress.state(),
      now: clock.now(),
      nextTickAt: schedule.nextAt(),
      recoveredPerMs: history.recoveredPerMs(),
      recoveryTargetMs: config.recovery.target,
    }),
    end() {
      isOver = true
    },
  }
}

/** Reasons why the process does not count as alive; none while it stops, as its loops rest then. */
function notAlive(reconciler: Reconciler, schedule: Schedule, stopping: boolean): string[] {
  if (stopping) return []
  return [
    ...(reconciler.dispatcher.silentForMs() > longestBeatMs ? ['the dispatch loop is stuck'] : []),
    ...(schedule.isLate() ? ['the schedule is stuck'] : []),
  ]
}

/** The background work next to the three loops. */
function backgroundTasks({ connection, reconciler, snapshot }: DaemonParts, options: DaemonOptions): Task[] {
  const { certificate, clock, key, log } = options
  const tasks: Task[] = [
    connection.tokens.run,
    reconciler.receiver.run,
    reconciler.confirm,
    reconciler.sweep,
    (signal) =>
      every(heartbeatMs, clock, signal, () => {
        log.event('heartbeat', heartbeatFields(snapshot()))
      }),
  ]
  if (certificate !== undefined) {
    const check = createCertificateCheck(certificate, key, log)
    tasks.push((signal) => every(certificateCheckMs, clock, signal, check))
  }
  return tasks
}

/** Sweeps, retries and confirms until `stop`; resolves when all has ended. Rejects with the first bug, at once. */
async function work(
  options: DaemonOptions,
  parts: DaemonParts,
  { drain, grace }: { drain: () => void; grace: AbortSignal },
): Promise<void> {
  const { clock, schedule, stop } = options
  const { progress, reconciler } = parts
  const ending = new AbortController()
  const { signal } = ending
  const retrying = reconciler.retry({ stop: signal, kill: grace })
  const running = runTogether([() => retrying, ...backgroundTasks(parts, options)], signal)
  running.catch(() => undefined)
  try {
    await schedule.start(() => {
      reconciler.sweeper.tick()
      progress.ticked(clock.now(), reconciler.sweeper.restEndsInMs())
    })
    await Promise.race([untilAborted(stop), running])
    drain()
    await schedule.stop()
    // Checks end immediately, too: they only read, and the next start sees the outcomes.
    ending.abort()
    await running
    // A bug in the last retries.
    await retrying
  } finally {
    ending.abort()
    await schedule.stop()
  }
}

function openOpsServer(options: DaemonOptions, parts: DaemonParts): Promise<Listener> {
  const { clock, config, log, schedule, stop, version } = options
  const { history, metrics, policy, progress, reconciler, snapshot } = parts
  const { allowRemote, token } = config.control

  /** Groups every record by its cause. The server shares one answer among all clients of the same second. */
  function status(): StatusDocument {
    const { backlog, circuits, client, gates } = reconciler
    return toStatus({
      ...snapshot(),
      instance: config.instance.name,
      version,
      timeZone: config.platform.timeZone,
      circuits: circuits.views(clock.monotonic()),
      causes: groupByCause(backlog.entries(), { policy, now: client.now(), gateOf: gates.of, maxCauses, maxParked }),
      history: history.minutes(),
    })
  }

  return (options.host?.startServer ?? startOpsServer)({
    host: config.server.host,
    port: config.server.port,
    metrics: async () => {
      metrics.show(snapshot())
      return { text: await metrics.text(), contentType: metrics.contentType }
    },
    live: () => notAlive(reconciler, schedule, stop.aborted),
    ready: () => [...(stop.aborted ? ['stopping'] : []), ...progress.notReady()],
    status,
    statusPage: config.server.statusPage,
    control: token === undefined ? undefined : { token, allowRemote, pause: reconciler.pause, probe: reconciler.probe },
    onError: (error) => {
      log.event('ops_request_failed', errorFields(error))
    },
    clock,
  })
}

/**
 * Runs until `stop` is aborted, then lets retries in flight finish within `shutdown.grace`.
 * @throws ConfigurationError when the port is taken; any other error is a bug.
 */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const { clock, config, log, stop } = options
  const parts = createParts(options)
  const server = await openOpsServer(options, parts)
  log.event('daemon_started', startedFields(options, server.port))
  const { inFlight } = parts.reconciler.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  try {
    if (!stop.aborted) await work(options, parts, { drain: server.drain, grace: grace.signal })
    log.event('daemon_stopped', { cutOff: grace.cutOff() })
  } finally {
    parts.end()
    grace.end()
    await server.close()
  }
}
