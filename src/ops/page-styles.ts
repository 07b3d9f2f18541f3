// The style of the status page: its only style sheet, and a policy that blocks everything else.
import { createHash } from 'node:crypto'
import { constant } from './html.ts'

/** Text colours keep a contrast of at least 4.5. */
const styles = `
:root {
  color-scheme: light dark;
  --page: light-dark(#f4f6f8, #0e1217); --card: light-dark(#fff, #171c23); --line: light-dark(#d9dfe6, #2b333e);
  --text: light-dark(#171b21, #e8ecf1); --muted: light-dark(#566070, #a0acba); --link: light-dark(#1453b0, #8ab8ff);
  --well: light-dark(#17703f, #5fd497); --working: light-dark(#1557b8, #8ab8ff);
  --waiting: light-dark(#855300, #edbd55); --trouble: light-dark(#b3211a, #ff9087);
}
* { box-sizing: border-box; margin: 0; padding: 0; }
body {
  margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 0.9375rem/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
header { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.75rem; margin: 0.75rem 0; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0.25rem 0; text-wrap: balance; }
h2 { font-size: 1rem; } h3 { font-size: 0.9375rem; margin-top: 0.5rem; }
a { color: var(--link); }
.sub, caption, dt, thead { color: var(--muted); font-size: 0.875rem; font-weight: normal; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.75rem 1rem; }
.well { --level: var(--well); } .working { --level: var(--working); }
.waiting { --level: var(--waiting); } .trouble { --level: var(--trouble); }
.headline { border-left: 0.5rem solid var(--bar, var(--level)); } .headline.trouble { --bar: light-dark(#b3211a, #e5484d); }
.level { color: var(--level); font-size: 0.75rem; letter-spacing: 0.05em; text-transform: uppercase; }
.notices { list-style: none; }
.notices li { border-top: 1px solid var(--line); margin-top: 0.5rem; padding-top: 0.5rem; }
input, button { font: inherit; padding: 0.1rem 0.4rem; max-width: 100%; }
code { font: 0.8125rem ui-monospace, monospace; user-select: all; }
.command { display: inline-block; border: 1px solid var(--line); border-radius: 0.25rem; padding: 0 0.3rem; }
.command span { white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0.75rem; }
.big { font-size: 1.3rem; font-weight: 600; } .big::first-letter { text-transform: uppercase; }
.row { display: block; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0.25rem 0.5rem; margin-top: 0.5rem; }
.plot svg { width: 100%; height: 7.5rem; }
.scale, .hours { display: flex; justify-content: space-between; color: var(--muted); font-size: 0.75rem; line-height: 1; }
.scale { flex-direction: column; padding-bottom: 1.2rem; text-align: right; } .hours { grid-column: 2; }
.axis { stroke: var(--line); vector-effect: non-scaling-stroke; }
path { shape-rendering: crispEdges; } .missing { fill: var(--link); opacity: 0.7; } path.recovered { fill: none; stroke: var(--well); stroke-width: 2px; vector-effect: non-scaling-stroke; } path.circuits { fill: var(--trouble); } path.paused { fill: var(--waiting); }
.key { display: inline-block; padding-left: 0.4rem; border-left: 0.75rem solid; margin-right: 0.5rem; }
.key.recovered { border-color: var(--well); } .key.circuits { border-color: var(--trouble); } .key.paused { border-color: var(--waiting); }
table { width: 100%; border-collapse: collapse; }
caption { text-align: left; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.75rem 0.4rem 0; border-bottom: 1px solid var(--line); }
thead th { font-weight: normal; overflow-wrap: normal; }
tbody th { font: 0.8125rem/1.6 ui-monospace, monospace; user-select: all; }
tbody tr:last-child > * { border-bottom: 0; }
.right { text-align: right; }
.folded h2, .folded p { display: inline; margin-right: 0.5rem; }
.facts { display: grid; grid-template-columns: minmax(8rem, auto) minmax(0, 1fr); gap: 0.25rem 1rem; margin-top: 0.5rem; }

@media (max-width: 40rem) {
  body { padding: 0.5rem; }
  h1 { font-size: 1.15rem; } .big { font-size: 1.1rem; }
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  table, tbody, tr, th, td, caption { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { border-top: 1px solid var(--line); padding: 0.4rem 0; }
  tbody th, tbody td { border: 0; padding: 0.1rem 0; min-width: 0; }
  tbody .right { text-align: left; }
  tbody td { display: grid; grid-template-columns: 7rem minmax(0, 1fr); }
  tbody td::before { content: attr(data-label); color: var(--muted); }
  tbody td:has(> span:empty) { display: none; }
}
`

/** The policy's hash must match the element's text exactly. */
export const styleElement = constant(`<style>${styles}</style>`)
const styleHash = createHash('sha256').update(styles, 'utf8').digest('base64')

/** Nothing is loaded, run or framed, and forms go to this page only: external text is harmless even as markup. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Headers of the page besides `cache-control: no-store` and `x-content-type-options: nosniff`. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
}
