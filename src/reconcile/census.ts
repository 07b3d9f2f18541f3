// Counts of the failed records that the backlog does not hold, by the hour of their event: bounded, however many there are.
import { decisions, type Decision } from './decide.ts'
import { contains, type Span } from './window.ts'

export type Counts = Record<Decision, number>

export function noCounts(): Counts {
  return Object.fromEntries(decisions.map((decision) => [decision, 0])) as Counts
}

/** What is counted of a record. */
export interface Counted {
  decision: Decision
  /** Second of the event on the platform's wall clock. */
  localSecond: number
  /** Epoch ms. */
  eventAt: number
}

/** An hour that was taken out of the count to be listed again. */
export interface TakenHour {
  span: Span
  /** Puts the old count back: the hour could not be listed. */
  putBack(): void
}

/** Records that were seen and not kept: excluded ones, and those for which there was no room. */
export interface Census {
  /** Starts a new count beside the present one: a full sweep counts everything anew. */
  begin(): void
  /** Tells the new count of a span that is listed for it. */
  cover(span: Span): void
  /** Puts the new count in the place of the old. */
  commit(): void
  /** Drops the new count: the sweep failed, the last one that ended stays the best that is known. */
  abandon(): void
  /** Counts a record that was listed and not kept. */
  addListed(record: Counted): void
  /** Counts a record that was kept until it had to give way. What the new count has not come to, it will list itself. */
  addEvicted(record: Counted): void
  /** Forgets the hours before a local second, as the window moves on. */
  forgetBefore(localSecond: number): void
  /** Takes the oldest hour with records that had no room out of the count, so that it can be listed again. */
  takeOldest(): TakenHour | undefined
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

/** A count that a full sweep is making, and how far it has come. */
interface Coming {
  hours: Hours
  covered: Span[]
}

const hourSeconds = 3600

function hasLeftOut(hour: Hour): boolean {
  return decisions.some((decision) => decision !== 'excluded' && hour.counts[decision] > 0)
}

function addTo(hours: Hours, { decision, localSecond, eventAt }: Counted): void {
  const key = Math.floor(localSecond / hourSeconds)
  const hour = hours.get(key) ?? { counts: noCounts(), oldestOpenAt: Infinity }
  hours.set(key, hour)
  hour.counts[decision] += 1
  if (decision !== 'parked' && decision !== 'excluded') hour.oldestOpenAt = Math.min(hour.oldestOpenAt, eventAt)
}

export function createCensus(): Census {
  let present: Hours = new Map()
  let coming: Coming | undefined

  return {
    begin() {
      coming = { hours: new Map(), covered: [] }
    },
    cover(span) {
      const last = coming?.covered.at(-1)
      if (last?.to === span.from) last.to = span.to
      else coming?.covered.push({ ...span })
    },
    commit() {
      present = coming?.hours ?? present
      coming = undefined
    },
    abandon() {
      coming = undefined
    },
    addListed(record) {
      addTo(coming?.hours ?? present, record)
    },
    addEvicted(record) {
      addTo(present, record)
      const isCovered = coming?.covered.some((span) => contains(span, record.localSecond)) === true
      if (coming !== undefined && isCovered) addTo(coming.hours, record)
    },
    forgetBefore(localSecond) {
      const first = Math.floor(localSecond / hourSeconds)
      for (const key of present.keys()) if (key < first) present.delete(key)
    },
    takeOldest() {
      let key = Infinity
      for (const [other, hour] of present) if (other < key && hasLeftOut(hour)) key = other
      const hour = present.get(key)
      if (hour === undefined) return undefined
      present.delete(key)
      const span = { from: key * hourSeconds, to: (key + 1) * hourSeconds }
      return { span, putBack: () => present.set(key, hour) }
    },
    leftOut: () => [...present.values()].some(hasLeftOut),
    counts() {
      const sum = noCounts()
      for (const hour of present.values()) for (const decision of decisions) sum[decision] += hour.counts[decision]
      return sum
    },
    oldestOpenAt() {
      let oldest = Infinity
      for (const hour of present.values()) oldest = Math.min(oldest, hour.oldestOpenAt)
      return oldest === Infinity ? undefined : oldest
    },
  }
}
