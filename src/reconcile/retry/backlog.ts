// The bounded cache of failed records: a view of the platform, never the truth. @see docs/architecture.md "Backlog and decisions"
import { laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import type { Steps } from '../../runtime/steps.ts'
import type { Gate } from './gates.ts'
import { attemptsOf, decide, decisions, noCounts, type Counts } from '../decide.ts'
import { createFailedRecord, eventSecondOf, updateFailedRecord, type FailedRecord } from '../failed-record.ts'
import type { Listing } from '../sweep/list-slice.ts'
import type { Policy } from '../policy.ts'
import { contains, expiringBefore } from '../window.ts'
import { createAdmission, type Admission } from './eviction.ts'
import { createLeftOut, type LeftOut, type LeftOutRow, type Recount } from './left-out.ts'

/** Changes of the backlog by a listing. */
export interface Learned {
  /** New and changed entries: they need a new decision. */
  changed: FailedRecord[]
  /** Number of new ones among them. */
  entered: number
  /** Entries that are no longer failed, or were evicted. */
  removed: FailedRecord[]
  /** Awaited records as the listing shows them: evidence for `Outcomes.see`. */
  awaiting: { record: FailedRecord; shown: WebhookRecord }[]
  /** Records of the listing that were left out. */
  leftOut: LeftOutRow[]
  /** Records at the attempt limit whose event is younger than ten minutes: another client retries, or attempts are counted differently. */
  earlyAtLimit: number
}

export interface BacklogOptions {
  policy: Policy
  zone: TimeZone
  maxRecords: number
}

export interface Backlog {
  /**
   * A slice is about to be listed. Until the returned function is called, rows of records that have changed since are
   * ignored, as they may be stale. One slice is listed at a time.
   */
  beginListing(): () => void
  /** Marks a record as changed: by its PATCH, the answer, or the outcome. */
  touch(entry: FailedRecord): void
  /**
   * Merges a listing, in steps of a few hundred rows. One listing is merged at a time; retries and outcomes of other
   * records may come between two steps. `now` in epoch ms of the platform's clock. In a full sweep, rows that are not kept
   * go into `recount`.
   */
  learn(listing: Listing, now: number, recount?: Recount): Steps<Learned>
  /** Drops a record that has recovered. */
  remove(entry: FailedRecord): void
  /**
   * Sets a record aside that the platform called successful when it refused the PATCH. The record and its tries are kept
   * while there is room: a later listing may still show it as failed.
   */
  setAside(entry: FailedRecord): void
  /** Drops records that have left the window, except awaited ones. Returns the number of lapsed ones, left-out records included. */
  forgetBefore(localSecond: number): number
  get(id: string): FailedRecord | undefined
  entries(): Iterable<FailedRecord>
  size(): number
  /**
   * Failed records by decision, held here or left out by the last full sweep; `gateOf` names the gate that blocks a
   * subscription.
   */
  summary(now: number, gateOf: (subscriptionId: string) => Gate | undefined): Summary
  leftOut: LeftOut
}

export interface Summary {
  counts: Counts
  /** Of these and selected: the ones that leave the window within `window.expiryWarning`; no awaited ones. */
  expiring: Counts
  /** Epoch ms of the oldest event that is neither parked nor excluded; undefined when there is none. */
  oldestOpenAt: number | undefined
  /** Epoch ms of the last end of a backoff, among the records in memory; undefined when none backs off. */
  lastDueAt: number | undefined
}

/** A record of a listing that the backlog does not hold, and how it counts. */
interface Newcomer {
  entry: FailedRecord
  row: LeftOutRow
}

const youngMs = 600_000
const maxWords = 20_000
/** Newcomers of one listing can be evicted by later ones of the same only after this many. */
const admittedAtOnce = 5000
/** Rows of one step, which takes a few milliseconds. */
const rowsPerStep = 500

/** Event types and ids repeat in many records: each text is kept once. */
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
  const byId = new Map<string, FailedRecord>()
  /** Records that were set aside, the first of them first. */
  const resolved = new Map<string, FailedRecord>()
  const leftOut = createLeftOut()
  /** Records that changed while a slice is listed; undefined while none is. */
  let changed: Set<string> | undefined
  /** Gives newcomers their places; undefined while none enter. */
  let admission: Admission | undefined
  const intern = createInterner()
  const keyOf = (id: string): string => id.toLowerCase()
  const isKept = (entry: FailedRecord): boolean => byId.get(keyOf(entry.id)) === entry

  function drop(entry: FailedRecord): void {
    if (!isKept(entry)) return
    byId.delete(keyOf(entry.id))
    admission?.left(entry)
  }

  function touch(entry: FailedRecord): void {
    changed?.add(keyOf(entry.id))
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

  function rowOf(entry: FailedRecord, now: number): LeftOutRow {
    const { decision } = decide(entry, policy, { now })
    return { decision, eventSecond: eventSecondOf(entry), subscriptionId: entry.subscriptionId }
  }

  function enter({ entry, row }: Newcomer, now: number, places: Admission, learned: Learned): LeftOutRow | undefined {
    const place = places.placeFor(entry)
    if (place === undefined) {
      learned.leftOut.push(row)
      return undefined
    }
    let loser: LeftOutRow | undefined
    if (place.evicted !== undefined) {
      drop(place.evicted)
      loser = rowOf(place.evicted, now)
      leftOut.evicted(loser)
      learned.removed.push(place.evicted)
    }
    keep(entry)
    leftOut.entered(row)
    learned.changed.push(entry)
    learned.entered += 1
    return loser
  }

  /** Adds newcomers while there is room or another record can be evicted; the rest is left out. Returns the evicted records. */
  function* admit(newcomers: readonly Newcomer[], now: number, learned: Learned): Steps<LeftOutRow[]> {
    const evicted: LeftOutRow[] = []
    for (let from = 0; from < newcomers.length; from += admittedAtOnce) {
      const some = newcomers.slice(from, from + admittedAtOnce)
      const places = createAdmission(byId.values(), { policy, maxRecords, now, atMost: byId.size + some.length })
      admission = places
      for (const [index, newcomer] of some.entries()) {
        if (index > 0 && index % rowsPerStep === 0) yield
        const loser = enter(newcomer, now, places, learned)
        if (loser !== undefined) evicted.push(loser)
      }
      if (from + admittedAtOnce < newcomers.length) yield
    }
    admission = undefined
    return evicted
  }

  function meetAgain(known: FailedRecord, record: WebhookRecord, now: number, learned: Learned): void {
    if (known.awaiting !== undefined) {
      learned.awaiting.push({ record: known, shown: record })
      return
    }
    updateFailedRecord(known, record, { zone, now })
    learned.changed.push(known)
  }

  /** A later listing shows a record as failed that the platform called successful. */
  function takeBack(aside: FailedRecord, record: WebhookRecord, now: number): FailedRecord {
    resolved.delete(keyOf(aside.id))
    updateFailedRecord(aside, record, { zone, now })
    return aside
  }

  function newcomerOf(record: WebhookRecord, now: number): FailedRecord {
    const entry = createFailedRecord(record, { zone, now })
    entry.subscriptionId = intern(entry.subscriptionId)
    entry.eventType = intern(entry.eventType)
    entry.module = intern(entry.module)
    return entry
  }

  /** Updates known records, and returns the new ones. Excluded records are only counted. */
  function* meet(listing: Listing, now: number, learned: Learned): Steps<Newcomer[]> {
    const newcomers: Newcomer[] = []
    for (const [index, record] of listing.records.entries()) {
      if (index > 0 && index % rowsPerStep === 0) yield
      const key = keyOf(record.id)
      if (changed?.has(key) === true) continue
      const known = byId.get(key)
      if (known !== undefined) {
        meetAgain(known, record, now, learned)
        continue
      }
      const aside = resolved.get(key)
      const entry = aside === undefined ? newcomerOf(record, now) : takeBack(aside, record, now)
      const row = rowOf(entry, now)
      if (row.decision === 'parked' && now - entry.eventAt < youngMs) learned.earlyAtLimit += 1
      if (row.decision === 'excluded') learned.leftOut.push(row)
      else newcomers.push({ entry, row })
    }
    return newcomers
  }

  /** A record that a complete listing does not show is no longer failed. The outcome of a retry needs a check, though. */
  function dropAbsent(listing: Listing, learned: Learned): void {
    if (!listing.complete) return
    const listed = new Set(listing.records.map(({ id }) => keyOf(id)))
    const isAbsent = (key: string, { localSecond }: FailedRecord): boolean =>
      !listed.has(key) && changed?.has(key) !== true && contains(listing.span, localSecond)
    for (const [key, entry] of resolved) if (isAbsent(key, entry)) resolved.delete(key)
    for (const [key, entry] of byId) {
      if (entry.awaiting !== undefined || !isAbsent(key, entry)) continue
      drop(entry)
      learned.removed.push(entry)
    }
  }

  function* learn(listing: Listing, now: number, recount?: Recount): Steps<Learned> {
    const learned: Learned = { changed: [], entered: 0, removed: [], awaiting: [], leftOut: [], earlyAtLimit: 0 }
    const newcomers = yield* meet(listing, now, learned)
    if (listing.records.length > rowsPerStep) yield
    dropAbsent(listing, learned)
    if (listing.records.length > rowsPerStep) yield
    // In the order of retries: else records that fail repeatedly and are due again keep out those that were never retried.
    newcomers.sort((a, b) => attemptsOf(a.entry) - attemptsOf(b.entry) || a.row.eventSecond - b.row.eventSecond)
    if (newcomers.length > rowsPerStep) yield
    const evicted = yield* admit(newcomers, now, learned)
    if (newcomers.length > rowsPerStep) yield
    const counted = evicted.filter(({ eventSecond }) => contains(listing.span, eventSecond))
    recount?.add(listing.span, [...learned.leftOut, ...counted])
    leftOut.listed(listing.complete ? listing.span : { from: 0, to: 0 }, [...learned.leftOut, ...evicted])
    learned.changed = learned.changed.filter(isKept)
    return learned
  }

  return {
    beginListing() {
      const own = new Set<string>()
      changed = own
      return () => {
        if (changed === own) changed = undefined
      }
    },
    touch,
    learn,
    remove: drop,
    setAside,
    forgetBefore(localSecond) {
      const gone = [...byId.values()].filter((entry) => entry.localSecond < localSecond && entry.awaiting === undefined)
      for (const entry of gone) drop(entry)
      for (const [key, entry] of resolved) if (entry.localSecond < localSecond) resolved.delete(key)
      return gone.length + leftOut.forgetBefore(localSecond)
    },
    get: (id) => byId.get(keyOf(id)),
    entries: () => byId.values(),
    size: () => byId.size,
    summary(now, gateOf) {
      const counts = noCounts()
      const expiring = noCounts()
      const edge = expiringBefore(now, policy.window, zone)
      let oldest = Infinity
      let lastDueAt: number | undefined
      const gates = new Map<string, Gate | undefined>()
      for (const entry of byId.values()) {
        const { subscriptionId } = entry
        if (!gates.has(subscriptionId)) gates.set(subscriptionId, gateOf(subscriptionId))
        const { decision, dueAt } = decide(entry, policy, { now, gate: gates.get(subscriptionId) })
        counts[decision] += 1
        if (decision !== 'awaiting' && entry.localSecond < edge) expiring[decision] += 1
        if (decision !== 'parked' && decision !== 'excluded') oldest = Math.min(oldest, entry.eventAt)
        if (decision === 'backing-off') lastDueAt = Math.max(lastDueAt ?? -Infinity, dueAt)
      }
      const outside = {
        counts: leftOut.counts((subscriptionId) => gateOf(subscriptionId) !== undefined),
        expiring: leftOut.expiring(),
      }
      for (const decision of decisions) {
        counts[decision] += outside.counts[decision]
        expiring[decision] += outside.expiring[decision]
      }
      const oldestOutside = leftOut.oldestSecond(() => true)
      if (oldestOutside !== undefined) oldest = Math.min(oldest, laterReadingNotAfter(zone, oldestOutside * 1000, now))
      return { counts, expiring, oldestOpenAt: oldest === Infinity ? undefined : oldest, lastDueAt }
    },
    leftOut,
  }
}
