// The daemon: starts the reconciler's loops, the schedule and its listeners, and takes them down again in order.
import { createElection } from './leader-election/leader-election.ts'
import { leadAlone, type LeaderElection, type CommandRefusal } from './leader-election/leadership.ts'
import type { LeaseClient } from './leader-election/lease-client.ts'
import { createLeasePause } from './leader-election/lease-pause.ts'
import { every, type Clock, type Random } from './runtime/clock.ts'
import type { Config } from './config/schema.ts'
import { createReconciler, toPolicy, type Reconciler, type RetrySignals } from './reconciler.ts'
import type { TelemetryEvent, Emit } from './observe/events.ts'
import type { Policy } from './reconcile/policy.ts'
import { createHistory, type ChartedState, type History } from './observe/history.ts'
import { createIncidents, type Incidents } from './observe/incident.ts'
import { errorFields, type CountedLog } from './observe/log/log.ts'
import type { LogOutput } from './observe/log/log-output.ts'
import { publishEvent } from './observe/publish.ts'
import { createMetrics, type Metrics } from './observe/registry.ts'
import { createProgress, type Progress, type ProgressState } from './observe/progress.ts'
import type { CredentialState, Snapshot } from './observe/snapshot.ts'
import { startedFields } from './observe/log/log-daemon.ts'
import { createLogReporter } from './observe/log/log-reporter.ts'
import type { Probes } from './reconcile/retry/circuits.ts'
import { groupByCause, type Causes } from './ops/causes.ts'
import type { Listener } from './ops/listen.ts'
import type { SharedPause } from './ops/control.ts'
import { createGrace } from './ops/grace.ts'
import { startOpsServer } from './ops/server.ts'
import { maxCauses, maxExhausted, toStatus } from './ops/status.ts'
import type { StatusDocument } from './ops/status-document.ts'
import { mismatchOf, type Certificate } from './platform/auth/certificate.ts'
import { reloadFile, type Reloadable } from './platform/auth/reloadable.ts'
import type { SigningKey } from './platform/auth/private-key.ts'
import { createConnection, type Connection } from './platform/connection.ts'
import type { Transport } from './platform/http/http.ts'
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
  transport: Transport
  /** The proxies that it goes through, for the log. */
  proxy?: string | undefined
  schedule: Schedule
  /** The lease that the instances share; undefined with `leaderElection.kind: none`. */
  lease?: LeaseClient | undefined
  key: Reloadable<SigningKey>
  certificate: Reloadable<Certificate> | undefined
  /** Aborted to stop in good order. */
  stop: AbortSignal
  /** Default: the host itself. */
  host?: DaemonHost
}

const certificateCheckMs = 60_000
/** A loop that has not turned for this long is stuck. */
const maxBeatMs = 120_000

/** The parts of the daemon, for its loops, its listener and the log. */
interface DaemonParts {
  connection: Connection
  leaderElection: LeaderElection
  /** A new one for each term: what an earlier one knew is old, as another instance has worked since. */
  reconciler: () => Reconciler
  /** A term is over. */
  renew: () => void
  /** The operator's pause: that of this process, or of the lease. */
  pause: SharedPause
  policy: Policy
  metrics: Metrics
  progress: Progress
  history: History
  incidents: Incidents
  /** All values that are shown, at this moment. */
  snapshot: () => Snapshot
  emit: Emit
  /** Stops the reports: calls that the end of the process aborts are not failures. */
  end: () => void
}

/** What the chart of the status page shows, without iterating over records. */
function chartedOf({ backlog, circuits, pause }: Reconciler, progress: Progress, monotonicNow: number): ChartedState {
  const { 'half-open': halfOpen, open } = circuits.counts(monotonicNow)
  const { expired, lastFullSweepAt } = progress.state(0)
  const isListed = lastFullSweepAt !== undefined
  return {
    missing: isListed ? backlog.size() + backlog.leftOut.missing() + expired : null,
    circuits: open + halfOpen,
    paused: pause.since() !== undefined,
  }
}

/** Iterates over all records in memory. */
function causesOf({ backlog, situations }: Reconciler, policy: Policy): Causes {
  return groupByCause(backlog.entries(), { policy, situationOf: situations(), maxCauses, maxExhausted })
}

function createParts(options: DaemonOptions): DaemonParts {
  const { certificate, clock, config, host, key, lease, log, logOutput, nodeVersion, random } = options
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
  const { name } = config.instance
  const identity = lease === undefined ? name : `${name}_${random.uuid()}`
  const reporter = createLogReporter(log, clock, identity)
  const progress = createProgress({ startedAt, periodMs, nextTickAt: () => schedule.nextAt() })
  let isOver = false
  const history = createHistory({ clock, state: () => chartedOf(current, progress, clock.monotonic()) })

  const incidents = createIncidents({
    clock,
    gates: () => current.gates.shut(),
    causes: () => causesOf(current, policy).list,
    report: reporter.incident,
  })

  function emit(event: TelemetryEvent): void {
    if (isOver) return
    progress.observe(event, clock.now())
    history.note(event)
    incidents.note(event)
    publishEvent(metrics, event)
    reporter.observe(event)
    host?.emit(event)
  }

  const policy = toPolicy(config, periodMs)
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const election =
    lease &&
    createElection({
      client: lease,
      identity,
      leaseDurationMs: config.leaderElection.leaseDuration,
      renewDeadlineMs: config.leaderElection.renewDeadline,
      retryPeriodMs: config.leaderElection.retryPeriod,
      clock,
      emit,
      onPause(since, isOurs) {
        if (!current.pause.follow(since) || isOurs) return
        emit({ type: 'operator', command: since === undefined ? 'resume' : 'pause', changed: true, via: 'lease' })
      },
    })
  const leaderElection = election ?? leadAlone(identity, startedAt)
  const leadership = { isLeading: leaderElection.isLeading, since: () => leaderElection.state().since }
  const newReconciler = (): Reconciler =>
    createReconciler(config, { policy, connection, transport, leadership, clock, random, emit })
  let current = newReconciler()

  /** A standby owes no progress. */
  function progressNow(): ProgressState {
    const now = clock.now()
    const { progressDueAt, ...seen } = progress.state(now)
    return {
      ...seen,
      startedAt,
      progressDueAt: leaderElection.isLeading() ? progressDueAt : Math.max(now + periodMs, progressDueAt),
    }
  }

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
    leaderElection,
    reconciler: () => current,
    renew() {
      const pausedSince = current.pause.since()
      current = newReconciler()
      current.pause.follow(pausedSince)
      progress.begin(clock.now())
    },
    pause:
      election === undefined
        ? current.pause
        : createLeasePause({ election, since: () => current.pause.since(), now: () => clock.now(), emit }),
    policy,
    metrics,
    progress,
    history,
    incidents,
    snapshot: () => ({
      ...current.state(),
      ...credentials(),
      ...progressNow(),
      now: clock.now(),
      leadership: leaderElection.state(),
      nextTickAt: schedule.nextAt(),
      recoveredPerMs: history.recoveredPerMs(),
      recoveryTargetMs: config.recovery.target,
    }),
    emit,
    end() {
      isOver = true
    },
  }
}

/** Reasons why the process does not count as alive; none while it stops, and its loops rest on standby. */
function notAlive({ leaderElection, reconciler }: DaemonParts, schedule: Schedule, stopping: boolean): string[] {
  if (stopping) return []
  const isStuck = leaderElection.isLeading() && reconciler().dispatcher.silentForMs() > maxBeatMs
  return [...(isStuck ? ['the dispatch loop is stuck'] : []), ...(schedule.isLate() ? ['the schedule is stuck'] : [])]
}

/** Conditions that are missing for work. A standby is ready to take over, unless it cannot use the lease. */
function notReady({ leaderElection, progress }: DaemonParts): string[] {
  const { isLeading, lastingProblem: problem } = leaderElection.state()
  if (isLeading) return progress.notReady()
  return problem === undefined ? [] : [`calls of the lease have failed for leaderElection.leaseDuration: ${problem}`]
}

/**
 * Reloads auth.certificateFile when it changes. An unreadable file keeps the last certificate and is logged once. A
 * certificate of another key is logged when two reloads show it: the two files are never replaced at the same moment.
 */
function certificateCheck(certificate: Reloadable<Certificate>, { key, log }: DaemonOptions, emit: Emit): () => void {
  const file = 'auth.certificateFile'
  const problemNow = (): string | undefined => mismatchOf(certificate.current(), key.current())
  // The start has logged it.
  let looks = problemNow() === undefined ? 0 : Infinity
  return () => {
    reloadFile(file, certificate, emit)
    const problem = problemNow()
    looks = problem === undefined ? 0 : looks + 1
    if (problem !== undefined && looks === 2) log.event('certificate_invalid', { file, problem }, 'warn')
  }
}

/** The background work of leader and standby. */
function backgroundTasks({ connection, emit }: DaemonParts, options: DaemonOptions): Task[] {
  const { certificate, clock } = options
  if (certificate === undefined) return [connection.tokens.run]
  const check = certificateCheck(certificate, options, emit)
  return [connection.tokens.run, (signal) => every(certificateCheckMs, clock, signal, check)]
}

/**
 * One term of leadership: sweeps, retries and confirms until `stop`, then the retries in flight end. A lead that is lost
 * does not cut them off: the platform refuses a retry that the next leader sends too.
 */
async function workTerm(reconciler: Reconciler, { kill, stop }: RetrySignals): Promise<void> {
  const retrying = reconciler.retry({ stop, kill })
  await runTogether([() => retrying, reconciler.receiver.run, reconciler.confirm, reconciler.sweep], stop)
  // A bug that the last retries met.
  await retrying
}

/** Works until `stop`, term by term; resolves when all has ended. Rejects with the first bug, at once. */
async function work(options: DaemonOptions, parts: DaemonParts, grace: AbortSignal): Promise<void> {
  const { clock, schedule, stop } = options
  const { leaderElection, progress, reconciler, renew } = parts
  const [ending, electing] = [new AbortController(), new AbortController()]
  const { signal } = ending
  let hasStarted = false

  function tick(): void {
    const { sweeper } = reconciler()
    if (leaderElection.isLeading()) sweeper.tick()
    progress.ticked(clock.now(), sweeper.restEndsInMs())
  }

  async function lead(term: AbortSignal): Promise<void> {
    // The new leader does not wait for the schedule: the last one may have died in the middle of its sweep.
    if (hasStarted) tick()
    await workTerm(reconciler(), { stop: term, kill: grace })
    if (!signal.aborted) renew()
  }

  const leading = leaderElection.lead(lead, signal)
  const running = Promise.all([
    runTogether([() => leading, ...backgroundTasks(parts, options)], signal),
    runTogether([leaderElection.run], electing.signal),
  ])
  running.catch(() => undefined)
  try {
    await schedule.start(() => {
      hasStarted = true
      tick()
    })
    await Promise.race([untilAborted(stop), running])
    await schedule.stop()
    // Checks end immediately, too: they only read, and the next start sees the outcomes.
    ending.abort()
    await leading
    // The lease is held for as long as retries are in flight.
    electing.abort()
    await running
    await leaderElection.release()
  } finally {
    ending.abort()
    electing.abort()
    await schedule.stop()
  }
}

function openOpsServer(options: DaemonOptions, parts: DaemonParts): Promise<Listener> {
  const { clock, config, log, schedule, stop, version } = options
  const { connection, leaderElection, history, incidents, metrics, pause, policy, reconciler, snapshot } = parts
  const { allowRemote, token } = config.control

  /** Groups every record by its cause. The server shares one answer among all clients of the same second. */
  function status(): StatusDocument {
    const incident = incidents.last()
    return toStatus({
      ...snapshot(),
      instance: config.instance.name,
      version,
      subscriptions: config.subscriptions,
      runbookUrl: config.server.runbookUrl,
      timeZone: config.platform.timeZone,
      utcOffsetMs: connection.zone.toLocal(clock.now()) - clock.now(),
      circuits: reconciler().circuits.views(clock.monotonic()),
      causes: causesOf(reconciler(), policy),
      incident,
      history: history.steps(incident?.endedAt === undefined ? incident?.since : undefined),
      recovered: history.recovered(),
    })
  }

  function probe(): Probes | CommandRefusal {
    if (leaderElection.isLeading()) return reconciler().probe()
    const { leader = 'No instance' } = leaderElection.state()
    return { problem: `This instance stands by, and has no circuits. ${leader} leads: send the command there.` }
  }

  return (options.host?.startServer ?? startOpsServer)({
    host: config.server.host,
    port: config.server.port,
    metrics: async () => {
      metrics.show(snapshot())
      return { text: await metrics.text(), contentType: metrics.contentType }
    },
    live: () => notAlive(parts, schedule, stop.aborted),
    ready: () => [...(stop.aborted ? ['stopping'] : []), ...notReady(parts)],
    status,
    statusPage: config.server.statusPage,
    control: token === undefined ? undefined : { token, allowRemote, pause, probe },
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
  const inFlight = (): number => parts.reconciler().dispatcher.inFlight()
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log })
  try {
    if (!stop.aborted) await work(options, parts, grace.signal)
    log.event('daemon_stopped', { cutOff: grace.cutOff() })
  } finally {
    parts.end()
    grace.end()
    await server.close()
  }
}
