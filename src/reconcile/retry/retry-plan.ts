// The retry plan: the records that are due, or will be within two minutes, and the order of retries. Changes are applied at once, and each subscription's lanes are rebuilt every minute. @see docs/architecture.md "Retry plan"
import TinyQueue from 'tinyqueue'
import type { Clock } from '../../runtime/clock.ts'
import type { Steps } from '../../runtime/steps.ts'
import { attemptsOf, sendableAt } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'
import { expiryWarningMs } from '../window.ts'
import { isUp } from './circuit-breaker.ts'
import type { Lane, Subscription, Subscriptions } from './subscriptions.ts'

export interface PlannerOptions {
  backlog: {
    bySubscription(): ReadonlyMap<string, Iterable<FailedRecord>>
    holds(record: FailedRecord): boolean
  }
  policy: Policy
  subscriptions: Pick<Subscriptions, 'backoffsEndedMs' | 'of'>
  /** The platform's time, epoch ms. */
  now: () => number
  clock: Pick<Clock, 'monotonic'>
  /** Called when there may be a new record to pick. */
  wake: () => void
}

/** Rules at the time of picking. */
export interface PickRules {
  /** False while no retry of the subscription may be sent. */
  admits: (subscription: Subscription) => boolean
  /** As `sendableAt` of decide.ts; also Infinity if it is in flight or not in the backlog. */
  sendableAt: (record: FailedRecord) => number
  /** True while the subscription's circuit is half-open: a probe is sent instead of the next record. */
  isHalfOpen: (subscription: Subscription) => boolean
  /** True while a trial PATCH is due. */
  isTrial: boolean
}

export interface Picked {
  lane: Lane
  record: FailedRecord
}

export interface Planner {
  /** The next record; undefined if none may be sent. It stays in the plan until `take`. Rebuilds some lanes. */
  pick(rules: PickRules): Picked | undefined
  /** The picked record is sent: its lane moves to the end. */
  take(picked: Picked): void
  /** Records of the backlog are new, have changed, or may be retried again. */
  changed(records: Iterable<FailedRecord>): void
  /** The circuit of this subscription has closed: backoffs may have ended. */
  closed(subscriptionId: string): void
  /** Milliseconds until another record is due; Infinity if only a change can cause one. */
  msUntilDue(): number
}

/** Maximum age of lanes: records become old or expiring in them, and those that left the backlog stay in them. */
const maxLaneAgeMs = 60_000
/** Records that one pick puts into new lanes, adds after their backoff, or skips, of each at most so many: a few milliseconds. */
const recordsPerPick = 5000

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

/**
 * The record that an operator requested; else the one that reveals most about the receiver or the platform: first another event
 * type than that of the subscription's last retry, because a receiver may fail for one type alone; then fewest attempts, because
 * others may be poisoned, but every third time most, because a receiver may reject the first deliveries of each record; then the
 * newest event.
 */
function probeOf({ lanes, lastEventType, sent }: Subscription, isReady: (record: FailedRecord) => boolean) {
  const prefersMost = sent % 3 === 2
  const isBetter = (a: FailedRecord, b: FailedRecord): boolean => {
    if (a.askedFor !== b.askedFor) return a.askedFor
    const isOther = a.eventType !== lastEventType
    if (isOther !== (b.eventType !== lastEventType)) return isOther
    const fewer = attemptsOf(b) - attemptsOf(a)
    return ((prefersMost ? -fewer : fewer) || a.eventAt - b.eventAt) > 0
  }
  let best: FailedRecord | undefined
  for (const record of [lanes.recent, lanes.old].flatMap((lane) => lane?.queue.data ?? [])) {
    if ((best === undefined || isBetter(record, best)) && isReady(record)) best = record
  }
  return best
}

/** The record that was not tried for longest: one that is rejected for good must not be the only trial. */
function trialOf({ queue }: Lane, isReady: (record: FailedRecord) => boolean): FailedRecord | undefined {
  let best: FailedRecord | undefined
  for (const record of queue.data) if (record.triedAt < (best?.triedAt ?? Infinity) && isReady(record)) best = record
  return best
}

/**
 * Which lanes and records are wanted for a trial, in this order. The platform may reject the retries of single records: one whose last
 * retry passed shows whether it rejects all, and a new failure may be of one that it never rejected.
 */
const trialOrder: readonly ((lane: Lane, record: FailedRecord) => boolean)[] = [
  ({ age }, { refusals }) => age === 'recent' && refusals === 0,
  (_, { refusals }) => refusals === 0,
  () => true,
]

export function createPlanner({ backlog, clock, now, policy, subscriptions, wake }: PlannerOptions): Planner {
  /** Round robin: the first lane with a record that may be sent is served next, and moves to the end. */
  const lanes = new Set<Lane>()
  /** Records whose backoff ends soon, with its end when added; a heap with the next one first. */
  const later = new TinyQueue<{ record: FailedRecord; dueAt: number }>([], (a, b) => a.dueAt - b.dueAt)
  /** Records that the current pick has skipped. */
  let skipped = 0
  /** That of the last retry. */
  let last: Subscription | undefined
  /** Number of retries. */
  let taken = 0
  /** Subscriptions whose lanes are to be rebuilt. */
  const stale = new Set<string>()
  /** When that was last wanted for all of them, by the platform's clock: after it was set, others are due. */
  let allStaleAt = -Infinity
  let rebuilding = rebuild()
  let isRebuilt = true

  const newQueue = (): Lane['queue'] => new TinyQueue([], inLane(policy, now()))

  /** An empty lane is no lane. */
  function close(lane: Lane): void {
    lanes.delete(lane)
    delete lane.subscription.lanes[lane.age]
  }

  /** One that backs off for longer is not in the plan: it is found when its lanes are rebuilt, well before it is due. */
  function putOff(record: FailedRecord, dueAt: number): void {
    if (dueAt - now() < 2 * maxLaneAgeMs) later.push({ record, dueAt })
  }

  /** Adds a new or changed record. A duplicate in the plan is noticed when it is picked. */
  function add(record: FailedRecord): void {
    const { subscriptionId } = record
    const at = now()
    const backoffsEndedMs = subscriptions.backoffsEndedMs(subscriptionId, clock.monotonic())
    const dueAt = sendableAt(record, policy, { now: at, backoffsEndedMs })
    if (dueAt > at) {
      putOff(record, dueAt)
      return
    }
    const subscription = subscriptions.of(subscriptionId)
    const age = ageOf(record, at)
    const lane = (subscription.lanes[age] ??= { subscription, age, queue: newQueue() })
    lane.queue.push(record)
    lanes.add(lane)
  }

  function changed(records: Iterable<FailedRecord>): void {
    for (const record of records) if (backlog.holds(record)) add(record)
    wake()
  }

  /** One step at each pick. Lanes keep their turns; until the last step, those of a subscription lack some of its records. */
  function* rebuild(): Steps<void> {
    let added = 0
    for (const id of stale) {
      stale.delete(id)
      const { lanes: own } = subscriptions.of(id)
      for (const lane of Object.values(own)) lane.queue = newQueue()
      for (const record of backlog.bySubscription().get(id) ?? []) {
        add(record)
        added += 1
        if (added % recordsPerPick === 0) yield
      }
      for (const lane of Object.values(own)) if (lane.queue.length === 0) close(lane)
    }
  }

  /** Rebuilds some lanes, and moves the records whose backoff has ended into theirs. */
  function bringUpToDate(): void {
    if (Math.abs(now() - allStaleAt) > maxLaneAgeMs) {
      allStaleAt = now()
      for (const id of backlog.bySubscription().keys()) stale.add(id)
      // Also subscriptions whose records have all left the backlog.
      for (const { subscription } of lanes) stale.add(subscription.id)
    }
    isRebuilt = rebuilding.next().done === true
    if (isRebuilt) rebuilding = rebuild()
    for (let moved = 0; moved < recordsPerPick && (later.peek()?.dueAt ?? Infinity) <= now(); moved += 1) {
      const { record } = later.pop() ?? {}
      if (record !== undefined && backlog.holds(record)) add(record)
    }
  }

  /** The next ready record of a lane. Those before it leave the lane; beyond a number of them, the next pick goes on. */
  function nextOf({ queue }: Lane, rules: PickRules): FailedRecord | undefined {
    for (let first = queue.peek(); first !== undefined; first = queue.peek()) {
      const dueAt = rules.sendableAt(first)
      if (dueAt <= now()) return first
      if (skipped === recordsPerPick) return undefined
      skipped += 1
      putOff(first, dueAt)
      queue.pop()
    }
    return undefined
  }

  /** Every fourth trial is in turn: one whose records are all rejected must not take each from those that were refused when all were. */
  function trial(rules: PickRules): Picked | undefined {
    for (const isWanted of trialOrder.slice(taken % 4 === 3 ? -1 : 0)) {
      for (const lane of lanes) {
        if (!rules.admits(lane.subscription)) continue
        const record = trialOf(lane, (one) => isWanted(lane, one) && rules.sendableAt(one) <= now())
        if (record !== undefined) return { lane, record }
      }
    }
    return undefined
  }

  /** The next record of the first lane that has one, of these subscriptions. */
  function inTurn(rules: PickRules, isWanted: (subscription: Subscription) => boolean): Picked | undefined {
    const isReady = (record: FailedRecord): boolean => rules.sendableAt(record) <= now()
    for (const lane of lanes) {
      const { subscription } = lane
      if (!isWanted(subscription) || !rules.admits(subscription)) continue
      const probe = rules.isHalfOpen(subscription) ? probeOf(subscription, isReady) : undefined
      const record = probe ?? nextOf(lane, rules)
      if (record !== undefined) return { lane, record }
      if (lane.queue.length === 0) close(lane)
    }
    return undefined
  }

  return {
    pick(rules) {
      bringUpToDate()
      skipped = 0
      // After one that is not known to be up, one that is comes next, or many dead receivers would take all calls.
      if (rules.isTrial) return trial(rules)
      const prefersUp = last !== undefined && !isUp(last.circuit)
      return (prefersUp ? inTurn(rules, ({ circuit }) => isUp(circuit)) : undefined) ?? inTurn(rules, () => true)
    },
    take({ lane, record }) {
      last = lane.subscription
      taken += 1
      // A probe may be anywhere in its lane; it is not ready any more.
      if (lane.queue.peek() === record) lane.queue.pop()
      if (lanes.delete(lane)) lanes.add(lane)
    },
    changed,
    closed(subscriptionId) {
      stale.add(subscriptionId)
    },
    msUntilDue() {
      if (!isRebuilt || skipped === recordsPerPick || stale.size > 0) return 0
      const first = later.peek()
      return first === undefined ? Infinity : first.dueAt - now()
    },
  }
}
