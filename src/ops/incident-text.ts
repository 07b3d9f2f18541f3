// The incident as names and values, for the page and for `status --incident`.
import type { IncidentStatus } from './status-document.ts'
import { clockTime, count, fromNow, response, span, subscriptionName, type SubscriptionNames } from './words.ts'

export function incidentTitle(incident: IncidentStatus): string {
  return incident.endedAt === null ? 'Incident' : 'Last incident'
}

function lasted({ begunBefore, endedAt, since }: IncidentStatus, now: Date): string {
  const from = `${clockTime(since, now)}${begunBefore ? ' or before' : ''}`
  if (endedAt === null) return `since ${from} UTC, ${fromNow(since, now)}`
  return `${from} to ${clockTime(endedAt, now)} UTC, ${span(endedAt.getTime() - since.getTime())}`
}

/** Gates by how long they were shut, and the causes at its peak; without what did not happen. */
export function incidentPairs(
  incident: IncidentStatus,
  { now, subscriptions: names }: { now: Date; subscriptions: SubscriptionNames },
): (readonly [name: string, value: string])[] {
  const { backingOff, causes, exhausted, expired, failedAgain, gates, longestSeconds, peak, recovered } = incident
  const counts: readonly (readonly [name: string, value: number])[] = [
    ['failed again', failedAgain],
    ['gave up', exhausted],
    ['back off still', backingOff],
  ]
  const slowest = longestSeconds === null ? '' : `, the slowest ${span(longestSeconds * 1000)} after its event`
  const shut = gates.toSorted((a, b) => b.seconds - a.seconds)
  return [
    ['time', lasted(incident, now)],
    ['peak', `${count(peak)} missing`],
    ['recovered', `${count(recovered)}${slowest}`],
    ['expired', expired === 0 ? 'none' : count(expired)],
    ...counts.flatMap(([name, value]) => (value === 0 ? [] : [[name, count(value)] as const])),
    ...(shut.length === 0
      ? []
      : [['gates shut', shut.map(({ gate, seconds }) => `${gate} ${span(seconds * 1000)}`).join(', ')] as const]),
    ...causes.map(
      ({ records, responseStatusCode, subscriptionId }) =>
        [
          'cause',
          `${subscriptionName(subscriptionId, names)}, ${response(responseStatusCode)}: ${count(records)}`,
        ] as const,
    ),
  ]
}
