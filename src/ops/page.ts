// The status page: the status document as HTML without scripts. A pure function.
import { count, counted } from '../runtime/counted.ts'
import type { CauseStatus } from './causes.ts'
import { causeColumns, onlyCountedText } from './cause-columns.ts'
import { missingChart } from './chart.ts'
import { html, section, table, type Html, type Part } from './html.ts'
import { incidentPairs, incidentTitle } from './incident-text.ts'
import { recordsSection, searchForm, type FoundOnPage } from './records-page.ts'
import {
  countedUntil,
  doneOf,
  isBroken,
  isDisabled,
  isWholeKnown,
  missingOf,
  platformNow,
  recoveredOf,
  seenText,
} from './figures.ts'
import { styleElement } from './page-styles.ts'
import type { Level, StatusDocument } from './status-document.ts'
import { clockTime, fromNow, rateText, response, sinceOf, span, subscriptionName, word } from './words.ts'

const refreshSeconds = 10
/** /status lists more. */
const shownCauses = 10

/** Options of a page; there are two versions. */
export interface PageView {
  /**
   * True: the browser reloads every ten seconds, and long parts are folded into a link. False: everything is shown, and nothing
   * interrupts reading.
   */
  refreshes: boolean
  /** `server.commandPrefix`. */
  commandPrefix: string
  /** Requested records: shown first, and the page does not refresh. */
  found?: FoundOnPage
}

/** A machine-readable time, shown in full on hover. */
function time(at: Date | null, now: Date): Part {
  const iso = at?.toISOString()
  return at === null ? 'none' : html`<time datetime="${iso}" title="${iso}">${clockTime(at, now)}</time>`
}

/** A link to the unfolded page. */
const whole = (id: string, text: string): Html => html`<a href="?refresh=off#${id}">${text}</a>`
const more = (text: Part): Html => html`<p class="sub">${text}</p>`
/** A sentence on what is not shown, unless that is nothing. */
const moreOf = (left: number, text: string): Part => left > 0 && more(text)
const lines = (texts: readonly string[]): Html[] => texts.map((text) => html`<span class="row">${word(text)}</span> `)
const chip = (level: Level): Html => html`<b class="level ${level}">${level}</b>`

/** A sentence with its commands marked up, without line breaks. */
function advised(text: string, commandPrefix: string): Part {
  return text.split(/(webhook-reconciler [a-z]+(?: --[a-z]+(?: (?!-)[^\s,]+)?)*)/).map((part, index) => {
    if (index % 2 === 0) return part
    const words = [...(commandPrefix === '' ? [] : [commandPrefix]), ...part.split(' ')]
    return html`<code class="command">${words.map((one) => html`<span>${one}</span> `)}</code>`
  })
}

function header(status: StatusDocument, { refreshes }: PageView): Html {
  const { instance, now } = status
  const link = refreshes
    ? html`refreshes every ${refreshSeconds} s · <a href="?refresh=off">Stop refreshing</a>`
    : html`<a href="?refresh=on">Refresh</a>`
  return html`<header>
    <p>Webhook reconciler <b>${word(instance)}</b></p>
    <p class="sub">
      <time datetime="${now.toISOString()}">${now.toISOString().slice(0, 19).replace('T', ' ')}</time> UTC (all times) ·
      last full sweep: ${seenText(status)} · ${link}
    </p>
  </header>`
}

/** A link to a section of the runbook, if its address is configured. */
function runbookLink(address: string | null): Part {
  return address?.startsWith('http') === true && html` <a href="${address}">Runbook</a>`
}

function headline({ summary }: StatusDocument, { commandPrefix }: PageView): Html {
  const { advice, detail, headline: text, level, notices, runbook } = summary
  const items = notices.map(
    (notice) =>
      html`<li>
        ${chip(notice.level)}
        <strong>${notice.text}</strong> ${advised(notice.advice, commandPrefix)}${runbookLink(notice.runbook)}
      </li>`,
  )
  return html`<div class="card headline ${level}">
    ${chip(level)}
    <h1>${text}</h1>
    ${`${detail}${advice}` !== '' && html`<p>${detail} ${advised(advice, commandPrefix)}${runbookLink(runbook)}</p>`}
    ${
      items.length > 0 &&
      html`<ul class="notices">
        ${items}
      </ul>`
    }
  </div>`
}

function figures(status: StatusDocument): Html {
  const { awaiting, firstExpiry, inFlight, missing, now, exhausted: atLimit } = status
  const [number, parts] = missingOf(status)
  const oldest = status.oldestOpenEvent ?? atLimit.oldest
  const { atPace, since, total } = recoveredOf(status)
  const all: readonly (readonly [name: string, big: string, below: Part])[] = [
    ['Missing', number, lines([...parts, ...(missing === 0 ? [] : countedUntil(status, 'of events'))])],
    [
      'Oldest',
      oldest === null
        ? isWholeKnown(status) && missing === 0
          ? 'none'
          : 'none known'
        : span(platformNow(status).getTime() - oldest.getTime()),
      oldest &&
        html`event of ${time(oldest, now)},
        ${firstExpiry === null ? 'exhausted' : `expires ${fromNow(firstExpiry, now)}`}`,
    ],
    [
      'Recovered',
      atPace ?? total,
      lines([
        atPace === undefined ? since : `${total} ${since}`,
        ...(missing === 0 ? [] : [`${count(inFlight)} in flight, ${count(awaiting)} awaiting outcome`]),
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

/** A link to the records of a cause. While its circuit is not closed, its response is not that of each record. */
function recordsLink({ circuit, responseStatusCode, subscriptionId }: CauseStatus, text: Part): Part {
  // No query matches an empty id.
  if (subscriptionId === '') return text
  const filter = circuit === 'closed' ? `&response=${responseStatusCode ?? 'none'}` : ''
  return html`<a href="?subscription=${encodeURIComponent(subscriptionId)}${filter}#records">${text}</a>`
}

/** Groups causes by subscription; the subscription with the largest cause comes first. */
const bySubscription = (list: readonly CauseStatus[]): CauseStatus[] =>
  [...Map.groupBy(list, ({ subscriptionId }) => subscriptionId).values()].flat()

function causes(status: StatusDocument, options: PageView): Part {
  const { causes: known, now, subscriptions } = status
  const { list, more: rest, onlyCounted, total } = known
  if (total === 0 && onlyCounted === 0) return undefined
  const shown = bySubscription(list.slice(0, shownCauses))
  const hidden = list.slice(shownCauses).reduce((sum, { records }) => sum + records, rest.records)
  const idOf = (id: string): string =>
    options.refreshes ? subscriptionName(id, subscriptions) : (subscriptions[id] ?? id)
  const context = { now, platformNow: platformNow(status), idOf }
  const rows = shown.map((cause, index) => {
    const [subscription, ...cells]: Part[] = causeColumns.map((column) => lines(column.lines(cause, context)))
    cells[1] = [recordsLink(cause, cells[1])]
    const isOfSame = shown[index - 1]?.subscriptionId === cause.subscriptionId
    return [isOfSame ? undefined : subscription, ...cells]
  })
  const left = total - shown.length
  return section('causes', 'Missing by cause', [
    table('By subscription and the response to the last failed delivery.', causeColumns, rows),
    moreOf(left, `And ${counted(left, 'cause', 'causes')} with ${counted(hidden, 'delivery', 'deliveries')}.`),
    moreOf(onlyCounted, `And ${onlyCountedText(onlyCounted)}`),
    commands(shown, status, options),
  ])
}

/** The command for the records of each cause, if it has one. */
function commands(shown: readonly CauseStatus[], status: StatusDocument, options: PageView): Part {
  const { commandPrefix, refreshes } = options
  const pairs = shown.flatMap((cause) => {
    const command = commandOf(cause, status)
    const name = `${subscriptionName(cause.subscriptionId, status.subscriptions)}, ${response(cause.responseStatusCode)}`
    return command === undefined ? [] : [[name, html`<code>${`${commandPrefix} ${command}`.trim()}</code>`] as const]
  })
  if (pairs.length === 0) return undefined
  if (refreshes) return more(whole('commands', 'Commands to retry them by hand'))
  return html`<h3 id="commands">By hand</h3>
    ${facts(pairs)}`
}

/**
 * The command for these records; none if it would fail, would name no subscription, or if their circuit is not closed: it would
 * only send probes.
 */
function commandOf(
  { byDecision, circuit, oldestEvent, records, responseStatusCode, subscriptionId }: CauseStatus,
  status: StatusDocument,
): string | undefined {
  const isExhausted = byDecision.exhausted === records
  if (isBroken(status) || isDisabled(status) || (circuit !== 'closed' && !isExhausted)) return undefined
  if (oldestEvent === null || subscriptionId === '') return undefined
  const which = `--since ${sinceOf([oldestEvent])} --subscription ${subscriptionId} --response ${responseStatusCode ?? 'none'}`
  return `webhook-reconciler retry ${which}${isExhausted ? ' --exhausted' : ''}`
}

const unprocessedColumns = [
  { name: 'subscription' },
  { name: 'event type' },
  { name: 'response' },
  { name: 'unprocessed', align: 'right' },
  { name: 'first delivery' },
  { name: 'last delivery' },
] as const

function unprocessed({ books, now, subscriptions: names }: StatusDocument): Part {
  const { causes: known, total } = books?.unprocessed ?? {}
  if (known === undefined || total === 0) return undefined
  const rows = known.list
    .slice(0, shownCauses)
    .map(({ eventType, firstDelivery, lastDelivery, records, responseStatusCode: code, subscriptionId }) => {
      const which = { subscription: subscriptionId, type: eventType, response: String(code ?? 'none') }
      return [
        word(names[subscriptionId] ?? subscriptionId),
        word(eventType),
        response(code),
        subscriptionId === '' || eventType === ''
          ? count(records)
          : html`<a href="?${String(new URLSearchParams({ group: 'unprocessed', ...which }))}#records"
              >${count(records)}</a
            >`,
        time(firstDelivery, now),
        time(lastDelivery, now),
      ]
    })
  const left = known.total - rows.length
  return section('unprocessed', 'Delivered and not processed', [
    table('Acknowledged with 2xx but not in the receiver’s ledger.', unprocessedColumns, rows),
    moreOf(left, `And ${counted(left, 'more cause')}.`),
    more(html`By id: <a href="records?group=unprocessed">/records?group=unprocessed</a>.`),
  ])
}

function exhausted({ exhausted: { oldest, total }, now }: StatusDocument): Part {
  if (total === 0) return undefined
  const which = html`At retry.maxAttempts and no longer retried. Oldest event: ${time(oldest, now)}.`
  const link = html`<a href="?decision=exhausted#records">${counted(total, 'record', 'records')}</a>`
  return section('exhausted', 'Exhausted', html`<p class="sub">${which} ${link}</p>`)
}

const facts = (pairs: readonly (readonly [name: string, value: Part])[]): Html =>
  html`<dl class="facts">
    ${pairs.map(
      ([name, value]) =>
        html`<dt>${name}</dt>
          <dd>${value}</dd>`,
    )}
  </dl>`

function incident(status: StatusDocument, { refreshes }: PageView): Part {
  const { incident: last } = status
  if (last === null) return undefined
  const pairs = incidentPairs(last, status)
  const title = incidentTitle(last, status)
  if (!refreshes) return section('incident', title, facts(pairs))
  const line = pairs
    .filter(([name]) => shortNames.has(name))
    .map(([name, text]) => (name === 'time' ? text : `${name} ${text}`))
  return folded('incident', title, line.join('; '))
}

/** Values of an incident shown in its one line. */
const shortNames: ReadonlySet<string> = new Set(['time', 'peak', 'recovered', 'left the list'])

/** A card folded into one line, with a link to its details. */
function folded(id: string, title: string, line: string): Html {
  return html`<section class="card folded" aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    <p class="sub">${line} ${whole(id, 'Details')}</p>
  </section>`
}

/** `2.5 s ahead`. `Date` headers are precise to a second. */
function ahead(seconds: number): string {
  if (Math.abs(seconds) < 1) return 'in sync'
  return `${count(Math.abs(seconds))} s ${seconds > 0 ? 'ahead' : 'behind'}`
}

/** General state. Notices report its faults. */
function conditions(
  { certificateExpires, clock, now, rate, startedAt, sweeps, timeZone, ...rest }: StatusDocument,
  { refreshes }: PageView,
): Html {
  const title = 'Sweeps, token, clocks, limits'
  if (refreshes) return folded('conditions', title, 'If one is wrong, a notice says so.')
  const expiry = (at: Date | null): Part => (at === null ? 'none' : html`${fromNow(at, now)}, ${time(at, now)}`)
  const pairs: readonly (readonly [name: string, value: Part])[] = [
    ...sweeps
      .filter(({ result }, index) => index === 0 || result === 'failed')
      .map(({ endedAt, kind, listed, result }) => {
        const text = `${kind}, ${result}, ${counted(listed, 'row', 'rows')}, ${fromNow(endedAt, now)}`
        return [result === 'failed' ? 'Failed sweep' : 'Last sweep', text] as const
      }),
    ['Next sweep', rest.nextSweep === null ? 'none' : fromNow(rest.nextSweep, now)],
    ['Token expiry', expiry(rest.tokenExpires)],
    ['Certificate expiry', expiry(certificateExpires)],
    ['Platform clock', ahead(clock.skewSeconds.api)],
    ['Identity clock', ahead(clock.skewSeconds.auth)],
    [
      'Platform zone',
      `${timeZone.platform}, ${timeZone.actualOffset === null ? 'not checked yet' : `measured UTC${timeZone.actualOffset}`}`,
    ],
    ['Calls allowed', rateText(rate)],
    ['Running', html`${span(now.getTime() - startedAt.getTime())}, since ${time(startedAt, now)}`],
  ]
  return section('conditions', title, facts(pairs))
}

export function renderPage(status: StatusDocument, options: PageView): string {
  const { found } = options
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${status.summary.headline} · ${word(status.instance)} · Webhook reconciler</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        ${options.refreshes && html`<meta http-equiv="refresh" content="${refreshSeconds}" />`}
        <link rel="icon" href="data:," />
        ${styleElement}
      </head>
      <body>
        ${header(status, options)}
        <main>
          ${found && recordsSection(found, status, options.commandPrefix)} ${headline(status, options)}
          ${figures(status)} ${searchForm(found?.searched)} ${causes(status, options)} ${unprocessed(status)}
          ${exhausted(status)} ${missingChart(status)} ${incident(status, options)} ${conditions(status, options)}
        </main>
        <footer class="sub">
          Version ${status.version} · as JSON: <a href="status">/status</a> · for Prometheus:
          <a href="metrics">/metrics</a>
        </footer>
      </body>
    </html> `
  return page.markup
}
