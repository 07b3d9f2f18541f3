// The incident as names and values, for the page and `status --incident`.
import { keptMs } from '../observe/history.ts'
import type { Incident } from '../observe/incident.ts'
import { describeGate } from '../reconcile/retry/gates.ts'
import { count, counted } from '../runtime/counted.ts'
import { isWholeKnown } from './figures.ts'
import type { StatusFacts } from './status-document.ts'
import { clockTime, fromNow, response, span, subscriptionName } from './words.ts'

/** An incident stays open for minutes after its last delivery arrived: more may follow. */
function isCalm({ endedAt }: Incident, status: StatusFacts): boolean {
  return endedAt === null && status.missing === 0 && isWholeKnown(status)
}

export function incidentTitle(incident: Incident, status: StatusFacts): string {
  if (incident.endedAt !== null)
    return incident.backingOff > 0 && status.missing > 0
      ? 'Last incident, with deliveries still missing'
      : 'Last incident'
  return isCalm(incident, status) ? 'Incident, nothing missing now' : 'Incident'
}

function lasted({ begunBefore, endedAt, since }: Incident, now: Date): string {
  const from = `${clockTime(since, now)} UTC${begunBefore ? ' or earlier' : ''}`
  if (endedAt === null) return `since ${from}, ${fromNow(since, now)}`
  return `${from} to ${clockTime(endedAt, now)} UTC, ${span(endedAt.getTime() - since.getTime())}`
}

/** Responses that kept deliveries from arriving; their numbers add up to all failed retries. */
function failedText({ causes, failedAgain }: Incident, { subscriptions: names }: StatusFacts): string {
  const others = causes.reduce((rest, cause) => rest - cause.failedAgain, failedAgain)
  const texts = causes.map(
    ({ eventType, failedAgain: retries, responseStatusCode: code, subscriptionId: id }) =>
      `${subscriptionName(id, names)}, ${response(code)} to ${eventType}: ${count(retries)}`,
  )
  if (others > 0) texts.push(`others: ${count(others)}`)
  return `${counted(failedAgain, 'retry', 'retries')}. ${texts.join('; ')}`
}

/** Sorts gates by how long they were shut; omits what did not happen. */
export function incidentPairs(incident: Incident, status: StatusFacts): (readonly [name: string, value: string])[] {
  const { backingOff, endedAt, exhausted, expired, failedAgain, gates, longestSeconds, peak } = incident
  const { begunBefore, oldestEvent, recovered, leftWithoutRetry, since, unlistedUntil } = incident
  const slowest = longestSeconds === null ? '' : `, the slowest ${span(longestSeconds * 1000)} after its event`
  const shut = gates.filter(({ seconds }) => seconds >= 1).toSorted((a, b) => b.seconds - a.seconds)
  return [
    ['time', lasted(incident, status.now)],
    ...(begunBefore && oldestEvent !== null
      ? [['oldest event', `${clockTime(oldestEvent, status.now)} UTC, the oldest one missing at its start`] as const]
      : []),
    ...(unlistedUntil === null
      ? []
      : [['not listed', `all or a part, until ${clockTime(unlistedUntil, status.now)} UTC: sweeps failed`] as const]),
    ...(isCalm(incident, status) ? [['ends', 'when nothing has been missing for 5 min'] as const] : []),
    ...(endedAt === null || backingOff === 0
      ? []
      : [['still missing', `${count(backingOff)} at its end: they are retried with backoff`] as const]),
    ...((endedAt ?? status.now).getTime() - since.getTime() > keptMs
      ? [['counted', 'its last week; failed retries and those given up: all of it'] as const]
      : []),
    ['peak', `${count(peak)} missing at once`],
    ['recovered', `${count(recovered)}${slowest}`],
    ...(leftWithoutRetry === 0
      ? []
      : [['left the list', `${count(leftWithoutRetry)} without a delivery by this daemon`] as const]),
    ['expired', expired === 0 ? 'none' : count(expired)],
    ...(failedAgain === 0 ? [] : [['failed again', failedText(incident, status)] as const]),
    ...(exhausted === 0 ? [] : [['gave up', count(exhausted)] as const]),
    ...shut.map(({ gate, seconds }) => ['blocked', `${span(seconds * 1000)}: "${describeGate(gate).reason}"`] as const),
  ]
}
