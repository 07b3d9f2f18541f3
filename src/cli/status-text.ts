// The status document as text for a terminal: its sentences, numbers and first causes. A pure function.
import { incidentPairs, incidentTitle } from '../ops/incident-text.ts'
import { doneOf, isWholeKnown, missingOf, recoveredOf, seenText } from '../ops/figures.ts'
import type { StatusDocument } from '../ops/status-document.ts'
import { fromNow, prefixed, rateText } from '../ops/words.ts'
import { count } from '../runtime/counted.ts'
import { visibleText } from '../runtime/redact.ts'
import { causeTable } from './cause-table.ts'
import { cell, pairs, paragraph, type Colour, type Paint, type TextShown } from './format.ts'
import type { Moments } from './moments.ts'

export interface StatusShown extends TextShown {
  url: string
  moments: Moments
  paint: Paint
}

const colours: Readonly<Record<string, Colour>> = { well: 'green', working: 'green', waiting: 'yellow', trouble: 'red' }
const levelWidth = 'trouble'.length
const adviceLabel = `${' '.repeat(levelWidth)}  -> `

/** A level and a text, wrapped. */
function levelLine(level: string, text: string, { paint, width }: StatusShown): string {
  const label = `${level.padEnd(levelWidth)}  `
  const lines = paragraph(visibleText(text), width, label)
  return paint(colours[level] ?? 'bold', lines.slice(0, level.length)) + lines.slice(level.length)
}

function missingText(status: StatusDocument): string {
  const [number, parts] = missingOf(status)
  return parts.length === 0 ? number : `${number} (${parts.join(', ')})`
}

function numbers(status: StatusDocument): [string, string][] {
  const { awaiting, firstExpiry, inFlight, missing, nextSweep, now, rate } = status
  const none = missing === 0 ? 'none' : 'none that is retried'
  const { atPace, since, total } = recoveredOf(status)
  return [
    ['missing', missingText(status)],
    ['recovered', `${atPace === undefined ? '' : `${atPace}, `}${total} ${since}`],
    ['first expiry', firstExpiry === null ? (isWholeKnown(status) ? none : 'unknown') : fromNow(firstExpiry, now)],
    ['done', doneOf(status).join(': ')],
    ['retries', `${count(inFlight)} in flight, ${count(awaiting)} awaiting outcome, at most ${rateText(rate)}`],
    ['last full sweep', seenText(status)],
    ['next sweep', nextSweep === null ? 'none' : fromNow(nextSweep, now)],
  ]
}

/** The current incident, or the last one. */
export function incidentText(status: StatusDocument, { width }: StatusShown): string {
  const { incident, instance, summary } = status
  if (incident === null) {
    const none = isWholeKnown(status)
      ? 'no incident since the start'
      : `no incident is known. ${summary.headline} ${summary.detail}`
    return visibleText(paragraph(`${cell(instance)}: ${none.trim()}`, width))
  }
  const report = `${cell(instance)}: ${incidentTitle(incident, status)}\n${pairs(incidentPairs(incident, status), { width })}`
  return visibleText(report)
}

export function statusText(status: StatusDocument, shown: StatusShown): string {
  const { instance, now, summary, version } = status
  const head = `${cell(instance)} at ${shown.url}, version ${cell(version)}, ${shown.moments.show(now)}\n`
  const advised = (text: string): string =>
    text === '' ? '' : paragraph(visibleText(prefixed(text, shown.commandPrefix)), shown.width, adviceLabel)
  const notices = summary.notices.map(({ advice, level, text }) => levelLine(level, text, shown) + advised(advice))
  return (
    head +
    levelLine(summary.level, summary.headline, shown) +
    advised(`${summary.detail} ${summary.advice}`.trim()) +
    `\n${visibleText(pairs(numbers(status), { width: shown.width }))}` +
    (notices.length === 0 ? '' : `\n${notices.join('')}`) +
    causeTable(status, shown.width)
  )
}
