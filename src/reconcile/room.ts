// Who stays in the backlog when there is no room for all. @see design section 9
import { decide } from './decide.ts'
import type { Entry } from './entry.ts'
import { freshMs, type Policy } from './policy.ts'

/** The lower number gives way to the higher. Entries that are awaited never give way. */
export type Rank = 0 | 1 | 2 | 3

/** `now` in epoch ms of the platform's clock. */
export function rankOf(entry: Entry, policy: Policy, now: number): Rank {
  const { decision } = decide(entry, policy, { now, held: false })
  if (decision === 'awaiting') return 3
  if (decision === 'parked' || decision === 'backing-off') return 0
  return now - entry.eventAt < freshMs ? 2 : 1
}

/**
 * Those that give way first: the lowest rank; within it those that we have not tried, as the platform remembers all that
 * is known of them; of these the newest events. At most `count` of those ranked under `below`.
 */
export function firstToGo(
  entries: Iterable<Entry>,
  policy: Policy,
  options: { count: number; below: Rank; now: number },
): Entry[] {
  if (options.below === 0) return []
  return [...entries]
    .map((entry) => ({ entry, rank: rankOf(entry, policy, options.now), tried: entry.tries > 0 ? 1 : 0 }))
    .filter(({ rank }) => rank < options.below)
    .sort((a, b) => a.rank - b.rank || a.tried - b.tried || b.entry.eventAt - a.entry.eventAt)
    .slice(0, options.count)
    .map(({ entry }) => entry)
}

/** Newcomers in the order in which they are let in: the highest rank first, in it the oldest events. */
export function inOrderOfEntry(
  newcomers: readonly Entry[],
  policy: Policy,
  now: number,
): { entry: Entry; rank: Rank }[] {
  return newcomers
    .map((entry) => ({ entry, rank: rankOf(entry, policy, now) }))
    .sort((a, b) => b.rank - a.rank || a.entry.eventAt - b.entry.eventAt)
}
