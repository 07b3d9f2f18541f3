// Counts of the failed records that the backlog does not hold, by the hour of their event: bounded, however many there are.
import { decisions, type Decision } from './decide.ts'
import type { Span } from './window.ts'

export type Counts = Record<Decision, number>

export function noCounts(): Counts {
  return Object.fromEntries(decisions.map((decision) => [decision, 0])) as Counts
}

/** Records that were seen and not kept: excluded ones, and those for which there was no room. */
export interface Census {
  /** Starts a new count beside the present one: a full sweep counts everything anew. */
  begin(): void
  /** Puts the new count in the place of the old. */
  commit(): void
  /** Drops the new count: the sweep failed, the last one that ended stays the best that is known. */
  abandon(): void
  /** Counts one record, by the local second and the instant (epoch ms) of its event. */
  add(decision: Decision, localSecond: number, eventAt: number): void
  /** Forgets the hours before a local second, as the window moves on. */
  forgetBefore(localSecond: number): void
  /** Takes the oldest hour with records that had no room out of the count, so that it can be listed again. */
  takeOldest(): Span | undefined
  /** True when some record had no room. */
  leftOut(): boolean
  counts(): Counts
  /** Instant of the oldest event that is neither parked nor excluded, undefined when there is none. */
  oldestOpenAt(): number | undefined
}

interface Hour {
  counts: Counts
  oldestOpenAt: number
}

type Hours = Map<number, Hour>

const hourSeconds = 3600

function hasLeftOut(hour: Hour): boolean {
  return decisions.some((decision) => decision !== 'excluded' && hour.counts[decision] > 0)
}

export function createCensus(): Census {
  let present: Hours = new Map()
  let coming: Hours | undefined

  function addTo(hours: Hours, decision: Decision, localSecond: number, eventAt: number): void {
    const key = Math.floor(localSecond / hourSeconds)
    const hour = hours.get(key) ?? { counts: noCounts(), oldestOpenAt: Infinity }
    hours.set(key, hour)
    hour.counts[decision] += 1
    if (decision !== 'parked' && decision !== 'excluded') hour.oldestOpenAt = Math.min(hour.oldestOpenAt, eventAt)
  }

  return {
    begin() {
      coming = new Map()
    },
    commit() {
      present = coming ?? present
      coming = undefined
    },
    abandon() {
      coming = undefined
    },
    add(decision, localSecond, eventAt) {
      addTo(coming ?? present, decision, localSecond, eventAt)
    },
    forgetBefore(localSecond) {
      const first = Math.floor(localSecond / hourSeconds)
      for (const key of present.keys()) if (key < first) present.delete(key)
    },
    takeOldest() {
      const keys = [...present].filter(([, hour]) => hasLeftOut(hour)).map(([key]) => key)
      if (keys.length === 0) return undefined
      const key = Math.min(...keys)
      present.delete(key)
      return { from: key * hourSeconds, to: (key + 1) * hourSeconds }
    },
    leftOut: () => [...present.values()].some(hasLeftOut),
    counts() {
      const sum = noCounts()
      for (const hour of present.values()) for (const decision of decisions) sum[decision] += hour.counts[decision]
      return sum
    },
    oldestOpenAt() {
      const oldest = Math.min(...[...present.values()].map((hour) => hour.oldestOpenAt))
      return oldest === Infinity ? undefined : oldest
    },
  }
}
