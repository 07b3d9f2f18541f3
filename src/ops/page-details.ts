// The details of the status page: the chart of the last hour as inline SVG, causes, parked records, sweeps.
import type { MinuteState } from '../observe/history.ts'
import { causeColumns } from './cause-columns.ts'
import type { CauseStatus } from './causes.ts'
import { html, section, table, type Column, type Html, type Part } from './html.ts'
import type { StatusDocument } from './status-document.ts'
import { clockTime, count, counted, fromNow, response, word } from './words.ts'

/** More of them are in /status. */
const shownCauses = 10
const shownParked = 20

/** A time that machines can read too. */
export function time(at: Date | null, now: Date): Part {
  return at === null ? 'none' : html`<time datetime="${at.toISOString()}">${clockTime(at, now)}</time>`
}

export const sub = (text: Part): Html => html`<p class="sub">${text}</p>`

const decisionNames = {
  due: 'due',
  held: 'held',
  awaiting: 'awaiting outcome',
  'backing-off': 'backing off',
  parked: 'parked',
} as const
type ShownDecision = keyof typeof decisionNames

/** How many are in which state; empty when none is. */
export function partsOf(
  by: Readonly<Record<ShownDecision, number>>,
): { kind: ShownDecision; text: string; records: number }[] {
  return (Object.keys(decisionNames) as ShownDecision[])
    .map((kind) => ({ kind, records: by[kind], text: `${count(by[kind])} ${decisionNames[kind]}` }))
    .filter(({ records }) => records > 0)
}

/** The drawing stretches with the page; text stands beside it, so that it keeps its size. */
const height = 100

/** A round number at or above the largest value. */
export function niceMax(largest: number): number {
  if (!(largest > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(largest))
  const step = [1, 2, 3, 5, 10].find((factor) => factor * power >= largest) ?? 10
  return Math.max(1, step * power)
}

/** An area in steps for each run of minutes of which the number is known: the line on top, and the area below it. */
export function areaPaths(values: readonly (number | null)[], max: number): { line: string; area: string }[] {
  const runs: { line: string; area: string }[] = []
  let points = ''
  let from = 0
  const end = (to: number): void => {
    if (points !== '')
      runs.push({ line: `M${points.slice(1)}`, area: `M${from} ${height}L${points.slice(1)}L${to} ${height}Z` })
    points = ''
  }
  for (const [index, value] of values.entries()) {
    if (value === null) {
      end(index)
      continue
    }
    if (points === '') from = index
    const y = Math.round((1 - value / max) * height * 100) / 100
    points += `L${index} ${y}L${index + 1} ${y}`
  }
  end(values.length)
  return runs
}

const hourMinute = (at: Date): string => at.toISOString().slice(11, 16)

/** In words: now, at first, at most, as far as these differ. */
function describe(minutes: readonly MinuteState[]): string {
  const known = minutes.flatMap(({ at, missing }) => (missing === null ? [] : [{ at, missing }]))
  const [first, last] = [known[0], known.at(-1)]
  if (first === undefined || last === undefined) return 'Not known yet: no full sweep has ended.'
  const highest = known.reduce((most, one) => (one.missing > most.missing ? one : most), first)
  const then = first === last ? '' : `, ${count(first.missing)} at ${hourMinute(first.at)} UTC`
  const isPeak = highest.missing > Math.max(first.missing, last.missing)
  return `${count(last.missing)} now${then}${isPeak ? `, at most ${count(highest.missing)} at ${hourMinute(highest.at)} UTC` : ''}.`
}

/** Missing deliveries over the last hour. Nothing without a history. */
export function missingChart(minutes: readonly MinuteState[]): Part {
  const [first, middle] = [minutes[0], minutes[Math.floor(minutes.length / 2)]]
  if (first === undefined || middle === undefined) return undefined
  const values = minutes.map(({ missing }) => missing)
  const max = niceMax(Math.max(0, ...values.map((value) => value ?? 0)))
  const scale = max % 2 === 0 ? [max, max / 2, 0] : [max, 0]
  const lines = scale.map((value) => {
    const y = (1 - value / max) * height
    return html`<line class="${value === 0 ? 'axis' : 'grid'}" x1="0" x2="${minutes.length}" y1="${y}" y2="${y}" />`
  })
  const areas = areaPaths(values, max).map(
    ({ area, line }) => html`<path class="area" d="${area}" /><path class="line" d="${line}" />`,
  )
  const marks = [hourMinute(first.at), hourMinute(middle.at), 'now'].map((text) => html`<span>${text}</span>`)
  return section(
    'chart',
    'Missing, last hour',
    html`<p class="sub" id="chart-words">${describe(minutes)}</p>
      <div class="plot">
        <div class="scale" aria-hidden="true">${scale.map((value) => html`<span>${count(value)}</span>`)}</div>
        <svg
          viewBox="0 0 ${minutes.length} ${height}"
          preserveAspectRatio="none"
          role="img"
          aria-labelledby="chart chart-words"
        >
          ${lines}${areas}
        </svg>
        <div class="hours" aria-hidden="true">${marks}</div>
      </div>`,
  )
}

const more = (text: Part): Html => html`<p class="more">${text}</p>`

function causeRow(cause: CauseStatus, now: Date): Part[] {
  return causeColumns.map(({ lines }) =>
    lines(cause, { now, idOf: (id) => id }).map((line) => html`<span class="row">${word(line)}</span> `),
  )
}

export function causes({ causes: { list, more: rest, onlyCounted, total }, now }: StatusDocument): Part {
  if (total === 0 && onlyCounted === 0) return undefined
  const shown = list.slice(0, shownCauses)
  const hidden = list.slice(shownCauses).reduce((sum, { records }) => sum + records, rest.records)
  const rows = shown.map((cause) => causeRow(cause, now))
  const left = total - shown.length
  return section('causes', 'Causes', [
    table(`${counted(total, 'cause', 'causes')}, the largest first.`, causeColumns, rows),
    left > 0 && more(`And ${counted(left, 'cause', 'causes')} with ${counted(hidden, 'delivery', 'deliveries')}.`),
    onlyCounted > 0 &&
      more(
        `And ${counted(onlyCounted, 'delivery', 'deliveries')} of which only the number is known: the backlog is full (backlog.maxRecords).`,
      ),
  ])
}

const parkedColumns: readonly Column[] = [
  { name: 'Event id' },
  { name: 'Event type' },
  { name: 'Subscription' },
  { name: 'Last answer' },
  { name: 'Attempts', align: 'right' },
  { name: 'Event' },
  { name: 'Last attempt' },
]

export function parked({ now, parked: { list, total } }: StatusDocument): Part {
  if (total === 0) return undefined
  const rows = list
    .slice(0, shownParked)
    .map((record) => [
      html`<code>${word(record.eventId)}</code>`,
      word(record.eventType),
      html`<code>${word(record.subscriptionId)}</code>`,
      response(record.responseStatusCode),
      count(record.attempts),
      time(record.event, now),
      time(record.lastAttempt, now),
    ])
  const left = total - rows.length
  return section('parked', 'Parked', [
    table('At retry.maxAttempts, and not retried any more. The oldest event first.', parkedColumns, rows),
    left > 0 && more(html`And ${counted(left, 'more record', 'more records')}; see <a href="status">/status</a>.`),
  ])
}

const sweepColumns: readonly Column[] = [
  { name: 'Ended' },
  { name: 'Kind' },
  { name: 'Result' },
  { name: 'Rows', align: 'right' },
  { name: 'Took', align: 'right' },
]

export function sweeps({ now, sweeps: list }: StatusDocument): Html {
  const rows = list.map(({ endedAt, kind, listed, result, seconds }) => [
    html`${time(endedAt, now)} <small>${fromNow(endedAt, now)}</small>`,
    kind,
    html`<span class="${result}">${result}</span>`,
    count(listed),
    seconds < 0.1 ? '< 0.1 s' : `${count(seconds)} s`,
  ])
  return section(
    'sweeps',
    'Sweeps',
    rows.length === 0 ? sub('None has ended yet.') : table('The last ten.', sweepColumns, rows),
  )
}
