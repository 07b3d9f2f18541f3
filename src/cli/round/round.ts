// One round for three commands: select, decide, retry unless it is a dry run, report. `plan` and `retry` select; `once` takes what is due.
import { groupByCause, showCause } from '../../ops/causes.ts'
import { toDate } from '../../runtime/instant.ts'
import { createGrace } from '../../ops/grace.ts'
import { counted, span } from '../../ops/words.ts'
import { decide, type Situation } from '../../reconcile/decide.ts'
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import { exitCode, type ExitCode, UsageError } from '../../runtime/errors.ts'
import { runTogether } from '../../runtime/run-together.ts'
import { askDaemon, openCircuitsOf, pausedSince, situationOf, type AskedDaemon } from '../daemon-client.ts'
import type { CommandFlags } from '../flags.ts'
import type { Io } from '../io.ts'
import { createMoments } from '../moments.ts'
import { explainRecord, type ExplainedRecord } from '../../records/shown-record.ts'
import { inSession, unavailable, type Session } from '../session.ts'
import { gather } from './gather.ts'
import { toText } from './report-text.ts'
import {
  estimateOf,
  exitCodeOf,
  noteRetried,
  sumsOf,
  type RetriedRecord,
  type RetrySums,
  type RoundReport,
  type StoppedBy,
} from './report.ts'
import { configFor, selectionOf, type RecordSelection } from './select.ts'

/** A round that has decided, and retried nothing yet. */
interface DecidedRound {
  session: Session
  /** When it began, monotonic ms. */
  started: number
  /** The moment of all decisions, on the platform's clock. */
  decidedAt: number
  daemon: AskedDaemon
  report: RoundReport
}

/** The decisions on all records of the backlog, in the situation of their subscriptions. */
function decisionsOf(
  { config, policy, reconciler }: Session,
  excluded: number,
  situationOf: (subscriptionId: string) => Situation,
  now: number,
): Pick<RoundReport, 'causes' | 'estimate' | 'failed' | 'leftOut'> {
  const { backlog, rate, sweeper } = reconciler
  const options = { policy, situationOf, maxCauses: Infinity }
  const failed = { ...backlog.summary(now, situationOf).counts, excluded }
  return {
    failed,
    leftOut: sweeper.findings().onlyCounted,
    causes: groupByCause(backlog.entries(), options).list.map((cause) => showCause(cause)),
    estimate: estimateOf(config, failed.due, rate.limit()),
  }
}

function daemonOf(daemon: AskedDaemon): RoundReport['daemon'] {
  if ('problem' in daemon) return daemon
  const { gates, instance, url } = daemon
  const holding = gates.map(({ gate }) => gate)
  const openCircuits = openCircuitsOf(daemon).map(({ subscriptionId }) => subscriptionId)
  return { url, instance, holding, pausedSince: pausedSince(daemon), openCircuits }
}

/** Lists and decides. */
async function look(
  command: RoundReport['command'],
  selection: RecordSelection,
  { options, session }: { options: CommandFlags; session: Session },
  io: Io,
): Promise<DecidedRound> {
  const { clock, config, policy, progress, reconciler, stop, target } = session
  const [startedAt, started] = [new Date(clock.now()), clock.monotonic()]
  const isSelected = selection.by !== 'due'
  const what = isSelected ? 'Looking for the selected records' : 'Listing the failed records'
  session.listen(() => {
    progress.show(() => `${what} of ${target}: ${reconciler.backlog.size()} found so far ...`)
  })
  const { excluded, ...gathered } = await gather(selection, session)
  const isKnown = gathered.listing.result !== 'failed'
  if (command === 'plan') stop.throwIfAborted()
  const isAsked = command === 'plan' && isKnown && config.receiver.healthUrl !== undefined
  const receiver = isAsked ? await reconciler.receiver.ask(stop) : undefined
  // A signal does not keep the round from its report.
  const daemon = stop.aborted ? { url: '', problem: 'not asked' } : await askDaemon(config.server, io)
  const now = reconciler.client.now()
  // The daemon's own gates hold for its own records, not for selected ones. Where retries are off, a round plans as if they were on.
  const situationIn = (subscriptionId: string): Situation => {
    if (receiver?.up === false) return { now, gate: 'receiver-down', stopsForMs: Infinity }
    return { now, ...(!isSelected && situationOf(daemon, subscriptionId, 'disabled')) }
  }
  const explain = (entry: FailedRecord): ExplainedRecord =>
    explainRecord(entry, { policy, situation: situationIn(entry.subscriptionId), isSelected })
  const report: RoundReport = {
    schemaVersion: 2,
    command,
    instance: session.instance,
    platform: session.platform,
    startedAt,
    seconds: secondsSince(started, session),
    selection: { by: selection.by },
    ...gathered,
    decidedAt: isKnown ? toDate(now) : null,
    receiver: receiver === undefined ? null : { up: receiver.up },
    daemon: daemonOf(daemon),
    ...decisionsOf(session, excluded, situationIn, now),
    dryRun: command === 'plan' || !config.retry.enabled,
    retriesEnabled: config.retry.enabled,
    sums: sumsOf([]),
    retried: [],
    blocked: 0,
    awaiting: 0,
    cutOff: 0,
    stoppedBy: null,
    ...(options.records === true && { records: [...reconciler.backlog.entries()].map(explain) }),
    exitCode: exitCode.done,
  }
  return { session, started, decidedAt: now, daemon, report }
}

/** With three digits. */
function secondsSince(started: number, { clock }: Session): number {
  return Math.round(clock.monotonic() - started) / 1000
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
async function confirmRetry(
  { daemon, session }: DecidedRound,
  due: readonly FailedRecord[],
  { yes }: CommandFlags,
  io: Io,
): Promise<boolean> {
  const { enabled } = session.service.config.retry
  if (due.length === 0) return true
  const paused = pauseText(daemon, session)
  const isAsked = yes !== true && (due.length > maxUnasked || !enabled || paused !== undefined)
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
function dueRecords({ decidedAt, session: { reconciler, policy } }: DecidedRound): FailedRecord[] {
  return [...reconciler.backlog.entries()].filter(
    (entry) => decide(entry, policy, { now: decidedAt }).decision === 'due',
  )
}

/** The reason why something is left; null when nothing is. */
function stopOf(
  { daemon, report: { command }, session: { clock, reconciler, stop } }: DecidedRound,
  blocked: number,
  awaiting: number,
): StoppedBy | null {
  if (stop.aborted) return 'signal'
  const trouble = reconciler.breaker.trouble()
  if (trouble !== undefined) return trouble
  if (blocked > 0 && command === 'once' && pausedSince(daemon) !== null) return 'paused'
  if (blocked + awaiting > 0 && reconciler.receiver.up() === false) return 'receiver-down'
  return blocked > 0 && reconciler.subscriptions.views(clock.monotonic()).some(({ state }) => state === 'open')
    ? 'circuit'
    : null
}

const barWidth = 20

/** How far the retries are. */
function progressText(total: number, sums: RetrySums, seconds: number): string {
  const { recovered, refused, resolved, retried, unknown, 'failed-again': failedAgain } = sums
  const done = recovered + failedAgain + unknown + resolved + refused
  const bar = '#'.repeat(Math.round((done / Math.max(1, total)) * barWidth)).padEnd(barWidth, '.')
  const left = done > 0 ? `, about ${span((seconds / done) * (total - done) * 1000)} left` : ''
  return (
    `[${bar}] ${done}/${total}${left}: ${recovered} recovered, ` +
    `${failedAgain} failed again, ${refused} refused, ${retried - done} waited for`
  )
}

/**
 * Retries the records that were due when the round decided, and follows them to their outcome; what becomes due meanwhile is
 * not for this round. Returns the retries that were cut off. Rejects with the first bug that any part met.
 */
async function retryDue({ decidedAt: onlyDueAt, session }: DecidedRound): Promise<number> {
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

/** Undefined when the person does not want it. */
async function runRound(round: DecidedRound, options: CommandFlags, io: Io): Promise<RoundReport | undefined> {
  const { daemon, report, session, started } = round
  const { clock, progress, reconciler, stop } = session
  const { command, dryRun, listing } = report
  if (dryRun || listing.result === 'failed') return report
  const due = dueRecords(round)
  const isStopped = stop.aborted
  if (command === 'retry' && !isStopped && !(await confirmRetry(round, due, options, io))) return undefined
  const mayRetry = !isStopped && !(command === 'once' && pausedSince(daemon) !== null)
  const retried = new Map<string, RetriedRecord>()
  const retryingSince = clock.monotonic()
  session.listen((event) => {
    noteRetried(retried, event)
    const seconds = (clock.monotonic() - retryingSince) / 1000
    progress.show(() => progressText(due.length, sumsOf([...retried.values()]), seconds))
  })
  const cutOff = mayRetry ? await retryDue(round) : 0
  const blocked = dueRecords(round).length
  const awaiting = reconciler.outcomes.pending().size
  const stoppedBy = stopOf(round, blocked, awaiting)
  return {
    ...report,
    seconds: secondsSince(started, session),
    sums: sumsOf([...retried.values()]),
    retried: [...retried.values()],
    blocked,
    awaiting,
    cutOff,
    stoppedBy,
  }
}

/** Runs `plan`, `once` or `retry`. */
export async function roundCommand(
  io: Io,
  options: CommandFlags,
  ids: readonly string[],
  command: RoundReport['command'],
): Promise<ExitCode> {
  const moments = createMoments(options.zone)
  const ifNone = command === 'retry' ? 'refuse' : 'due'
  const selection = selectionOf(ids, options, { moments, now: io.clock.now(), ifNone })
  const plan = {
    change: (config: Session['config']) => configFor(selection, options, config),
    why: command === 'retry' ? ('asked-for' as const) : undefined,
  }
  return inSession(io, options, plan, async (session) => {
    const round = await look(command, selection, { options, session }, io)
    const ended = await runRound(round, options, io)
    if (ended === undefined) {
      io.stderr.write('Nothing was retried.\n')
      return exitCode.incomplete
    }
    const report = { ...ended, exitCode: exitCodeOf(ended) }
    const { failure } = report.listing
    if (options.json === true || failure === undefined)
      session.answer(report, () => toText(report, { ...session, daemon: round.daemon }))
    else unavailable(failure, session.target, { stderr: session.progress.output })
    return report.exitCode
  })
}
