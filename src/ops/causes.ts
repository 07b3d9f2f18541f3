// Why deliveries are missing: failed records grouped by subscription and last answer.
import {
  decide,
  exhaustedAt,
  isRefusedAgain,
  nextRetryOf,
  noCounts,
  noRetry,
  soonerOf,
  type Counts,
  type Decision,
  type NextRetry,
  type Situation,
} from '../reconcile/decide.ts'
import type { CircuitState } from '../reconcile/retry/circuit-breaker.ts'
import { toDate } from '../runtime/instant.ts'
import { redact } from '../runtime/redact.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'

/** Records of one subscription that got the same answer, as it is known now. */
export interface Cause {
  subscriptionId: string
  /**
   * The receiver's answer at the last attempt; null when there was none. While the circuit is not closed, records that were
   * not tried since have the newest answer.
   */
  responseStatusCode: number | null
  records: number
  /** Of these: refused twice, though the receiver takes others. */
  refusedAgain: number
  /** When the first of those reaches retry.maxAttempts if it is refused each time, epoch ms; Infinity without one. */
  exhaustedAt: number
  /** How many event types they have, and those with the most records (at most 20), as the platform has them without secrets. */
  eventTypes: { total: number; list: { eventType: string; records: number }[] }
  byDecision: Counts
  /** The last attempt for any of them that the platform shows, epoch ms. */
  lastAt: number
  /** Event time of the oldest, epoch ms. */
  oldestAt: number
  /** Of the first of them. */
  next: NextRetry
}

export interface Causes {
  /** How many causes there are, and how many records they have. */
  total: number
  records: number
  /** Causes with the most records, most first; among equals the oldest first. */
  list: Cause[]
  /** How many records are exhausted, and the oldest event of them, epoch ms; Infinity without one. */
  exhausted: { total: number; oldestAt: number }
}

export interface CausesOptions {
  policy: Policy
  /** Of the records of a subscription. */
  situationOf: (subscriptionId: string) => Situation
  /** The most causes that are listed. */
  maxCauses: number
}

const maxEventTypes = 20

/** A cause while its records are counted. */
interface Group {
  cause: Omit<Cause, 'eventTypes'>
  /** Records by event type. */
  types: Map<string, number>
}

/** Finds a record's group without making a key of it: there may be a hundred thousand records. */
function createGroups(): { of(subscriptionId: string, responseStatusCode: number | null): Group; list(): Group[] } {
  const groups = new Map<string, Map<number | null, Group>>()
  const list: Group[] = []
  const empty = {
    records: 0,
    refusedAgain: 0,
    exhaustedAt: Infinity,
    lastAt: -Infinity,
    oldestAt: Infinity,
    next: noRetry,
  }
  return {
    of: (subscriptionId, responseStatusCode) =>
      groups
        .getOrInsertComputed(subscriptionId, () => new Map())
        .getOrInsertComputed(responseStatusCode, () => {
          const cause = { subscriptionId, responseStatusCode, byDecision: noCounts(), ...empty }
          const group = { cause, types: new Map<string, number>() }
          list.push(group)
          return group
        }),
    list: () => list,
  }
}

function toCause({ cause, types }: Group): Cause {
  const first = [...types].toSorted(([, a], [, b]) => b - a).slice(0, maxEventTypes)
  const list = first.map(([eventType, records]) => ({ eventType: redact(eventType), records }))
  return { ...cause, eventTypes: { total: types.size, list } }
}

const byCount = ({ cause: a }: Group, { cause: b }: Group): number => b.records - a.records || a.oldestAt - b.oldestAt

/** The answer of the receiver that is known for a record. */
function answerTo(entry: FailedRecord, decision: Decision, { failing }: Situation): number | null {
  const isStale = failing !== undefined && Math.max(entry.lastAt, entry.triedAt) < failing.since
  return isStale && decision !== 'exhausted' ? failing.responseStatusCode : entry.responseStatusCode
}

/** Groups the records. Those that are excluded are not ours to miss. */
export function groupByCause(entries: Iterable<FailedRecord>, options: CausesOptions): Causes {
  const { policy, situationOf, maxCauses } = options
  const groups = createGroups()
  let oldestAt = Infinity
  const situations = new Map<string, Situation>()
  let [records, exhausted] = [0, 0]
  for (const entry of entries) {
    const situation = situations.getOrInsertComputed(entry.subscriptionId, situationOf)
    const verdict = decide(entry, policy, situation)
    const { decision } = verdict
    if (decision === 'excluded') continue
    const { cause, types } = groups.of(entry.subscriptionId, answerTo(entry, decision, situation))
    records += 1
    types.set(entry.eventType, (types.get(entry.eventType) ?? 0) + 1)
    cause.records += 1
    if (decision === 'backing-off' && isRefusedAgain(entry, situation)) {
      cause.refusedAgain += 1
      cause.exhaustedAt = Math.min(cause.exhaustedAt, exhaustedAt(entry, policy))
    }
    cause.byDecision[decision] += 1
    cause.lastAt = Math.max(cause.lastAt, entry.lastAt)
    cause.oldestAt = Math.min(cause.oldestAt, entry.eventAt)
    cause.next = soonerOf(cause.next, nextRetryOf(verdict, situation, entry.eventAt + policy.window.lookback))
    if (decision === 'exhausted') {
      exhausted += 1
      oldestAt = Math.min(oldestAt, entry.eventAt)
    }
  }
  return {
    total: groups.list().length,
    records,
    list: groups.list().toSorted(byCount).slice(0, maxCauses).map(toCause),
    exhausted: { total: exhausted, oldestAt },
  }
}

/** A cause as documents have it. */
export interface CauseStatus extends Omit<Cause, 'exhaustedAt' | 'lastAt' | 'oldestAt' | 'next'> {
  /** When the first of `refusedAgain` reaches retry.maxAttempts if it is refused each time; null without one. */
  firstExhausted: Date | null
  lastAttempt: Date | null
  oldestEvent: Date | null
  /** The earliest time at which one of them may be retried; null when no clock tells. */
  nextRetry: Date | null
  /** What that waits for. */
  nextRetryBy: NextRetry['by']
  /** Of its subscription, where it is known. */
  circuit?: CircuitState | undefined
}

/** `skewMs`: how far the platform's clock is ahead of the one that the times are shown by. */
export function showCause({ exhaustedAt, lastAt, next, oldestAt, ...cause }: Cause, skewMs = 0): CauseStatus {
  const [lastAttempt, nextRetry] = [toDate(lastAt - skewMs), toDate(next.at - skewMs)]
  const firstExhausted = toDate(exhaustedAt - skewMs)
  return { ...cause, firstExhausted, lastAttempt, oldestEvent: toDate(oldestAt), nextRetry, nextRetryBy: next.by }
}
