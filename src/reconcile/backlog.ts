// The bounded cache of failed records: a view of the platform, never the truth. @see design section 9
import type { RetryAnswer } from '../platform/client.ts'
import type { Zone } from '../platform/local-time.ts'
import { createCensus, noCounts, type Census, type Count, type Counted, type Counts } from './census.ts'
import { decide, decisions } from './decide.ts'
import { createEntry, offsetOf, updateEntry, type Entry, type TimeOffset } from './entry.ts'
import type { Listing } from './listing.ts'
import type { Policy } from './policy.ts'
import { firstToGo, inOrderOfEntry } from './room.ts'
import { contains } from './window.ts'

/** What learning from a listing changed. */
export interface Learned {
  /** Entries that are new or changed: they are to be decided again. */
  changed: Entry[]
  /** Entries that are no longer failed, or had to give way. */
  removed: Entry[]
  offsets: TimeOffset[]
  /** Records at the attempt limit although their event is younger than ten minutes: somebody else retries, or attempts mean something else. */
  earlyAtLimit: number
}

export interface BacklogOptions {
  policy: Policy
  zone: Zone
  maxRecords: number
}

export interface Backlog {
  /** Takes a listing in. `now` in epoch ms of the platform's clock; what is not kept goes into `count`. */
  learn(listing: Listing, now: number, count: Count): Learned
  /** Notes what came of a PATCH. Times: when it was sent and answered (platform epoch ms), and the monotonic now. */
  note(entry: Entry, answer: RetryAnswer, at: NotedAt): Noted
  /** Drops what has left the window. */
  forgetBefore(localSecond: number): Entry[]
  get(id: string): Entry | undefined
  entries(): Iterable<Entry>
  size(): number
  /** Failed records by decision, held here or only counted. */
  summary(now: number, held: boolean): Summary
  census: Census
}

export interface NotedAt {
  sentAt: number
  answeredAt: number
  monotonic: number
}

export interface Noted {
  /** True when the answer itself showed the record as successful: it has left the backlog. */
  resolved: boolean
  offset: TimeOffset | undefined
}

export interface Summary {
  counts: Counts
  /** Epoch ms of the oldest event that is neither parked nor excluded; undefined when there is none. */
  oldestOpenAt: number | undefined
}

const youngMs = 600_000
const longestAwaitMs = 900_000
const maxWords = 20_000

/** The same few words stand in every record: each is kept once. */
function createInterner(): (word: string) => string {
  const words = new Map<string, string>()
  return (word) => {
    const known = words.get(word)
    if (known !== undefined) return known
    if (words.size >= maxWords) words.clear()
    words.set(word, word)
    return word
  }
}

export function createBacklog(options: BacklogOptions): Backlog {
  const { policy, zone, maxRecords } = options
  const byId = new Map<string, Entry>()
  const census = createCensus()
  const intern = createInterner()
  const keyOf = (id: string): string => id.toLowerCase()
  const isHeld = (entry: Entry): boolean => byId.get(keyOf(entry.id)) === entry

  function counted(entry: Entry, now: number): Counted {
    const { decision } = decide(entry, policy, { now, held: false })
    return { decision, localSecond: entry.localSecond, eventAt: entry.eventAt }
  }

  /** Lets newcomers in as far as there is room, or somebody gives way. Returns those that stay outside. */
  function admit(newcomers: readonly Entry[], now: number, learned: Learned): Entry[] {
    const ranked = inOrderOfEntry(newcomers, policy, now)
    for (const [index, { entry, rank }] of ranked.entries()) {
      if (byId.size >= maxRecords) {
        const count = ranked.slice(index).filter((other) => other.rank === rank).length
        for (const loser of firstToGo(byId.values(), policy, { count, below: rank, now })) {
          byId.delete(keyOf(loser.id))
          census.addEvicted(counted(loser, now))
          learned.removed.push(loser)
        }
      }
      if (byId.size >= maxRecords) return ranked.slice(index).map((late) => late.entry)
      byId.set(keyOf(entry.id), entry)
      learned.changed.push(entry)
    }
    return []
  }

  /** Updates what is known, and returns what is not. Excluded records are only counted. */
  function meet(listing: Listing, now: number, learned: Learned): { newcomers: Entry[]; excluded: Entry[] } {
    const newcomers: Entry[] = []
    const excluded: Entry[] = []
    for (const record of listing.records) {
      const known = byId.get(keyOf(record.id))
      if (known !== undefined) {
        if (known.touchedAt >= listing.askedAt) continue
        if (known.awaiting) {
          const offset = offsetOf(known, record, { zone, triedAt: known.triedAt, seenAt: now })
          if (offset !== undefined) learned.offsets.push(offset)
        }
        updateEntry(known, record, { zone, now })
        known.awaiting = false
        known.touchedAt = listing.askedAt
        learned.changed.push(known)
        continue
      }
      const entry = createEntry(record, { zone, now, askedAt: listing.askedAt })
      entry.subscriptionId = intern(entry.subscriptionId)
      entry.eventType = intern(entry.eventType)
      entry.module = intern(entry.module)
      const { decision } = decide(entry, policy, { now, held: false })
      if (decision === 'parked' && now - entry.eventAt < youngMs) learned.earlyAtLimit += 1
      if (decision === 'excluded') excluded.push(entry)
      else newcomers.push(entry)
    }
    return { newcomers, excluded }
  }

  /**
   * What a complete listing does not show is no longer failed. Where none is ever complete, what was accepted long ago
   * is given up all the same, or the backlog would fill with it: if it is still failed, it comes again.
   */
  function dropAbsent(listing: Listing, learned: Learned): void {
    const listed = new Set(listing.records.map(({ id }) => keyOf(id)))
    for (const [key, entry] of byId) {
      const { awaiting, localSecond, touchedAt } = entry
      if (listed.has(key) || !contains(listing.span, localSecond) || touchedAt >= listing.askedAt) continue
      const isLongAgo = awaiting && listing.askedAt - touchedAt >= longestAwaitMs
      if (!listing.complete && !isLongAgo) continue
      byId.delete(key)
      learned.removed.push(entry)
    }
  }

  function learn(listing: Listing, now: number, count: Count): Learned {
    const learned: Learned = { changed: [], removed: [], offsets: [], earlyAtLimit: 0 }
    count.cover(listing.span)
    const { newcomers, excluded } = meet(listing, now, learned)
    dropAbsent(listing, learned)
    const outside = admit(newcomers, now, learned)
    for (const entry of [...outside, ...excluded]) count.add(counted(entry, now))
    learned.changed = learned.changed.filter(isHeld)
    return learned
  }

  function note(entry: Entry, answer: RetryAnswer, at: NotedAt): Noted {
    entry.touchedAt = at.monotonic
    if (!answer.sent) return { resolved: false, offset: undefined }
    entry.tries += 1
    entry.triedAt = at.sentAt
    if (answer.result !== 'accepted') return { resolved: false, offset: undefined }
    const { record } = answer
    entry.awaiting = record?.status !== 'failed'
    if (record === undefined) return { resolved: false, offset: undefined }
    // While it is processing, the last attempt may still be somebody else's.
    const isFinal = record.status === 'failed' || record.status === 'successful'
    const when = { zone, triedAt: at.sentAt, seenAt: at.answeredAt }
    const offset = isFinal ? offsetOf(entry, record, when) : undefined
    updateEntry(entry, record, { zone, now: at.answeredAt })
    const resolved = record.status === 'successful'
    if (resolved && isHeld(entry)) byId.delete(keyOf(entry.id))
    return { resolved, offset }
  }

  return {
    learn,
    note,
    forgetBefore(localSecond) {
      const gone = [...byId.values()].filter((entry) => entry.localSecond < localSecond)
      for (const entry of gone) byId.delete(keyOf(entry.id))
      census.forgetBefore(localSecond)
      return gone
    },
    get: (id) => byId.get(keyOf(id)),
    entries: () => byId.values(),
    size: () => byId.size,
    summary(now, held) {
      const counts = noCounts()
      let oldest = census.oldestOpenAt() ?? Infinity
      for (const entry of byId.values()) {
        const { decision } = decide(entry, policy, { now, held })
        counts[decision] += 1
        if (decision !== 'parked' && decision !== 'excluded') oldest = Math.min(oldest, entry.eventAt)
      }
      const outside = census.counts()
      for (const decision of decisions) counts[decision] += outside[decision]
      return { counts, oldestOpenAt: oldest === Infinity ? undefined : oldest }
    },
    census,
  }
}
