// The status page's tables: causes, parked records, the last sweeps.
import type { CauseStatus } from './cause-status.ts'
import { constant, html, type Html, type Part } from './html.ts'
import { partsOf } from './notices.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import type { StatusDocument } from './status.ts'
import { count, counted, fromNow, response, span, timeOf, word } from './words.ts'

/** Roles are given: a table that a small screen shows as a list of blocks stays a table to a screen reader. */
interface Column {
  name: string
  isNumber?: boolean
}

function table(caption: Part, columns: readonly Column[], rows: readonly (readonly Part[])[]): Html {
  const kind = ({ isNumber }: Column): Part => isNumber === true && constant(' class="number"')
  const head = columns.map((column) => html`<th role="columnheader" scope="col" ${kind(column)}>${column.name}</th>`)
  const cell = (part: Part, index: number): Part => {
    const column = columns[index] ?? { name: '' }
    if (index === 0) return html`<th role="rowheader" scope="row">${part}</th>`
    return html`<td role="cell" data-label="${column.name}" ${kind(column)}><span>${part}</span></td>`
  }
  return html`<table role="table">
    <caption>
      ${caption}
    </caption>
    <thead role="rowgroup">
      <tr role="row">
        ${head}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${rows.map(
        (row) =>
          html`<tr role="row">
            ${row.map(cell)}
          </tr>`,
      )}
    </tbody>
  </table>`
}

const untilOpen: Readonly<Partial<Record<Gate, string>>> = {
  disabled: 'when retries are switched on',
  paused: 'when resumed',
  'receiver-down': 'when the receiver is up',
  unauthorized: 'when access works',
  platform: 'when the platform answers',
}

const isParked = ({ byDecision, records }: CauseStatus): boolean => byDecision.parked === records

function nextAttempt(cause: CauseStatus, { holding, now }: StatusDocument): Part {
  const { byDecision, circuit, nextAttempt: next } = cause
  if (next !== null) {
    const words = Date.parse(next) <= Date.parse(now) ? 'now' : fromNow(next, now)
    // An open circuit lets one probe out, and the others only when that one has arrived.
    const isProbe = circuit === 'open' && byDecision.held > 0
    if (words === 'now') return isProbe ? 'one probe now' : words
    const what = isProbe ? `one probe ${words}, the others after it` : words
    return html`${what} <small>${timeOf(next, now)}</small>`
  }
  if (isParked(cause)) return 'none: parked'
  const until = holding.map((gate) => untilOpen[gate]).find((text) => text !== undefined)
  return until ?? 'when an outcome is known'
}

const circuitMarks = { closed: '○', 'half-open': '◐', open: '●' } as const

function causeRow(cause: CauseStatus, status: StatusDocument): Part[] {
  const decisions = partsOf(cause.byDecision).map(
    ({ name, records }) => html`<span class="short line">${count(records)} ${name}</span> `,
  )
  const { oldestEvent } = cause
  return [
    word(cause.eventType),
    html`<code>${word(cause.subscriptionId)}</code>`,
    html`<span class="short">${response(cause.responseStatusCode)}</span>`,
    html`<b>${count(cause.records)}</b>`,
    oldestEvent !== null &&
      html`${span(Date.parse(status.now) - Date.parse(oldestEvent))} <small>${timeOf(oldestEvent, status.now)}</small>`,
    isParked(cause)
      ? html`<span class="none">none</span>`
      : html`<span class="state ${cause.circuit}"
          ><span aria-hidden="true">${circuitMarks[cause.circuit]}</span> ${cause.circuit}</span
        >`,
    decisions,
    nextAttempt(cause, status),
  ]
}

const causeColumns: readonly Column[] = [
  { name: 'Event type' },
  { name: 'Subscription' },
  { name: 'Last answer' },
  { name: 'Missing', isNumber: true },
  { name: 'Oldest' },
  { name: 'Circuit' },
  { name: 'Decision' },
  { name: 'Next attempt' },
]

export function causesOf(status: StatusDocument): Part {
  const { list, more, onlyCounted, total } = status.causes
  if (total === 0 && onlyCounted === 0) return undefined
  const rest = [
    more.causes > 0 &&
      html`<p class="more">
        And ${counted(more.causes, 'more cause', 'more causes')} with
        ${counted(more.records, 'delivery', 'deliveries')}.
      </p>`,
    onlyCounted > 0 &&
      html`<p class="more">
        ${counted(onlyCounted, 'more delivery is', 'more deliveries are')} missing of which only the number is known
        here: there was no room for them in memory (backlog.maxRecords).
      </p>`,
  ]
  const caption = `${counted(total, 'cause', 'causes')}, the one with the most deliveries first. Ages are of the oldest event.`
  return html`<section class="card" aria-labelledby="causes">
    <h2 id="causes">Why they are missing</h2>
    ${table(
      caption,
      causeColumns,
      list.map((cause) => causeRow(cause, status)),
    )}
    ${rest}
  </section>`
}

const parkedColumns: readonly Column[] = [
  { name: 'Event id' },
  { name: 'Event type' },
  { name: 'Subscription' },
  { name: 'Last answer' },
  { name: 'Attempts', isNumber: true },
  { name: 'Event' },
  { name: 'Last attempt' },
]

export function parkedOf({ now, parked }: StatusDocument): Part {
  if (parked.total === 0) return undefined
  const rows = parked.list.map((record) => [
    html`<code>${word(record.eventId)}</code>`,
    word(record.eventType),
    html`<code>${word(record.subscriptionId)}</code>`,
    html`<span class="short">${response(record.responseStatusCode)}</span>`,
    count(record.attempts),
    timeOf(record.event, now),
    timeOf(record.lastAttempt, now),
  ])
  const more = parked.total - parked.list.length
  return html`<section class="card" aria-labelledby="parked">
    <h2 id="parked">Parked</h2>
    ${table('At the attempt limit (retry.maxAttempts): nobody retries them any more. The oldest event first.', parkedColumns, rows)}
    ${more > 0 && html`<p class="more">And ${counted(more, 'more record', 'more records')}.</p>`}
  </section>`
}

const sweepColumns: readonly Column[] = [
  { name: 'Ended' },
  { name: 'Kind' },
  { name: 'Result' },
  { name: 'Rows', isNumber: true },
  { name: 'Took', isNumber: true },
]

export function sweepsOf({ now, sweeps }: StatusDocument): Html {
  const rows = sweeps.map(({ endedAt, kind, listed, result, seconds }) => [
    html`${timeOf(endedAt, now)} <small>${fromNow(endedAt, now)}</small>`,
    kind,
    html`<span class="state ${result}">${result}</span>`,
    count(listed),
    seconds < 0.1 ? '< 0.1 s' : `${count(seconds)} s`,
  ])
  const body =
    rows.length === 0
      ? html`<p class="muted">None has ended yet.</p>`
      : table('The last ten that ended.', sweepColumns, rows)
  return html`<section class="card" aria-labelledby="sweeps">
    <h2 id="sweeps">Last sweeps</h2>
    ${body}
  </section>`
}
