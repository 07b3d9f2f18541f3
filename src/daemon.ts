// The daemon: starts the reconciler's loops, the schedule and the listeners, and stops them in order.
import type { CommandRefusal } from './leader-election/leadership.ts'
import { every, type Clock } from './runtime/clock.ts'
import { formatDuration } from './config/duration.ts'
import { withoutQuery } from './config/url.ts'
import type { Reconciler, RetrySignals } from './reconciler.ts'
import type { Emit } from './observe/events.ts'
import { errorFields } from './observe/log/log.ts'
import type { LogFields } from './observe/log/log-events.ts'
import type { AllProbes } from './reconcile/retry/subscriptions.ts'
import type { Listener } from './ops/listen.ts'
import { createAccess } from './ops/access.ts'
import { startOpsServer } from './ops/server.ts'
import { standbyText } from './ops/words.ts'
import { mismatchOf, type Certificate } from './platform/auth/certificate.ts'
import { reloadFile, type Reloadable } from './platform/auth/reloadable.ts'
import { isZoneWrong } from './platform/time-zone.ts'
import { exitCode, type ExitCode } from './runtime/errors.ts'
import { untilAborted } from './runtime/notifier.ts'
import { runTogether, type Task } from './runtime/run-together.ts'
import { createTurns, finish, finishInTurns } from './runtime/steps.ts'
import { createParts, type DaemonOptions, type DaemonParts } from './daemon-parts.ts'

const minuteMs = 60_000
/** Maximum duration of retries in flight after their term, for any platform.requestTimeout: the next term waits for them. */
const maxLastRetryMs = 10_000
/** A loop without progress for this long is stuck. */
const maxBeatMs = 120_000

/** Reasons why the process is not alive; none while it stops, because its loops rest on standby. */
function notAlive({ leaderElection, reconciler }: DaemonParts, stopping: boolean): string[] {
  if (stopping) return []
  const isStuck = leaderElection.isLeading() && reconciler().dispatcher.silentForMs() > maxBeatMs
  return isStuck ? ['the dispatch loop is stuck'] : []
}

/** Conditions still missing for work. A standby is ready to take over, unless it cannot use the lease. */
function notReady({ leaderElection, progress }: DaemonParts): string[] {
  const { isLeading, lastingProblem: problem } = leaderElection.state()
  if (isLeading) return progress.notReady()
  return problem === undefined ? [] : [`the lease has been unusable for leaderElection.leaseDuration: ${problem}`]
}

/**
 * Reloads auth.certificateFile when it changes. An unreadable file keeps the last certificate and is logged once. A certificate
 * of another key is logged only after two reloads: the two files are never replaced at the same moment.
 */
function certificateCheck(certificate: Reloadable<Certificate>, { key, log }: DaemonOptions, emit: Emit): () => void {
  const file = 'auth.certificateFile'
  const problemNow = (): string | undefined => mismatchOf(certificate.current(), key.current())
  // Logged at the start.
  let looks = problemNow() === undefined ? 0 : Infinity
  return () => {
    reloadFile(file, certificate, emit)
    const problem = problemNow()
    looks = problem === undefined ? 0 : looks + 1
    if (problem !== undefined && looks === 2) log.event('certificate_invalid', { file, problem }, 'warn')
  }
}

/** The background work of leader and standby. */
function backgroundTasks({ connection, emit, history, jobs }: DaemonParts, options: DaemonOptions): Task[] {
  const { certificate, clock } = options
  const check = certificate && certificateCheck(certificate, options, emit)
  const eachMinute: Task = (signal) =>
    every(minuteMs, clock, signal, () => {
      history.advance()
      check?.()
    })
  return [connection.tokens.run, jobs.run, eachMinute]
}

/**
 * One term of leadership: sweeps, retries and confirms until `stop`, then retries in flight end. The platform rejects a retry
 * that the next leader also sends.
 */
async function workTerm(reconciler: Reconciler, { kill, stop }: RetrySignals): Promise<void> {
  const retrying = reconciler.retry({ stop, kill })
  await runTogether(
    [() => retrying, reconciler.receiver.run, reconciler.confirm, reconciler.sweep, reconciler.books.run],
    stop,
  )
  // Rejects with a bug of the last retries.
  await retrying
}

/** Iterating over all records takes up to 50 ms. */
const settledLookMs = 1000

/** `run --once` waits for a separately limited subscription, unless none of its retries was accepted for this long. */
const maxUnservedMs = 900_000

/** `run --once`: resolves when the window was listed, and nothing is due, awaited, or to be listed again. */
async function untilSettled({ progress, reconciler }: DaemonParts, clock: Clock, signal: AbortSignal): Promise<void> {
  for (;;) {
    await clock.sleep(settledLookMs, signal)
    const { awaiting, failed, inFlight, receiver, ...state } = finish(reconciler().state())
    const { sweeps } = progress.state()
    const isListed = sweeps.some(({ kind }) => kind === 'full') && !state.fullSweepUnderWay
    // A platform that fails may ask for one pause after another.
    const isPaused = state.throttledForMs > 0 && sweeps.findLast(({ kind }) => kind === 'full')?.result !== 'failed'
    const isAsked = receiver === undefined || receiver.up !== undefined
    const throttled = state.unservedForMs > maxUnservedMs ? 0 : state.endless.throttled
    // Others still arrive between two trials.
    const blocked = reconciler().breaker.passesSome() ? failed.blocked : 0
    const isNoneDue = state.nextSweepInMs > 0 && failed.due + blocked + awaiting + inFlight + throttled === 0
    if (isListed && isAsked && !isPaused && isNoneDue) return
  }
}

/** The exit code of `run --once`: whether everything due has arrived. */
function codeOfOnce({ progress, reconciler }: DaemonParts, { config }: DaemonOptions): ExitCode {
  const { backlog, breaker } = reconciler()
  const last = progress.state().sweeps.findLast(({ kind }) => kind === 'full')
  const trouble = breaker.trouble()
  if (trouble === 'unauthorized' || last?.failure?.rejected === true) return exitCode.authenticationRejected
  if (trouble !== undefined || last?.result === 'failed') return exitCode.platformUnreachable
  const { aheadOfClock, awaiting, failed, onlyCounted, unreadable } = finish(reconciler().state())
  const left = config.retry.enabled ? failed.due + failed.blocked + awaiting + onlyCounted : 0
  const isTriedInVain = Iterator.from(backlog.entries()).some(({ refusals, tries }) => tries + refusals > 0)
  // In a wrong zone, failures seem to be of later times, or of before the window.
  const isOfLater = aheadOfClock > 0 || isZoneWrong(progress.state().timeOffsetMs)
  const isSeen = last?.result === 'complete' && unreadable === undefined && !isOfLater
  return isSeen && left === 0 && !isTriedInVain ? exitCode.done : exitCode.incomplete
}

/** Works term by term until `stop`; resolves when everything has ended. Rejects at once with the first bug. */
async function work(options: DaemonOptions, parts: DaemonParts, grace: AbortSignal): Promise<void> {
  const { clock, schedule, stop } = options
  const { leaderElection, reconciler, renew } = parts
  const [ending, electing] = [new AbortController(), new AbortController()]
  const { signal } = ending

  function tick(): void {
    if (leaderElection.isLeading()) reconciler().sweeper.tick()
  }

  async function lead(term: AbortSignal): Promise<void> {
    // The new leader does not wait for the schedule: the last one may have died during its sweep.
    if (schedule.nextAt() !== undefined) tick()
    // After a lost lead, retries in flight may last this long: the next term of this instance waits for them.
    const late = new AbortController()
    const end = (): void => {
      if (!signal.aborted) cancel = clock.timer(maxLastRetryMs, () => late.abort(new Error('the lead is lost')))
    }
    let cancel = (): void => undefined
    term.addEventListener('abort', end, { once: true })
    await workTerm(reconciler(), { stop: term, kill: AbortSignal.any([grace, late.signal]) })
    cancel()
    if (!signal.aborted) renew()
  }

  const leading = leaderElection.lead(lead, signal)
  const running = Promise.all([
    runTogether([() => leading, ...backgroundTasks(parts, options)], signal),
    runTogether([leaderElection.run], electing.signal),
  ])
  running.catch(() => undefined)
  try {
    schedule.start(tick)
    const settled = options.once === true ? [untilSettled(parts, clock, signal)] : []
    for (const one of settled) one.catch(() => undefined)
    await Promise.race([untilAborted(stop), running, ...settled])
    schedule.stop()
    // Checks also end immediately: they only read, and the next start sees the outcomes.
    ending.abort()
    await leading
    // The lease is held until the retries in flight have ended.
    electing.abort()
    await running
    await leaderElection.release()
  } finally {
    ending.abort()
    electing.abort()
    schedule.stop()
  }
}

function openOpsServer(options: DaemonOptions, parts: DaemonParts): Promise<Listener> {
  const { clock, config, log, secrets, stop } = options
  const { leaderElection, metrics, pause, reconciler, snapshot } = parts
  const { allowRemote } = config.control

  const access = createAccess({ secrets, allowRemote, clock })
  const turn = createTurns(clock)
  const asked = {
    instance: config.instance.name,
    subscriptions: config.subscriptions,
    now: () => reconciler().client.now(),
    standsBy: () => (leaderElection.isLeading() ? undefined : leaderElection.state()),
  }

  function probe(): AllProbes | CommandRefusal {
    const standby = asked.standsBy()
    return standby === undefined ? reconciler().probe() : { problem: standbyText(standby.leader) }
  }

  return (options.host?.startServer ?? startOpsServer)({
    host: config.server.host,
    port: config.server.port,
    metrics: async () => metrics.text(await finishInTurns(snapshot(), turn)),
    live: () => notAlive(parts, stop.aborted),
    ready: () => [...(stop.aborted ? ['stopping'] : []), ...notReady(parts)],
    status: parts.status,
    records: { ...asked, access, records: parts.records },
    commandPrefix: config.server.commandPrefix ?? '',
    control: {
      ...asked,
      access,
      pause,
      probe,
      jobs: { ...asked, jobs: parts.jobs, retriesEnabled: config.retry.enabled },
      now: clock.now,
    },
    onError: (error) => {
      log.event('ops_request_failed', errorFields(error))
    },
    clock,
  })
}

function startedFields(options: DaemonOptions, port: number): LogFields['daemon_started'] {
  const { config, nodeVersion, proxy, version } = options
  const { platform, receiver, retry, schedule, select, window } = config
  const selectedBy = Object.entries(select).flatMap(([name, names]) => (names.length > 0 ? [name] : []))
  return {
    ...{ version, nodeVersion, port, proxy },
    platform: platform.baseUrl,
    issuer: config.auth.issuerUrl,
    schedule: schedule.cron,
    lookback: formatDuration(window.lookback),
    notBefore: window.notBefore === undefined ? undefined : new Date(window.notBefore).toISOString(),
    selectedBy: selectedBy.length > 0 ? selectedBy : undefined,
    receiverHealth: receiver.healthUrl && withoutQuery(receiver.healthUrl),
    retries: retry.enabled ? 'enabled' : 'observe only',
  }
}

/** The grace period after `stop`: how long retries in flight may continue. Logs the shutdown, and how many were cut off. */
function createGrace({ clock, config, log, stop }: DaemonOptions, inFlight: () => number) {
  const { grace } = config.shutdown
  /** Aborted at its end, or when nothing is left to wait for. */
  const over = new AbortController()
  let cutOff = 0

  function begin(): void {
    const signal = stop.reason instanceof Error ? stop.reason.message : undefined
    log.event('shutdown_started', { signal, inFlight: inFlight(), grace: formatDuration(grace) })
    const cancel = clock.timer(grace, () => {
      cutOff = inFlight()
      over.abort()
      if (cutOff > 0) log.event('shutdown_grace_expired', { inFlight: cutOff })
    })
    over.signal.addEventListener('abort', cancel, { once: true })
  }

  if (stop.aborted) begin()
  else stop.addEventListener('abort', begin, { once: true, signal: over.signal })
  return { over, cutOff: () => cutOff }
}

/**
 * Runs until `stop` is aborted, or once until nothing is left to do, then lets retries in flight finish within
 * `shutdown.grace`.
 * @throws ConfigurationError or CommandFailure if it cannot listen; any other error is a bug.
 */
export async function runDaemon(options: DaemonOptions): Promise<ExitCode> {
  const { log, stop } = options
  const parts = createParts(options)
  const server = await openOpsServer(options, parts)
  log.event('daemon_started', startedFields(options, server.port))
  const grace = createGrace(options, () => parts.reconciler().dispatcher.inFlight())
  try {
    try {
      if (!stop.aborted) await work(options, parts, grace.over.signal)
    } finally {
      parts.end()
    }
    log.event('daemon_stopped', { cutOff: grace.cutOff() })
    return options.once === true ? codeOfOnce(parts, options) : exitCode.done
  } finally {
    grace.over.abort()
    await server.close()
  }
}
