// The status page's only style sheet: light and dark, phone and desk. Colours of text keep a contrast of 4.5 and more.
export const styles = `
:root {
  color-scheme: light dark;
  --page: #f4f6f8; --card: #fff; --text: #171b21; --muted: #566070; --line: #d9dfe6; --soft: #eef1f5; --link: #1453b0;
  --well: #17703f; --working: #1557b8; --waiting: #855300; --trouble: #b3211a;
  --well-soft: #e3f4ea; --working-soft: #e5eefb; --waiting-soft: #fdf1d8; --trouble-soft: #fde8e6;
  --due: #4c8df0; --held: #e0a63a; --awaiting: #7c6ee6; --backing-off: #8f9cab; --parked: #d2463e;
  --area: #4c8df0; --up: #23a05d; --down: #d2463e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1217; --card: #171c23; --text: #e8ecf1; --muted: #a0acba; --line: #2b333e; --soft: #202731; --link: #8ab8ff;
    --well: #5fd497; --working: #8ab8ff; --waiting: #edbd55; --trouble: #ff9087;
    --well-soft: #12301f; --working-soft: #14273f; --waiting-soft: #352a10; --trouble-soft: #3b1a19;
    --due: #5a97f2; --held: #d49f3c; --awaiting: #9488f0; --backing-off: #7c8897; --parked: #e0635b;
    --area: #5a97f2; --up: #3fb877; --down: #e0635b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 82rem; padding: 1rem 1.25rem 3rem; background: var(--page); color: var(--text);
  font: 0.9375rem/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-variant-numeric: tabular-nums;
}
h1, h2, p, figure, dl, dd { margin: 0; }
h2 { font-size: 1rem; font-weight: 650; }
a { color: var(--link); text-underline-offset: 0.15em; }
a:focus-visible { outline: 3px solid var(--link); outline-offset: 3px; border-radius: 2px; }
header { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; align-items: baseline; justify-content: space-between; padding: 0.25rem 0 1rem; }
header .name { font-weight: 650; }
header .name b { margin-left: 0.4rem; padding: 0.1rem 0.5rem; border-radius: 0.4rem; background: var(--soft); border: 1px solid var(--line); overflow-wrap: anywhere; }
header .when { color: var(--muted); }
.muted, .sub, .none { color: var(--muted); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 0.75rem; padding: 1rem 1.125rem; }
section, .figures, .charts, .pair { margin-top: 1rem; }
section > h2 { margin-bottom: 0.6rem; }

.verdict { display: flex; gap: 0.9rem; align-items: center; border-left-width: 0.4rem; padding: 1rem 1.25rem; }
.verdict h1 { font-size: 1.6rem; line-height: 1.2; font-weight: 700; letter-spacing: -0.01em; }
.verdict p { margin-top: 0.2rem; color: var(--text); }
.verdict .mark { flex: none; width: 2.25rem; height: 2.25rem; }
.mark circle { fill: currentColor; }
.mark path { fill: none; stroke: var(--card); stroke-width: 2.4; stroke-linecap: round; stroke-linejoin: round; }
.level-well { border-left-color: var(--well); background: var(--well-soft); } .level-well .mark { color: var(--well); }
.level-working { border-left-color: var(--working); background: var(--working-soft); } .level-working .mark { color: var(--working); }
.level-waiting { border-left-color: var(--waiting); background: var(--waiting-soft); } .level-waiting .mark { color: var(--waiting); }
.level-trouble { border-left-color: var(--trouble); background: var(--trouble-soft); } .level-trouble .mark { color: var(--trouble); }

.figures { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1rem; }
.figures dt { color: var(--muted); font-size: 0.875rem; }
.figures .big { font-size: 1.45rem; line-height: 1.25; font-weight: 680; letter-spacing: -0.01em; margin: 0.15rem 0 0.3rem; overflow-wrap: anywhere; }
.figures .sub { font-size: 0.875rem; }
.share { display: block; width: 100%; height: 0.5rem; margin: 0.35rem 0 0.45rem; border-radius: 0.25rem; background: var(--soft); }
.parts { display: flex; flex-wrap: wrap; gap: 0.1rem 0.75rem; margin: 0; padding: 0; list-style: none; font-size: 0.875rem; }
.parts li { display: flex; align-items: center; gap: 0.35rem; white-space: nowrap; }
.parts svg { flex: none; width: 0.65rem; height: 0.65rem; }
.due { fill: var(--due); } .held { fill: var(--held); } .awaiting { fill: var(--awaiting); }
.backing-off { fill: var(--backing-off); } .parked { fill: var(--parked); }

.notices { margin: 0; padding: 0; list-style: none; }
.notices li { display: flex; gap: 0.7rem; padding: 0.55rem 0; border-top: 1px solid var(--line); }
.notices li:first-child { border-top: 0; padding-top: 0; } .notices li:last-child { padding-bottom: 0; }
.notices .mark { flex: none; width: 1.25rem; height: 1.25rem; margin-top: 0.1rem; }
.notices .trouble .mark { color: var(--trouble); } .notices .waiting .mark { color: var(--waiting); } .notices .working .mark { color: var(--working); }
.notices strong { font-weight: 620; }

.charts, .pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }
.pair > section { margin-top: 0; }
figcaption { min-height: 3.2rem; }
.legend { color: var(--muted); font-size: 0.875rem; margin-top: 0.15rem; display: flex; flex-wrap: wrap; gap: 0 1rem; }
.key.recovered { color: var(--well); } .key.failed-again { color: var(--trouble); }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0.25rem 0.5rem; margin-top: 0.6rem; }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; color: var(--muted); font-size: 0.75rem; line-height: 1; min-width: 2.2rem; }
.drawing { position: relative; height: 8.5rem; }
.drawing svg { display: block; width: 100%; height: 100%; overflow: visible; }
.drawing .empty { position: absolute; inset: 0; display: grid; place-items: center; color: var(--muted); text-align: center; }
.hours { grid-column: 2; display: flex; justify-content: space-between; color: var(--muted); font-size: 0.75rem; }
.grid, .axis { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.axis { stroke: var(--muted); }
.area { fill: var(--area); opacity: 0.22; }
.line { fill: none; stroke: var(--area); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
rect.recovered { fill: var(--up); } rect.failed-again { fill: var(--down); }
.hit { fill: transparent; } .hit:hover { fill: var(--muted); opacity: 0.2; }

table { width: 100%; border-collapse: collapse; }
caption { text-align: left; color: var(--muted); font-size: 0.875rem; padding-bottom: 0.5rem; }
th, td { text-align: left; vertical-align: top; padding: 0.5rem 0.9rem 0.5rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
thead th { border-top: 0; color: var(--muted); font-size: 0.8125rem; font-weight: 600; padding-top: 0; overflow-wrap: normal; }
tbody th { font-weight: 620; overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; }
td b { font-weight: 650; }
small { display: block; font-size: 0.8125rem; font-weight: 400; color: var(--muted); }
code { font: 0.8125rem/1.4 ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace; }
.state, .short { white-space: nowrap; }
span.line { display: block; }
.state.open { color: var(--trouble); } .state.half-open { color: var(--waiting); } .state.failed { color: var(--trouble); } .state.incomplete { color: var(--waiting); }
.more { margin-top: 0.6rem; color: var(--muted); }
.facts { display: grid; grid-template-columns: minmax(8rem, auto) minmax(0, 1fr); gap: 0.45rem 1rem; }
.facts dt { color: var(--muted); } .facts dd { overflow-wrap: anywhere; }
footer { margin-top: 1.25rem; color: var(--muted); font-size: 0.875rem; }

@media (min-width: 78rem) { td code, th code, td time { white-space: nowrap; } td small time { white-space: normal; } }
@media (max-width: 62rem) { .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (max-width: 48rem) {
  body { padding: 0.75rem 0.75rem 2rem; }
  .charts, .pair { grid-template-columns: minmax(0, 1fr); }
  .card { padding: 0.85rem 0.9rem; }
  .verdict h1 { font-size: 1.3rem; }
  .figures { gap: 0.75rem; } .figures .big { font-size: 1.2rem; }
  table, tbody, tr, th, td, caption { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  tbody tr { border-top: 1px solid var(--line); padding: 0.6rem 0; }
  tbody tr:last-child { padding-bottom: 0; }
  tbody th, tbody td, tbody td.number { border: 0; padding: 0.1rem 0; text-align: left; }
  tbody td { display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: 0.5rem; }
  td .short { white-space: normal; }
  tbody td::before { content: attr(data-label); color: var(--muted); font-weight: 400; }
}
@media (max-width: 26rem) { .figures > :first-child, .figures > :last-child { grid-column: 1 / -1; } }
`
