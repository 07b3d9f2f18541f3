// `webhook-reconciler retry` and its dry run: starts a job in the daemon and follows it to its end.
import { response, sentence } from '../ops/words.ts'
import { count, counted } from '../runtime/counted.ts'
import { describeGate, gateTable, type Gate } from '../reconcile/retry/gates.ts'
import type { JobView, RetriedView, Standing } from '../records/job.ts'
import { CommandFailure, exitCode, isAbort, UsageError, type ExitCode } from '../runtime/errors.ts'
import { visibleText } from '../runtime/redact.ts'
import { ask, findDaemon, unconfirmed, type Daemon, type DaemonRequest } from './ask.ts'
import type { CommandFlags } from './flags.ts'
import {
  print,
  cell,
  pairs,
  paragraph,
  paragraphs,
  recordColumns,
  table,
  widthOf,
  type TableColumn,
  type TextShown,
} from './format.ts'
import type { Io } from './io.ts'
import { createMoments } from './moments.ts'
import { selectionOf, ways, type SelectionBody } from './selection.ts'

/** The response of `/-/retry`. @see docs/status.md "Retry jobs" */
export interface JobDocument extends Pick<JobView, 'blockedBy' | 'job' | 'state' | 'sums'> {
  instance: string
  stoppedBy: string | null
  problem: string | null
  listing: { notFound: string[]; notFailed: number; processing: number; incomplete: string | null }
  retried: RetriedView[]
  next: string | null
}

const pollMs = 500
/** Longest silence of a daemon whose job continues. */
const patienceMs = 60_000
/** More records than this need a confirmation. */
const maxUnasked = 100
const maxBad = 20

/** Sends a request to `/-/retry`, or below it. */
async function askJob(daemon: Daemon, below: string, request: Partial<DaemonRequest>, io: Io): Promise<JobDocument> {
  return (await ask(daemon, { path: `/-/retry${below}`, has: 'sums', ...request }, io)) as unknown as JobDocument
}

/** Starts a job; calls `show` with each state until it ends. */
async function follow(daemon: Daemon, body: object, show: (job: JobDocument) => void, io: Io): Promise<JobDocument> {
  let job = await askJob(daemon, '', { method: 'POST', body }, io)
  let respondedAt = io.clock.monotonic()
  while (job.state !== 'ended') {
    show(job)
    await io.clock.sleep(pollMs, io.signal)
    try {
      job = await askJob(daemon, `/${job.job}`, { opens: true }, io)
      respondedAt = io.clock.monotonic()
    } catch (error) {
      const isAway = error instanceof CommandFailure && error.code === exitCode.platformUnreachable
      if (!isAway || io.clock.monotonic() - respondedAt >= patienceMs) throw error
    }
  }
  return job
}

async function withRecords(daemon: Daemon, job: JobDocument, io: Io): Promise<JobDocument> {
  const retried: RetriedView[] = []
  let cursor = ''
  for (;;) {
    const page = await askJob(daemon, `/${job.job}?limit=1000${cursor}`, { opens: true }, io)
    retried.push(...page.retried)
    if (page.next === null) return { ...job, retried }
    cursor = `&cursor=${encodeURIComponent(page.next)}`
  }
}

/** Records of a dry run that the job would send. */
function toSendOf({ sums }: JobDocument): number {
  return sums.asked - sums.awaiting
}

const barWidth = 20

function progressText({ blockedBy, state, sums }: JobDocument): string {
  if (state === 'listing') return `Searching for the selected records: ${count(sums.found)} found so far ...`
  const done = sums.asked - sums.waiting - sums.awaiting
  const bar = '#'.repeat(Math.round((done / Math.max(1, sums.asked)) * barWidth)).padEnd(barWidth, '.')
  const waits = blockedBy.length > 0 && sums.waiting > 0 ? `, ${sums.waiting} wait (${blockedBy.join(', ')})` : ''
  return `[${bar}] ${done}/${sums.asked}${waits}: ${sums.recovered} recovered, ${sums['failed-again']} failed again, ${sums.refused} refused`
}

const bad: ReadonlySet<Standing> = new Set(['failed-again', 'unknown', 'refused', 'underway', 'absent', 'awaiting'])

/** 0 if every selected record has arrived. */
export function exitCodeOf({ listing, problem, stoppedBy, sums }: JobDocument, isDryRun: boolean): ExitCode {
  const { notFailed, notFound, processing } = listing
  const isNothing = sums.found + notFailed === 0
  if (problem !== null && stoppedBy === 'platform') return exitCode.platformUnreachable
  if (isNothing || notFound.length > 0 || listing.incomplete !== null) return exitCode.incomplete
  if (isDryRun) return exitCode.done
  const inVain = [...bad].reduce(
    (sum, result) => sum + sums[result],
    sums.left + sums.excluded + sums.exhausted + processing,
  )
  return inVain > 0 || problem !== null ? exitCode.incomplete : exitCode.done
}

/** Why records wait: one sentence for each shut gate. */
function gateTexts(gates: readonly string[]): string[] {
  return gates.map((gate) => {
    if (!Object.hasOwn(gateTable, gate)) return `${gate}.`
    const { advice, reason } = describeGate(gate as Gate)
    return `${reason} ${advice}`
  })
}

function sumsText({ listing, sums }: JobDocument): string {
  const rows: [name: string, number: number, what?: string][] = [
    ['unknown', sums.unknown, "(no outcome in time: left to the daemon's rules)"],
    ['awaiting', sums.awaiting, '(sent; the daemon follows them)'],
    ['already delivered', sums.resolved, '(the platform shows them as successful)'],
    ['under way', sums.underway, '(being delivered for another client: outcome unknown)'],
    ['gone', sums.absent, '(no longer failed: delivered or in delivery for another client)'],
    ['not sent', sums.left, "(still failed: left to the daemon's rules)"],
    ['not failed', listing.notFailed - listing.processing, '(nothing to do)'],
    ['in delivery', listing.processing, '(the platform is delivering them: outcome unknown)'],
    ['exhausted', sums.exhausted, 'skipped (retry.maxAttempts): add --exhausted to include them'],
    ['excluded', sums.excluded, 'skipped (select.*, window.notBefore): select them by webhook id'],
  ]
  const lines: [string, string | undefined][] = [
    ['recovered', count(sums.recovered)],
    ['failed again', count(sums['failed-again'])],
    ['refused', count(sums.refused)],
    ...rows.map(([name, number, what = '']): [string, string | undefined] => [
      name,
      number > 0 ? `${count(number)} ${what}`.trim() : undefined,
    ]),
  ]
  return pairs(lines, { indent: '  ' })
}

/** The first records that did not arrive. */
function badTable({ retried }: JobDocument, width: number | undefined): string {
  const shown = retried.filter(({ result }) => bad.has(result))
  if (shown.length === 0) return ''
  const columns: TableColumn<RetriedView>[] = [
    ...recordColumns,
    { name: 'result', of: ({ detail, result }) => (detail === null ? result : `${result} (${cell(detail)})`) },
    {
      name: 'response',
      of: ({ responseStatusCode: code, result }) => (result === 'failed-again' ? response(code) : '-'),
    },
  ]
  return `\n${table(columns, shown, { width, max: maxBad })}`
}

const stops: Readonly<Record<string, string>> = {
  timeout: 'timed out (--timeout)',
  interrupted: 'this command was interrupted',
  cancelled: 'the job was cancelled',
  'not-leader': 'this instance no longer leads',
  platform: 'the platform cannot be listed',
  stopped: 'the daemon stopped',
}

function remarksOf({ blockedBy, listing, problem, stoppedBy, sums }: JobDocument): string[] {
  const isWhole = problem === null && listing.incomplete === null
  const isNothing = isWhole && sums.found + listing.notFailed + listing.notFound.length === 0
  const unknown = (id: string): string =>
    `No failed record with webhook id ${cell(id)} was found: it may be delivered, in delivery, or mistyped.`
  return [
    ...(isNothing ? ['No failed record was found for this selection.'] : []),
    ...listing.notFound.map(unknown),
    ...(listing.incomplete === null ? [] : [sentence(listing.incomplete)]),
    ...(problem === null ? [] : [sentence(problem)]),
    ...(stoppedBy === null || stoppedBy === 'dry-run' ? [] : [`Stopped early: ${stops[stoppedBy] ?? stoppedBy}.`]),
    ...gateTexts(blockedBy),
  ]
}

function jobText(job: JobDocument, isDryRun: boolean, shown: TextShown): string {
  const { width } = shown
  const { instance, sums } = job
  const remarks = paragraphs(remarksOf(job), shown)
  if (!isDryRun) {
    return `${cell(instance)}: ${counted(job.retried.length, 'retry', 'retries')}\n${sumsText(job)}${badTable(job, width)}${remarks}`
  }
  const left = [
    ...(sums.exhausted > 0 ? [`${count(sums.exhausted)} exhausted (--exhausted retries them)`] : []),
    ...(sums.excluded > 0 ? [`${count(sums.excluded)} excluded (only by webhook id)`] : []),
  ]
  const would = `Would be retried: ${count(toSendOf(job))} of ${counted(sums.found, 'failed record')}.`
  const underWay =
    sums.awaiting > 0 ? ` Under way: ${counted(sums.awaiting, 'awaits its outcome', 'await their outcome')}.` : ''
  const alone = left.length > 0 ? ` Left alone: ${left.join(', ')}.` : ''
  return paragraph(`${cell(instance)}: ${would}${underWay}${alone} Nothing was changed.`, width) + remarks
}

/** True when the person agrees. @throws UsageError without a terminal */
async function isWanted(plan: JobDocument, options: CommandFlags, io: Io): Promise<boolean> {
  const records = toSendOf(plan)
  if (options.yes === true || records <= maxUnasked) return true
  const what = `${visibleText(plan.instance)}: retry ${counted(records, 'record')}`
  if (io.ask === undefined) throw new UsageError(`${what}: more than ${maxUnasked} need --yes`)
  const typed = await io.ask(`${what}? [y/N] `, io.signal)
  return /^y(?:es)?$/i.test((typed ?? '').trim())
}

/** Runs a job to its end, or until the signal or --timeout. */
async function runJob(
  daemon: Daemon,
  request: { selection: SelectionBody; dryRun?: true },
  options: CommandFlags,
  io: Io,
): Promise<JobDocument> {
  const { timeout = Infinity } = options
  const end = io.clock.monotonic() + timeout
  const late = new AbortController()
  let known: JobDocument | undefined
  const show = (job: JobDocument): void => {
    known = job
    io.progress(() => progressText(job))
    if (io.clock.monotonic() >= end) late.abort(new Error('the time is over'))
  }
  const signal = AbortSignal.any([io.signal, late.signal])
  try {
    return await follow(daemon, request, show, { ...io, signal })
  } catch (error) {
    if (isAbort(error, signal)) {
      if (known === undefined) throw request.dryRun === true ? error : unconfirmed(daemon)
      // Unsent records are still failed.
      const unstopped = { ...io, signal: new AbortController().signal }
      const ended = await askJob(daemon, `/${known.job}`, { method: 'DELETE' }, unstopped)
      // It may have ended before.
      if (ended.stoppedBy !== 'cancelled') return ended
      return { ...ended, stoppedBy: late.signal.aborted ? 'timeout' : 'interrupted' }
    }
    if (known === undefined || !(error instanceof CommandFailure)) throw error
    const rest = 'Unsent records are still failed: run the command again for them.'
    throw new CommandFailure(error.code, `${error.message} ${rest}`)
  }
}

/** Runs `retry`, `retry --dry-run`, and `plan` with a selection. */
export async function retryCommand(
  io: Io,
  options: CommandFlags,
  ids: readonly string[],
  name: 'plan' | 'retry',
): Promise<ExitCode> {
  const now = io.clock.now()
  const selection = selectionOf(ids, options, { moments: createMoments(options.zone), now })
  if (selection === undefined) throw new UsageError(`no records are selected: ${ways}`)
  const daemon = findDaemon(io, options, name)
  const request = { selection, exhausted: options.exhausted, rate: options.rate }
  const isSmall = selection.webhooks !== undefined && selection.webhooks.length <= maxUnasked
  let isDryRun = name === 'plan' || options.dryRun === true
  let job: JobDocument | undefined
  if (isDryRun || !(isSmall || options.yes === true)) {
    job = await runJob(daemon, { ...request, dryRun: true }, options, io)
    io.signal.throwIfAborted()
    // A search that was cut short is shown, and nothing is retried.
    isDryRun ||= job.stoppedBy === 'timeout'
    if (!isDryRun && !(await isWanted(job, options, io))) {
      io.stderr.write('Nothing was retried.\n')
      return exitCode.incomplete
    }
  }
  if (!isDryRun || job === undefined) {
    const ended = await runJob(daemon, request, options, io)
    job = await withRecords(daemon, ended, { ...io, signal: new AbortController().signal })
  }
  const shown = job
  const code = exitCodeOf(shown, isDryRun)
  const document = { ...shown, schemaVersion: 3, exitCode: code }
  const width = widthOf(io.stdout)
  print(io.stdout, options, document, () => visibleText(jobText(shown, isDryRun, { ...daemon, width })))
  return code
}
