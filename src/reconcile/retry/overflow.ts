// The eviction order of a full backlog, computed in steps because it iterates over all records. @see docs/architecture.md "Backlog and decisions"
import TinyQueue from 'tinyqueue'
import type { Steps } from '../../runtime/steps.ts'
import { decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import { failuresOf, maxProbes, stateOf } from './circuit-breaker.ts'
import { inLane, laneOf } from './retry-plan.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface OverflowOptions {
  policy: Policy
  maxRecords: number
  /** Epoch ms of the platform's clock. */
  now: number
  /** Monotonic ms. */
  monotonic: number
  subscriptions: Pick<Subscriptions, 'backoffsEndedMs' | 'circuitOf'>
}

/** Kinds of records, kept in this order: sendable now; first after a cooldown; others. */
const kinds = ['ready', 'probes', 'others'] as const

/** The recent or old records of one subscription, with the number of each kind. */
interface PlaceShare extends Record<(typeof kinds)[number], number> {
  subscriptionId: string
  records: FailedRecord[]
  due: number
  /** Number of turns that its sendable records are delayed compared with other lanes. */
  late: number
  kept: number
}

/** Each failure of a receiver not known to be up delays its lanes by this share of the places, in turns. */
const latePerFailure = 1 / 20
/** A few milliseconds. */
const recordsPerStep = 4000

/** Lanes take turns for places, until all are satisfied or none are left. Returns the number of remaining places. */
function share(places: number, lanes: readonly PlaceShare[], kind: (typeof kinds)[number]): number {
  const lateOf = ({ late }: PlaceShare): number => (kind === 'others' ? 0 : late)
  const keptIn = (lane: PlaceShare, turns: number): number => Math.max(0, Math.min(lane[kind], turns - lateOf(lane)))
  const sumIn = (turns: number): number => lanes.reduce((sum, lane) => sum + keptIn(lane, turns), 0)
  let turns = 0
  let tooMany = 1 + lanes.reduce((most, lane) => Math.max(most, lateOf(lane) + lane[kind]), 0)
  while (tooMany - turns > 1) {
    const middle = Math.floor((turns + tooMany) / 2)
    if (sumIn(middle) <= places) turns = middle
    else tooMany = middle
  }
  let left = places - sumIn(turns)
  for (const lane of lanes) {
    // The remainder goes to the first lanes: held records, which would otherwise change with each listing.
    const more = left > 0 && keptIn(lane, turns + 1) > keptIn(lane, turns) ? 1 : 0
    lane.kept += keptIn(lane, turns) + more
    left -= more
  }
  return left
}

interface Going {
  record: FailedRecord
  goesAt: number
}

/** The records of a lane that would be sent after the kept ones. */
function* lastOf({ kept, records, subscriptionId }: PlaceShare, options: OverflowOptions): Steps<FailedRecord[]> {
  const { monotonic, now, policy, subscriptions } = options
  const situation = { now, backoffsEndedMs: subscriptions.backoffsEndedMs(subscriptionId, monotonic) }
  const count = records.length - kept
  if (count === 0) return []
  const inTurn = inLane(policy, now)
  const inOrder = (a: Going, b: Going): number => a.goesAt - b.goesAt || inTurn(a.record, b.record)
  const last = new TinyQueue<Going>([], inOrder)
  for (const [index, record] of records.entries()) {
    if (index > 0 && index % recordsPerStep === 0) yield
    const going = { record, goesAt: Math.max(now, decide(record, policy, situation).dueAt) }
    const first = last.length < count ? undefined : last.peek()
    if (first !== undefined && inOrder(going, first) <= 0) continue
    last.push(going)
    if (last.length > count) last.pop()
  }
  return last.data.map(({ record }) => record)
}

/**
 * Exhausted records that no operator's job wants are evicted first, then those not ready, except the next probes of each circuit
 * that is not closed. Within each kind, those that would be sent last if lanes took turns are evicted first; lanes of receivers that have failed start
 * their turns later. Awaited records stay.
 */
export function* overflowOf(records: Iterable<FailedRecord>, options: OverflowOptions): Steps<FailedRecord[]> {
  const { maxRecords, monotonic, now, policy, subscriptions } = options
  const lanes = new Map<string, PlaceShare>()
  const exhausted: FailedRecord[] = []
  let places = maxRecords
  let seen = 0
  for (const record of records) {
    seen += 1
    if (seen % recordsPerStep === 0) yield
    const backoffsEndedMs = subscriptions.backoffsEndedMs(record.subscriptionId, monotonic)
    const { decision } = decide(record, policy, { now, backoffsEndedMs })
    if (decision === 'awaiting') places -= 1
    else if (decision === 'exhausted' && !record.isQueued) exhausted.push(record)
    else {
      const { subscriptionId } = record
      const lane = lanes.getOrInsertComputed(laneOf(record, now), () => {
        const late = Math.ceil(latePerFailure * maxRecords) * failuresOf(subscriptions.circuitOf(subscriptionId))
        return { subscriptionId, records: [], due: 0, ready: 0, probes: 0, others: 0, late, kept: 0 }
      })
      lane.records.push(record)
      if (decision === 'due') lane.due += 1
    }
  }
  for (const lane of lanes.values()) {
    const probes = Math.min(maxProbes, lane.records.length)
    const state = stateOf(subscriptions.circuitOf(lane.subscriptionId), monotonic)
    if (state === 'closed') lane.ready = lane.due
    else {
      // Records that back off must not take the places of others' due probes.
      lane.ready = state === 'open' ? 0 : Math.min(probes, lane.due)
      lane.probes = probes - lane.ready
    }
    lane.others = lane.records.length - lane.ready - lane.probes
  }
  let left = Math.max(0, places)
  for (const kind of kinds) {
    // Between two steps, more records than places may be shown.
    if (seen > recordsPerStep) yield
    left = share(left, [...lanes.values()], kind)
  }
  const overflow = exhausted.slice(left)
  for (const lane of lanes.values()) {
    seen += lane.records.length
    if (seen > recordsPerStep) {
      yield
      seen = 0
    }
    for (const record of yield* lastOf(lane, options)) overflow.push(record)
  }
  return overflow
}
