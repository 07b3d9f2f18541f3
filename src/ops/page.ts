// The status page: the status document as HTML, rendered here without any script. A pure function.
import { html, section, type Html, type Part } from './html.ts'
import { causes, missingChart, parked, partsOf, sub, sweeps, time } from './page-details.ts'
import { isLastSweepFailed, isWholeKnown } from './notices.ts'
import { icon, mark, styleElement } from './page-styles.ts'
import type { StatusDocument } from './status-document.ts'
import { clockTime, count, fromNow, pace, span, word } from './words.ts'

const refreshSeconds = 10

function header({ instance, now }: StatusDocument, refreshes: boolean): Html {
  const [text, link] = refreshes ? ['Stop refreshing', '?refresh=off'] : ['Refresh', '?refresh=on']
  const shown = now.toISOString()
  return html`<header>
    <p class="name">Webhook reconciler <b>${word(instance)}</b></p>
    <p class="sub">
      <time datetime="${shown}">${shown.slice(0, 10)} ${shown.slice(11, 19)}</time> UTC ·
      ${refreshes ? `refreshes every ${refreshSeconds} s` : 'does not refresh'} · <a href="${link}">${text}</a>
    </p>
  </header>`
}

function headline({ lastCompleteSweep, now, summary }: StatusDocument): Html {
  const seen =
    lastCompleteSweep === null
      ? 'No full sweep has seen the whole window yet.'
      : `The whole window was last seen ${fromNow(lastCompleteSweep, now)}.`
  return html`<div class="card headline ${summary.level}">
    ${mark(summary.level)}
    <div>
      <h1>${summary.headline}</h1>
      <p>${seen}</p>
    </div>
  </div>`
}

/** The share of each decision: a bar, and the same in words. */
function shares({ failed, missing }: StatusDocument): Part {
  const parts = partsOf(failed)
  if (parts.length === 0) return sub('in the window')
  let from = 0
  const bars = parts.map(({ kind, records }) => {
    const bar = html`<rect class="${kind}" x="${from}" width="${records}" height="1" />`
    from += records
    return bar
  })
  const items = parts.map(
    ({ kind, text }) =>
      html`<li>
        <svg viewBox="0 0 1 1" aria-hidden="true"><rect class="${kind}" width="1" height="1" /></svg>${text}
      </li>`,
  )
  return html`<svg class="share" viewBox="0 0 ${missing} 1" preserveAspectRatio="none" aria-hidden="true">${bars}</svg>
    <ul class="parts">
      ${items}
    </ul>`
}

function figure(name: string, big: Part, below: Part): Html {
  return html`<div class="card">
    <dt>${name}</dt>
    <dd>
      <div class="big">${big}</div>
      ${below}
    </dd>
  </div>`
}

function missingFigure(status: StatusDocument): Html {
  const { lastFullSweep, missing } = status
  const none = lastFullSweep === null ? 'Not known yet' : 'None known'
  const atLeast = missing === 0 ? none : `at least ${count(missing)}`
  return figure('Missing', isWholeKnown(status) ? count(missing) : atLeast, shares(status))
}

function oldestFigure({ lastFullSweep, now, oldestOpenEvent, parked }: StatusDocument): Html {
  const event = oldestOpenEvent ?? parked.list[0]?.event ?? null
  if (event === null) return figure('Oldest', lastFullSweep === null ? 'Not known yet' : 'None', undefined)
  const age = span(now.getTime() - event.getTime())
  return figure('Oldest', age, sub(html`since ${time(event, now)}${oldestOpenEvent === null && ', parked'}`))
}

function doneFigure(status: StatusDocument): Html {
  const { drain, failed, lastFullSweep, missing, now } = status
  const show = (big: string, text: Part): Html => figure('Done', big, sub(text))
  if (lastFullSweep === null) return show('Not known yet', 'No full sweep has ended.')
  if (missing === 0 && !isWholeKnown(status)) {
    const why = isLastSweepFailed(status)
      ? 'The last sweep failed.'
      : 'The last full sweep did not see the whole window.'
    return show('Not known', why)
  }
  if (missing === 0) return show('Now', 'Everything has arrived.')
  if (missing === failed.parked) return show('Not by itself', 'Parked deliveries are not retried.')
  if (drain.doneAt === null) {
    return show(
      'Unknown',
      drain.recoveredPerMinute > 0 ? 'Retries wait at present.' : 'No delivery arrives at present.',
    )
  }
  const basis = drain.limitedBy === 'backoff' ? 'when the last backoff ends' : 'at this pace'
  // To the minute: it is an estimate.
  const at = clockTime(drain.doneAt, now).slice(0, -':00'.length)
  const rest = failed.parked > 0 ? ', without parked ones' : ''
  return show(fromNow(drain.doneAt, now), `about ${at}, ${basis}${rest}`)
}

function figures(status: StatusDocument): Html {
  const { drain, failed, inFlight } = status
  const busy = `${count(inFlight)} in flight, ${count(failed.awaiting)} awaiting outcome`
  return html`<dl class="figures">
    ${missingFigure(status)} ${oldestFigure(status)}
    ${figure('Recovered', `${pace(drain.recoveredPerMinute)} a minute`, sub(busy))} ${doneFigure(status)}
  </dl>`
}

function notices({ summary }: StatusDocument): Part {
  const items = summary.notices.map(
    ({ advice, level, text }) =>
      html`<li class="${level}">
        ${mark(level)}
        <div><strong>${text}</strong> ${advice}</div>
      </li>`,
  )
  return (
    items.length > 0 &&
    section(
      'notices',
      'Notices',
      html`<ul class="notices">
        ${items}
      </ul>`,
    )
  )
}

/** `2.5 s ahead`. Less than a second is within the precision of `Date` headers. */
function ahead(seconds: number): string {
  if (Math.abs(seconds) < 1) return 'in step'
  return `${count(Math.abs(seconds))} s ${seconds > 0 ? 'ahead' : 'behind'}`
}

const expiry = (at: Date | null, now: Date): Part =>
  at === null ? 'none' : html`${fromNow(at, now)}, ${time(at, now)}`

/** The conditions of all work: token, clocks, zone. */
function surroundings(status: StatusDocument): Html {
  const { certificateExpires, circuits, clock, now, rate, receiver, startedAt, timeZone } = status
  const offset = timeZone.offsetSeconds
  const health = receiver?.up === true ? 'up' : receiver?.up === false ? 'down' : 'not asked yet'
  const rows: readonly (readonly [string, Part])[] = [
    ['Access token ends', expiry(status.tokenExpires, now)],
    ...(certificateExpires === null ? [] : [['Certificate ends', expiry(certificateExpires, now)] as const]),
    ['Platform clock', ahead(clock.skewSeconds.api)],
    ['Identity clock', ahead(clock.skewSeconds.auth)],
    ['Platform zone', `${timeZone.platform}, ${offset === null ? 'not checked yet' : `${count(offset)} s off`}`],
    ['Next tick', status.nextTick === null ? 'not known' : fromNow(status.nextTick, now)],
    ['Calls allowed', `${count(rate.callsPerSecond)} a second`],
    ['Circuits', circuits.notClosed === 0 ? 'all closed' : `${count(circuits.notClosed)} not closed`],
    ...(receiver === null ? [] : [['Receiver', health] as const]),
    ['Running', html`${span(now.getTime() - startedAt.getTime())}, since ${time(startedAt, now)}`],
  ]
  const items = rows.map(
    ([name, value]) =>
      html`<dt>${name}</dt>
        <dd>${value}</dd>`,
  )
  return section('surroundings', 'Token, clocks, limits', html`<dl class="facts">${items}</dl>`)
}

/** The page of this document. With `refreshes` the browser asks again every ten seconds. */
export function renderPage(status: StatusDocument, { refreshes }: { refreshes: boolean }): string {
  const { level, headline: text } = status.summary
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${text} · ${word(status.instance)} · Webhook reconciler</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <meta name="color-scheme" content="light dark" />
        ${refreshes && html`<meta http-equiv="refresh" content="${refreshSeconds}" />`} ${icon(level)} ${styleElement}
      </head>
      <body>
        ${header(status, refreshes)}
        <main>
          ${headline(status)} ${figures(status)} ${notices(status)} ${missingChart(status.history)} ${causes(status)}
          ${parked(status)}
          <div class="pair">${sweeps(status)}${surroundings(status)}</div>
        </main>
        <footer>
          <p class="sub">
            Version ${status.version} · as JSON: <a href="status">/status</a> · for Prometheus:
            <a href="metrics">/metrics</a>
          </p>
        </footer>
      </body>
    </html> `
  return page.markup
}
