// The retry plan: which record is retried next. Pure functions of (records, policy, now). @see docs/architecture.md "Retry plan"
// `pickNext`, for the dispatcher: a trial PATCH; then the lanes in turn, each by `inLane`, or with a probe.
import TinyQueue from 'tinyqueue'
import { attemptsOf, decide, dueAt } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'

/** The due records of one subscription, recent or old ones; a heap with the next one first. */
interface Lane {
  subscriptionId: string
  queue: TinyQueue<FailedRecord>
}

export interface RetryPlan {
  /** Round robin: the first lane is served next, a lane that was served goes to the end. */
  lanes: Map<string, Lane>
  /** Records that back off; a heap with the one first whose backoff ends next. */
  later: TinyQueue<FailedRecord>
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
  /** True while a trial PATCH is due: a probe goes, of the records that were not refused last if there are any. */
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
 * The order of the records of one lane: expiring ones first, the one that leaves the window next before the others; then
 * fewest attempts, then the oldest event.
 */
export function inLane({ window }: Policy, now: number): (a: FailedRecord, b: FailedRecord) => number {
  const expiringEdge = now + window.expiryWarning - window.lookback
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
  const later: FailedRecord[] = []
  for (const record of records) {
    const { decision } = decide(record, policy, { now })
    if (decision === 'backing-off') later.push(record)
    if (decision === 'due') due.getOrInsertComputed(laneOf(record, now), () => []).push(record)
  }
  const lanes = new Map<string, Lane>()
  for (const [key, lane] of due) {
    const [first] = lane
    if (first !== undefined) lanes.set(key, newLane(first, lane, options))
  }
  return { lanes, later: new TinyQueue(later, (a, b) => dueAt(a, policy) - dueAt(b, policy)) }
}

function newLane({ subscriptionId }: FailedRecord, records: FailedRecord[], { now, policy }: PlanOptions): Lane {
  return { subscriptionId, queue: new TinyQueue(records, inLane(policy, now)) }
}

/** Adds a record that may be retried once more. */
export function addTo({ lanes, later }: RetryPlan, record: FailedRecord, options: PlanOptions): void {
  const { decision } = decide(record, options.policy, options)
  if (decision === 'backing-off') later.push(record)
  if (decision !== 'due') return
  lanes.getOrInsertComputed(laneOf(record, options.now), () => newLane(record, [], options)).queue.push(record)
}

/** Moves the records whose backoff has ended into their lanes. */
export function moveOn(plan: RetryPlan, options: PlanOptions): void {
  const { later } = plan
  for (let first = later.peek(); first && dueAt(first, options.policy) <= options.now; first = later.peek()) {
    later.pop()
    addTo(plan, first, options)
  }
}

/** The next ready record of a lane. Records before it are dropped until the next plan. */
function nextOf(lane: Lane, { isReady }: PickRules): FailedRecord | undefined {
  for (let first = lane.queue.peek(); first !== undefined; first = lane.queue.peek()) {
    if (isReady(first)) return first
    lane.queue.pop()
  }
  return undefined
}

/**
 * The record that tells most of the receiver, or of the platform: not a poisoned one. Another event type than that of the
 * subscription's last probe first, as a receiver may fail on one type alone; then fewest attempts, then the newest event.
 */
function probeOf(plan: RetryPlan, subscriptionId: string, rules: PickRules): FailedRecord | undefined {
  const lastType = rules.lastProbeType(subscriptionId)
  const isBetter = (a: FailedRecord, b: FailedRecord): boolean => {
    const isOther = a.eventType !== lastType
    if (isOther !== (b.eventType !== lastType)) return isOther
    return attemptsOf(a) === attemptsOf(b) ? a.eventAt > b.eventAt : attemptsOf(a) < attemptsOf(b)
  }
  let best: FailedRecord | undefined
  for (const record of ages.flatMap((age) => plan.lanes.get(laneKey(age, subscriptionId))?.queue.data ?? [])) {
    if ((best === undefined || isBetter(record, best)) && rules.isReady(record)) best = record
  }
  return best
}

/** A probe of the first lane that has a record which was not refused last. */
function trialOf(plan: RetryPlan, rules: PickRules): Pick | undefined {
  const isReady = (record: FailedRecord): boolean => record.refusals === 0 && rules.isReady(record)
  for (const [key, { subscriptionId }] of plan.lanes) {
    const record = rules.admits(subscriptionId) ? probeOf(plan, subscriptionId, { ...rules, isReady }) : undefined
    if (record !== undefined) return { lane: key, record }
  }
  return undefined
}

/** The record that goes next; undefined when none may. It stays in the plan until `take`. */
export function pickNext(plan: RetryPlan, rules: PickRules): Pick | undefined {
  const trial = rules.isTrial ? trialOf(plan, rules) : undefined
  if (trial !== undefined) return trial
  for (const [key, lane] of plan.lanes) {
    const { subscriptionId } = lane
    if (!rules.admits(subscriptionId)) continue
    const record = rules.isHalfOpen(subscriptionId) ? probeOf(plan, subscriptionId, rules) : nextOf(lane, rules)
    if (record !== undefined) return { lane: key, record }
    plan.lanes.delete(key)
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
