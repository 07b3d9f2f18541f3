// What must be right for anything to work, as the status page shows it: token, certificate, clocks, zone, pace.
import { html, type Html, type Part } from './html.ts'
import type { StatusDocument } from './status.ts'
import { count, fromNow, span, timeOf } from './words.ts'

/** `2.5 s ahead`. Less than a second can't be told from `Date` headers. */
function ahead(seconds: number): string {
  if (Math.abs(seconds) < 1) return 'in step'
  return `${count(Math.abs(seconds))} s ${seconds > 0 ? 'ahead' : 'behind'}`
}

function expiry(iso: string | null, now: string): Part {
  return iso === null ? 'none' : html`ends ${fromNow(iso, now)}, at ${timeOf(iso, now)}`
}

/** Token, clocks, zone and what else must be right for anything to work. */
export function surroundingsOf(status: StatusDocument): Html {
  const { certificateExpires, circuits, clock, now, rate, receiver, timeZone, tokenExpires } = status
  const { offsetSeconds, platform } = timeZone
  const health = receiver?.up === null || receiver === null ? 'not asked' : receiver.up ? 'up' : 'down'
  const rows: readonly (readonly [string, Part])[] = [
    ['Access token', expiry(tokenExpires, now)],
    ...(certificateExpires === null ? [] : [['Certificate', expiry(certificateExpires, now)] as const]),
    [
      'Clocks',
      `platform ${ahead(clock.skewSeconds.api)}, identity host ${ahead(clock.skewSeconds.auth)}, of this host`,
    ],
    [
      "Platform's zone",
      `${platform}, ${offsetSeconds === null ? 'not checked by an attempt yet' : `attempts are ${count(offsetSeconds)} s off`}`,
    ],
    ['Next look', status.nextTick === null ? 'not known' : fromNow(status.nextTick, now)],
    ['Calls allowed', `${count(rate.callsPerSecond)} a second`],
    ['Circuits', circuits.notClosed === 0 ? 'all closed' : `${count(circuits.notClosed)} not closed`],
    ...(receiver === null ? [] : [['Receiver', health] as const]),
    [
      'Running',
      html`for ${span(Date.parse(now) - Date.parse(status.startedAt))}, since ${timeOf(status.startedAt, now)}`,
    ],
  ]
  return html`<section class="card" aria-labelledby="surroundings">
    <h2 id="surroundings">Token, clock and zone</h2>
    <dl class="facts">
      ${rows.map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
  </section>`
}
