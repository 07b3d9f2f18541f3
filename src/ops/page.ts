// The status page: the status document as HTML, rendered here without any script. A pure function.
import { describeGate } from '../reconcile/retry/gates.ts'
import type { CauseStatus } from './causes.ts'
import { causeColumns } from './cause-columns.ts'
import { missingChart } from './chart.ts'
import { html, section, table, type Html, type Part } from './html.ts'
import { incidentPairs, incidentTitle } from './incident-text.ts'
import { countedUntil, doneOf, isWholeKnown, missingOf, recoveredOf, seenText } from './figures.ts'
import { styleElement } from './page-styles.ts'
import type { Level, StatusDocument } from './status-document.ts'
import { clockTime, count, counted, fromNow, rateText, response, span, word } from './words.ts'

const refreshSeconds = 10
/** More of them are in /status. */
const shownCauses = 10
const shownExhausted = 20

/** A time that machines can read too. */
function time(at: Date | null, now: Date): Part {
  return at === null ? 'none' : html`<time datetime="${at.toISOString()}">${clockTime(at, now)}</time>`
}

const more = (text: Part): Html => html`<p class="sub">${text}</p>`
const lines = (texts: readonly string[]): Html[] => texts.map((text) => html`<span class="row">${word(text)}</span> `)
const chip = (level: Level): Html => html`<b class="level ${level}">${level}</b>`

/** A sentence in which commands stand out, and are not broken. */
function advised(text: string): Part {
  return text
    .split(/(webhook-reconciler [a-z]+(?: --[a-z]+(?: [A-Z]+)?)*)/)
    .map((part, index) =>
      index % 2 === 1
        ? html`<code class="command">${part.split(' ').map((one) => html`<span>${one}</span> `)}</code>`
        : part,
    )
}

function header(status: StatusDocument, refreshes: boolean): Html {
  const { instance, now } = status
  const [text, link] = refreshes ? ['Stop refreshing', '?refresh=off'] : ['Refresh', '?refresh=on']
  return html`<header>
    <p>Webhook reconciler <b>${word(instance)}</b></p>
    <p class="sub">
      <time datetime="${now.toISOString()}">${now.toISOString().slice(0, 19).replace('T', ' ')}</time> UTC · last full
      sweep: ${seenText(status)} · ${refreshes && `refreshes every ${refreshSeconds} s · `}<a href="${link}">${text}</a>
    </p>
  </header>`
}

/** A link to a section of the runbook, where an address is configured. */
function runbookLink(address: string | null): Part {
  return address?.startsWith('http') === true && html` <a href="${address}">Runbook</a>`
}

function headline({ summary }: StatusDocument): Html {
  const { advice, detail, headline: text, level, notices, runbook } = summary
  const items = notices.map(
    (notice) =>
      html`<li>
        ${chip(notice.level)} <strong>${notice.text}</strong> ${advised(notice.advice)}${runbookLink(notice.runbook)}
      </li>`,
  )
  return html`<div class="card headline ${level}">
    ${chip(level)}
    <h1>${text}</h1>
    ${`${detail}${advice}` !== '' && html`<p>${detail} ${advised(advice)}${runbookLink(runbook)}</p>`}
    ${
      items.length > 0 &&
      html`<ul class="notices">
        ${items}
      </ul>`
    }
  </div>`
}

function figures(status: StatusDocument): Html {
  const { failed, firstExpiry, inFlight, missing, now, exhausted: atLimit } = status
  const [number, parts] = missingOf(status)
  const oldest = status.oldestOpenEvent ?? atLimit.list[0]?.event ?? null
  const { atPace, since, total } = recoveredOf(status)
  const all: readonly (readonly [name: string, big: string, below: Part])[] = [
    ['Missing', number, lines([...parts, ...(missing === 0 ? [] : countedUntil(status, 'of events'))])],
    [
      'Oldest',
      oldest === null ? (isWholeKnown(status) ? 'none' : 'none known') : span(now.getTime() - oldest.getTime()),
      oldest &&
        html`event of ${time(oldest, now)},
        ${firstExpiry === null ? 'exhausted' : `expires ${fromNow(firstExpiry, now)}`}`,
    ],
    [
      'Recovered',
      atPace ?? total,
      lines([
        atPace === undefined ? since : `${total} ${since}`,
        ...(missing === 0 ? [] : [`${count(inFlight)} in flight, ${count(failed.awaiting)} awaiting outcome`]),
      ]),
    ],
    ['Done', ...doneOf(status)],
  ]
  const items = all.map(
    ([name, big, below]) =>
      html`<div>
        <dt>${name}</dt>
        <dd class="big">${big}</dd>
        <dd class="sub">${below}</dd>
      </div>`,
  )
  return html`<dl class="card figures">${items}</dl>`
}

function causes(status: StatusDocument): Part {
  const { causes: known, now, subscriptions } = status
  const { list, more: rest, onlyCounted, total } = known
  if (total === 0 && onlyCounted === 0) return undefined
  const shown = list.slice(0, shownCauses)
  const hidden = list.slice(shownCauses).reduce((sum, { records }) => sum + records, rest.records)
  const idOf = (id: string): string => subscriptions[id] ?? id
  const commands = shown.map((cause) => commandOf(cause, status))
  const hasCommand = commands.some((command) => command !== undefined)
  const rows = shown.map((cause, index) => [
    ...causeColumns.map((column) => lines(column.lines(cause, { now, idOf }))),
    ...(hasCommand ? [commands[index]] : []),
  ])
  const left = total - shown.length
  return section('causes', 'Missing by cause', [
    table(
      `${counted(total, 'cause', 'causes')}: a subscription, and the receiver’s answer when a delivery last failed. The largest first.`,
      [...causeColumns, ...(hasCommand ? [{ name: 'by hand' }] : [])],
      rows,
    ),
    left > 0 && more(`And ${counted(left, 'cause', 'causes')} with ${counted(hidden, 'delivery', 'deliveries')}.`),
    onlyCounted > 0 &&
      more(
        `And ${counted(onlyCounted, 'delivery', 'deliveries')} of which only the number is known: the backlog is full (backlog.maxRecords).`,
      ),
  ])
}

/** The command for these records; none while it would fail, or their circuit is not closed: that sends probes. */
function commandOf(
  { byDecision, circuit, oldestEvent, records, responseStatusCode, subscriptionId }: CauseStatus,
  { gates }: StatusDocument,
): Part {
  const isExhausted = byDecision.exhausted === records
  const isFutile = gates
    .map(({ gate }) => describeGate(gate))
    .some((shut) => shut.blocks === 'everything' && shut.level === 'trouble')
  if (oldestEvent === null || isFutile || (circuit !== 'closed' && !isExhausted)) return undefined
  const since = `${oldestEvent.toISOString().slice(0, 19)}Z`
  const which = `--since ${since} --subscription ${word(subscriptionId)} --response ${responseStatusCode ?? 'none'}`
  const command = `webhook-reconciler retry ${which}${isExhausted ? ' --exhausted' : ''}`
  return html`<details>
    <summary>retry</summary>
    <code>${command}</code>
  </details>`
}

const exhaustedColumns = [
  { name: 'event id' },
  { name: 'event type' },
  { name: 'subscription' },
  { name: 'answer' },
  { name: 'event' },
  { name: 'last attempt' },
] as const

function exhausted({ now, exhausted: { list, total }, subscriptions: names }: StatusDocument): Part {
  if (total === 0) return undefined
  const rows = list
    .slice(0, shownExhausted)
    .map((record) => [
      word(record.eventId),
      word(record.eventType),
      html`<code>${word(names[record.subscriptionId] ?? record.subscriptionId)}</code>`,
      response(record.responseStatusCode),
      time(record.event, now),
      time(record.lastAttempt, now),
    ])
  const left = total - rows.length
  return section('exhausted', 'Exhausted', [
    table('At retry.maxAttempts, and not retried any more. The oldest event first.', exhaustedColumns, rows),
    left > 0 && more(html`And ${counted(left, 'more record', 'more records')}; see <a href="status">/status</a>.`),
  ])
}

const facts = (pairs: readonly (readonly [name: string, value: Part])[]): Html =>
  html`<dl class="facts">
    ${pairs.map(
      ([name, value]) =>
        html`<dt>${name}</dt>
          <dd>${value}</dd>`,
    )}
  </dl>`

function incident(status: StatusDocument): Part {
  const { incident: last } = status
  if (last === null) return undefined
  const pairs = incidentPairs(last, status)
  return section('incident', incidentTitle(last, status), facts(pairs))
}

/** `2.5 s ahead`. Less than a second is within the precision of `Date` headers. */
function ahead(seconds: number): string {
  if (Math.abs(seconds) < 1) return 'in sync'
  return `${count(Math.abs(seconds))} s ${seconds > 0 ? 'ahead' : 'behind'}`
}

/** The conditions of all work. What is wrong with them is a notice. */
function surroundings({
  certificateExpires,
  clock,
  now,
  rate,
  startedAt,
  sweeps,
  timeZone,
  ...rest
}: StatusDocument): Html {
  const expiry = (at: Date | null): Part => (at === null ? 'none' : html`${fromNow(at, now)}, ${time(at, now)}`)
  const pairs: readonly (readonly [name: string, value: Part])[] = [
    ...sweeps
      .filter(({ result }, index) => index === 0 || result === 'failed')
      .map(({ endedAt, kind, listed, result }) => {
        const text = `${kind}, ${result}, ${counted(listed, 'row', 'rows')}, ${fromNow(endedAt, now)}`
        return [result === 'failed' ? 'Failed sweep' : 'Last sweep', text] as const
      }),
    ['Next tick', rest.nextTick === null ? 'not known' : fromNow(rest.nextTick, now)],
    ['Access token ends', expiry(rest.tokenExpires)],
    ['Certificate ends', expiry(certificateExpires)],
    ['Platform clock', ahead(clock.skewSeconds.api)],
    ['Identity clock', ahead(clock.skewSeconds.auth)],
    [
      'Platform zone',
      `${timeZone.platform}, ${timeZone.actualOffset === null ? 'not checked yet' : `measured UTC${timeZone.actualOffset}`}`,
    ],
    ['Calls allowed', rateText(rate)],
    ['Running', html`${span(now.getTime() - startedAt.getTime())}, since ${time(startedAt, now)}`],
  ]
  return html`<details class="card">
    <summary><h2>Sweeps, token, clocks, limits</h2></summary>
    ${facts(pairs)}
  </details>`
}

/** The page of this document. With `refreshes` the browser asks again every ten seconds. */
export function renderPage(status: StatusDocument, { refreshes }: { refreshes: boolean }): string {
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${status.summary.headline} · ${word(status.instance)} · Webhook reconciler</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        ${refreshes && html`<meta http-equiv="refresh" content="${refreshSeconds}" />`}
        <link rel="icon" href="data:," />
        ${styleElement}
      </head>
      <body>
        ${header(status, refreshes)}
        <main>
          ${headline(status)} ${figures(status)} ${missingChart(status)} ${incident(status)} ${causes(status)}
          ${exhausted(status)} ${surroundings(status)}
        </main>
        <footer class="sub">
          Version ${status.version} · as JSON: <a href="status">/status</a> · for Prometheus:
          <a href="metrics">/metrics</a>
        </footer>
      </body>
    </html> `
  return page.markup
}
