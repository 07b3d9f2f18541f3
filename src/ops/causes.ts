// Why deliveries are missing: failed records grouped by subscription and last response.
import TinyQueue from 'tinyqueue'
import {
  decide,
  exhaustedAt,
  nextRetryOf,
  noCounts,
  noRetry,
  refusalOf,
  retriedUntil,
  soonerOf,
  type Counts,
  type NextRetry,
  type Situation,
} from '../reconcile/decide.ts'
import type { LookAt } from '../reconcile/retry/backlog.ts'
import type { CircuitState } from '../reconcile/retry/circuit-breaker.ts'
import { toDate } from '../runtime/instant.ts'
import { redact } from '../runtime/redact.ts'
import { lookedAtPerStep, type Steps } from '../runtime/steps.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'

/** Records of one subscription with the same latest response. */
export interface Cause {
  subscriptionId: string
  /**
   * The response to the last attempt; null without one. While the circuit is not closed, its latest response counts for records
   * not tried since.
   */
  responseStatusCode: number | null
  records: number
  /** Of these: rejected twice while others succeed. */
  refusedAgain: number
  /** Of these: the platform shows no attempt after their last three retries, or more. */
  unattempted: number
  /** When the first of those reaches retry.maxAttempts if always rejected, epoch ms; Infinity without one. */
  exhaustedAt: number
  /** Number of event types, and the largest (at most 20), redacted. */
  eventTypes: { total: number; list: { eventType: string; records: number }[] }
  byDecision: Counts
  /** Latest attempt that the platform shows for any of them, epoch ms. */
  lastAt: number
  /** Event time of the oldest, epoch ms. */
  oldestAt: number
  /** The earliest. */
  next: NextRetry
}

export interface Causes {
  total: number
  records: number
  /** Largest first; among equals the oldest first. */
  list: Cause[]
  /** Oldest event of an exhausted record, epoch ms; Infinity without one. */
  oldestExhaustedAt: number
}

export interface CauseGroups {
  look: LookAt
  /** The largest groups, in detail. */
  listed(bySubscription: ReadonlyMap<string, Iterable<FailedRecord>>): Steps<Causes>
}

/** Number of listed causes. */
export const maxCauses = 50
const maxEventTypes = 20

/** Records of one cause. There may be many causes: details are computed only for the listed ones. */
interface Group extends Pick<Cause, 'subscriptionId' | 'responseStatusCode' | 'records' | 'oldestAt'> {
  situation: Situation
}

/** The receiver's latest known response to a record. */
function responseTo(entry: FailedRecord, isExhausted: boolean, { failing }: Situation): number | null {
  const isStale = failing !== undefined && Math.max(entry.lastAt, entry.triedAt) < failing.since
  return isStale && !isExhausted ? failing.responseStatusCode : entry.responseStatusCode
}

/** `all`: the records of its subscription. */
function* toCause(group: Group, all: Iterable<FailedRecord>, policy: Policy): Steps<Cause> {
  const { situation, ...known } = group
  const none = {
    refusedAgain: 0,
    unattempted: 0,
    exhaustedAt: Infinity,
    lastAt: -Infinity,
    next: noRetry,
    byDecision: noCounts(),
  }
  const cause = { ...known, ...none }
  const types = new Map<string, number>()
  let looked = 0
  for (const entry of all) {
    looked += 1
    if (looked % lookedAtPerStep === 0) yield
    const verdict = decide(entry, policy, situation)
    const isExhausted = verdict.decision === 'exhausted'
    if (verdict.decision === 'excluded') continue
    if (responseTo(entry, isExhausted, situation) !== group.responseStatusCode) continue
    types.set(entry.eventType, (types.get(entry.eventType) ?? 0) + 1)
    const why = isExhausted ? undefined : refusalOf(entry, situation)?.why
    if (why === 'unattempted') cause.unattempted += 1
    if (why === 'refused') {
      cause.refusedAgain += 1
      cause.exhaustedAt = Math.min(cause.exhaustedAt, exhaustedAt(entry, policy))
    }
    cause.byDecision[verdict.decision] += 1
    cause.lastAt = Math.max(cause.lastAt, entry.lastAt)
    cause.next = soonerOf(cause.next, nextRetryOf(verdict, situation, retriedUntil(entry, policy)))
  }
  const first = [...types].toSorted(([, a], [, b]) => b - a).slice(0, maxEventTypes)
  const list = first.map(([eventType, records]) => ({ eventType: redact(eventType), records }))
  return { ...cause, eventTypes: { total: types.size, list } }
}

const byCount = (a: Group, b: Group): number => b.records - a.records || a.oldestAt - b.oldestAt

/** Groups the records that `look` gets, without excluded ones. */
export function createCauses(policy: Policy): CauseGroups {
  const groups: Group[] = []
  /** Where the groups of the last subscription begin. */
  let first = 0
  let oldestExhaustedAt = Infinity
  let records = 0
  return {
    look(entry, { decision }, situation) {
      if (decision === 'excluded') return
      const { eventAt } = entry
      const isExhausted = decision === 'exhausted'
      const responseStatusCode = responseTo(entry, isExhausted, situation)
      if (groups[first]?.situation !== situation) first = groups.length
      let at = first
      while (at < groups.length && groups[at]?.responseStatusCode !== responseStatusCode) at += 1
      const { subscriptionId } = groups[first] ?? entry
      const group = (groups[at] ??= { subscriptionId, responseStatusCode, records: 0, oldestAt: Infinity, situation })
      group.records += 1
      group.oldestAt = Math.min(group.oldestAt, eventAt)
      records += 1
      if (isExhausted) oldestExhaustedAt = Math.min(oldestExhaustedAt, eventAt)
    },
    *listed(bySubscription) {
      const largest = new TinyQueue<Group>([], (a, b) => byCount(b, a))
      for (const [index, group] of groups.entries()) {
        if (index > 0 && index % lookedAtPerStep === 0) yield
        const smallest = largest.length < maxCauses ? undefined : largest.peek()
        if (smallest !== undefined && byCount(smallest, group) <= 0) continue
        largest.push(group)
        if (largest.length > maxCauses) largest.pop()
      }
      const list: Cause[] = []
      for (const group of largest.data.toSorted(byCount))
        list.push(yield* toCause(group, bySubscription.get(group.subscriptionId) ?? [], policy))
      return { total: groups.length, records, list, oldestExhaustedAt }
    },
  }
}

/** A cause in documents. */
export interface CauseStatus extends Omit<Cause, 'exhaustedAt' | 'lastAt' | 'oldestAt' | 'next'> {
  /** When the first of `refusedAgain` reaches retry.maxAttempts if always rejected; null without one. */
  firstExhausted: Date | null
  lastAttempt: Date | null
  oldestEvent: Date | null
  /** The earliest retry of any of them; null if unknown. */
  nextRetry: Date | null
  /** The reason for the wait until that retry. */
  nextRetryBy: NextRetry['by']
  /** The circuit of its subscription. */
  circuit: CircuitState
}

/** `skewMs`: how far the platform's clock is ahead of the one that times are shown by. */
export function showCause(
  { exhaustedAt, lastAt, next, oldestAt, ...cause }: Cause,
  circuit: CircuitState,
  skewMs: number,
): CauseStatus {
  const [lastAttempt, nextRetry] = [toDate(lastAt - skewMs), toDate(next.at - skewMs)]
  const firstExhausted = toDate(exhaustedAt - skewMs)
  return {
    ...cause,
    circuit,
    firstExhausted,
    lastAttempt,
    oldestEvent: toDate(oldestAt),
    nextRetry,
    nextRetryBy: next.by,
  }
}
