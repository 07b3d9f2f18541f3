// `webhook-reconciler retry`: retries chosen records now, with canaries and a pace of its own, and waits for what becomes of them.
import { Command } from 'commander'
import { exitCode, UsageError, type ExitCode } from '../runtime/errors.ts'
import type { TelemetryEvent } from '../observe/events.ts'
import { decide } from '../reconcile/decide.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import { createGrace } from '../daemon.ts'
import type { End, Io } from './io.ts'
import { createMoments, showSpan } from './moments.ts'
import type { StoppedBy } from './once-report.ts'
import { askDaemon, type AskedDaemon } from './daemon-status.ts'
import { bar } from './progress.ts'
import { choiceOf, configFor, type Choice, type RetryFlags } from './retry-choice.ts'
import { adopt, gather, type Gathered } from './retry-gather.ts'
import { asText, createLedger, judge, progressOf, type Ledger, type RetryReport } from './retry-report.ts'
import { runRound } from './round.ts'
import { inSession, withSessionOptions, type Session, type SessionOptions } from './session.ts'

interface RetryOptions extends SessionOptions, RetryFlags {
  yes?: true
}

/** More records than this are asked for before. */
const mostUnasked = 100

/** Records that may go out, as it was decided at that moment. */
function dueAt(now: number, { reconciler, policy }: Session): FailedRecord[] {
  return [...reconciler.backlog.entries()].filter((entry) => decide(entry, policy, { now }).decision === 'due')
}

function question(due: readonly FailedRecord[], { moments, target }: Session): string {
  const times = due.map(({ eventAt }) => eventAt)
  const first = times.reduce((least, at) => Math.min(least, at), Infinity)
  const last = times.reduce((most, at) => Math.max(most, at), -Infinity)
  const records = due.length === 1 ? '1 failed record' : `${due.length} failed records`
  return `Retry ${records} of ${target} (events from ${moments.show(first)} to ${moments.show(last)})? [y/N] `
}

/** An operator's pause in words; undefined when there is none, as far as is known. */
function pauseText(daemon: AskedDaemon | undefined, { moments }: Session): string | undefined {
  if (daemon === undefined || 'problem' in daemon || daemon.pausedSince === undefined) return undefined
  return `an operator has paused the daemon (${daemon.instance} at ${daemon.url}) since ${moments.show(daemon.pausedSince)}`
}

interface Asking {
  session: Session
  io: Io
  options: RetryOptions
  daemon: AskedDaemon | undefined
}

/** @throws UsageError where nobody can be asked */
async function isWanted(due: readonly FailedRecord[], { daemon, io, options, session }: Asking): Promise<boolean> {
  const { enabled } = session.service.config.retry
  if (due.length === 0) return true
  const paused = pauseText(daemon, session)
  if (paused !== undefined) session.progress.output.write(`Note: ${paused}.\n`)
  if (options.yes === true || (due.length <= mostUnasked && enabled && paused === undefined)) return true
  const many = `${due.length} records are more than ${mostUnasked}`
  const why = paused ?? (enabled ? many : 'retry.enabled is false')
  if (io.ask === undefined) {
    throw new UsageError(`${why}, and there is no terminal to ask at: add --yes to retry them on ${session.target}`)
  }
  session.progress.clear()
  if (!enabled) io.stderr.write('retry.enabled is false: the daemon retries nothing by itself.\n')
  const answer = await io.ask(question(due, session), session.stop)
  return /^\s*y(?:es)?\s*$/i.test(answer ?? '')
}

/** What ended the run while something was left; null when nothing did. */
function whatStopped({ clock, reconciler, stop }: Session, left: number, held: number): StoppedBy | null {
  if (stop.aborted) return 'signal'
  const trouble = reconciler.breaker.trouble()
  if (trouble !== undefined) return trouble
  if (left > 0 && reconciler.receiver.up() === false) return 'receiver'
  return held > 0 && reconciler.circuits.views(clock.monotonic()).some(({ state }) => state === 'open')
    ? 'circuit'
    : null
}

interface Run {
  session: Session
  ledger: Ledger
  gathered: Gathered
  due: readonly FailedRecord[]
  /** Undefined when nothing was due. */
  daemon: AskedDaemon | undefined
  /** Platform epoch ms: what is due was decided for this moment. */
  decidedAt: number
  startedAt: number
  started: number
}

function showProgress({ due, ledger, session, started }: Run): void {
  session.progress.show(() => {
    const total = due.length
    const { done, text } = progressOf(ledger.sums())
    const seconds = (session.clock.monotonic() - started) / 1000
    const left = done > 0 ? `, about ${showSpan((seconds / done) * (total - done))} left` : ''
    return `${bar(done / Math.max(1, total))} ${done}/${total}${left}: ${text}`
  })
}

function pauseOf(daemon: AskedDaemon | undefined): Exclude<RetryReport['pause'], undefined> {
  if (daemon === undefined) return null
  if ('problem' in daemon) return { known: false, problem: `${daemon.url} does not answer (${daemon.problem})` }
  return { known: true, since: daemon.pausedSince === undefined ? null : new Date(daemon.pausedSince).toISOString() }
}

function reportOf(
  run: Run,
  counts: Pick<RetryReport, 'parked' | 'excluded' | 'justTried'>,
  cutOff: number,
): RetryReport {
  const { clock, reconciler, instance, platform } = run.session
  const held = dueAt(run.decidedAt, run.session).length
  const awaiting = reconciler.outcomes.pending().size
  const body: Omit<RetryReport, 'exitCode'> = {
    schemaVersion: 1,
    instance,
    platform,
    startedAt: new Date(run.startedAt).toISOString(),
    seconds: Math.round(clock.monotonic() - run.started) / 1000,
    found: run.gathered.found,
    ...counts,
    notFailed: run.gathered.notFailed,
    leftOut: reconciler.backlog.leftOut.any(),
    complete: run.gathered.complete,
    moved: run.gathered.moved,
    notFound: run.gathered.notFound,
    pause: pauseOf(run.daemon),
    sums: run.ledger.sums(),
    held,
    awaiting,
    cutOff,
    stoppedBy: whatStopped(run.session, held + awaiting, held),
    records: run.ledger.told(),
  }
  return { ...body, exitCode: judge(body) }
}

/** Retries what was found. */
async function retryFound(run: Run): Promise<RetryReport> {
  const { decidedAt, session } = run
  const { clock, config, reconciler, service, stop } = session
  const { counts } = reconciler.backlog.summary(decidedAt, () => undefined)
  const { inFlight } = reconciler.dispatcher
  const grace = createGrace({ stop, graceMs: config.shutdown.grace, inFlight, clock, log: service.log })
  try {
    await runRound(reconciler, { stop, kill: grace.signal }, decidedAt)
  } finally {
    grace.end()
  }
  const { 'backing-off': justTried, excluded, parked } = counts
  return reportOf(run, { parked, excluded, justTried }, grace.cutOff())
}

/** What to do with each event; the run is known only once something was found. */
function listener(ledger: Ledger, run: () => Run | undefined): (event: TelemetryEvent) => void {
  return (event) => {
    const known = run()
    if (event.type === 'outcome') ledger.settled(event)
    if (event.type === 'retry') {
      ledger.retried(event)
      const { record } = event.answer
      if (record !== undefined && known?.gathered.onlyById.has(event.id.toLowerCase()) === true) {
        adopt(record, known.session)
      }
    }
    if (known !== undefined && (event.type === 'outcome' || event.type === 'retry')) showProgress(known)
  }
}

async function retry(choice: Choice, io: Io, options: RetryOptions): Promise<ExitCode> {
  const ledger = createLedger()
  let run: Run | undefined
  const plan = {
    change: (config: Session['config']) => configFor(choice, options, config),
    hear: listener(ledger, () => run),
  }
  return inSession(io, options, plan, async (session) => {
    const { clock, reconciler, print, printJson, progress, target } = session
    const [startedAt, started] = [clock.now(), clock.monotonic()]
    const gathered = await gather(choice, session, (found) => {
      progress.show(() => `Looking for them on ${target}: ${found} found so far ...`)
    })
    const decidedAt = reconciler.client.now()
    const due = dueAt(decidedAt, session)
    const daemon = due.length === 0 ? undefined : await askDaemon(session.config.server, io)
    if (!(await isWanted(due, { session, io, options, daemon }))) {
      io.stderr.write('Nothing was retried.\n')
      return exitCode.incomplete
    }
    run = { session, ledger, gathered, due, daemon, decidedAt, startedAt, started }
    const report = await retryFound(run)
    if (options.json === true) printJson(report)
    else print(asText(report, io.stdout.isTTY === true ? io.stdout.columns : undefined))
    return report.exitCode
  })
}

const collect = (value: string, before: string[] = []): string[] => [
  ...before,
  ...value
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== ''),
]

export function retryCommand(io: Io, end: End): Command {
  return withSessionOptions(new Command('retry'))
    .description(
      'retry chosen failed records now, whatever their backoff, and wait until they have arrived or failed again',
    )
    .argument(
      '[webhookIds...]',
      'ids of webhook records (UUIDs); these are retried even where select.* or window.notBefore leaves them out',
    )
    .option('--event <id>', "this event's failed records")
    .option(
      '--since <time>',
      'failed records with events from then on: a moment with zone, a local one in --zone, or how long ago (6h)',
    )
    .option('--until <time>', 'with --since: with events before then; default now')
    .option('--type <name>', 'with --since: only of this event type; may be given again', collect)
    .option('--subscription <id>', 'with --since: only of this subscription; may be given again', collect)
    .option('--parked', 'also records that have reached retry.maxAttempts')
    .option('--rate <number>', 'retries a second at most; default retry.maxPerSecond')
    .option('--yes', `do not ask before retrying more than ${mostUnasked}`)
    .action(async (ids: string[], options: RetryOptions) => {
      const choice = choiceOf(ids, options, createMoments(options.zone), io.clock.now())
      end(await retry(choice, io, options))
    })
}
