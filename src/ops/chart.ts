// The chart of the status page as inline SVG: missing and recovered deliveries since the incident began, in the last hour, or in the week.
import type { HistoryStep } from '../observe/history.ts'
import { count } from '../runtime/counted.ts'
import { isWholeKnown } from './figures.ts'
import { html, section, type Html, type Part } from './html.ts'
import type { StatusFacts } from './status-document.ts'
import { span } from './words.ts'

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000]
/** `20:18`; with the date if the chart spans more than a day. */
function tick(at: Date, [first]: readonly HistoryStep[], now: Date): string {
  const isLong = now.getTime() - (first?.at.getTime() ?? 0) > dayMs
  return `${isLong ? `${at.toISOString().slice(5, 10)} ` : ''}${at.toISOString().slice(11, 16)}`
}

/** The current and the maximum number, if they differ. */
function describe(steps: readonly HistoryStep[], now: Date, isWhole: boolean): string {
  const known = steps.flatMap(({ at, missing }) => (missing === null ? [] : [{ at, missing }]))
  const [last] = known.slice(-1)
  if (last === undefined) return 'Not known yet: no full sweep has ended.'
  const highest = known.reduce((most, one) => (one.missing > most.missing ? one : most), last)
  const most = `, at most ${count(highest.missing)} at ${tick(highest.at, steps, now)} UTC`
  return `${count(last.missing)} ${isWhole ? '' : 'known '}now${highest === last ? '' : most}.`
}

/** A bar for each step with a value, from top to bottom. */
function bars(kind: string, tops: readonly (number | null)[], bottom: number): Html {
  const bar = (top: number | null, x: number): string => (top === null ? '' : `M${x} ${bottom}V${top}h1V${bottom}`)
  return html`<path class="${kind}" d="${tops.map(bar).join('')}" />`
}

/** A line through the centres of the steps, scaled to `max`. */
function line(kind: string, values: readonly number[], max: number): Html {
  const points = values.map((value, x) => `${x + 0.5} ${Math.round((1 - value / max) * 1000) / 10}`)
  return html`<path class="${kind}" d="M${points.join('L')}" />`
}

/** The time span of the chart in words. */
function spanOf({ history: [first], incident, now, startedAt }: StatusFacts): string {
  const from = first?.at.getTime() ?? 0
  const length = now.getTime() - from
  // A longer incident, or life, begins before the week.
  const isSince = (begin: Date): boolean => begin.getTime() > from - minuteMs
  if (incident?.endedAt === null && length > hourMs + minuteMs && isSince(incident.since))
    return 'since the incident began'
  if (isSince(startedAt)) return 'since the start'
  return length > dayMs ? `in the last ${Math.round(length / dayMs)} days` : 'in the last hour'
}

/** Times below the chart, one per third. */
function ticks(steps: readonly HistoryStep[], now: Date): Html {
  const shown = [0, 1 / 3, 2 / 3].flatMap((part) => steps[Math.floor(part * steps.length)] ?? [])
  const texts = shown.map(({ at }) => tick(at, steps, now))
  return html`<div class="hours" aria-hidden="true">
    ${[`${texts[0] ?? ''} UTC`, ...texts.slice(1), 'now'].map((text) => html`<span>${text}</span>`)}
  </div>`
}

/**
 * Empty before there is a history; one sentence if nothing was missing. The drawing scales with the page, the text does not.
 */
export function missingChart(status: StatusFacts): Part {
  const { history: steps, now } = status
  const max = Math.max(...steps.map(({ missing }) => missing ?? 0))
  const marked = steps.some(({ circuits, paused }) => circuits > 0 || paused)
  if (steps.length < 2) return undefined
  const title = `Missing ${spanOf(status)}`
  if (max === 0 && !marked)
    return section('chart', title, html`<p class="sub">${isWholeKnown(status) ? 'None.' : 'None known.'}</p>`)
  const tops = steps.map(({ missing }) =>
    missing === null ? null : Math.round((1 - missing / Math.max(1, max)) * 1000) / 10,
  )
  const recovered = steps.map(({ recovered }) => recovered)
  const most = Math.max(...recovered)
  const strips = [
    {
      kind: 'circuits',
      name: 'a circuit open or half-open',
      on: steps.map(({ circuits }) => circuits > 0),
      top: 105,
    },
    { kind: 'paused', name: 'paused by an operator', on: steps.map(({ paused }) => paused), top: 115 },
  ].filter(({ on }) => on.includes(true))
  const stepText = span((steps[1]?.at.getTime() ?? 0) - (steps[0]?.at.getTime() ?? 0))
  const legends = [
    ...(most > 0 ? [{ kind: 'recovered', name: `recovered, at most ${count(most)} in ${stepText}` }] : []),
    ...strips,
  ].map(({ kind, name }) => html`<span class="key ${kind}">${name}</span> `)
  return section(
    'chart',
    title,
    html`<p class="sub"><span id="chart-words">${describe(steps, now, isWholeKnown(status))}</span> ${legends}</p>
      <div class="plot">
        <div class="scale" aria-hidden="true"><span>${count(max)}</span><span>0</span></div>
        <svg
          viewBox="0 0 ${steps.length} 120"
          preserveAspectRatio="none"
          role="img"
          aria-labelledby="chart chart-words"
        >
          <path class="axis" d="M0 0H${steps.length}M0 100H${steps.length}" />
          ${bars('missing', tops, 100)}
          ${strips.map(({ kind, on, top }) =>
            bars(
              kind,
              on.map((is) => (is ? top : null)),
              top + 5,
            ),
          )}
          ${most > 0 && line('recovered', recovered, most)}
        </svg>
        ${ticks(steps, now)}
      </div>`,
  )
}
