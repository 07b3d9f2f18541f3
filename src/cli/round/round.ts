// One round for three commands: select, decide, retry unless it is a dry run, report. `plan` and `retry` select; `once` takes what is due.
import type { TelemetryEvent } from '../../observe/events.ts'
import { createGrace } from '../../ops/grace.ts'
import { decide } from '../../reconcile/decide.ts'
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import type { Reconciler, RetrySignals } from '../../reconciler.ts'
import { exitCode, type ExitCode, isAbort, UsageError } from '../../runtime/errors.ts'
import { runTogether } from '../../runtime/run-together.ts'
import { askDaemon, type AskedDaemon, pausedSince, recoveredBetween } from '../daemon-client.ts'
import { counted, span } from '../../ops/words.ts'
import { bar, createMoments } from '../format.ts'
import type { Io } from '../io.ts'
import { askReceiver, inSession, type Session, unavailable } from '../session.ts'
import { gather } from './gather.ts'
import { toText } from './report-text.ts'
import {
  createRetryTally,
  judge,
  toReport,
  type CommandRound,
  type RetryTally,
  type RoundOptions,
  type RoundReport,
  type StoppedBy,
} from './report.ts'
import { configFor, selectionOf } from './select.ts'

/** Lists and decides; retries nothing. */
async function look(
  { command, options, selection, session }: Pick<CommandRound, 'command' | 'options' | 'selection' | 'session'>,
  io: Io,
): Promise<CommandRound> {
  const { clock, config, reconciler, progress, stop, target } = session
  const [startedAt, started] = [clock.now(), clock.monotonic()]
  const calls = { count: 0, seconds: 0 }
  const answered = Promise.withResolvers<void>()
  session.listen((event) => {
    if (event.type === 'receiver') answered.resolve()
    if (event.type !== 'platform-request') return
    calls.count += 1
    calls.seconds += event.seconds
    if (selection.by === 'due')
      progress.show(() => `Listing the failed records of ${target}: ${reconciler.backlog.size()} so far ...`)
  })
  const ask = async (): Promise<AskedDaemon> => {
    try {
      return await askDaemon(config.server, io)
    } catch (error) {
      if (!isAbort(error, stop)) throw error
      return { url: '', problem: 'not asked' }
    }
  }
  const daemonBefore = await ask()
  const gathered = await gather(selection, session, (found) => {
    progress.show(() => `Looking for the selected records of ${target}: ${found} found so far ...`)
  })
  if (command === 'plan') stop.throwIfAborted()
  const isKnown = gathered.result !== 'failed' && !stop.aborted
  const hasHealth = config.receiver.healthUrl !== undefined
  const receiverUp =
    command === 'plan' && isKnown && hasHealth ? await askReceiver(reconciler, answered.promise, stop) : undefined
  const daemon = await ask()
  return {
    command,
    selection,
    options,
    session,
    gathered,
    startedAt,
    started,
    decidedAt: reconciler.client.now(),
    receiverUp,
    daemon,
    recoveredMeanwhile: recoveredBetween(daemonBefore, daemon),
    dryRun: command === 'plan' || !config.retry.enabled,
    secondsPerCall: calls.count === 0 ? 0 : calls.seconds / calls.count,
  }
}

/** More records than this need a yes. */
const maxUnasked = 100

function question(due: readonly FailedRecord[], { moments, target }: Session): string {
  const times = due.map(({ eventAt }) => eventAt)
  const first = times.reduce((min, at) => Math.min(min, at), Infinity)
  const last = times.reduce((max, at) => Math.max(max, at), -Infinity)
  const records = counted(due.length, 'failed record')
  return `Retry ${records} of ${target} (events from ${moments.show(first)} to ${moments.show(last)})? [y/N] `
}

/** An operator's pause in words; undefined when none is known. */
function pauseText(daemon: AskedDaemon, { moments }: Session): string | undefined {
  const since = pausedSince(daemon)
  if ('problem' in daemon || since === null) return undefined
  return `an operator has paused the daemon (${daemon.instance} at ${daemon.url}) since ${moments.show(since.getTime())}`
}

/** @throws UsageError without a terminal where a question is due */
async function confirmRetry(round: CommandRound, due: readonly FailedRecord[], io: Io): Promise<boolean> {
  const { options, session } = round
  const { enabled } = session.service.config.retry
  if (due.length === 0) return true
  const paused = pauseText(round.daemon, session)
  const isAsked = !(options.yes === true || (due.length <= maxUnasked && enabled && paused === undefined))
  if (isAsked && io.ask === undefined) {
    const why = paused ?? (enabled ? undefined : 'retry.enabled is false')
    const selected = `${counted(due.length, 'record')} of ${session.target} selected`
    throw new UsageError(`${why === undefined ? '' : `${why}; `}${selected}: confirm with --yes`)
  }
  if (paused !== undefined) session.progress.output.write(`Note: ${paused}.\n`)
  if (!isAsked || io.ask === undefined) return true
  session.progress.clear()
  if (!enabled) io.stderr.write('retry.enabled is false: the daemon retries nothing automatically.\n')
  const answer = await io.ask(question(due, session), session.stop)
  return /^\s*y(?:es)?\s*$/i.test(answer ?? '')
}

/**
 * Retries what was due at `onlyDueAt` (epoch ms of the platform's clock) and follows it to its outcome; what becomes due
 * meanwhile is not for this round. Resolves when nothing is left that could be done or waited for.
 * Rejects with the first bug that any part met.
 */
async function runReconciler(
  { confirm, receiver, retry }: Reconciler,
  { stop, kill }: RetrySignals,
  onlyDueAt: number,
): Promise<void> {
  const over = new AbortController()
  async function round(signal: AbortSignal): Promise<void> {
    await retry({ stop: AbortSignal.any([stop, signal]), kill }, { onlyDueAt })
    over.abort(new Error('the round is over'))
  }
  await runTogether([round, receiver.run, confirm], over.signal)
}

/** Records that were due then and have not been retried since. */
function dueRecords({ decidedAt, session: { reconciler, policy } }: CommandRound): FailedRecord[] {
  return [...reconciler.backlog.entries()].filter(
    (entry) => decide(entry, policy, { now: decidedAt }).decision === 'due',
  )
}

/** The reason why something is left; null when nothing is. */
function stopOf(
  { command, daemon, session: { clock, reconciler, stop } }: CommandRound,
  blocked: number,
  awaiting: number,
): StoppedBy | null {
  if (stop.aborted) return 'signal'
  const trouble = reconciler.breaker.trouble()
  if (trouble !== undefined) return trouble
  if (blocked > 0 && command === 'once' && pausedSince(daemon) !== null) return 'paused'
  if (blocked + awaiting > 0 && reconciler.receiver.up() === false) return 'receiver-down'
  return blocked > 0 && reconciler.circuits.views(clock.monotonic()).some(({ state }) => state === 'open')
    ? 'circuit'
    : null
}

interface Retrying {
  round: CommandRound
  tally: RetryTally
  /** Records that are due. */
  total: number
}

function showProgress({ round, tally, total }: Retrying, started: number): void {
  const { clock, progress } = round.session
  progress.show(() => {
    const sums = tally.sums()
    const done = sums.recovered + sums['failed-again'] + sums.unknown + sums.resolved + sums.refused
    const seconds = (clock.monotonic() - started) / 1000
    const left = done > 0 ? `, about ${span((seconds / done) * (total - done) * 1000)} left` : ''
    return (
      `${bar(done / Math.max(1, total))} ${done}/${total}${left}: ${sums.recovered} recovered, ` +
      `${sums['failed-again']} failed again, ${sums.refused} refused, ${sums.retried - done} waited for`
    )
  })
}

/** Follows the retries of a round: counts them and shows how far they are. */
function follow(retrying: Retrying): (event: TelemetryEvent) => void {
  const { round, tally } = retrying
  const started = round.session.clock.monotonic()
  return (event) => {
    if (event.type === 'outcome') tally.settled(event)
    if (event.type === 'retry') tally.retried(event)
    if (event.type === 'outcome' || event.type === 'retry') showProgress(retrying, started)
  }
}

/** Retries what is due, and follows it to its outcome. Returns the retries that were cut off. */
async function retryDue(retrying: Retrying): Promise<number> {
  const { round } = retrying
  const { clock, config, reconciler, service, stop } = round.session
  round.session.listen(follow(retrying))
  const { inFlight } = reconciler.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log: service.log })
  try {
    await runReconciler(reconciler, { stop, kill: grace.signal }, round.decidedAt)
  } finally {
    grace.end()
  }
  return grace.cutOff()
}

async function runRound(round: CommandRound, io: Io): Promise<RoundReport | undefined> {
  const { command, gathered, session } = round
  const before = toReport(round)
  if (round.dryRun || gathered.result === 'failed') return { ...before, exitCode: judge(before) }
  const due = dueRecords(round)
  const isStopped = session.stop.aborted
  if (command === 'retry' && !isStopped && !(await confirmRetry(round, due, io))) return undefined
  const tally = createRetryTally()
  const mayRetry = !isStopped && !(command === 'once' && pausedSince(round.daemon) !== null)
  const cutOff = mayRetry ? await retryDue({ round, tally, total: due.length }) : 0
  const blocked = dueRecords(round).length
  const awaiting = session.reconciler.outcomes.pending().size
  const after = {
    ...before,
    seconds: Math.round(session.clock.monotonic() - round.started) / 1000,
    sums: tally.sums(),
    retries: tally.results(),
    retried: tally.records(),
    blocked,
    awaiting,
    cutOff,
    stoppedBy: stopOf(round, blocked, awaiting),
  }
  return { ...after, exitCode: judge(after) }
}

/** Runs `plan`, `once` or `retry`. */
export async function roundCommand(
  command: CommandRound['command'],
  ids: readonly string[],
  options: RoundOptions,
  io: Io,
): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const select = { moments, now: io.clock.now(), ifNone: command === 'retry' ? 'refuse' : 'due' } as const
  const selection = selectionOf(ids, options, select)
  const plan = {
    change: (config: Session['config']) => configFor(selection, options, config),
    why: command === 'retry' ? ('asked-for' as const) : undefined,
  }
  return inSession(io, options, plan, async (session) => {
    const round = await look({ command, selection, options, session }, io)
    const report = await runRound(round, io)
    if (report === undefined) {
      io.stderr.write('Nothing was retried.\n')
      return exitCode.incomplete
    }
    const { failure } = round.gathered
    if (options.json === true) session.printJson(report)
    else if (failure === undefined) session.print(toText(report, { ...session, daemon: round.daemon }))
    else {
      session.progress.clear()
      unavailable(failure, session.target, io)
    }
    return report.exitCode
  })
}
