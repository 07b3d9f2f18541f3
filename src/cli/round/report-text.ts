// The report of a round as text for a terminal of 80 columns or more: at most ten causes, and one line for each conclusion. Pure functions.
import { formatDuration } from '../../config/duration.ts'
import { retryExhausted } from '../../ops/notices.ts'
import { unreadableText } from '../../platform/record.ts'
import { answerText, count, counted, fromNow, response, sentence, span, unlistedText } from '../../ops/words.ts'
import { describeGate, reasonOf } from '../../reconcile/retry/gates.ts'
import { causeTable } from '../cause-table.ts'
import { type AskedDaemon, inWords, stopsOf } from '../daemon-client.ts'
import { cell, pairs, paragraph, paragraphs, table, type TableColumn } from '../format.ts'
import type { ExplainedRecord } from '../../records/shown-record.ts'
import { nextRetryText, recordColumns } from '../record.ts'
import type { Session } from '../session.ts'
import { resultOf, type RetriedRecord, type RetrySums, type RoundReport, type StoppedBy } from './report.ts'

const maxBad = 20
const maxRefusals = 5

type ReportShown = Pick<Session, 'config' | 'moments' | 'target' | 'width'> & { daemon: AskedDaemon }

function recordTable(records: readonly ExplainedRecord[], now: Date, width: number | undefined): string {
  const columns: TableColumn<ExplainedRecord>[] = [
    ...recordColumns,
    { name: 'age', of: ({ event }) => (event === null ? '-' : span(now.getTime() - event.getTime())) },
    { name: 'attempts', align: 'right', of: ({ attempts }) => String(attempts) },
    { name: 'response', of: ({ responseStatusCode }) => response(responseStatusCode) },
    { name: 'decision', minWidth: 6, of: ({ state }) => state },
    { name: 'next', of: (record) => nextRetryText(record, now, (at) => fromNow(at, now)) },
  ]
  const oldestFirst = records.toSorted((a, b) => Number(a.event) - Number(b.event))
  return `\n${table(columns, oldestFirst, { width })}`
}

/** One line for each decision that some record has. */
function conclusions(report: RoundReport, { config, daemon, width }: ReportShown): string {
  const { estimate, failed, receiver, selection } = report
  const reasons = [
    ...(receiver?.up === false ? [reasonOf('receiver-down')] : []),
    ...(selection.by === 'due' ? stopsOf(daemon, 'disabled') : []),
  ]
  const blocked = [...new Set(reasons)].join('; ') || 'the circuits of their subscriptions are open'
  const time = `in about ${span(estimate.seconds * 1000)} at ${count(estimate.callsPerSecond)} calls/s`
  const exhausted = `${count(failed.exhausted)} exhausted (retry.maxAttempts ${config.retry.maxAttempts})`
  const lines = [
    !config.retry.enabled && `${describeGate('disabled').reason} This is the plan for when they are on.`,
    failed.due > 0 && `Would be retried now: ${count(failed.due)}, ${time}, if the receiver takes them.`,
    failed.blocked > 0 && `Blocked: ${count(failed.blocked)}, because ${blocked}.`,
    failed['backing-off'] > 0 && `Later: ${count(failed['backing-off'])} backing off.`,
    failed.exhausted > 0 && `Not automatically: ${exhausted}; ${retryExhausted} retries them.`,
    failed.excluded > 0 && `Not at all: ${count(failed.excluded)} excluded by select.* or window.notBefore.`,
  ]
  return paragraphs(lines, width)
}

function dryRunText(report: RoundReport, shown: ReportShown): string {
  const { causes: list, listing, selection } = report
  const { config, daemon, width } = shown
  const which = selection.by === 'due' ? ` of the last ${formatDuration(config.window.lookback)}` : ' selected'
  const least = listing.result === 'complete' ? '' : 'At least '
  const head = `${least}${counted(listing.found, 'failed record')}${which}, listed in ${report.seconds.toFixed(1)} s. Nothing was changed.\n`
  if (listing.found === 0) return head
  const now = report.decidedAt ?? report.startedAt
  const all = { list, total: list.length, more: { records: 0 } }
  const causes = causeTable(all, { now, subscriptions: config.subscriptions, width })
  const records = report.records === undefined ? '' : recordTable(report.records, now, width)
  return `${head}${paragraph(inWords(daemon), width)}${causes}${records}\n${conclusions(report, shown)}`
}

const bad: ReadonlySet<unknown> = new Set<keyof RetrySums>(['failed-again', 'unknown', 'refused'])

/** The records that did not arrive, the first of them. */
function badTable(retried: readonly RetriedRecord[], width: number | undefined): string {
  const shown = retried.filter((record) => bad.has(resultOf(record)))
  if (shown.length === 0) return ''
  const columns: TableColumn<RetriedRecord>[] = [
    ...recordColumns,
    {
      name: 'result',
      of: ({ outcome, result }) => outcome ?? (result === 'gone' ? 'gone (unknown to the platform)' : result),
    },
    {
      name: 'response',
      of: ({ outcome, responseStatusCode: code = null }) => (outcome === undefined ? '-' : response(code)),
    },
  ]
  return `\n${table(columns, shown, { width, max: maxBad })}${refusalText(shown, width)}`
}

/** The refusals, the most frequent first. */
function refusalText(retried: readonly RetriedRecord[], width: number | undefined): string {
  const texts = retried.flatMap(({ answer, outcome }) => (answer && outcome === undefined ? answerText(answer) : []))
  const lines = [...Map.groupBy(texts, (text) => text)]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .slice(0, maxRefusals)
    .map(([text, { length }]) => `${counted(length, 'retry was', 'retries were')} refused: ${text}.`)
  return paragraphs(lines, width)
}

function results(report: RoundReport, width: number | undefined): string {
  const { awaiting, cutOff, failed, blocked, notFailed, selection, sums } = report
  const isSelected = selection.by !== 'due'
  const byFlag = isSelected ? ': add --exhausted for these' : ''
  const later = isSelected
    ? (['just tried', 'left alone (tried within the last seconds): run again for these'] as const)
    : (['not due yet'] as const)
  const some: [number: number, name: string, what?: string][] = [
    [sums.unknown, 'unknown', '(no outcome within outcome.giveUpAfter)'],
    [sums.resolved, 'already delivered', '(not failed any more when retried)'],
    [sums.underway, 'under way', '(being delivered by another retry: outcome not known)'],
    [notFailed, 'not failed', '(nothing to do)'],
    [failed.exhausted, 'exhausted', `left alone (retry.maxAttempts)${byFlag}`],
    [failed.excluded, 'excluded', 'left alone (select.*, window.notBefore): name these by their webhook ids'],
    [failed['backing-off'], ...later],
    [blocked, 'not retried'],
    [awaiting, 'not awaited', '(accepted; the daemon, or the next run, sees the outcome)'],
    [cutOff, 'cut off', '(the outcome is not known)'],
  ]
  const lines: [string, string | undefined][] = [
    ['recovered', String(sums.recovered)],
    ['failed again', String(sums['failed-again'])],
    ['refused', String(sums.refused)],
    ...some.map(([number, name, what = '']): [string, string | undefined] => [
      name,
      number > 0 ? `${number} ${what}`.trim() : undefined,
    ]),
  ]
  return pairs(lines, { indent: '  ', width })
}

function stopText(stoppedBy: StoppedBy): string {
  if (stoppedBy === 'signal') return 'Stopped early by a signal. Run again for the rest; delivered ones are skipped.'
  const { advice, reason } = describeGate(stoppedBy)
  return `Stopped early: ${reason} ${advice} Then run again.`
}

function notes(report: RoundReport, { config, width }: ReportShown): string {
  const { command, daemon, leftOut, listing, notFailed, notFound, selection, stoppedBy } = report
  const isWhole = listing.result === 'complete'
  const none = selection.by === 'due' ? 'There is nothing to retry.' : 'No failed record was found for this selection.'
  const unknown = (name: string): string =>
    selection.by === 'ids'
      ? `There is no failed record with ${cell(name)}: it was delivered, is being delivered, or the id is wrong.`
      : `There is no failed record of ${cell(name)} in the span.`
  const all = [
    isWhole && listing.found + notFailed === 0 && notFound.length === 0 && none,
    ...(isWhole ? notFound.map(unknown) : []),
    leftOut > 0 &&
      `Left out: ${counted(leftOut, 'record')}, as there is no room in memory (backlog.maxRecords): run again for these.`,
    listing.unreadable !== null &&
      `${unreadableText(listing.unreadable)}. Ask the platform's operator what has changed.`,
    listing.unlisted !== null && sentence(unlistedText(listing.unlisted)),
    !isWhole && 'A part of the list could not be read: run again.',
    !isWhole &&
      notFound.length > 0 &&
      `Not found in what was listed: ${notFound.map((name) => cell(name)).join(', ')}.`,
    listing.moved &&
      `The list became shorter while it was read, ${'problem' in daemon ? 'so a record may be missing: run again to be sure' : 'as the daemon retries too'}.`,
    command === 'once' && !config.retry.enabled && 'retry.enabled is false: nothing was retried.',
    command === 'retry' &&
      'problem' in daemon &&
      `It is not known whether an operator has paused the daemon: ${daemon.url} does not answer (${daemon.problem}).`,
    stoppedBy !== null && stopText(stoppedBy),
  ]
  return paragraphs(all, width)
}

export function toText(report: RoundReport, shown: ReportShown): string {
  const { moments, target, width } = shown
  const head = `${target}, ${moments.show(report.decidedAt)}`
  const body = report.dryRun
    ? `\n${dryRunText(report, shown)}`
    : `: ${counted(report.sums.retried, 'retry', 'retries')} in ${report.seconds.toFixed(1)} s\n` +
      results(report, width) +
      badTable(report.retried, width)
  return `${head}${body}${notes(report, shown)}`
}
