// The report of `compare` for people. A pure function.
import { decisionLines } from '../../ops/cause-columns.ts'
import { count, counted, response } from '../../ops/words.ts'
import type { Session } from '../session.ts'
import { cell, pairs, paragraph, table } from '../format.ts'
import type { CompareReport } from './compare-report.ts'

const maxShown = 20

type CompareShown = Pick<Session, 'config' | 'moments' | 'target' | 'width'> & { file: string }

/** The ones that no retry brings back. */
function lostTable({ notProcessed: { list, total } }: CompareReport, { config, moments, width }: CompareShown): string {
  if (total === 0) return ''
  const columns = [
    { name: 'webhook' },
    { name: 'event type', minWidth: 6 },
    { name: 'subscription', minWidth: 8, isOptional: true },
    { name: 'event' },
    { name: 'answer' },
  ]
  const show = (iso: string | null | undefined): string => moments.show(iso == null ? undefined : Date.parse(iso))
  const rows = list
    .slice(0, maxShown)
    .map(({ event, eventType, responseStatusCode, subscriptionId = '', webhookId }) => [
      cell(webhookId),
      cell(eventType),
      cell(config.subscriptions[subscriptionId] ?? subscriptionId),
      show(event),
      response(responseStatusCode ?? null),
    ])
  const more = total > rows.length ? `... and ${count(total - rows.length)} more: --records lists them\n` : ''
  return `\nDelivered and not processed:\n${table(columns, rows, width)}${more}`
}

function notes(report: CompareReport, { file, moments }: CompareShown): string[] {
  const { complete, failed, key, notProcessed, severalEvents, since, unknown, until, withoutKey } = report
  const show = (iso: string | null): string => moments.show(iso === null ? undefined : Date.parse(iso))
  const span = `--since ${show(since)} --until ${show(until)}`
  const exhausted = failed.byDecision.exhausted > 0 ? ' --exhausted' : ''
  const all: readonly (readonly [isSo: boolean, text: string])[] = [
    [!complete, 'A part of the span could not be listed with certainty: run it again.'],
    [
      notProcessed.total > 0,
      'No retry can bring back what was delivered and not processed: the platform shows it as successful. Look for these events in the logs of the receiver, and process them from there or from the API.',
    ],
    [failed.total > 0, `To retry the failed ones: webhook-reconciler retry ${span}${exhausted}`],
    [
      unknown > 0,
      `${counted(unknown, 'key')} of ${cell(file)} ${unknown === 1 ? 'is' : 'are'} unknown to the platform: of another subscription, or outside of the span.${file === '-' ? '' : ' --records lists them.'}`,
    ],
    [
      severalEvents > 0,
      `${counted(severalEvents, 'key stands', 'keys stand')} for more than one event: compare by --key ${key === 'entity' ? 'eventId' : 'webhookId'} to separate them.`,
    ],
    [
      withoutKey > 0,
      `${counted(withoutKey, 'record has', 'records have')} no ${key} on the platform, and could not be compared.`,
    ],
  ]
  return all.filter(([isSo]) => isSo).map(([, text]) => text)
}

export function compareText(report: CompareReport, shown: CompareShown): string {
  const { delivered, equal, failed, notProcessed, processing, seconds, since, unknown, until } = report
  const show = (iso: string | null): string => shown.moments.show(iso === null ? undefined : Date.parse(iso))
  const decided =
    failed.total === 0
      ? ''
      : ` (${decisionLines(failed.byDecision).join(', ')}${failed.processed > 0 ? `; ${count(failed.processed)} processed all the same` : ''})`
  const lines: [string, string][] = [
    ['delivered and processed', count(delivered)],
    ['delivered, not processed', count(notProcessed.total)],
    ['failed', count(failed.total) + decided],
    ['processing', count(processing)],
    ['processed, unknown to the platform', count(unknown)],
  ]
  const head = `${shown.target}, events from ${show(since)} to ${show(until)}, compared with ${cell(shown.file)} in ${seconds.toFixed(1)} s: ${equal ? 'EQUAL' : 'NOT EQUAL'}`
  return (
    paragraph(head, shown.width) +
    pairs(lines, { indent: '  ', width: shown.width }) +
    lostTable(report, shown) +
    notes(report, shown)
      .map((note) => paragraph(note, shown.width))
      .join('')
  )
}
