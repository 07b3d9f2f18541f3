// One round for three commands: select, decide, retry unless it is a dry run, report. `plan` and `retry` select; `once` takes what is due.
import { createGrace } from '../../ops/grace.ts'
import { counted, span } from '../../ops/words.ts'
import { decide } from '../../reconcile/decide.ts'
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import { exitCode, type ExitCode, isAbort, UsageError } from '../../runtime/errors.ts'
import { runTogether } from '../../runtime/run-together.ts'
import { askDaemon, type AskedDaemon, pausedSince, recoveredBetween } from '../daemon-client.ts'
import { bar } from '../format.ts'
import type { Io } from '../io.ts'
import { createMoments } from '../moments.ts'
import { inSession, type Session, unavailable } from '../session.ts'
import { gather } from './gather.ts'
import { toText } from './report-text.ts'
import {
  createRetryTally,
  exitCodeOf,
  secondsOf,
  toReport,
  type CommandRound,
  type RetrySums,
  type RoundCommand,
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
  const { clock, config, progress, reconciler, stop, target } = session
  const [startedAt, started] = [clock.now(), clock.monotonic()]
  const what = selection.by === 'due' ? 'Listing the failed records' : 'Looking for the selected records'
  session.listen(() => {
    progress.show(() => `${what} of ${target}: ${reconciler.backlog.size()} found so far ...`)
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
  const gathered = await gather(selection, session)
  if (command === 'plan') stop.throwIfAborted()
  const isKnown = gathered.result !== 'failed' && !stop.aborted
  const isAsked = command === 'plan' && isKnown && config.receiver.healthUrl !== undefined
  const receiver = isAsked ? await session.askReceiver(stop) : undefined
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
    receiverUp: receiver?.up,
    daemon,
    recoveredMeanwhile: recoveredBetween(daemonBefore, daemon),
    dryRun: command === 'plan' || !config.retry.enabled,
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
  return `an operator has paused the daemon (${daemon.instance} at ${daemon.url}) since ${moments.show(since)}`
}

/** @throws UsageError without a terminal where a question is due */
async function confirmRetry(round: CommandRound, due: readonly FailedRecord[], io: Io): Promise<boolean> {
  const { options, session } = round
  const { enabled } = session.service.config.retry
  if (due.length === 0) return true
  const paused = pauseText(round.daemon, session)
  const isAsked = options.yes !== true && (due.length > maxUnasked || !enabled || paused !== undefined)
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

/** How far the retries are. */
function progressText(total: number, sums: RetrySums, seconds: number): string {
  const { recovered, refused, resolved, retried, unknown, 'failed-again': failedAgain } = sums
  const done = recovered + failedAgain + unknown + resolved + refused
  const left = done > 0 ? `, about ${span((seconds / done) * (total - done) * 1000)} left` : ''
  return (
    `${bar(done / Math.max(1, total))} ${done}/${total}${left}: ${recovered} recovered, ` +
    `${failedAgain} failed again, ${refused} refused, ${retried - done} waited for`
  )
}

/**
 * Retries the records that were due when the round decided, and follows them to their outcome; what becomes due meanwhile is
 * not for this round. Returns the retries that were cut off. Rejects with the first bug that any part met.
 */
async function retryDue({ decidedAt: onlyDueAt, session }: CommandRound): Promise<number> {
  const { clock, config, reconciler, service, stop } = session
  const { confirm, dispatcher, receiver, retry } = reconciler
  const { inFlight } = dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log: service.log })
  const over = new AbortController()
  async function round(signal: AbortSignal): Promise<void> {
    await retry({ stop: AbortSignal.any([stop, signal]), kill: grace.signal }, { onlyDueAt })
    over.abort(new Error('the round is over'))
  }
  try {
    await runTogether([round, receiver.run, confirm], over.signal)
  } finally {
    grace.end()
  }
  return grace.cutOff()
}

async function runRound(round: CommandRound, io: Io): Promise<RoundReport | undefined> {
  const { command, daemon, gathered, session } = round
  const { clock, progress, reconciler, stop } = session
  const before = toReport(round)
  if (round.dryRun || gathered.result === 'failed') return before
  const due = dueRecords(round)
  const isStopped = stop.aborted
  if (command === 'retry' && !isStopped && !(await confirmRetry(round, due, io))) return undefined
  const mayRetry = !isStopped && !(command === 'once' && pausedSince(daemon) !== null)
  const tally = createRetryTally()
  const retryingSince = clock.monotonic()
  session.listen((event) => {
    tally.observe(event)
    progress.show(() => progressText(due.length, tally.summary().sums, (clock.monotonic() - retryingSince) / 1000))
  })
  const cutOff = mayRetry ? await retryDue(round) : 0
  const blocked = dueRecords(round).length
  const awaiting = reconciler.outcomes.pending().size
  const stoppedBy = stopOf(round, blocked, awaiting)
  return { ...before, seconds: secondsOf(round), ...tally.summary(), blocked, awaiting, cutOff, stoppedBy }
}

/** Runs `plan`, `once` or `retry`. */
export async function roundCommand(
  command: RoundCommand,
  ids: readonly string[],
  options: RoundOptions,
  io: Io,
): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const ifNone = command === 'retry' ? 'refuse' : 'due'
  const selection = selectionOf(ids, options, { moments, now: io.clock.now(), ifNone })
  const plan = {
    change: (config: Session['config']) => configFor(selection, options, config),
    why: command === 'retry' ? ('asked-for' as const) : undefined,
  }
  return inSession(io, options, plan, async (session) => {
    const round = await look({ command, selection, options, session }, io)
    const ended = await runRound(round, io)
    if (ended === undefined) {
      io.stderr.write('Nothing was retried.\n')
      return exitCode.incomplete
    }
    const report = { ...ended, exitCode: exitCodeOf(ended) }
    const { failure } = round.gathered
    if (options.json === true || failure === undefined)
      session.answer(report, () => toText(report, { ...session, daemon: round.daemon }))
    else {
      session.progress.clear()
      unavailable(failure, session.target, io)
    }
    return report.exitCode
  })
}
