// The notice about circuits that are not closed: whose receiver fails, with which response, and when the next probe is sent.
import { describeGate } from '../reconcile/retry/gates.ts'
import { count, counted } from '../runtime/counted.ts'
import { blockedBy } from './figures.ts'
import type { CircuitStatus, Notice, StatusFacts } from './status-document.ts'
import { clockTime, response, subscriptionName, waitText } from './words.ts'

/**
 * `deliveries`: the number of missing ones it mentions. `detail`: what may change each minute. `isAside`: never the headline.
 */
export interface NoticeReason extends Omit<Notice, 'runbook'> {
  runbook?: string | null
  deliveries?: number
  detail?: string
  isAside?: true
}

/** `returns HTTP 401`. */
export const responds = (code: number | null): string =>
  code === null ? 'does not respond' : `returns ${response(code)}`

/** Whose retries are paused, and the response that caused it. */
function failingText(
  failing: readonly CircuitStatus[],
  { causes, circuits, subscriptions: names }: StatusFacts,
): string {
  const [first] = failing
  if (first === undefined) return ''
  const total = circuits.notClosed - (circuits.list.length - failing.length)
  if (total === 1)
    return `Subscription ${subscriptionName(first.subscriptionId, names)} ${responds(first.responseStatusCode)}`
  const isAll =
    causes.more.causes === 0 &&
    causes.list.every(({ byDecision, circuit, records }) => circuit !== 'closed' || byDecision.exhausted === records)
  const codes = [...new Set(failing.map(({ responseStatusCode }) => response(responseStatusCode)))].join(', ')
  const subscriptions = counted(total, 'subscription')
  return isAll ? `The receiver is failing (${codes}) for ${subscriptions}` : `${subscriptions} are failing (${codes})`
}

const credentials = "It rejects the platform's credentials: ask its team what has changed."
const address = "It has nothing at the subscription's URL: compare the two."

const meanings: Readonly<Partial<Record<string, string>>> = {
  null: 'It cannot be reached, or takes too long.',
  401: credentials,
  403: credentials,
  404: address,
  410: address,
}

/** Meaning of a response to nearly all deliveries; none if the meanings differ. */
export function meaningOf(codes: readonly (number | null)[]): string[] {
  const [meaning, ...others] = new Set(codes.map((code) => meanings[String(code)]))
  return meaning === undefined || others.length > 0 ? [] : [meaning]
}

/**
 * Circuits that block a delivery. A circuit may outlive its last open record by minutes, and a paused subscription gets no probe.
 * The subscriptions of merely counted records are unknown.
 */
function keepingOf({ causes, circuits, pauses }: StatusFacts): readonly CircuitStatus[] {
  const open = causes.list.filter(({ byDecision, records }) => records > byDecision.exhausted)
  const isPaused = (id: string): boolean => pauses.some(({ subscriptionId }) => subscriptionId === id)
  const probed = circuits.list.filter(({ subscriptionId }) => !isPaused(subscriptionId))
  if (causes.onlyCounted > 0 || causes.more.causes > 0 || open.length === 0) return probed
  return probed.filter((circuit) => open.some(({ subscriptionId }) => subscriptionId === circuit.subscriptionId))
}

export function circuitReason(status: StatusFacts): NoticeReason | undefined {
  const { circuits, now } = status
  const { advice, level, runbook = null } = describeGate('circuit')
  const keeping = keepingOf(status)
  const failing = keeping.filter(({ isKnownUp }) => !isKnownUp)
  if (keeping.length === 0) return undefined
  if (failing.length === 0) {
    return {
      level: 'working',
      text: 'The receiver is recovering: retries speed up as deliveries arrive.',
      detail: `Retries of ${counted(circuits.notClosed - circuits.list.length + keeping.length, 'subscription')} start slowly: nearly all had failed again.`,
      advice: 'Nothing to do.',
    }
  }
  const sum = (of: (circuit: CircuitStatus) => number): number => keeping.reduce((all, one) => all + of(one), 0)
  const failedAgain = sum((circuit) => circuit.failedAgain)
  const since = new Date(Math.min(...keeping.map((circuit) => circuit.failingSince.getTime())))
  const subscriptions = new Set(failing.map(({ subscriptionId }) => subscriptionId))
  const nextAt = Math.min(
    ...status.causes.list
      .filter(({ subscriptionId }) => subscriptions.has(subscriptionId))
      .map(({ nextRetry }) => nextRetry?.getTime() ?? Infinity),
  )
  const [blocker] = blockedBy(status)
  return {
    level,
    text: `${failingText(failing, status)}: ${counted(circuits.deliveries, 'delivery waits', 'deliveries wait')}.`,
    deliveries: circuits.deliveries,
    detail: [
      ...meaningOf(failing.map(({ responseStatusCode }) => responseStatusCode)),
      `${count(failedAgain)} of ${counted(
        sum(({ judged }) => judged),
        'retry',
        'retries',
      )} failed again, since ${clockTime(since, now)} UTC.`,
      blocker !== undefined
        ? `Probes wait: ${blocker}.`
        : // Its outcome decides when the next one follows.
          failing.some(({ outstanding }) => outstanding > 0)
          ? 'A probe is under way.'
          : nextAt > now.getTime() && nextAt < Infinity
            ? `Next probe in ${waitText(nextAt - now.getTime())}.`
            : 'The next due record is the probe.',
    ].join(' '),
    advice: blocker === undefined ? advice : 'Fix the receiver: a probe follows once retries are possible again.',
    runbook,
  }
}
