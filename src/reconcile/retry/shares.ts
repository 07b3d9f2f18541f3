// Places of a full backlog: lanes share them fairly, and each keeps the records that can go out first. Pure functions. @see docs/architecture.md "Backlog and decisions"
import { decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Steps } from '../../runtime/steps.ts'
import type { Policy } from '../policy.ts'
import { inLane, laneOf } from './retry-plan.ts'

export interface SharesOptions {
  policy: Policy
  maxRecords: number
  /** Epoch ms of the platform's clock. */
  now: number
  /** True while the circuit of a subscription is closed, so that its records can be retried. */
  isClosed: (subscriptionId: string) => boolean
}

interface Contender {
  record: FailedRecord
  /** When it may go out: the same for all that may now; Infinity for a exhausted one. */
  goesAt: number
}

interface Share {
  contenders: Contender[]
  /** How many of them can go out now, and how many that or later. */
  ready: number
  open: number
  places: number
}

/** Every lane gets this many places, as far as half of all go: enough to open a circuit, and to close it. */
const guaranteedPlaces = 10

/** Records of one step, which takes a few milliseconds. */
const recordsPerStep = 5000

function* toLanes(records: readonly FailedRecord[], { isClosed, now, policy }: SharesOptions): Steps<Share[]> {
  const lanes = new Map<string, Share>()
  for (const [index, record] of records.entries()) {
    if (index > 0 && index % recordsPerStep === 0) yield
    const { decision, dueAt } = decide(record, policy, { now })
    const lane = lanes.getOrInsertComputed(laneOf(record, now), () => ({
      contenders: [],
      ready: 0,
      open: 0,
      places: 0,
    }))
    lane.contenders.push({ record, goesAt: decision === 'exhausted' ? Infinity : Math.max(now, dueAt) })
    if (decision === 'due' && isClosed(record.subscriptionId)) lane.ready += 1
    if (decision !== 'exhausted') lane.open += 1
  }
  return [...lanes.values()]
}

/** Max-min fair: no lane gets more than it wants, and a lane gets less only if none has more. Returns the places left over. */
function giveOut(lanes: readonly Share[], places: number, wanted: (lane: Share) => number): number {
  // Of equal ones the last gets what can't be divided: those that hold places come first, and would swap them with each listing.
  const claims = lanes
    .toReversed()
    .map((lane) => ({ lane, more: Math.max(0, wanted(lane) - lane.places) }))
    .sort((a, b) => a.more - b.more)
  let left = places
  for (const [index, { lane, more }] of claims.entries()) {
    const given = Math.min(more, Math.floor(left / (claims.length - index)))
    lane.places += given
    left -= given
  }
  return left
}

/**
 * The records without a place, none of which is awaiting: places go to records that can go out now, then to those that can
 * later, then to exhausted ones.
 */
export function* withoutPlace(records: readonly FailedRecord[], options: SharesOptions): Steps<FailedRecord[]> {
  const waiting = records.filter(({ awaiting }) => awaiting === undefined)
  const lanes = yield* toLanes(waiting, options)
  const places = Math.max(0, options.maxRecords - (records.length - waiting.length))
  const half = Math.floor(places / 2)
  let left = places - half + giveOut(lanes, half, ({ open }) => Math.min(guaranteedPlaces, open))
  left = giveOut(lanes, left, ({ ready }) => ready)
  left = giveOut(lanes, left, ({ open }) => open)
  giveOut(lanes, left, ({ contenders }) => contenders.length)
  const inTurn = inLane(options.policy, options.now)
  const byTurn = (a: Contender, b: Contender): number => {
    if (a.goesAt !== b.goesAt) return a.goesAt < b.goesAt ? -1 : 1
    return inTurn(a.record, b.record)
  }
  const losers: FailedRecord[] = []
  for (const { contenders, places: kept } of lanes) {
    if (kept === contenders.length) continue
    if (contenders.length > recordsPerStep) yield
    for (const { record } of contenders.sort(byTurn).slice(kept)) losers.push(record)
  }
  return losers
}
