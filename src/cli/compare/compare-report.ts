// The report of `compare`: as --json prints it, and as text for people. Pure functions.
import { decisionLines } from '../../ops/cause-columns.ts'
import { count, counted, response } from '../../ops/words.ts'
import type { Counts } from '../../reconcile/decide.ts'
import type { ExitCode } from '../../runtime/errors.ts'
import { cell, pairs, paragraph, paragraphs, table, type TableColumn } from '../format.ts'
import { recordColumns, type ExplainedRecord } from '../record.ts'
import type { Session } from '../session.ts'
import type { KeyKind } from './read-keys.ts'

/** A record on which the two sides do not agree, as `explain` shows it. */
export interface DifferingRecord extends ExplainedRecord {
  group: 'not-processed' | 'failed' | 'processing'
  key: string
  /** Whether the file has it. */
  processed: boolean
}

/** With --records each is a line. */
export type Difference = DifferingRecord | { group: 'unknown'; key: string }

/** `schemaVersion` follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC. */
export interface CompareReport {
  schemaVersion: 1
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  since: Date
  until: Date
  key: KeyKind
  seconds: number
  /** False when a part of the span could not be listed, or not with certainty: the books may differ in more. */
  complete: boolean
  /** True when it is complete and all below but `delivered` is 0. */
  equal: boolean
  /** Delivered by the platform, and processed by the receiver. */
  delivered: number
  /** Delivered by the platform, and not processed: no retry can bring them back. The first 1,000 are listed. */
  notProcessed: { total: number; list: DifferingRecord[] }
  /** Failed records, by decision; `processed`: so many of them the receiver has processed without answering 2xx. */
  failed: { total: number; processed: number; byDecision: Counts }
  /** Under way on the platform, or delivered after the file was written: compare again later. */
  processing: number
  /** Keys of the file that the platform does not have in this span. */
  unknown: number
  /** Keys that stand for more than one event: compare by eventId or webhookId to separate them. */
  severalEvents: number
  /** Records whose key could not be read. */
  withoutKey: number
  exitCode: ExitCode
}

const maxShown = 20

type CompareShown = Pick<Session, 'config' | 'moments' | 'target' | 'width'> & { file: string }

/** The ones that no retry brings back. */
function lostTable({ notProcessed: { list, total } }: CompareReport, { config, moments, width }: CompareShown): string {
  if (total === 0) return ''
  const columns: TableColumn<ExplainedRecord>[] = [
    ...recordColumns,
    {
      name: 'subscription',
      minWidth: 8,
      isOptional: true,
      of: ({ subscriptionId: id }) => cell(config.subscriptions[id] ?? id),
    },
    { name: 'event', of: ({ event }) => moments.show(event) },
    { name: 'answer', of: ({ responseStatusCode }) => response(responseStatusCode) },
  ]
  return `\nDelivered and not processed:\n${table(columns, list, { width, max: maxShown, total, rest: '--records' })}`
}

function notes(report: CompareReport, { file, moments, width }: CompareShown): string {
  const { complete, failed, key, notProcessed, severalEvents, since, unknown, until, withoutKey } = report
  const span = `--since ${moments.show(since)} --until ${moments.show(until)}`
  const exhausted = failed.byDecision.exhausted > 0 ? ' --exhausted' : ''
  const all = [
    !complete && 'A part of the span could not be listed with certainty: run it again.',
    notProcessed.total > 0 &&
      'No retry can bring back what was delivered and not processed: the platform shows it as successful. Look for these events in the logs of the receiver, and process them from there or from the API.',
    failed.total > 0 && `To retry the failed ones: webhook-reconciler retry ${span}${exhausted}`,
    unknown > 0 &&
      `${counted(unknown, 'key')} of ${cell(file)} ${unknown === 1 ? 'is' : 'are'} unknown to the platform: of another subscription, or outside of the span.${file === '-' ? '' : ' --records lists them.'}`,
    severalEvents > 0 &&
      `${counted(severalEvents, 'key stands', 'keys stand')} for more than one event: compare by --key ${key === 'entity' ? 'eventId' : 'webhookId'} to separate them.`,
    withoutKey > 0 &&
      `${counted(withoutKey, 'record has', 'records have')} no ${key} on the platform, and could not be compared.`,
  ]
  return paragraphs(all, width)
}

export function compareText(report: CompareReport, shown: CompareShown): string {
  const { delivered, equal, failed, notProcessed, processing, seconds, since, unknown, until } = report
  const { file, moments, target, width } = shown
  const decided = [
    ...(failed.total > 0 ? [decisionLines(failed.byDecision).join(', ')] : []),
    ...(failed.processed > 0 ? [`${count(failed.processed)} processed all the same`] : []),
  ].join('; ')
  const lines: [string, string][] = [
    ['delivered and processed', count(delivered)],
    ['delivered, not processed', count(notProcessed.total)],
    ['failed', decided === '' ? '0' : `${count(failed.total)} (${decided})`],
    ['processing', count(processing)],
    ['processed, unknown to the platform', count(unknown)],
  ]
  const head = `${target}, events from ${moments.show(since)} to ${moments.show(until)}, compared with ${cell(file)} in ${seconds.toFixed(1)} s: ${equal ? 'EQUAL' : 'NOT EQUAL'}`
  return (
    paragraph(head, width) + pairs(lines, { indent: '  ', width }) + lostTable(report, shown) + notes(report, shown)
  )
}
