// The retry plan: which record is retried next. Pure functions of (records, policy, now). @see docs/architecture.md "Retry plan"
// `pickNext`, for the dispatcher: a trial PATCH; then the lanes in turn, each by `inLane`, or with a probe.
import TinyQueue from 'tinyqueue'
import { attemptsOf, decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'

/** The due records of one subscription, recent or old ones; a heap with the next one first. */
interface Lane {
  key: string
  subscriptionId: string
  queue: TinyQueue<FailedRecord>
}

export interface RetryPlan {
  /** Round robin: the first lane is served next, a lane that was served goes to the end. */
  lanes: Map<string, Lane>
  /** When the next record's backoff ends, epoch ms of the platform's clock; Infinity for none. */
  nextDueAt: number
}

export interface PlanOptions {
  policy: Policy
  /** Epoch ms of the platform's clock. */
  now: number
  /** The plan before this one: its lanes keep their order. */
  previous?: RetryPlan | undefined
}

/** Rules at the moment of picking. */
export interface PickRules {
  /** False while no retry of the subscription may be sent. */
  admits: (subscriptionId: string) => boolean
  /** False for a record that is not due any more, is in flight, or is being listed. */
  isReady: (record: FailedRecord) => boolean
  /** True while the subscription's circuit is half-open: a probe is sent instead of the next in turn. */
  isHalfOpen: (subscriptionId: string) => boolean
  /** Event type of a subscription's last probe. */
  lastProbeType: (subscriptionId: string) => string | undefined
  /** True while a trial PATCH is due: a record that was not refused last is preferred. */
  isTrial: boolean
}

export interface Pick {
  lane: string
  record: FailedRecord
}

const ages = ['recent', 'old'] as const
const laneKey = (age: (typeof ages)[number], subscriptionId: string): string => `${age} ${subscriptionId}`

/** `now` in epoch ms of the platform's clock. */
export function laneOf({ eventAt, subscriptionId }: FailedRecord, now: number): string {
  return laneKey(now - eventAt < recentMs ? 'recent' : 'old', subscriptionId)
}

/**
 * Expiring records first, the one that leaves the window next before the others; then fewest attempts, then the oldest
 * event. An event before `expiringEdge` is expiring.
 */
function inLane(expiringEdge: number): (a: FailedRecord, b: FailedRecord) => number {
  return (a, b) => {
    if (a.eventAt < expiringEdge || b.eventAt < expiringEdge) return a.eventAt - b.eventAt
    return attemptsOf(a) - attemptsOf(b) || a.eventAt - b.eventAt
  }
}

/** Makes the plan. Gates and circuits are checked when a record is picked; blocked records stay in their lane. */
export function planRetries(records: Iterable<FailedRecord>, options: PlanOptions): RetryPlan {
  const { now, policy, previous } = options
  const due = new Map<string, FailedRecord[]>()
  for (const key of previous?.lanes.keys() ?? []) due.set(key, [])
  let nextDueAt = Infinity
  for (const record of records) {
    const { decision, dueAt } = decide(record, policy, { now })
    if (decision === 'backing-off') nextDueAt = Math.min(nextDueAt, dueAt)
    if (decision !== 'due') continue
    const key = laneOf(record, now)
    const lane = due.get(key)
    if (lane === undefined) due.set(key, [record])
    else lane.push(record)
  }
  const compare = inLane(now + policy.window.expiryWarning - policy.window.lookback)
  const lanes = new Map<string, Lane>()
  for (const [key, lane] of due) {
    const [first] = lane
    if (first === undefined) continue
    lanes.set(key, { key, subscriptionId: first.subscriptionId, queue: new TinyQueue(lane, compare) })
  }
  return { lanes, nextDueAt }
}

/** The next ready record of a lane. Records before it are dropped until the next plan. */
function nextOf(lane: Lane, { isReady }: PickRules): FailedRecord | undefined {
  for (let first = lane.queue.peek(); first !== undefined; first = lane.queue.peek()) {
    if (isReady(first)) return first
    lane.queue.pop()
  }
  return undefined
}

/** A probe tests the receiver, so a poisoned record is a bad choice: fewest attempts first, then the newest event. */
function isBetterProbe(a: FailedRecord, b: FailedRecord): boolean {
  return attemptsOf(a) < attemptsOf(b) || (attemptsOf(a) === attemptsOf(b) && a.eventAt > b.eventAt)
}

const isOlder = (a: FailedRecord, b: FailedRecord): boolean => a.eventAt < b.eventAt

/** The best probe of a subscription, recent or old, of another event type than the last probe if there is any. */
function probeOf(plan: RetryPlan, subscriptionId: string, rules: PickRules): Pick | undefined {
  const lastType = rules.lastProbeType(subscriptionId)
  let best: Pick | undefined
  let other: Pick | undefined
  for (const age of ages) {
    const lane = laneKey(age, subscriptionId)
    for (const record of plan.lanes.get(lane)?.queue.data ?? []) {
      const isBest = best === undefined || isBetterProbe(record, best.record)
      const isOther = record.eventType !== lastType && (other === undefined || isBetterProbe(record, other.record))
      if (!(isBest || isOther) || !rules.isReady(record)) continue
      if (isBest) best = { lane, record }
      if (isOther) other = { lane, record }
    }
  }
  return other ?? best
}

/** The oldest record that was not refused last, or the best probe of a half-open circuit, of the first lane that has one. */
function trialOf(plan: RetryPlan, rules: PickRules): Pick | undefined {
  for (const lane of plan.lanes.values()) {
    if (!rules.admits(lane.subscriptionId)) continue
    const isBetter = rules.isHalfOpen(lane.subscriptionId) ? isBetterProbe : isOlder
    let best: FailedRecord | undefined
    for (const record of lane.queue.data) {
      if (record.refusals > 0 || (best !== undefined && !isBetter(record, best))) continue
      if (rules.isReady(record)) best = record
    }
    if (best !== undefined) return { lane: lane.key, record: best }
  }
  return undefined
}

/** The record that goes next; undefined when none may. It stays in the plan until `take`. */
export function pickNext(plan: RetryPlan, rules: PickRules): Pick | undefined {
  const trial = rules.isTrial ? trialOf(plan, rules) : undefined
  if (trial !== undefined) return trial
  for (const lane of plan.lanes.values()) {
    if (!rules.admits(lane.subscriptionId)) continue
    const probe = rules.isHalfOpen(lane.subscriptionId) ? probeOf(plan, lane.subscriptionId, rules) : undefined
    if (probe !== undefined) return probe
    const record = nextOf(lane, rules)
    if (record !== undefined) return { lane: lane.key, record }
    plan.lanes.delete(lane.key)
  }
  return undefined
}

/** The picked record is sent: its lane goes to the end. A probe may stand anywhere in its lane; it is not ready any more. */
export function take(plan: RetryPlan, { lane: key, record }: Pick): void {
  const lane = plan.lanes.get(key)
  if (lane === undefined) return
  if (lane.queue.peek() === record) lane.queue.pop()
  plan.lanes.delete(key)
  plan.lanes.set(key, lane)
}
