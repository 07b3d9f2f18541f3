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
import type { LookAt } from '../reconcile/retry/summary.ts'
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
  /** When the first of `refusedAgain` reaches retry.maxAttempts if always rejected; null without one. */
  firstExhausted: Date | null
  /** Number of event types, and the largest (at most 20), redacted. */
  eventTypes: { total: number; list: { eventType: string; records: number }[] }
  byDecision: Counts
  /** Latest attempt that the platform shows for any of them. */
  lastAttempt: Date | null
  /** By the platform's clock; the other times are by this host's. */
  oldestEvent: Date | null
  /** The earliest retry of any of them; null if unknown. */
  nextRetry: Date | null
  /** The reason for the wait until that retry. */
  nextRetryBy: NextRetry['by']
}

/** A cause in documents, with the circuit of its subscription. */
export interface CauseStatus extends Cause {
  circuit: CircuitState
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
  /** The largest groups, in detail. `skewMs`: how far the platform's clock is ahead of this host's. */
  listed(bySubscription: ReadonlyMap<string, Iterable<FailedRecord>>, skewMs: number): Steps<Causes>
}

/** Number of listed causes. */
export const maxCauses = 50
const maxEventTypes = 20

/** Records of one cause. There may be many causes: details are computed only for the listed ones. */
interface Group extends Pick<Cause, 'subscriptionId' | 'responseStatusCode' | 'records'> {
  /** Epoch ms. */
  oldestAt: number
  situation: Situation
}

/** The receiver's latest known response to a record. */
function responseTo(entry: FailedRecord, isExhausted: boolean, { failing }: Situation): number | null {
  const isStale = failing !== undefined && Math.max(entry.lastAt, entry.triedAt) < failing.since
  return isStale && !isExhausted ? failing.responseStatusCode : entry.responseStatusCode
}

/** `all`: the records of its subscription. */
function* toCause(group: Group, all: Iterable<FailedRecord>, policy: Policy, skewMs: number): Steps<Cause> {
  const { oldestAt, situation, ...known } = group
  const byDecision = noCounts()
  let [refusedAgain, unattempted, firstExhaustedAt, lastAt, next] = [0, 0, Infinity, -Infinity, noRetry]
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
    if (why === 'unattempted') unattempted += 1
    if (why === 'refused') {
      refusedAgain += 1
      firstExhaustedAt = Math.min(firstExhaustedAt, exhaustedAt(entry, policy))
    }
    byDecision[verdict.decision] += 1
    lastAt = Math.max(lastAt, entry.lastAt)
    next = soonerOf(next, nextRetryOf(verdict, situation, retriedUntil(entry, policy)))
  }
  const first = [...types].toSorted(([, a], [, b]) => b - a).slice(0, maxEventTypes)
  const list = first.map(([eventType, records]) => ({ eventType: redact(eventType), records }))
  return {
    ...{ ...known, refusedAgain, unattempted, byDecision, eventTypes: { total: types.size, list } },
    firstExhausted: toDate(firstExhaustedAt - skewMs),
    lastAttempt: toDate(lastAt - skewMs),
    oldestEvent: toDate(oldestAt),
    nextRetry: toDate(next.at - skewMs),
    nextRetryBy: next.by,
  }
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
    *listed(bySubscription, skewMs) {
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
        list.push(yield* toCause(group, bySubscription.get(group.subscriptionId) ?? [], policy, skewMs))
      return { total: groups.length, records, list, oldestExhaustedAt }
    },
  }
}
