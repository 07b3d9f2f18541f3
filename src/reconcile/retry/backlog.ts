// The bounded cache of failed records: a view of the platform, never the truth. @see design section 9
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import type { Gate } from './gates.ts'
import { createCensus, noCounts, type Census, type Count, type Counted, type Counts } from './census.ts'
import { decide, decisions } from '../decide.ts'
import { createFailedRecord, updateFailedRecord, type FailedRecord } from '../failed-record.ts'
import type { Listing } from '../sweep/list-slice.ts'
import type { Policy } from '../policy.ts'
import { firstToGo, inOrderOfEntry } from './room.ts'
import { createRecent } from './recent.ts'
import { contains, expiringBefore } from '../window.ts'

/** What learning from a listing changed. */
export interface Learned {
  /** Entries that are new or changed: they are to be decided again. */
  changed: FailedRecord[]
  /** Entries that are no longer failed, or had to give way. */
  removed: FailedRecord[]
  /** Records whose outcome is awaited, as the listing shows them: evidence for `Outcomes.see`. */
  awaiting: { record: FailedRecord; shown: WebhookRecord }[]
  /** Records at the attempt limit although their event is younger than ten minutes: somebody else retries, or attempts mean something else. */
  earlyAtLimit: number
}

export interface BacklogOptions {
  policy: Policy
  zone: TimeZone
  maxRecords: number
  /** True of a subscription whose circuit is open: its records give way to others. Default: none is. */
  isShut?: (subscriptionId: string) => boolean
}

export interface Backlog {
  /**
   * A listing is about to be asked for, `at` monotonic ms. Until the returned function is called it can't bring back what
   * is seen to recover meanwhile.
   */
  openListing(at: number): () => void
  /** Takes a listing in. `now` in epoch ms of the platform's clock; what is not kept goes into `count`. */
  learn(listing: Listing, now: number, count: Count): Learned
  /** Drops a record that has recovered at `at`, monotonic ms. */
  remove(entry: FailedRecord, at: number): void
  /**
   * Takes a record out of the plan that the platform called successful when it refused our PATCH. It is kept for our
   * tries, as long as there is room: a listing begun after that may show it as failed all the same.
   */
  setAside(entry: FailedRecord): void
  /** Drops what has left the window, but for what is awaited. Returns it: it has lapsed. */
  forgetBefore(localSecond: number): FailedRecord[]
  get(id: string): FailedRecord | undefined
  entries(): Iterable<FailedRecord>
  size(): number
  /** Failed records by decision, held here or only counted; `gateOf` names the gate that blocks a subscription. */
  summary(now: number, gateOf: (subscriptionId: string) => Gate | undefined): Summary
  census: Census
}

export interface Summary {
  counts: Counts
  /** Of those held here and selected: the ones that leave the window within `window.expiryWarning`; no awaited ones. */
  expiring: Counts
  /** Epoch ms of the oldest event that is neither parked nor excluded; undefined when there is none. */
  oldestOpenAt: number | undefined
}

const youngMs = 600_000
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
  const { policy, zone, maxRecords, isShut = () => false } = options
  const ranks = { policy, isShut }
  const byId = new Map<string, FailedRecord>()
  /** Records that were set aside, the first of them first. */
  const resolved = new Map<string, FailedRecord>()
  const recovered = createRecent()
  const census = createCensus()
  const intern = createInterner()
  const keyOf = (id: string): string => id.toLowerCase()
  const isKept = (entry: FailedRecord): boolean => byId.get(keyOf(entry.id)) === entry

  function drop(entry: FailedRecord): void {
    if (!isKept(entry)) return
    byId.delete(keyOf(entry.id))
  }

  function setAside(entry: FailedRecord): void {
    if (!isKept(entry)) return
    drop(entry)
    resolved.set(keyOf(entry.id), entry)
  }

  function keep(entry: FailedRecord): void {
    const [first] = resolved.keys()
    if (first !== undefined && byId.size + resolved.size >= maxRecords) resolved.delete(first)
    byId.set(keyOf(entry.id), entry)
  }

  function counted(entry: FailedRecord, now: number): Counted {
    const { decision } = decide(entry, policy, { now })
    const { eventAt, localSecond, subscriptionId } = entry
    // Only the order of events asks whose they are, and names take room.
    return { decision, localSecond, eventAt, ...(policy.orderPerEntity && { subscriptionId }) }
  }

  /** Lets newcomers in as far as there is room, or somebody gives way. Returns those that stay outside. */
  function admit(newcomers: readonly FailedRecord[], now: number, learned: Learned): FailedRecord[] {
    const ranked = inOrderOfEntry(newcomers, ranks, now)
    for (const [index, { entry, rank }] of ranked.entries()) {
      if (byId.size >= maxRecords) {
        const waiting = ranked.slice(index).filter((other) => other.rank === rank)
        const wanted = waiting.map((other) => other.entry)
        for (const loser of firstToGo(byId.values(), ranks, { wanted, below: rank, now })) {
          drop(loser)
          census.addEvicted(counted(loser, now))
          learned.removed.push(loser)
        }
      }
      if (byId.size >= maxRecords) return ranked.slice(index).map((late) => late.entry)
      keep(entry)
      learned.changed.push(entry)
    }
    return []
  }

  /** A record that is known: what happened to it since the listing was asked for is newer. */
  function meetAgain(
    known: FailedRecord,
    record: WebhookRecord,
    { listing, now, learned }: { listing: Listing; now: number; learned: Learned },
  ): void {
    if (known.touchedAt >= listing.askedAt) return
    known.touchedAt = listing.askedAt
    if (known.awaiting !== undefined) {
      learned.awaiting.push({ record: known, shown: record })
      return
    }
    updateFailedRecord(known, record, { zone, now })
    learned.changed.push(known)
  }

  /** A record that was called successful is shown as failed: true when the listing was begun after that. */
  function takeBack(
    aside: FailedRecord,
    record: WebhookRecord,
    { listing, now }: { listing: Listing; now: number },
  ): boolean {
    if (aside.touchedAt >= listing.askedAt) return false
    resolved.delete(keyOf(aside.id))
    updateFailedRecord(aside, record, { zone, now })
    aside.touchedAt = listing.askedAt
    return true
  }

  /** Updates what is known, and returns what is not. Excluded records are only counted. */
  function meet(
    listing: Listing,
    now: number,
    learned: Learned,
  ): { newcomers: FailedRecord[]; excluded: FailedRecord[] } {
    const newcomers: FailedRecord[] = []
    const excluded: FailedRecord[] = []
    for (const record of listing.records) {
      const known = byId.get(keyOf(record.id))
      if (known !== undefined) {
        meetAgain(known, record, { listing, now, learned })
        continue
      }
      if (recovered.has(keyOf(record.id), listing.askedAt)) continue
      const aside = resolved.get(keyOf(record.id))
      if (aside !== undefined) {
        if (takeBack(aside, record, { listing, now })) newcomers.push(aside)
        continue
      }
      const entry = createFailedRecord(record, { zone, now, askedAt: listing.askedAt })
      if (policy.orderPerEntity) entry.entityId = record.entityId ?? ''
      entry.subscriptionId = intern(entry.subscriptionId)
      entry.eventType = intern(entry.eventType)
      entry.module = intern(entry.module)
      const { decision } = decide(entry, policy, { now })
      if (decision === 'parked' && now - entry.eventAt < youngMs) learned.earlyAtLimit += 1
      if (decision === 'excluded') excluded.push(entry)
      else newcomers.push(entry)
    }
    return { newcomers, excluded }
  }

  /** What a complete listing does not show is no longer failed; but only a look shows what became of a retry. */
  function dropAbsent(listing: Listing, learned: Learned): void {
    if (!listing.complete) return
    const listed = new Set(listing.records.map(({ id }) => keyOf(id)))
    for (const [key, { localSecond, touchedAt }] of resolved) {
      if (touchedAt < listing.askedAt && contains(listing.span, localSecond)) resolved.delete(key)
    }
    for (const [key, entry] of byId) {
      const { awaiting, localSecond, touchedAt } = entry
      if (awaiting !== undefined || listed.has(key) || touchedAt >= listing.askedAt) continue
      if (!contains(listing.span, localSecond)) continue
      drop(entry)
      learned.removed.push(entry)
    }
  }

  function learn(listing: Listing, now: number, count: Count): Learned {
    const learned: Learned = { changed: [], removed: [], awaiting: [], earlyAtLimit: 0 }
    count.cover(listing.span)
    const { newcomers, excluded } = meet(listing, now, learned)
    dropAbsent(listing, learned)
    const outside = admit(newcomers, now, learned)
    for (const entry of [...outside, ...excluded]) count.add(counted(entry, now))
    learned.changed = learned.changed.filter(isKept)
    return learned
  }

  return {
    openListing: (at) => recovered.open(at),
    learn,
    remove(entry, at) {
      drop(entry)
      recovered.add(keyOf(entry.id), at)
    },
    setAside,
    forgetBefore(localSecond) {
      const gone = [...byId.values()].filter((entry) => entry.localSecond < localSecond && entry.awaiting === undefined)
      for (const entry of gone) drop(entry)
      for (const [key, entry] of resolved) if (entry.localSecond < localSecond) resolved.delete(key)
      census.forgetBefore(localSecond)
      return gone
    },
    get: (id) => byId.get(keyOf(id)),
    entries: () => byId.values(),
    size: () => byId.size,
    summary(now, gateOf) {
      const counts = noCounts()
      const expiring = noCounts()
      const edge = expiringBefore(now, policy.window, zone)
      let oldest = census.oldestOpenAt() ?? Infinity
      for (const entry of byId.values()) {
        const { decision } = decide(entry, policy, { now, gate: gateOf(entry.subscriptionId) })
        counts[decision] += 1
        if (decision !== 'awaiting' && entry.localSecond < edge) expiring[decision] += 1
        if (decision !== 'parked' && decision !== 'excluded') oldest = Math.min(oldest, entry.eventAt)
      }
      const outside = census.counts()
      for (const decision of decisions) counts[decision] += outside[decision]
      return { counts, expiring, oldestOpenAt: oldest === Infinity ? undefined : oldest }
    },
    census,
  }
}
