// The incident as names and values, for the page and for `status --incident`.
import type { Incident } from '../observe/incident.ts'
import { describeGate } from '../reconcile/retry/gates.ts'
import { isWholeKnown, openOf } from './figures.ts'
import type { StatusFacts } from './status-document.ts'
import { clockTime, count, fromNow, response, span, subscriptionName } from './words.ts'

/** The incident goes on for some minutes after the last delivery has arrived: there may be more. */
function isCalm({ endedAt }: Incident, status: StatusFacts): boolean {
  return endedAt === null && status.missing === 0 && isWholeKnown(status)
}

export function incidentTitle(incident: Incident, status: StatusFacts): string {
  if (incident.endedAt !== null)
    return incident.backingOff > 0 ? 'Last incident, with deliveries still missing' : 'Last incident'
  return isCalm(incident, status) ? 'Incident, nothing missing now' : 'Incident'
}

function lasted({ begunBefore, endedAt, since }: Incident, now: Date): string {
  const from = `${clockTime(since, now)} UTC${begunBefore ? ' or earlier' : ''}`
  if (endedAt === null) return `since ${from}, ${fromNow(since, now)}`
  return `${from} to ${clockTime(endedAt, now)} UTC, ${span(endedAt.getTime() - since.getTime())}`
}

function peakPairs({ causes, peak }: Incident, { subscriptions: names }: StatusFacts): (readonly [string, string])[] {
  const others = causes.reduce((rest, { records }) => rest - records, peak)
  const texts = causes.map(
    ({ records, responseStatusCode: code, subscriptionId: id }) =>
      `${subscriptionName(id, names)}, ${response(code)}: ${count(records)}`,
  )
  if (others > 0 && causes.length > 0) texts.push(`others: ${count(others)}`)
  return [['peak', `${count(peak)} missing at once`], ...texts.map((text) => ['at the peak', text] as const)]
}

/** Gates by how long they were shut, and the causes at its peak; without what did not happen. */
export function incidentPairs(incident: Incident, status: StatusFacts): (readonly [name: string, value: string])[] {
  const { backingOff, endedAt, exhausted, expired, failedAgain, gates, longestSeconds, peak } = incident
  const { recovered, unlistedUntil } = incident
  const counts: readonly (readonly [name: string, value: number])[] = [
    ['failed again', failedAgain],
    ['gave up', exhausted],
  ]
  const slowest = longestSeconds === null ? '' : `, the slowest ${span(longestSeconds * 1000)} after its event`
  const shut = gates.filter(({ seconds }) => seconds >= 1).toSorted((a, b) => b.seconds - a.seconds)
  return [
    ['time', lasted(incident, status.now)],
    ...(unlistedUntil === null
      ? []
      : [['not listed', `until ${clockTime(unlistedUntil, status.now)} UTC: all sweeps failed`] as const]),
    ...(isCalm(incident, status) ? [['ends', 'when nothing has been missing for 5 min'] as const] : []),
    ...(endedAt === null || backingOff === 0
      ? []
      : [['still missing', `${count(backingOff)} at its end: they are retried with backoff`] as const]),
    ...(openOf(status) > peak && endedAt === null
      ? [['peak', 'not yet: more are missing now'] as const]
      : peakPairs(incident, status)),
    ['recovered', `${count(recovered)}${slowest}`],
    ['expired', expired === 0 ? 'none' : count(expired)],
    ...counts.flatMap(([name, value]) => (value === 0 ? [] : [[name, count(value)] as const])),
    ...shut.map(({ gate, seconds }) => ['blocked', `${span(seconds * 1000)}: "${describeGate(gate).reason}"`] as const),
  ]
}
