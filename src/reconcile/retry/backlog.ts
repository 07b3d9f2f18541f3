// The bounded cache of failed records: a view of the platform, never the truth. @see docs/architecture.md "Backlog and decisions"
import { laterReadingNotAfter, type TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import type { Steps } from '../../runtime/steps.ts'
import { decide, decisions, isRefusedAgain, noCounts, type Counts, type Situation } from '../decide.ts'
import { createFailedRecord, eventSecondOf, updateFailedRecord, type FailedRecord } from '../failed-record.ts'
import type { Listing } from '../sweep/list-slice.ts'
import type { Policy } from '../policy.ts'
import { contains, expiringBefore } from '../window.ts'
import { createLeftOut, type LeftOut, type LeftOutRow } from './left-out.ts'
import { withoutPlace } from './shares.ts'

/** Changes of the backlog by a listing. */
export interface Learned {
  /** Number of records that got a place. */
  entered: number
  /** Awaited records as the listing shows them: evidence for `Outcomes.see`. */
  awaiting: { record: FailedRecord; shown: WebhookRecord }[]
  /** Number of records that were never tried, and are not failed any more. */
  absent: number
  /** Records of the listing that are left out. */
  leftOut: LeftOutRow[]
  /** Records at the attempt limit whose event is younger than ten minutes: another client retries, or attempts are counted differently. */
  earlyAtLimit: number
}

export interface BacklogOptions {
  policy: Policy
  zone: TimeZone
  maxRecords: number
  /** True while the circuit of a subscription is closed. */
  isClosed: (subscriptionId: string) => boolean
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
   * records may come between two steps. `now` in epoch ms of the platform's clock.
   */
  learn(listing: Listing, now: number): Steps<Learned>
  /** Drops a record that has recovered. */
  remove(entry: FailedRecord): void
  /**
   * Drops a record that the platform called successful when it refused the PATCH. Its tries are remembered: a later listing
   * may still show it as failed.
   */
  release(entry: FailedRecord): void
  /** Drops records that have left the window, except awaited ones. Returns the number of expired ones, left-out records included. */
  forgetBefore(localSecond: number): number
  get(id: string): FailedRecord | undefined
  /** When the daemon last sent a PATCH of a record, in epoch ms of the platform's clock; undefined when it doesn't remember one. */
  triedAt(id: string): number | undefined
  entries(): Iterable<FailedRecord>
  size(): number
  /** Failed records by decision, held here or left out by the last full sweep, in the situation of their subscription. */
  summary(now: number, situationOf: (subscriptionId: string) => Omit<Situation, 'now'>): Summary
  leftOut: LeftOut
}

export interface Summary {
  counts: Counts
  /** Of these and selected: the ones that leave the window within `window.expiryWarning`; no awaited ones. */
  expiring: Counts
  /** Epoch ms of the oldest event that is neither exhausted nor excluded; undefined when there is none. */
  oldestOpenAt: number | undefined
  /** Epoch ms of the last end of a backoff, among the records in memory; undefined when none backs off. */
  lastDueAt: number | undefined
  /** Open ones of which nobody knows when they arrive: those of circuits that are not closed, and those that are refused again and again. */
  endless: { circuit: number; refused: number }
}

/** A record of a listing that the backlog does not hold, and how it counts. */
interface Newcomer {
  entry: FailedRecord
  row: LeftOutRow
}

/** What the daemon did about a record. */
type Tries = Pick<FailedRecord, 'tries' | 'refusals' | 'triedAt'>

const youngMs = 600_000
const maxWords = 20_000
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
  const { policy, zone, maxRecords, isClosed } = options
  const byId = new Map<string, FailedRecord>()
  /** Of records without a place, the one that lost it first before the others: at most `maxRecords`, until a restart. */
  const tried = new Map<string, Tries>()
  const leftOut = createLeftOut()
  /** Records that changed while a slice is listed; undefined while none is. */
  let changed: Set<string> | undefined
  const intern = createInterner()
  const keyOf = (id: string): string => id.toLowerCase()
  const isKept = (entry: FailedRecord): boolean => byId.get(keyOf(entry.id)) === entry

  function remove(entry: FailedRecord): void {
    if (isKept(entry)) byId.delete(keyOf(entry.id))
  }

  function release(entry: FailedRecord): void {
    if (!isKept(entry)) return
    const key = keyOf(entry.id)
    const { refusals, triedAt, tries } = entry
    byId.delete(key)
    if (triedAt === 0) return
    const [first] = tried.keys()
    if (first !== undefined && tried.size >= maxRecords) tried.delete(first)
    tried.set(key, { refusals, triedAt, tries })
  }

  function rowOf(entry: FailedRecord, now: number): LeftOutRow {
    const { decision } = decide(entry, policy, { now })
    return { decision, eventSecond: eventSecondOf(entry), subscriptionId: entry.subscriptionId }
  }

  /** When there are more records than places, some give way. Returns the newcomers that find no place. */
  function* makeRoom(
    newcomers: readonly Newcomer[],
    { span }: Listing,
    now: number,
    learned: Learned,
  ): Steps<Set<FailedRecord>> {
    const refused = new Set<FailedRecord>()
    if (byId.size + newcomers.length <= maxRecords) return refused
    const all = [...byId.values(), ...newcomers.map(({ entry }) => entry)]
    for (const entry of yield* withoutPlace(all, { policy, maxRecords, now, isClosed })) {
      if (!isKept(entry)) {
        refused.add(entry)
        continue
      }
      // It was retried since.
      if (entry.awaiting !== undefined) continue
      release(entry)
      const row = rowOf(entry, now)
      leftOut.gaveWay(row)
      if (contains(span, row.eventSecond)) learned.leftOut.push(row)
    }
    return refused
  }

  /** Adds newcomers; the rest is left out. */
  function* admit(newcomers: readonly Newcomer[], listing: Listing, now: number, learned: Learned): Steps<void> {
    const refused = yield* makeRoom(newcomers, listing, now, learned)
    for (const [index, { entry, row }] of newcomers.entries()) {
      if (index > 0 && index % rowsPerStep === 0) yield
      if (refused.has(entry) || byId.size >= maxRecords) {
        learned.leftOut.push(row)
        continue
      }
      byId.set(keyOf(entry.id), entry)
      tried.delete(keyOf(entry.id))
      leftOut.entered(row)
      learned.entered += 1
    }
  }

  function meetAgain(known: FailedRecord, record: WebhookRecord, now: number, learned: Learned): void {
    if (known.awaiting !== undefined) learned.awaiting.push({ record: known, shown: record })
    else updateFailedRecord(known, record, { zone, now })
  }

  function newcomerOf(record: WebhookRecord, now: number): FailedRecord {
    const entry: FailedRecord = Object.assign(createFailedRecord(record, { zone, now }), tried.get(keyOf(record.id)))
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
      const entry = newcomerOf(record, now)
      const row = rowOf(entry, now)
      if (row.decision === 'exhausted' && now - entry.eventAt < youngMs) learned.earlyAtLimit += 1
      if (row.decision === 'excluded') learned.leftOut.push(row)
      else newcomers.push({ entry, row })
    }
    return newcomers
  }

  /** A record that a complete listing does not show is no longer failed. The outcome of a retry needs a check, though. */
  function dropAbsent({ complete, records, span }: Listing, learned: Learned): void {
    if (!complete) return
    const listed = new Set(records.map(({ id }) => keyOf(id)))
    for (const [key, entry] of byId) {
      const mayStay = entry.awaiting !== undefined || listed.has(key) || changed?.has(key) === true
      if (mayStay || !contains(span, entry.localSecond)) continue
      release(entry)
      if (entry.triedAt === 0) learned.absent += 1
    }
  }

  function* learn(listing: Listing, now: number): Steps<Learned> {
    const learned: Learned = { entered: 0, awaiting: [], absent: 0, leftOut: [], earlyAtLimit: 0 }
    const isLarge = listing.records.length > rowsPerStep
    const newcomers = yield* meet(listing, now, learned)
    if (isLarge) yield
    dropAbsent(listing, learned)
    if (isLarge) yield
    yield* admit(newcomers, listing, now, learned)
    if (isLarge) yield
    leftOut.listed(listing.span, learned.leftOut)
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
    touch(entry) {
      changed?.add(keyOf(entry.id))
    },
    learn,
    remove,
    release,
    forgetBefore(localSecond) {
      const gone = [...byId.values()].filter((entry) => entry.localSecond < localSecond && entry.awaiting === undefined)
      for (const entry of gone) remove(entry)
      return gone.length + leftOut.forgetBefore(localSecond)
    },
    get: (id) => byId.get(keyOf(id)),
    triedAt: (id) => (byId.get(keyOf(id)) ?? tried.get(keyOf(id)))?.triedAt,
    entries: () => byId.values(),
    size: () => byId.size,
    summary(now, situationOf) {
      const counts = noCounts()
      const expiring = noCounts()
      const edge = expiringBefore(now, policy.window, zone)
      let oldest = Infinity
      let lastDueAt: number | undefined
      const endless = { circuit: 0, refused: 0 }
      const situations = new Map<string, Situation>()
      for (const entry of byId.values()) {
        const { subscriptionId } = entry
        const situation = situations.getOrInsertComputed(subscriptionId, () => ({
          now,
          ...situationOf(subscriptionId),
        }))
        const { decision, dueAt } = decide(entry, policy, situation)
        counts[decision] += 1
        if (decision !== 'awaiting' && entry.localSecond < edge) expiring[decision] += 1
        if (decision !== 'exhausted' && decision !== 'excluded') {
          oldest = Math.min(oldest, entry.eventAt)
          if (situation.failing !== undefined) endless.circuit += 1
          else if (decision === 'backing-off' && isRefusedAgain(entry, situation)) endless.refused += 1
        }
        if (decision === 'backing-off') lastDueAt = Math.max(lastDueAt ?? -Infinity, dueAt)
      }
      const outside = {
        counts: leftOut.counts((subscriptionId) => situationOf(subscriptionId).gate !== undefined),
        expiring: leftOut.expiring(),
      }
      endless.circuit += leftOut.counts((id) => situationOf(id).failing !== undefined).blocked
      for (const decision of decisions) {
        counts[decision] += outside.counts[decision]
        expiring[decision] += outside.expiring[decision]
      }
      const oldestOutside = leftOut.oldestSecond(() => true)
      if (oldestOutside !== undefined) oldest = Math.min(oldest, laterReadingNotAfter(zone, oldestOutside * 1000, now))
      return { counts, expiring, oldestOpenAt: oldest === Infinity ? undefined : oldest, lastDueAt, endless }
    },
    leftOut,
  }
}
