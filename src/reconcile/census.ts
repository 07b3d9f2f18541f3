// Counts of the failed records that the backlog does not hold, by ten minutes of event time: bounded, however many there are.
import { decisions, type Decision } from './decide.ts'
import { censusSeconds, contains, type Span } from './window.ts'

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

/** A new count of a span, made beside the present one. One of `commit` and `abandon` ends it. */
export interface Count {
  /** Tells it of a part of its span that has been listed. */
  cover(span: Span): void
  /** Counts a record that was listed and not kept. */
  add(record: Counted): void
  /** Puts it in the place of what was counted of its span before. */
  commit(): void
  /** The listing failed: what was counted before stays the best that is known. */
  abandon(): void
}

/** Records that were seen and not kept: excluded ones, and those for which there was no room. */
export interface Census {
  /** Starts a new count. Its span begins at a whole multiple of `censusSeconds`; without one it is a count of everything. */
  begin(span?: Span): Count
  /** Counts a record that was kept until it had to give way. What a new count has not come to, it will list itself. */
  addEvicted(record: Counted): void
  /** Forgets what lies before a local second, as the window moves on. */
  forgetBefore(localSecond: number): void
  /** The oldest span, of an hour at most, with records that had no room. */
  oldestLeftOut(): Span | undefined
  /** True when some record had no room. */
  leftOut(): boolean
  counts(): Counts
  /** Instant of the oldest event that is neither parked nor excluded, undefined when there is none. */
  oldestOpenAt(): number | undefined
}

interface Bucket {
  counts: Counts
  oldestOpenAt: number
}

type Buckets = Map<number, Bucket>

interface OpenCount {
  covered: Span[]
  buckets: Buckets
}

const longestLeftOutSeconds = 3600
const everything: Span = { from: -Infinity, to: Infinity }
const keyOf = (localSecond: number): number => Math.floor(localSecond / censusSeconds)

function hasLeftOut(bucket: Bucket): boolean {
  return decisions.some((decision) => decision !== 'excluded' && bucket.counts[decision] > 0)
}

function addTo(buckets: Buckets, { decision, localSecond, eventAt }: Counted): void {
  const key = keyOf(localSecond)
  const bucket = buckets.get(key) ?? { counts: noCounts(), oldestOpenAt: Infinity }
  buckets.set(key, bucket)
  bucket.counts[decision] += 1
  if (decision !== 'parked' && decision !== 'excluded') bucket.oldestOpenAt = Math.min(bucket.oldestOpenAt, eventAt)
}

function replace(old: Buckets, span: Span, fresh: Buckets): void {
  const [first, end] = [keyOf(span.from), Math.ceil(span.to / censusSeconds)]
  for (const key of old.keys()) if (key >= first && key < end) old.delete(key)
  for (const [key, bucket] of fresh) old.set(key, { ...bucket, counts: { ...bucket.counts } })
}

export function createCensus(): Census {
  const present: Buckets = new Map()
  let open: OpenCount[] = []

  function has(count: OpenCount, localSecond: number): boolean {
    return count.covered.some((span) => contains(span, localSecond))
  }

  return {
    begin(span = everything) {
      const own: OpenCount = { covered: [], buckets: new Map() }
      open.push(own)
      const end = (): void => {
        open = open.filter((other) => other !== own)
      }
      return {
        cover(part) {
          const last = own.covered.at(-1)
          if (last?.to === part.from) last.to = part.to
          else own.covered.push({ ...part })
        },
        add(record) {
          addTo(own.buckets, record)
        },
        commit() {
          // A longer count that has been here already knows less of this part.
          const older = open.slice(0, open.indexOf(own)).filter((count) => has(count, span.from))
          for (const buckets of [present, ...older.map((count) => count.buckets)]) replace(buckets, span, own.buckets)
          end()
        },
        abandon: end,
      }
    },
    addEvicted(record) {
      addTo(present, record)
      for (const count of open) if (has(count, record.localSecond)) addTo(count.buckets, record)
    },
    forgetBefore(localSecond) {
      for (const key of present.keys()) if (key < keyOf(localSecond)) present.delete(key)
    },
    oldestLeftOut() {
      let first = Infinity
      for (const [key, bucket] of present) if (key < first && hasLeftOut(bucket)) first = key
      if (first === Infinity) return undefined
      const from = first * censusSeconds
      return { from, to: from + longestLeftOutSeconds }
    },
    leftOut: () => [...present.values()].some(hasLeftOut),
    counts() {
      const sum = noCounts()
      for (const bucket of present.values()) for (const decision of decisions) sum[decision] += bucket.counts[decision]
      return sum
    },
    oldestOpenAt() {
      let oldest = Infinity
      for (const bucket of present.values()) oldest = Math.min(oldest, bucket.oldestOpenAt)
      return oldest === Infinity ? undefined : oldest
    },
  }
}
