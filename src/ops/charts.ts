// The last hour as inline SVG: no script, readable without colours, with a title and a description in words.
import type { MinuteStatus } from './history-status.ts'
import { html, type Html, type Part } from './html.ts'
import { count, counted } from './words.ts'

/** The shapes stretch with the page; text stands beside them, so that it keeps its size. */
const height = 100

/** A round number at or above the largest value. */
export function niceMax(largest: number): number {
  if (!(largest > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(largest))
  const step = [1, 2, 3, 5, 10].find((factor) => factor * power >= largest) ?? 10
  return Math.max(1, step * power)
}

const hourMinute = (iso: string): string => iso.slice(11, 16)

interface Chart {
  id: string
  title: string
  description: string
  minutes: readonly MinuteStatus[]
  /** Labels from top to bottom. */
  scale: readonly string[]
  shapes: Part
  legend: Part
  /** Stands over the chart when there is nothing to draw. */
  empty: string | undefined
}

function figure({ description, empty, id, legend, minutes, scale, shapes, title }: Chart): Html {
  const [first, middle] = [minutes[0], minutes[Math.floor(minutes.length / 2)]]
  const marks = [hourMinute(first?.at ?? ''), hourMinute(middle?.at ?? ''), 'now'].map(
    (text) => html`<span>${text}</span>`,
  )
  return html`<figure class="card chart">
    <figcaption>
      <h2>${title}</h2>
      <p class="legend">${legend}</p>
    </figcaption>
    <div class="plot">
      <div class="scale" aria-hidden="true">${scale.map((label) => html`<span>${label}</span>`)}</div>
      <div class="drawing">
        <svg
          viewBox="0 0 ${minutes.length} ${height}"
          preserveAspectRatio="none"
          role="img"
          aria-labelledby="${id}-title ${id}-desc"
        >
          <title id="${id}-title">${title}</title>
          <desc id="${id}-desc">${description}</desc>
          <g aria-hidden="true">${shapes}</g>
        </svg>
        ${empty !== undefined && html`<p class="empty">${empty}</p>`}
      </div>
      <div class="hours" aria-hidden="true">${marks}</div>
    </div>
  </figure>`
}

const gridLine = (y: number, minutes: number, kind = 'grid'): Html =>
  html`<line class="${kind}" x1="0" x2="${minutes}" y1="${y}" y2="${y}" />`

/** A column as high as the chart that says its minute when it is pointed at. */
const pointed = (index: number, text: string): Html =>
  html`<rect class="hit" x="${index}" y="0" width="1" height="${height}"><title>${text}</title></rect>`

/** One area for each run of minutes of which the number is known, in steps. */
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

/** In words: now, at first, at most, as far as these differ. */
function describeMissing(minutes: readonly MinuteStatus[]): string {
  const known = minutes.flatMap(({ at, missing }) => (missing === null ? [] : [{ at, missing }]))
  const [first, last] = [known[0], known.at(-1)]
  if (first === undefined || last === undefined) return 'Not known yet.'
  const highest = known.reduce((most, one) => (one.missing > most.missing ? one : most), first)
  const then = first === last ? '' : `, ${count(first.missing)} at ${hourMinute(first.at)} UTC`
  const isPeak = highest.missing > Math.max(first.missing, last.missing)
  return `${count(last.missing)} now${then}${isPeak ? `, at most ${count(highest.missing)} at ${hourMinute(highest.at)} UTC` : ''}.`
}

/** Missing deliveries over the last hour. */
export function missingChart(minutes: readonly MinuteStatus[]): Html {
  const values = minutes.map(({ missing }) => missing)
  const max = niceMax(Math.max(0, ...values.map((value) => value ?? 0)))
  const hasMiddle = max % 2 === 0
  const areas = areaPaths(values, max).map(
    ({ area, line }) => html`<path class="area" d="${area}" /><path class="line" d="${line}" />`,
  )
  const hits = minutes.map(({ at, missing }, index) =>
    pointed(index, `${hourMinute(at)} UTC: ${missing === null ? 'not known' : `${count(missing)} missing`}`),
  )
  return figure({
    id: 'missing-chart',
    title: 'Missing deliveries, last hour',
    description: describeMissing(minutes),
    minutes,
    scale: hasMiddle ? [count(max), count(max / 2), '0'] : [count(max), '0'],
    shapes: [
      gridLine(0, minutes.length),
      hasMiddle && gridLine(height / 2, minutes.length),
      areas,
      gridLine(height, minutes.length, 'axis'),
      hits,
    ],
    legend: describeMissing(minutes),
    empty: values.every((value) => value === null) ? 'Not known yet: no full sweep has ended.' : undefined,
  })
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

/** What recovered goes up from the line, what failed again goes down: nobody needs the colours. */
export function outcomesChart(minutes: readonly MinuteStatus[]): Html {
  const up = minutes.map(({ recovered }) => recovered)
  const down = minutes.map(({ failedAgain }) => failedAgain)
  const [maxUp, maxDown] = [niceMax(Math.max(0, ...up)), niceMax(Math.max(0, ...down))]
  const isEmpty = sumOf(up) + sumOf(down) === 0
  const isOneSided = sumOf(down) === 0
  // One scale for both; what never failed again needs no room.
  const unit = height / (maxUp + (isOneSided ? 0 : maxDown))
  const zero = Math.round(maxUp * unit * 100) / 100
  const bar = (kind: string, index: number, value: number, y: number): Part =>
    value > 0 && html`<rect class="${kind}" x="${index + 0.1}" y="${y}" width="0.8" height="${value * unit}" />`
  const bars = minutes.map(({ failedAgain, recovered }, index) => [
    bar('recovered', index, recovered, zero - recovered * unit),
    bar('failed-again', index, failedAgain, zero),
  ])
  const hits = minutes.map(({ at, failedAgain, recovered }, index) =>
    pointed(index, `${hourMinute(at)} UTC: ${count(recovered)} recovered, ${count(failedAgain)} failed again`),
  )
  const total = `${counted(sumOf(up), 'delivery', 'deliveries')} recovered, ${count(sumOf(down))} failed again.`
  return figure({
    id: 'outcomes-chart',
    title: 'Outcomes a minute, last hour',
    description: `${total} At most ${count(Math.max(0, ...up))} recovered and ${count(Math.max(0, ...down))} failed again in a minute.`,
    minutes,
    scale: [`+${count(maxUp)}`, isOneSided ? '0' : `−${count(maxDown)}`],
    shapes: [gridLine(0, minutes.length), bars, gridLine(zero, minutes.length, 'axis'), hits],
    legend: html`<span class="key recovered">▲ ${count(sumOf(up))} recovered</span>
      <span class="key failed-again">▼ ${count(sumOf(down))} failed again</span>`,
    empty: isEmpty ? 'No outcome in the last hour.' : undefined,
  })
}
