// One round for three commands: select, decide, retry unless it is a dry run, report. `plan` and `retry` select; `once` takes what is due.
import { createGrace } from '../../ops/grace.ts'
import type { TelemetryEvent } from '../../observe/events.ts'
import { decide } from '../../reconcile/decide.ts'
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import { exitCode, type ExitCode } from '../../runtime/errors.ts'
import { pausedSince } from '../daemon-client.ts'
import { bar, createMoments, showSpan } from '../format.ts'
import type { Io } from '../io.ts'
import { inSession, unavailable, type Session } from '../session.ts'
import { confirmRetry } from './confirm-retry.ts'
import { look, type CommandRound, type RoundOptions } from './look.ts'
import { createRetryTally, judge, type RetryTally, type RoundReport, type StoppedBy } from './report.ts'
import { toText } from './report-text.ts'
import { runReconciler } from './run-reconciler.ts'
import { configFor, selectionOf } from './select.ts'
import { toReport } from './to-report.ts'

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
  if (blocked + awaiting > 0 && reconciler.receiver.up() === false) return 'receiver'
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
    const left = done > 0 ? `, about ${showSpan((seconds / done) * (total - done))} left` : ''
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
