// More records than the backlog may hold: which of them give way. A pure function. @see docs/architecture.md "Backlog and decisions"
import TinyQueue from 'tinyqueue'
import { decide } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import { inLane, laneOf } from './retry-plan.ts'

export interface OverflowOptions {
  policy: Policy
  maxRecords: number
  /** Epoch ms of the platform's clock. */
  now: number
}

/**
 * Exhausted records give way first; of the others those that go out last, in the lane that has the most. Awaited ones stay.
 */
export function overflowOf(
  records: Iterable<FailedRecord>,
  { maxRecords, now, policy }: OverflowOptions,
): FailedRecord[] {
  const lanes = new Map<string, { record: FailedRecord; goesAt: number }[]>()
  const exhausted: FailedRecord[] = []
  let places = maxRecords
  for (const record of records) {
    const { decision, dueAt } = decide(record, policy, { now })
    if (decision === 'awaiting') places -= 1
    else if (decision === 'exhausted') exhausted.push(record)
    else lanes.getOrInsertComputed(laneOf(record, now), () => []).push({ record, goesAt: Math.max(now, dueAt) })
  }
  const open = lanes.values().reduce((sum, { length }) => sum + length, 0)
  if (open <= places) return exhausted.slice(places - open)
  const inTurn = inLane(policy, now)
  const late: FailedRecord[] = []
  // The last of equal ones gets what can't be divided: those that are held come first, and would change with each listing.
  const bySize = [...lanes.values()].toReversed().toSorted((a, b) => a.length - b.length)
  for (const [index, lane] of bySize.entries()) {
    const kept = Math.max(0, Math.min(lane.length, Math.floor(places / (bySize.length - index))))
    places -= kept
    const lastFirst = new TinyQueue(lane, (a, b) => b.goesAt - a.goesAt || inTurn(b.record, a.record))
    for (let more = lane.length - kept; more > 0; more -= 1) {
      const last = lastFirst.pop()
      if (last !== undefined) late.push(last.record)
    }
  }
  return [...exhausted, ...late]
}
