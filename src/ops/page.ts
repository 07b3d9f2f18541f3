// The status page: the status document as HTML for a person in a hurry. Rendered here, without any script; a pure function.
import { createHash } from 'node:crypto'
import { missingChart, outcomesChart } from './charts.ts'
import { constant, html, type Html, type Part } from './html.ts'
import { doingOf, doneOf, noticesOf, partsOf, verdictOf, type Level } from './notices.ts'
import { causesOf, parkedOf, sweepsOf } from './page-tables.ts'
import { surroundingsOf } from './surroundings.ts'
import type { StatusDocument } from './status.ts'
import { styles } from './styles.ts'
import { count, fromNow, span, timeOf, word } from './words.ts'

const refreshSeconds = 10

/** The element's text and the policy's hash of it must be the same to the last blank. */
const styleElement = constant(`<style>${styles}</style>`)
const styleHash = createHash('sha256').update(styles, 'utf8').digest('base64')

/** Nothing is loaded, run, framed or sent: whatever somebody's text might become, it can do nothing. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** What goes with the page beside `cache-control: no-store` and `x-content-type-options: nosniff`. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
}

const shapes: Readonly<Record<Level, string>> = {
  well: 'M7 12.5l3.5 3.5L17 9',
  working: 'M12 7v5l3.5 2',
  waiting: 'M9.5 8v8M14.5 8v8',
  trouble: 'M12 6.5v7M12 17.2v.1',
}

/** The level as a shape, so that nobody needs its colour. What it means stands beside it. */
function mark(level: Level): Html {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <circle cx="12" cy="12" r="11" />
    <path d="${shapes[level]}" />
  </svg>`
}

const iconColours: Readonly<Record<Level, string>> = {
  well: '17703f',
  working: '1557b8',
  waiting: '855300',
  trouble: 'b3211a',
}

/** The level in the browser's tab. */
function icon(level: Level): Html {
  const svg = `%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Ccircle cx='12' cy='12' r='12' fill='%23${iconColours[level]}'/%3E%3Cpath d='${shapes[level]}' fill='none' stroke='%23fff' stroke-width='2.4' stroke-linecap='round'/%3E%3C/svg%3E`
  return html`<link rel="icon" href="data:image/svg+xml,${svg}" />`
}

function topOf({ instance, now }: StatusDocument, refreshes: boolean): Html {
  const [text, link] = refreshes ? ['Stop refreshing', '?refresh=off'] : ['Refresh by itself', '?refresh=on']
  const pace = refreshes ? `refreshes every ${refreshSeconds} s` : 'does not refresh'
  return html`<header>
    <p class="name">Webhook reconciler <b>${word(instance)}</b></p>
    <p class="when">
      <time datetime="${now}">${now.slice(0, 10)} ${now.slice(11, 19)}</time> · all times are UTC · ${pace} ·
      <a href="${link}">${text}</a>
    </p>
  </header>`
}

function seenIn({ lastFullSweep, lastCompleteSweep, now }: StatusDocument): string {
  if (lastFullSweep === null) return 'No full sweep has ended yet.'
  if (lastCompleteSweep === null) return 'No full sweep has seen the whole window yet.'
  return `The whole window was last seen ${fromNow(lastCompleteSweep, now)}.`
}

function verdict(status: StatusDocument): Html {
  const { level, text } = verdictOf(status)
  return html`<div class="card verdict level-${level}">
    ${mark(level)}
    <div>
      <h1>${text}</h1>
      <p>${seenIn(status)}</p>
    </div>
  </div>`
}

/** How the missing ones are shared out: a bar, and the same in words. */
function shares({ failed, missing }: StatusDocument): Html {
  const parts = partsOf(failed)
  if (parts.length === 0) return html`<p class="sub">in the window that is looked after</p>`
  let from = 0
  const bars = parts.map(({ kind, records }) => {
    const bar = html`<rect class="${kind}" x="${from}" y="0" width="${records}" height="1" />`
    from += records
    return bar
  })
  const words = parts.map(
    ({ kind, name, records }) =>
      html`<li>
        <svg viewBox="0 0 1 1" aria-hidden="true"><rect class="${kind}" width="1" height="1" /></svg>${count(records)}
        ${name}
      </li>`,
  )
  return html`<svg class="share" viewBox="0 0 ${missing} 1" preserveAspectRatio="none" aria-hidden="true">${bars}</svg>
    <ul class="parts">
      ${words}
    </ul>`
}

function card(name: string, big: Part, sub: Part): Html {
  return html`<div class="card">
    <dt>${name}</dt>
    <dd>
      <div class="big">${big}</div>
      ${sub}
    </dd>
  </div>`
}

function oldest({ lastFullSweep, now, oldestOpenEvent, parked }: StatusDocument): Html {
  const event = oldestOpenEvent ?? parked.list[0]?.event ?? null
  if (event === null) return card('Oldest', lastFullSweep === null ? 'Not known yet' : 'None', undefined)
  const more = oldestOpenEvent === null && ', parked'
  const age = span(Date.parse(now) - Date.parse(event))
  return card('Oldest', age, html`<p class="sub">since ${timeOf(event, now)}${more}</p>`)
}

function figures(status: StatusDocument): Html {
  const [doing, done] = [doingOf(status), doneOf(status)]
  const { lastFullSweep, missing } = status
  const atLeast = missing === 0 ? 'Not known yet' : `at least ${count(missing)}`
  return html`<dl class="figures">
    ${card('Missing', lastFullSweep === null ? atLeast : count(missing), shares(status))} ${oldest(status)}
    ${card('Being done', doing.word, html`<p class="sub">${doing.sentence}</p>`)}
    ${card('Will be done', done.word, html`<p class="sub">${done.sentence}</p>`)}
  </dl>`
}

function notices(status: StatusDocument): Part {
  const all = noticesOf(status)
  if (all.length === 0) return undefined
  const items = all.map(
    ({ advice, level, text }) =>
      html`<li class="${level}">
        ${mark(level)}
        <div><strong>${text}</strong> ${advice}</div>
      </li>`,
  )
  return html`<section class="card" aria-labelledby="look">
    <h2 id="look">What to look at</h2>
    <ul class="notices">
      ${items}
    </ul>
  </section>`
}

function titleOf(status: StatusDocument): string {
  return `${verdictOf(status).text} · ${word(status.instance)} · Webhook reconciler`
}

/** The page that shows this document. With `refreshes` the browser asks again every ten seconds. */
export function renderPage(status: StatusDocument, { refreshes }: { refreshes: boolean }): string {
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${titleOf(status)}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <meta name="color-scheme" content="light dark" />
        ${refreshes && html`<meta http-equiv="refresh" content="${refreshSeconds}" />`} ${icon(verdictOf(status).level)}
        ${styleElement}
      </head>
      <body>
        ${topOf(status, refreshes)}
        <main>
          ${verdict(status)} ${figures(status)} ${notices(status)}
          <div class="charts">${missingChart(status.history)}${outcomesChart(status.history)}</div>
          ${causesOf(status)} ${parkedOf(status)}
          <div class="pair">${sweepsOf(status)}${surroundingsOf(status)}</div>
        </main>
        <footer>
          <p>
            Version ${status.version} · as JSON: <a href="status">/status</a> · for Prometheus:
            <a href="metrics">/metrics</a>
          </p>
        </footer>
      </body>
    </html> `
  return page.markup
}
