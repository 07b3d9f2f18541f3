// Who stays in the backlog when there is no room for all. @see design section 9
import { decide, isExpiring } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'

/** The lower number gives way to the higher. Entries that are awaited never give way. */
export type Rank = 0 | 1 | 2 | 3 | 4

/** What ranks are made by. */
export interface RankOptions {
  policy: Policy
  /** True of a subscription whose circuit is open. */
  isShut: (subscriptionId: string) => boolean
}

/**
 * `now` in epoch ms of the platform's clock. Where events of one entity go in their order, the oldest go first of all:
 * what is outside of the backlog must not be older than what waits in it.
 */
export function rankOf(entry: FailedRecord, { isShut, policy }: RankOptions, now: number): Rank {
  const { decision } = decide(entry, policy, { now })
  if (decision === 'awaiting') return 4
  if (decision === 'parked') return 0
  if (policy.orderPerEntity) return 1
  if (decision === 'backing-off' || isShut(entry.subscriptionId)) return 0
  if (isExpiring(entry, policy, now)) return 3
  return now - entry.eventAt < recentMs ? 2 : 1
}

/** Who wants to come in. */
export interface Newcomers {
  /** Those of one rank, in the order in which they are let in. */
  wanted: readonly FailedRecord[]
  below: Rank
  now: number
}

/**
 * Those that give way first: the lowest rank; within it those that we have not tried, as the platform remembers all that
 * is known of them; of these the newest events. At most one for each newcomer, and only those ranked under it: where
 * events go in their order, those of the same rank too that are newer.
 */
export function firstToGo(
  entries: Iterable<FailedRecord>,
  by: RankOptions,
  { below, now, wanted }: Newcomers,
): FailedRecord[] {
  if (below === 0) return []
  const isOrdered = by.policy.orderPerEntity
  return [...entries]
    .map((entry) => ({ entry, rank: rankOf(entry, by, now), tried: entry.triedAt > 0 && !isOrdered ? 1 : 0 }))
    .filter(({ rank }) => rank < below || (isOrdered && rank === below))
    .sort((a, b) => a.rank - b.rank || a.tried - b.tried || b.entry.eventAt - a.entry.eventAt)
    .slice(0, wanted.length)
    .filter(({ entry, rank }, index) => rank < below || entry.eventAt > (wanted[index]?.eventAt ?? Infinity))
    .map(({ entry }) => entry)
}

/** Newcomers in the order in which they are let in: the highest rank first, in it the oldest events. */
export function inOrderOfEntry(
  newcomers: readonly FailedRecord[],
  by: RankOptions,
  now: number,
): { entry: FailedRecord; rank: Rank }[] {
  return newcomers
    .map((entry) => ({ entry, rank: rankOf(entry, by, now) }))
    .sort((a, b) => b.rank - a.rank || a.entry.eventAt - b.entry.eventAt)
}
