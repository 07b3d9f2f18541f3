// The look of the status page: its only style sheet, the policy that lets nothing else through, and the marks of the levels.
import { createHash } from 'node:crypto'
import { constant, html, type Html } from './html.ts'
import type { Level } from './status-document.ts'

/** Colours of text keep a contrast of 4.5 and more. */
const styles = `
:root {
  color-scheme: light dark;
  --page: #f4f6f8; --card: #fff; --text: #171b21; --muted: #566070; --line: #d9dfe6; --soft: #eef1f5; --link: #1453b0;
  --well: #17703f; --working: #1557b8; --waiting: #855300; --trouble: #b3211a;
  --well-soft: #e3f4ea; --working-soft: #e5eefb; --waiting-soft: #fdf1d8; --trouble-soft: #fde8e6;
  --due: #4c8df0; --held: #e0a63a; --awaiting: #7c6ee6; --backing-off: #8f9cab; --parked: #d2463e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1217; --card: #171c23; --text: #e8ecf1; --muted: #a0acba; --line: #2b333e; --soft: #202731; --link: #8ab8ff;
    --well: #5fd497; --working: #8ab8ff; --waiting: #edbd55; --trouble: #ff9087;
    --well-soft: #12301f; --working-soft: #14273f; --waiting-soft: #352a10; --trouble-soft: #3b1a19;
    --due: #5a97f2; --held: #d49f3c; --awaiting: #9488f0; --backing-off: #7c8897; --parked: #e0635b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 76rem; padding: 1rem 1.25rem 3rem; background: var(--page); color: var(--text);
  font: 0.9375rem/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-variant-numeric: tabular-nums;
}
h1, h2, p, dl, dd, ul { margin: 0; padding: 0; list-style: none; }
h2 { font-size: 1rem; font-weight: 650; margin-bottom: 0.5rem; }
a { color: var(--link); text-underline-offset: 0.15em; }
a:focus-visible { outline: 3px solid var(--link); outline-offset: 3px; border-radius: 2px; }
header { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; align-items: baseline; justify-content: space-between; padding-bottom: 1rem; }
.name, b, strong { font-weight: 650; }
.name b { margin-left: 0.4rem; padding: 0.1rem 0.5rem; border-radius: 0.4rem; background: var(--soft); border: 1px solid var(--line); overflow-wrap: anywhere; }
.sub, .more, small, caption { color: var(--muted); font-size: 0.875rem; }
main { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 0.75rem; padding: 1rem 1.125rem; }

.well { --level: var(--well); --level-soft: var(--well-soft); } .working { --level: var(--working); --level-soft: var(--working-soft); }
.waiting { --level: var(--waiting); --level-soft: var(--waiting-soft); } .trouble { --level: var(--trouble); --level-soft: var(--trouble-soft); }
.mark { flex: none; width: 1.25rem; height: 1.25rem; margin-top: 0.1rem; }
.mark circle { fill: var(--level); }
.mark path { fill: none; stroke: var(--card); stroke-width: 2.4; stroke-linecap: round; stroke-linejoin: round; }
.headline { display: flex; gap: 0.9rem; align-items: center; border-left: 0.4rem solid var(--level); background: var(--level-soft); }
.headline h1 { font-size: 1.45rem; line-height: 1.25; font-weight: 700; letter-spacing: -0.01em; margin-bottom: 0.2rem; text-wrap: balance; }
.headline .mark { width: 2.25rem; height: 2.25rem; margin: 0; }
.notices li { display: flex; gap: 0.7rem; padding: 0.55rem 0; border-top: 1px solid var(--line); }
.notices li:first-child { border-top: 0; padding-top: 0; } .notices li:last-child { padding-bottom: 0; }

.figures { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1rem; }
dt { color: var(--muted); font-size: 0.875rem; }
.big { font-size: 1.4rem; line-height: 1.25; font-weight: 680; letter-spacing: -0.01em; margin: 0.15rem 0 0.3rem; overflow-wrap: anywhere; }
.share { display: block; width: 100%; height: 0.5rem; margin: 0.35rem 0 0.45rem; border-radius: 0.25rem; background: var(--soft); }
.parts { display: flex; flex-wrap: wrap; gap: 0.1rem 0.75rem; font-size: 0.875rem; }
.parts li { display: flex; align-items: center; gap: 0.35rem; white-space: nowrap; }
.parts svg { flex: none; width: 0.65rem; height: 0.65rem; }
.due { fill: var(--due); } .held { fill: var(--held); } .awaiting { fill: var(--awaiting); }
.backing-off { fill: var(--backing-off); } .parked { fill: var(--parked); }

.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0.25rem 0.5rem; margin-top: 0.6rem; }
.plot svg { display: block; width: 100%; height: 7.5rem; overflow: visible; }
.scale, .hours { display: flex; justify-content: space-between; color: var(--muted); font-size: 0.75rem; line-height: 1; }
.scale { flex-direction: column; text-align: right; min-width: 2.2rem; } .hours { grid-column: 2; }
.grid, .axis, .line { vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); } .axis { stroke: var(--muted); }
path.area { fill: var(--due); opacity: 0.22; } path.line { fill: none; stroke: var(--due); stroke-width: 2; stroke-linejoin: round; }

table { width: 100%; border-collapse: collapse; }
caption { text-align: left; padding-bottom: 0.5rem; }
th, td { text-align: left; vertical-align: top; padding: 0.5rem 0.9rem 0.5rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
thead th { border-top: 0; color: var(--muted); font-size: 0.8125rem; font-weight: 600; padding-top: 0; overflow-wrap: normal; }
tbody th { font-weight: 620; overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; }
span.row { display: block; } small { font-weight: 400; }
code { font: 0.8125rem/1.4 ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace; }
.open, .failed { color: var(--trouble); } .half-open, .incomplete { color: var(--waiting); }
.more { margin-top: 0.6rem; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; align-items: start; }
.facts { display: grid; grid-template-columns: minmax(8rem, auto) minmax(0, 1fr); gap: 0.45rem 1rem; }
.facts dd { overflow-wrap: anywhere; }
footer { margin-top: 1.25rem; }

@media (min-width: 70rem) { td code, th code { white-space: nowrap; } }
@media (max-width: 62rem) { .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (max-width: 48rem) {
  body { padding: 0.75rem 0.75rem 2rem; }
  main, .figures { gap: 0.75rem; }
  .pair { grid-template-columns: minmax(0, 1fr); gap: 0.75rem; }
  .card { padding: 0.85rem 0.9rem; }
  .headline h1 { font-size: 1.2rem; } .big { font-size: 1.15rem; }
  table, tbody, tr, th, td, caption { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  tbody tr { border-top: 1px solid var(--line); padding: 0.6rem 0; }
  tbody tr:last-child { padding-bottom: 0; }
  tbody th, tbody td, tbody td.number { border: 0; padding: 0.1rem 0; text-align: left; }
  tbody td { display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: 0.5rem; }
  tbody td::before { content: attr(data-label); color: var(--muted); }
}
@media (max-width: 26rem) { .figures > :first-child, .figures > :last-child { grid-column: 1 / -1; } }
`

/** The element's text and the policy's hash of it must be the same to the last blank. */
export const styleElement = constant(`<style>${styles}</style>`)
const styleHash = createHash('sha256').update(styles, 'utf8').digest('base64')

/** Nothing is loaded, run, framed or sent: foreign text can do nothing, even if it became markup. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Headers of the page beside `cache-control: no-store` and `x-content-type-options: nosniff`. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
}

const marks: Readonly<Record<Level, { shape: string; colour: string }>> = {
  well: { shape: 'M7 12.5l3.5 3.5L17 9', colour: '17703f' },
  working: { shape: 'M12 7v5l3.5 2', colour: '1557b8' },
  waiting: { shape: 'M9.5 8v8M14.5 8v8', colour: '855300' },
  trouble: { shape: 'M12 6.5v7M12 17.2v.1', colour: 'b3211a' },
}

/** The level as a shape, for readers who do not see its colour. */
export function mark(level: Level): Html {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <circle cx="12" cy="12" r="11" />
    <path d="${marks[level].shape}" />
  </svg>`
}

/** The level in the browser's tab. */
export function icon(level: Level): Html {
  const { colour, shape } = marks[level]
  const svg = `%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Ccircle cx='12' cy='12' r='12' fill='%23${colour}'/%3E%3Cpath d='${shape}' fill='none' stroke='%23fff' stroke-width='2.4' stroke-linecap='round'/%3E%3C/svg%3E`
  return html`<link rel="icon" href="data:image/svg+xml,${svg}" />`
}
