// The daemon's /status as text for a terminal: the sentences of its summary, the numbers, and the first causes. A pure function.
import { decisions } from '../reconcile/decide.ts'
import type { DaemonStatus } from './daemon-client.ts'
import { causeTable } from './cause-table.ts'
import { cell, pairs, paragraph, showSpan, type Colour, type Moments, type Paint } from './format.ts'

export interface StatusShown {
  url: string
  moments: Moments
  paint: Paint
  width: number | undefined
}

const colours: Readonly<Record<string, Colour>> = { well: 'green', working: 'green', waiting: 'yellow', trouble: 'red' }
const levelWidth = 'trouble'.length
const adviceLabel = `${' '.repeat(levelWidth)}  -> `

/** A level and a text, broken where the line ends. */
function levelLine(level: string, text: string, { paint, width }: StatusShown): string {
  const label = `${level.padEnd(levelWidth)}  `
  const lines = paragraph(text, width, label)
  return paint(colours[level] ?? 'bold', lines.slice(0, level.length)) + lines.slice(level.length)
}

function missingText({ failed, lastFullSweep, missing }: DaemonStatus): string {
  if (lastFullSweep === null && missing === 0) return 'not known yet'
  const parts = decisions
    .filter((decision) => decision !== 'excluded' && (failed[decision] ?? 0) > 0)
    .map((decision) => `${failed[decision] ?? 0} ${decision}`)
  const count = lastFullSweep === null ? `at least ${missing}` : String(missing)
  return parts.length === 0 ? count : `${count} (${parts.join(', ')})`
}

function numbers(status: DaemonStatus): [string, string][] {
  const { awaiting, drain, inFlight, lastFullSweep, missing, nextTick, now, rate } = status
  const secondsTo = (iso: string): number => (Date.parse(iso) - Date.parse(now)) / 1000
  const when = drain.limitedBy === 'backoff' ? ' (last backoff)' : ''
  const done = drain.seconds === null || missing === 0 ? '' : `, done in about ${showSpan(drain.seconds)}${when}`
  return [
    ['missing', missingText(status)],
    ['recovering', `${drain.recoveredPerMinute} a minute${done}`],
    ['retries', `${inFlight} in flight, ${awaiting} without an outcome, ${rate.callsPerSecond} calls/s`],
    ['last full sweep', lastFullSweep === null ? 'none yet' : `${showSpan(-secondsTo(lastFullSweep))} ago`],
    ['next tick', nextTick === null ? 'none' : `in ${showSpan(secondsTo(nextTick))}`],
  ]
}

function causesText({ causes: { list, more, total }, now }: DaemonStatus, width: number | undefined): string {
  if (total === 0) return ''
  const records = list.reduce((sum, cause) => sum + cause.records, more.records)
  return `\n${causeTable({ list, total, records, now: new Date(now) }, width)}`
}

export function statusText(status: DaemonStatus, shown: StatusShown): string {
  const { instance, now, summary, version } = status
  const head = `${cell(instance)} at ${shown.url}, version ${cell(version)}, ${shown.moments.show(Date.parse(now))}\n`
  const advised = (text: string): string => (text === '' ? '' : paragraph(text, shown.width, adviceLabel))
  const notices = summary.notices.map(({ advice, level, text }) => levelLine(level, text, shown) + advised(advice))
  return (
    head +
    levelLine(summary.level, summary.headline, shown) +
    advised(`${summary.detail} ${summary.advice}`.trim()) +
    `\n${pairs(numbers(status))}` +
    (notices.length === 0 ? '' : `\n${notices.join('')}`) +
    causesText(status, shown.width)
  )
}
