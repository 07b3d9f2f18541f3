// The chart of the status page: missing deliveries since the incident began, or in the last hour, as inline SVG.
import type { HistoryStep } from '../observe/history.ts'
import { isWholeKnown } from './figures.ts'
import { html, section, type Html, type Part } from './html.ts'
import type { StatusFacts } from './status-document.ts'
import { count } from './words.ts'

const hourMs = 3_600_000
const hourMinute = (at: Date): string => at.toISOString().slice(11, 16)

/** In words: now, and at most, as far as these differ. */
function describe(minutes: readonly HistoryStep[], isWhole: boolean): string {
  const known = minutes.flatMap(({ at, missing }) => (missing === null ? [] : [{ at, missing }]))
  const [last] = known.slice(-1)
  if (last === undefined) return 'Not known yet: no full sweep has ended.'
  const highest = known.reduce((most, one) => (one.missing > most.missing ? one : most), last)
  const most = `, at most ${count(highest.missing)} at ${hourMinute(highest.at)} UTC`
  return `${count(last.missing)} ${isWhole ? '' : 'known '}now${highest === last ? '' : most}.`
}

/** A bar for each minute that has one, from its top to its bottom. */
function bars(kind: string, tops: readonly (number | null)[], bottom: number): Html {
  const bar = (top: number | null, x: number): string => (top === null ? '' : `M${x} ${bottom}V${top}h1V${bottom}`)
  return html`<path class="${kind}" d="${tops.map(bar).join('')}" />`
}

/** Nothing where there is nothing to see, or no course yet. The drawing stretches with the page; text stands beside it. */
export function missingChart(status: StatusFacts): Part {
  const { history: minutes, incident, now, startedAt } = status
  const first = minutes[0]
  const max = Math.max(...minutes.map(({ missing }) => missing ?? 0))
  const marked = minutes.some(({ circuits, paused }) => circuits > 0 || paused)
  if (first === undefined || minutes.length < 2 || (max === 0 && !marked)) return undefined
  const tops = minutes.map(({ missing }) =>
    missing === null ? null : Math.round((1 - missing / Math.max(1, max)) * 1000) / 10,
  )
  const strips = [
    {
      kind: 'circuits',
      name: 'a circuit open or half-open',
      on: minutes.map(({ circuits }) => circuits > 0),
      top: 105,
    },
    { kind: 'paused', name: 'paused by an operator', on: minutes.map(({ paused }) => paused), top: 115 },
  ].filter(({ on }) => on.includes(true))
  const legends = strips.map(({ kind, name }) => html`<span class="key ${kind}">${name}</span> `)
  const isLong = incident !== null && incident.endedAt === null && now.getTime() - incident.since.getTime() > hourMs
  const hourOrStart = now.getTime() - startedAt.getTime() < hourMs ? 'since the start' : 'last hour'
  return section(
    'chart',
    `Missing, ${isLong ? 'since the incident began' : hourOrStart}`,
    html`<p class="sub"><span id="chart-words">${describe(minutes, isWholeKnown(status))}</span> ${legends}</p>
      <div class="plot">
        <div class="scale" aria-hidden="true"><span>${count(max)}</span><span>0</span></div>
        <svg
          viewBox="0 0 ${minutes.length} 120"
          preserveAspectRatio="none"
          role="img"
          aria-labelledby="chart chart-words"
        >
          <path class="axis" d="M0 0H${minutes.length}M0 100H${minutes.length}" />
          ${bars('missing', tops, 100)}
          ${strips.map(({ kind, on, top }) =>
            bars(
              kind,
              on.map((is) => (is ? top : null)),
              top + 5,
            ),
          )}
        </svg>
        <div class="hours" aria-hidden="true"><span>${hourMinute(first.at)}</span><span>now</span></div>
      </div>`,
  )
}
