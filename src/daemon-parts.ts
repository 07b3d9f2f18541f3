// Wires the parts of the daemon: what emits events, what observes them, and what shows both.
import { createElection } from './leader-election/leader-election.ts'
import { leadAlone, type LeaderElection } from './leader-election/leadership.ts'
import { LeaseFailure, type LeaseClient } from './leader-election/lease-client.ts'
import { onWallClock, type Clock, type Random } from './runtime/clock.ts'
import type { Config } from './config/schema.ts'
import { createReconciler, toPolicy, type Reconciler } from './reconciler.ts'
import type { TelemetryEvent, Emit } from './observe/events.ts'
import type { Policy } from './reconcile/policy.ts'
import {
  changedText,
  pausing,
  readPauses,
  resuming,
  type ChangePauses,
  type Pauses,
  type PauseWish,
} from './reconcile/retry/operator-pause.ts'
import { createHistory, type History, type MinuteState } from './observe/history.ts'
import { createIncidents } from './observe/incident.ts'
import type { CountedLog } from './observe/log/log.ts'
import type { LogOutput } from './observe/log/log-output.ts'
import { publishEvent } from './observe/publish.ts'
import { createMetrics, type Metrics } from './observe/registry.ts'
import { createProgress, type Progress } from './observe/progress.ts'
import type { CredentialState, Snapshot } from './observe/snapshot.ts'
import { createLogReporter } from './observe/log/log-reporter.ts'
import { createCauses } from './ops/causes.ts'
import type { ControlSecrets } from './ops/access.ts'
import type { SharedPause } from './ops/control.ts'
import type { startOpsServer } from './ops/server.ts'
import { toStatus } from './ops/status.ts'
import type { StatusDocument } from './ops/status-document.ts'
import type { Certificate } from './platform/auth/certificate.ts'
import type { Reloadable } from './platform/auth/reloadable.ts'
import type { SigningKey } from './platform/auth/private-key.ts'
import { createConnection, type Connection } from './platform/connection.ts'
import { createJobs, type Jobs } from './records/jobs.ts'
import { createLister } from './records/listing.ts'
import { createRecords, newerGapOf, type RecordsReader, type SeenWindow } from './records/records.ts'
import type { Transport } from './platform/http/http.ts'
import type { Schedule } from './runtime/schedule.ts'
import { createTurns, type Steps } from './runtime/steps.ts'

/** Replaces the host in a simulation: no sockets, no process metrics; the simulation receives every event. */
export interface DaemonHost {
  startServer: typeof startOpsServer
  processMetrics: boolean
  emit: Emit
  policy?: Partial<Policy>
}

export interface DaemonOptions {
  config: Config
  version: string
  nodeVersion: string
  clock: Clock
  random: Random
  log: CountedLog
  /** The log's output, which reports dropped lines. */
  logOutput?: Pick<LogOutput, 'listen'> | undefined
  transport: Transport
  /** Proxies in use, for the log. */
  proxy?: string | undefined
  schedule: Schedule
  /** The lease shared by the instances; undefined with `leaderElection.kind: none`. */
  lease?: LeaseClient | undefined
  key: Reloadable<SigningKey>
  certificate: Reloadable<Certificate> | undefined
  /** Secrets that authorize commands, as their files now hold them. */
  secrets: () => ControlSecrets
  /** True: one full sweep, and retries until nothing is due. */
  once?: boolean | undefined
  /** Aborted for an orderly stop. */
  stop: AbortSignal
  /** Default: the real host. */
  host?: DaemonHost
}

/** The parts of the daemon, for its loops, listener and log. */
export interface DaemonParts {
  connection: Connection
  leaderElection: LeaderElection
  /** New for each term: an earlier one is outdated, because another instance has worked since. */
  reconciler: () => Reconciler
  /** Called at the end of a term. */
  renew: () => void
  /** The operator's pauses, kept in this process or in the lease. */
  pause: SharedPause
  metrics: Metrics
  progress: Progress
  records: RecordsReader
  jobs: Jobs
  /** All shown values, at this moment. */
  snapshot: (...of: Parameters<Reconciler['state']>) => Steps<Snapshot>
  /** The status document. Groups every record by its cause: the server shares one document per second among all clients. */
  status: () => Steps<StatusDocument>
  emit: Emit
  history: Pick<History, 'advance'>
  /** Stops reporting: calls aborted by the end of the process are not failures. */
  end: () => void
}

/** Known missing deliveries, without iterating over records; null before the end of a full sweep. */
function missingOf({ backlog }: Reconciler, progress: Progress): number | null {
  const { expired, lastFullSweepAt } = progress.state()
  return lastFullSweepAt === undefined ? null : backlog.size() + backlog.evictions.known().records + expired
}

/** The rest of the state of a minute. */
function minuteOf({ gates, pause, subscriptions }: Reconciler, monotonicNow: number): Omit<MinuteState, 'missing'> {
  const { 'half-open': halfOpen, open } = subscriptions.counts(monotonicNow)
  return {
    circuits: open + halfOpen,
    paused: pause.of(undefined) !== undefined,
    gates: gates.shut().map(({ gate }) => gate),
  }
}

export function createParts(options: DaemonOptions): DaemonParts {
  const { certificate, clock, config, host, key, lease, log, logOutput, nodeVersion, random } = options
  const { schedule, transport, version } = options
  const { periodMs } = schedule
  const startedAt = clock.monotonic()
  const toWallClock = (monotonic: number): number => onWallClock(clock, monotonic)
  const build = { instance_name: config.instance.name, version, node_version: nodeVersion }
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
  const progress = createProgress({ startedAt, periodMs, nextTickAt: () => schedule.nextAt(), toWallClock })
  let isOver = false
  const history = createHistory({
    clock,
    missing: () => missingOf(current, progress),
    state: () => minuteOf(current, clock.monotonic()),
  })
  const incidents = createIncidents({ clock, history, report: reporter.incident })

  function emit(event: TelemetryEvent): void {
    if (isOver) return
    progress.observe(event, clock.monotonic())
    history.note(event)
    incidents.note(event)
    jobs.note(event)
    publishEvent(metrics, event)
    reporter.observe(event)
    host?.emit(event)
    if (event.type === 'sweep') leaderElection.swept(event.report.failure)
  }

  const policy = { ...toPolicy(config, periodMs), ...host?.policy }
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const election =
    lease &&
    createElection({
      client: lease,
      identity,
      platform: `${config.auth.issuerUrl} ${config.platform.baseUrl}`,
      leaseDurationMs: config.leaderElection.leaseDuration,
      clock,
      emit,
      onPauses(text, isOurs) {
        const changes = current.pause.follow(readPauses(text, clock.now()))
        if (!isOurs) for (const change of changes) emit({ ...change, via: 'lease' })
      },
    })
  const leaderElection = election ?? leadAlone(identity, clock.now())
  const leadership = { isLeading: leaderElection.isLeading, since: () => leaderElection.state().since }
  const newReconciler = (): Reconciler =>
    createReconciler(config, {
      ...{ policy, connection, transport, leadership, clock, random, emit },
      nextTickAt: () => schedule.nextAt(),
    })
  let current = newReconciler()
  function seenWindow(): SeenWindow {
    const { lastCompleteSweepAt = -Infinity, lastFullSweepAt } = progress.state()
    if (lastFullSweepAt === undefined) return 'nothing'
    return lastCompleteSweepAt < lastFullSweepAt ? 'part' : 'all'
  }
  const lister = createLister({
    client: () => current.client,
    fence: (span, signal) => current.dispatcher.fence(span, signal),
    ...{ policy, clock },
    zone: connection.zone,
  })
  const asked = {
    ...{ lister, policy, seenWindow, clock, zone: connection.zone },
    reconciler: () => current,
    newerGap: () => newerGapOf(progress.state().sweeps.at(-1), clock.now()),
    turn: createTurns(clock),
  }
  const jobs = createJobs({ ...asked, random, emit, maxRecords: config.backlog.maxRecords })

  /** A key that the platform rejects is as unused as an unreadable one. */
  function keyReload(): CredentialState['keyReload'] {
    const reload = key.lastReload()
    return reload && { problem: reload.problem ?? connection.tokens.keyProblem() }
  }

  function credentials(): CredentialState {
    const { api, auth } = connection.serverClocks
    return {
      tokenExpiresAt: connection.tokens.expiresAt(),
      tokenTrouble: connection.tokens.trouble(),
      certificateExpiresAt: certificate?.current().notAfter,
      keyReload: keyReload(),
      // Compared with the host's present clock, which an operator can correct.
      skewMs: { auth: auth.aheadOfHostMs(), api: api.aheadOfHostMs() },
    }
  }

  function sharedPause(): SharedPause {
    const list = (): Pauses => current.pause.list()
    if (election === undefined)
      return { list, pause: (wish) => current.pause.pause(wish), resume: (whose) => current.pause.resume(whose) }
    // A pause takes effect only through the lease: a command that cannot write it is rejected.
    const command = async (command: 'pause' | 'resume', wish: PauseWish, change: ChangePauses) => {
      try {
        const changed = await election.changePauses((text) => changedText(text, change, clock.now()))
        emit({ type: 'operator', command, changed, ...wish })
        return changed
      } catch (error) {
        if (!(error instanceof LeaseFailure)) throw error
        // Only the response may be lost.
        return { problem: `Not confirmed: ${error.message}. Then send the command again.` }
      }
    }
    return {
      list,
      pause: (wish = {}) => command('pause', wish, pausing(wish, clock.now())),
      resume: (subscriptionId) => command('resume', { subscriptionId }, resuming(subscriptionId)),
      outlivesRestart: true,
    }
  }

  function* snapshot(...of: Parameters<Reconciler['state']>): Steps<Snapshot> {
    const state = yield* current.state(...of)
    const nextTickAt = schedule.nextAt()
    return {
      ...state,
      ...credentials(),
      // A standby keeps no books,
      ...(leaderElection.isLeading() ? {} : { books: undefined }),
      // and owes no progress.
      ...progress.state(leaderElection.isLeading() ? undefined : clock.monotonic() + periodMs),
      now: clock.now(),
      startedAt: toWallClock(startedAt),
      leadership: leaderElection.state(),
      nextTickAt: nextTickAt && toWallClock(nextTickAt),
      pace: history.pace(),
      subscriptions: config.subscriptions,
    }
  }

  function* status(): Steps<StatusDocument> {
    const causes = createCauses(policy)
    const shown = yield* snapshot(current.situations(), causes.look)
    const incident = incidents.last()
    const isOngoing = incident?.endedAt === null
    // While all is well, the week shows how rarely it is not.
    const since = isOngoing ? incident.since.getTime() : current.backlog.size() === 0 ? 0 : undefined
    return toStatus({
      ...shown,
      instance: name,
      version,
      runbookUrl: config.server.runbookUrl,
      timeZone: config.platform.timeZone,
      lookbackMs: config.window.lookback,
      maxRetriesPerSecond: config.retry.maxPerSecond,
      utcOffsetMs: connection.zone.toLocal(clock.now()) - clock.now(),
      circuits: current.subscriptions.views(clock.monotonic()),
      causes: yield* causes.listed(current.backlog.bySubscription(), shown.skewMs.api),
      incident,
      history: history.steps(since),
      recovered: history.recovered(),
    })
  }

  return {
    connection,
    leaderElection,
    reconciler: () => current,
    jobs,
    renew() {
      jobs.endAll('not-leader')
      incidents.end()
      const pauses = current.pause.list()
      current = newReconciler()
      current.pause.follow(pauses)
      progress.forget()
      history.endTerm()
    },
    pause: sharedPause(),
    metrics,
    progress,
    records: createRecords(asked),
    snapshot,
    status,
    emit,
    history,
    end() {
      jobs.endAll('stopped')
      incidents.end()
      isOver = true
    },
  }
}
