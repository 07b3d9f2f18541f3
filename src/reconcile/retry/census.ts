// Counts of the failed records that the backlog does not hold, by ten minutes of event time (by seconds near the window's
// start): bounded, however many there are.
import { decisions, type Decision } from '../decide.ts'
import { censusSeconds, contains, type Span } from '../window.ts'

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
  /** Left out where nobody asks whose the oldest open event is. */
  subscriptionId?: string | undefined
}

/** A new count of a span, made beside the present one. One of `commit` and `abandon` ends it. */
export interface Count {
  /** Tells it of a part of its span that has been listed. */
  cover(span: Span): void
  /** Counts a record that was listed and not kept. */
  add(record: Counted): void
  /** Puts it in the place of what was counted before of the parts that were listed. */
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
  /**
   * Forgets what lies before a local second, as the window moves on; what is counted by ten minutes, when all of these
   * have left. Returns how many records that were neither excluded nor awaited left so: each is told once, also while
   * counts are under way.
   */
  forgetBefore(localSecond: number): number
  /** Counts of what lies before a local second. What is counted by ten minutes is in them when these begin before it. */
  expiringBefore(localSecond: number): Counts
  /** The oldest span, of an hour at most, with records that had no room. */
  oldestLeftOut(): Span | undefined
  /** True when some record had no room. */
  leftOut(): boolean
  counts(): Counts
  /**
   * Instant of the oldest event that is neither parked nor excluded, undefined when there is none. Of one subscription:
   * as far as is known, so never later than the true one, and also what counts under way have found.
   */
  oldestOpenAt(subscriptionId?: string): number | undefined
}

interface Bucket {
  /** The event seconds that it stands for; it begins where its key says. */
  span: Span
  counts: Counts
  oldestOpenAt: number
  /** The same by subscription, and of those that are not named. */
  oldestOf: Map<string, number>
  oldestOfOthers: number
}

/** By their first second. */
type Buckets = Map<number, Bucket>

/** What was counted, and where: what a count under way has not come to yet, the one before it knows better. */
interface Layer {
  covered: Span[]
  buckets: Buckets
}

/**
 * So long before they come to the window's start, records are counted by the second: each full count begins where the
 * window does by then, so that it shows no more what has left since the one before. When counts come more rarely than
 * this, the part of ten minutes that is lost so each time weighs little.
 */
const fineSeconds = 2 * 3600
const longestLeftOutSeconds = 3600
/** So many subscriptions are named in ten minutes. The oldest event of the others counts for every subscription. */
const maxNamed = 100
const everything: Span = { from: -Infinity, to: Infinity }
const floor = (localSecond: number): number => Math.floor(localSecond / censusSeconds) * censusSeconds

function hasLeftOut(bucket: Bucket): boolean {
  return decisions.some((decision) => decision !== 'excluded' && bucket.counts[decision] > 0)
}

/** Excluded records are not ours to lose; what becomes of awaited ones is told when it is known. */
function lapsing({ counts }: Bucket): number {
  return decisions
    .filter((decision) => decision !== 'excluded' && decision !== 'awaiting')
    .reduce((sum, decision) => sum + counts[decision], 0)
}

function noteOpen(bucket: Bucket, { eventAt, subscriptionId }: Counted): void {
  bucket.oldestOpenAt = Math.min(bucket.oldestOpenAt, eventAt)
  const { oldestOf } = bucket
  if (subscriptionId !== undefined && (oldestOf.size < maxNamed || oldestOf.has(subscriptionId))) {
    oldestOf.set(subscriptionId, Math.min(oldestOf.get(subscriptionId) ?? Infinity, eventAt))
  } else {
    bucket.oldestOfOthers = Math.min(bucket.oldestOfOthers, eventAt)
  }
}

function newBucket(span: Span): Bucket {
  return { span, counts: noCounts(), oldestOpenAt: Infinity, oldestOf: new Map(), oldestOfOthers: Infinity }
}

function addTo(buckets: Buckets, record: Counted, fineBefore: number): void {
  const { decision, localSecond } = record
  const isFine = localSecond < fineBefore
  const from = isFine ? localSecond : floor(localSecond)
  const to = isFine ? from + 1 : from + censusSeconds
  const bucket = buckets.get(from) ?? newBucket({ from, to })
  buckets.set(from, bucket)
  bucket.span.to = Math.max(bucket.span.to, to)
  bucket.counts[decision] += 1
  if (decision !== 'parked' && decision !== 'excluded') noteOpen(bucket, record)
}

function copyOf(bucket: Bucket): Bucket {
  return { ...bucket, span: { ...bucket.span }, counts: { ...bucket.counts }, oldestOf: new Map(bucket.oldestOf) }
}

function has(layer: Layer, localSecond: number): boolean {
  return layer.covered.some((span) => contains(span, localSecond))
}

function hasSome(layer: Layer, { from, to }: Span): boolean {
  return layer.covered.some((span) => span.from < to && from < span.to)
}

/** Where nothing could be listed, what was counted before stays the best that is known. */
function replace(old: Buckets, span: Span, fresh: Layer): void {
  const [first, end] = [floor(span.from), Math.ceil(span.to / censusSeconds) * censusSeconds]
  for (const [key, bucket] of old) if (key >= first && key < end && hasSome(fresh, bucket.span)) old.delete(key)
  for (const [key, bucket] of fresh.buckets) old.set(key, copyOf(bucket))
}

function add(sum: Counts, bucket: Bucket): void {
  for (const decision of decisions) sum[decision] += bucket.counts[decision]
}

/** Takes what ends before a second out of all layers. Where several have been, the last one is the one to be believed. */
function forgetIn(layers: readonly Layer[], localSecond: number): number {
  let lapsed = 0
  for (const [index, { buckets }] of layers.entries()) {
    const later = layers.slice(index + 1)
    for (const [key, bucket] of buckets) {
      if (bucket.span.to > localSecond) continue
      buckets.delete(key)
      if (!later.some((layer) => hasSome(layer, bucket.span))) lapsed += lapsing(bucket)
    }
  }
  return lapsed
}

export function createCensus(): Census {
  const present: Buckets = new Map()
  let open: Layer[] = []
  let fineBefore = -Infinity

  return {
    begin(span = everything) {
      const own: Layer = { covered: [], buckets: new Map() }
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
          addTo(own.buckets, record, fineBefore)
        },
        commit() {
          // A longer count that has been here already knows less of this part.
          const older = open.slice(0, open.indexOf(own)).filter((count) => has(count, span.from))
          for (const buckets of [present, ...older.map((count) => count.buckets)]) replace(buckets, span, own)
          end()
        },
        abandon: end,
      }
    },
    addEvicted(record) {
      addTo(present, record, fineBefore)
      for (const count of open) if (has(count, record.localSecond)) addTo(count.buckets, record, fineBefore)
    },
    forgetBefore(localSecond) {
      fineBefore = localSecond + fineSeconds
      return forgetIn([{ covered: [everything], buckets: present }, ...open], localSecond)
    },
    expiringBefore(localSecond) {
      const sum = noCounts()
      for (const bucket of present.values()) if (bucket.span.from < localSecond) add(sum, bucket)
      return sum
    },
    oldestLeftOut() {
      let first = Infinity
      for (const [key, bucket] of present) if (key < first && hasLeftOut(bucket)) first = key
      if (first === Infinity) return undefined
      const from = floor(first)
      return { from, to: from + longestLeftOutSeconds }
    },
    leftOut: () => [...present.values()].some(hasLeftOut),
    counts() {
      const sum = noCounts()
      for (const bucket of present.values()) add(sum, bucket)
      return sum
    },
    oldestOpenAt(subscriptionId) {
      const oldestIn = ({ oldestOf, oldestOfOthers, oldestOpenAt }: Bucket): number =>
        subscriptionId === undefined ? oldestOpenAt : Math.min(oldestOf.get(subscriptionId) ?? Infinity, oldestOfOthers)
      const counts = subscriptionId === undefined ? [] : open.map(({ buckets }) => buckets)
      let oldest = Infinity
      for (const buckets of [present, ...counts]) {
        for (const bucket of buckets.values()) oldest = Math.min(oldest, oldestIn(bucket))
      }
      return oldest === Infinity ? undefined : oldest
    },
  }
}
