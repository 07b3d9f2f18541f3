// The retry plan: the order of retries. No clock, no I/O. @see docs/architecture.md "Retry plan"
// `pickNext`, for the dispatcher: a trial PATCH; then the lanes in turn, each by `inLane`, or with a probe.
import TinyQueue from 'tinyqueue'
import { attemptsOf, decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'
import type { Lane, Subscription } from './subscriptions.ts'
import { expiryWarningMs } from '../window.ts'

/** Maximum age of lanes: records become old or expiring in them, and those that left the backlog stay in them. */
export const maxLaneAgeMs = 60_000

interface BackingOff {
  record: FailedRecord
  dueAt: number
}

/** The open records that are not awaited, each where it waits: in a lane, or for the end of its backoff or of a listing. */
export interface RetryPlan {
  /** Round robin: the first lane is served next, a served lane moves to the end. None is empty. */
  lanes: Set<Lane>
  /** Records whose backoff ends soon, with its end when added; a heap with the next one first. */
  later: TinyQueue<BackingOff>
  /** Due records that came up while their slice was being listed. */
  listed: FailedRecord[]
}

export interface PlanOptions {
  policy: Policy
  /** Epoch ms of the platform's clock. */
  now: number
  subscriptionOf: (id: string) => Subscription
  /** How long ago the backoffs of its receiver's failures ended, in ms. */
  backoffsEndedMs: (subscriptionId: string) => number
}

/** Rules at the time of picking. */
export interface PickRules {
  /** Epoch ms of the platform's clock. */
  now: number
  /** False while no retry of the subscription may be sent. */
  admits: (subscription: Subscription) => boolean
  /** A number: it backs off until then; `gone`: it is in flight, awaited, exhausted, or not in the backlog. */
  standingOf: (record: FailedRecord) => 'ready' | 'listed' | 'gone' | number
  /** True while the subscription's circuit is half-open: a probe is sent instead of the next record. */
  isHalfOpen: (subscription: Subscription) => boolean
  /** True while a trial PATCH is due: a probe is sent, if possible with a record that was not rejected last. */
  isTrial: boolean
}

export interface Pick {
  lane: Lane
  record: FailedRecord
}

const ageOf = ({ eventAt }: FailedRecord, now: number): Lane['age'] => (now - eventAt < recentMs ? 'recent' : 'old')

/** `now` in epoch ms of the platform's clock. */
export function laneOf(record: FailedRecord, now: number): string {
  return `${ageOf(record, now)} ${record.subscriptionId}`
}

/**
 * The order of the records of one lane: those requested by an operator first; then expiring ones, soonest first; then fewest
 * attempts, then the oldest event.
 */
export function inLane({ window }: Policy, now: number): (a: FailedRecord, b: FailedRecord) => number {
  const expiringEdge = now + expiryWarningMs(window) - window.lookback
  return (a, b) => {
    if (a.askedFor !== b.askedFor) return a.askedFor ? -1 : 1
    if (a.eventAt < expiringEdge || b.eventAt < expiringEdge) return a.eventAt - b.eventAt
    return attemptsOf(a) - attemptsOf(b) || a.eventAt - b.eventAt
  }
}

export function newPlan(): RetryPlan {
  return { lanes: new Set(), later: new TinyQueue<BackingOff>([], (a, b) => a.dueAt - b.dueAt), listed: [] }
}

/** One that backs off for longer is not in the plan: it is found when its lanes are made anew, well before it is due. */
function putOff({ later }: RetryPlan, record: FailedRecord, dueAt: number, now: number): void {
  if (dueAt - now < 2 * maxLaneAgeMs) later.push({ record, dueAt })
}

/** Adds a new or changed record. A duplicate in the plan is noticed when it is picked. */
export function addTo(plan: RetryPlan, record: FailedRecord, options: PlanOptions): void {
  const { backoffsEndedMs, now, policy, subscriptionOf } = options
  const situation = { now, backoffsEndedMs: backoffsEndedMs(record.subscriptionId) }
  const { decision, dueAt } = decide(record, policy, situation)
  if (decision === 'backing-off') putOff(plan, record, dueAt, now)
  if (decision !== 'due') return
  const subscription = subscriptionOf(record.subscriptionId)
  const age = ageOf(record, now)
  const lane = (subscription.lanes[age] ??= { subscription, age, queue: new TinyQueue([], inLane(policy, now)) })
  lane.queue.push(record)
  plan.lanes.add(lane)
}

/** Moves the records whose backoff has ended into their lanes. */
export function moveOn(plan: RetryPlan, options: PlanOptions): void {
  const { later } = plan
  for (let first = later.peek(); first !== undefined && first.dueAt <= options.now; first = later.peek()) {
    later.pop()
    addTo(plan, first.record, options)
  }
}

/** An empty lane is no lane. */
export function close({ lanes }: RetryPlan, lane: Lane): void {
  lanes.delete(lane)
  delete lane.subscription.lanes[lane.age]
}

/** Empties the lanes of a subscription, for `addTo`; they keep their turns. Gates are checked at picking. */
export function clearLanes(id: string, { now, policy, subscriptionOf }: PlanOptions): void {
  for (const lane of Object.values(subscriptionOf(id).lanes)) lane.queue = new TinyQueue([], inLane(policy, now))
}

export function closeEmpty(plan: RetryPlan, id: string, { subscriptionOf }: PlanOptions): void {
  for (const lane of Object.values(subscriptionOf(id).lanes)) if (lane.queue.length === 0) close(plan, lane)
}

/** The next ready record of a lane. Those before it leave the lane. */
function nextOf(plan: RetryPlan, { queue }: Lane, { now, standingOf }: PickRules): FailedRecord | undefined {
  for (let first = queue.peek(); first !== undefined; first = queue.peek()) {
    const standing = standingOf(first)
    if (standing === 'ready') return first
    if (standing === 'listed') plan.listed.push(first)
    if (typeof standing === 'number') putOff(plan, first, standing, now)
    queue.pop()
  }
  return undefined
}

/**
 * The record that reveals most about the receiver or the platform, and is not poisoned: first another event type than that of
 * the subscription's last retry, because a receiver may fail for one type alone; then fewest attempts, then the newest event.
 */
function probeOf({ lanes, lastEventType }: Subscription, isReady: (record: FailedRecord) => boolean) {
  const isBetter = (a: FailedRecord, b: FailedRecord): boolean => {
    const isOther = a.eventType !== lastEventType
    if (isOther !== (b.eventType !== lastEventType)) return isOther
    return attemptsOf(a) === attemptsOf(b) ? a.eventAt > b.eventAt : attemptsOf(a) < attemptsOf(b)
  }
  let best: FailedRecord | undefined
  for (const record of [lanes.recent, lanes.old].flatMap((lane) => lane?.queue.data ?? [])) {
    if ((best === undefined || isBetter(record, best)) && isReady(record)) best = record
  }
  return best
}

/** A probe of the first lane with a record that was not rejected last. */
function trialOf(plan: RetryPlan, { admits, standingOf }: PickRules): Pick | undefined {
  const isReady = (record: FailedRecord): boolean => record.refusals === 0 && standingOf(record) === 'ready'
  for (const lane of plan.lanes) {
    const record = admits(lane.subscription) ? probeOf(lane.subscription, isReady) : undefined
    if (record !== undefined) return { lane, record }
  }
  return undefined
}

/** The next record; undefined if none may be sent. It stays in the plan until `take`. */
export function pickNext(plan: RetryPlan, rules: PickRules): Pick | undefined {
  const trial = rules.isTrial ? trialOf(plan, rules) : undefined
  if (trial !== undefined) return trial
  const isReady = (record: FailedRecord): boolean => rules.standingOf(record) === 'ready'
  for (const lane of plan.lanes) {
    const { subscription } = lane
    if (!rules.admits(subscription)) continue
    const probe = rules.isHalfOpen(subscription) ? probeOf(subscription, isReady) : undefined
    const record = probe ?? nextOf(plan, lane, rules)
    if (record !== undefined) return { lane, record }
    close(plan, lane)
  }
  return undefined
}

/** The picked record is sent: its lane moves to the end. A probe may be anywhere in its lane; it is not ready any more. */
export function take({ lanes }: RetryPlan, { lane, record }: Pick): void {
  if (lane.queue.peek() === record) lane.queue.pop()
  if (lanes.delete(lane)) lanes.add(lane)
}
