// The backlog: a cache of the platform's failed records, never the truth. Holds all of them, up to a limit. @see docs/architecture.md "Backlog and decisions"
import type { Clock } from '../../runtime/clock.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import { lookedAtPerStep, type Steps } from '../../runtime/steps.ts'
import { decide, exclusionOf, type SituationOf } from '../decide.ts'
import { FailedRecord, wantedByNone } from '../failed-record.ts'
import { keyOf } from '../packed-id.ts'
import type { Listing } from '../sweep/list-slice.ts'
import type { Policy } from '../policy.ts'
import type { Excluded } from '../reasons.ts'
import { contains } from '../window.ts'
import { stateOf } from './circuit-breaker.ts'
import { createDroppedRecords, type Relapse, type Success } from './dropped-records.ts'
import { createEvictions, type Evictions } from './evictions.ts'
import { overflowOf, type OverflowOptions } from './overflow.ts'
import { createRecordIndex, type RecordIndex } from './record-index.ts'
import { summaryOf, type LookAt, type Summary } from './summary.ts'

interface LearnedListing extends Pick<Listing, 'askedAt' | 'records' | 'span' | 'unreadable' | 'verdict'> {
  /** True for records named by an operator: they are held even if the configuration excludes them. */
  holdsExcluded?: boolean
  /** The records that it lacks, if already known. */
  absent?: readonly FailedRecord[]
  /** Called before records are evicted: an operator's job requests the listed ones, which are then kept like due ones. */
  beforeEviction?: () => void
}

/** Changes of the backlog by a listing. */
export interface Learned {
  /** New records, and records whose last attempt has changed. */
  changed: FailedRecord[]
  /** Awaited records as listed: evidence for `Outcomes.see`. */
  awaiting: { record: FailedRecord; shown: WebhookRecord }[]
  /** Records that had failed again, but are no longer failed. */
  turned: FailedRecord[]
  relapsed: Relapse[]
  /** Number of records that left the list of failed ones, though the daemon did not retry them. */
  leftWithoutRetry: number
  /** Listed records that are excluded, and so not held. */
  excluded: Excluded
  /** Number of expired records back in the backlog: an operator's job found them, or the platform's clock was set back. */
  returned: number
  /** Number of records evicted beyond `maxRecords`. */
  evicted: number
}

export interface BacklogOptions {
  policy: Policy
  zone: TimeZone
  maxRecords: number
  subscriptions: OverflowOptions['subscriptions']
  clock: Pick<Clock, 'monotonic'>
}

export interface Backlog {
  /**
   * Merges a listing, in steps of a few hundred rows. Retries, outcomes, and a listing of an operator's job
   * may come between two steps. Ignores stale rows: those requested before the record changed, and those without a newer
   * attempt, because lists may lag behind. `now` in epoch ms of the platform's clock.
   */
  learn(listing: LearnedListing, now: number): Steps<Learned>
  /** Drops a record that is successful as of the attempt `done`, or that was held only for an operator. */
  release(entry: FailedRecord, done?: Success): void
  /**
   * Drops records that left the window, and excluded ones, which an operator's job found; except awaited ones, and those that an
   * operator wants. Returns the number of expired ones: without those that a job found when they had left the window; and of
   * those that were back.
   */
  forgetBefore(localSecond: number): { records: number; again: number }
  /** The records that are dropped with this listing, because it lacks them. */
  absentFrom(listing: LearnedListing): Steps<FailedRecord[]>
  get(id: string): FailedRecord | undefined
  /** By the key of one that has left the backlog, without a look at its id. */
  ofKey(key: string): FailedRecord | undefined
  /** True if this very record is in the backlog. */
  holds(entry: FailedRecord): boolean
  /** When the daemon last sent a PATCH of a record, in epoch ms of the platform's clock; undefined if not remembered. */
  triedAt(id: string): number | undefined
  entries(): Iterable<FailedRecord>
  /** The records of each subscription; none is empty. */
  bySubscription(): ReturnType<RecordIndex['bySubscription']>
  size(): number
  readonly evictions: Evictions
  /** True while more than half of the places hold a record that can be sent now. */
  isBusy(now: number): boolean
  /** Records by decision, in the current situation of their subscription; `look` gets each of them. */
  summary(situationOf: SituationOf, look?: LookAt): Steps<Summary>
}

/** Number of remembered ids of subscriptions and event types. */
const maxTexts = 100_000
/** Number of remembered expired records: one that is back no longer counts as expired. */
const maxExpired = 50_000
/** Rows of one step, and records that one passes, which takes a few milliseconds. */
const [rowsPerStep, passedPerStep] = [500, 50_000]

/** A row without an id may be any record. */
const showsAll = ({ unreadable, verdict }: LearnedListing): boolean =>
  verdict === 'whole' && unreadable.every(({ id }) => id !== undefined)

/** Whether a listing that was requested at `askedAt` may show that it is no longer failed. */
const isSettled = ({ awaiting, changedAt }: FailedRecord, askedAt: number): boolean =>
  awaiting === undefined && changedAt <= askedAt

/** One copy of equal texts. */
function createTexts(): (text: string) => string {
  const texts = new Map<string, string>()
  return (text) => {
    if (texts.size >= maxTexts) texts.clear()
    return texts.getOrInsert(text, text)
  }
}

export function createBacklog(options: BacklogOptions): Backlog {
  const { clock, maxRecords, policy, subscriptions, zone } = options
  const recordIndex = createRecordIndex(maxRecords)
  const dropped = createDroppedRecords()
  /** Keys of expired records, until a restart; and whether each is back. */
  const expired = new Map<string, boolean>()
  /** The window began here when records were last dropped; of those that a job found before it, none has expired. */
  let windowFrom = -Infinity
  const neverInWindow = new WeakSet<FailedRecord>()
  /** Held ones that are excluded: an operator's job found them. */
  const excluded = new Set<FailedRecord>()
  const evictions = createEvictions()
  const textOf = createTexts()
  const holds = ({ place }: FailedRecord): boolean => place >= 0

  function drop(entry: FailedRecord, done?: Success): void {
    if (!holds(entry)) return
    recordIndex.remove(entry)
    excluded.delete(entry)
    entry.note(wantedByNone)
    dropped.remember(entry, done)
  }

  function meetAgain(known: FailedRecord, record: WebhookRecord, now: number, learned: Learned): void {
    if (known.awaiting !== undefined) learned.awaiting.push({ record: known, shown: record })
    else if (known.show(record, { zone, now })) learned.changed.push(known)
  }

  /** Excluded records are only counted. */
  function admit(
    record: WebhookRecord,
    { askedAt, holdsExcluded = false }: LearnedListing,
    now: number,
    learned: Learned,
  ): void {
    const entry = new FailedRecord(record, { zone, now, textOf })
    if (dropped.isStale(entry, askedAt)) return
    const before = dropped.of(entry)
    if (before !== undefined) entry.note(before.ours)
    if (before?.isProven === true) entry.prove()
    const exclusion = exclusionOf(entry, policy)
    if (exclusion !== undefined && holdsExcluded) excluded.add(entry)
    else if (exclusion !== undefined) {
      learned.excluded[exclusion] = (learned.excluded[exclusion] ?? 0) + 1
      return
    }
    recordIndex.add(entry)
    evictions.admitted(entry.localSecond)
    dropped.forget(entry)
    if (before?.relapse !== undefined) learned.relapsed.push(before.relapse)
    learned.changed.push(entry)
    if (expired.get(entry.key) === false) learned.returned += 1
    if (expired.has(entry.key)) expired.set(entry.key, true)
    else if (entry.localSecond < windowFrom) neverInWindow.add(entry)
  }

  /** Updates known records, and adds new ones. */
  function* meet(listing: LearnedListing, now: number, learned: Learned): Steps<void> {
    const { askedAt, records, span } = listing
    const isOfSingle = span.from === span.to
    for (const [index, record] of records.entries()) {
      if (index > 0 && index % rowsPerStep === 0) yield
      const key = keyOf(record.id)
      const known = recordIndex.get(key)
      if (known === undefined) admit(record, listing, now, learned)
      else if (known.changedAt <= askedAt) meetAgain(known, record, now, learned)
      // A listing of single records may come beside one of their span, which was asked for earlier.
      const held = isOfSingle ? recordIndex.get(key) : undefined
      held?.note({ changedAt: Math.max(held.changedAt, askedAt) })
    }
  }

  function* absentFrom(listing: LearnedListing): Steps<FailedRecord[]> {
    const { askedAt, records, span, unreadable } = listing
    if (!showsAll(listing)) return []
    const listed = new Set<string>()
    const absent: FailedRecord[] = []
    let looked = 0
    for (const { id } of [...records, ...unreadable]) {
      looked += 1
      if (looked % lookedAtPerStep === 0) yield
      if (id !== undefined) listed.add(keyOf(id))
    }
    for (const others of recordIndex.bySubscription().values()) {
      for (const entry of others) {
        looked += 1
        if (looked % passedPerStep === 0) yield
        if (contains(span, entry.localSecond) && isSettled(entry, askedAt) && !listed.has(entry.key)) absent.push(entry)
      }
    }
    return absent
  }

  /** A record absent from a complete listing is no longer failed. The outcome of a retry still needs a check. */
  function* dropAbsent(listing: LearnedListing, learned: Learned): Steps<void> {
    const { askedAt, absent = yield* absentFrom(listing) } = listing
    for (const [index, entry] of absent.entries()) {
      if (index > 0 && index % rowsPerStep === 0) yield
      if (!holds(entry) || !isSettled(entry, askedAt)) continue
      drop(entry)
      if (entry.failedAgainAt > -Infinity) learned.turned.push(entry)
      if (entry.triedAt === 0) learned.leftWithoutRetry += 1
    }
  }

  /** Retries and outcomes may come between two steps: a record that is then in flight stays, and others are evicted. */
  function* makeRoom(now: number): Steps<number> {
    let evicted = 0
    while (recordIndex.size() > maxRecords) {
      const monotonic = clock.monotonic()
      const overflow = yield* overflowOf(recordIndex, { maxRecords, now, monotonic, policy, subscriptions })
      for (const [index, entry] of overflow.entries()) {
        if (index > 0 && index % rowsPerStep === 0) yield
        if (recordIndex.size() <= maxRecords) break
        if (entry.awaiting !== undefined || !holds(entry)) continue
        const backoffsEndedMs = subscriptions.backoffsEndedMs(entry.subscriptionId, monotonic)
        const { decision } = decide(entry, policy, { now, backoffsEndedMs })
        const isOpen = entry.localSecond >= windowFrom && decision !== 'exhausted'
        evictions.evicted(entry, { isOpen, isDue: decision === 'due' })
        drop(entry)
        evicted += 1
      }
    }
    return evicted
  }

  function* learn(listing: LearnedListing, now: number): Steps<Learned> {
    const learned = {
      changed: [],
      awaiting: [],
      turned: [],
      relapsed: [],
      leftWithoutRetry: 0,
      excluded: {},
      returned: 0,
      evicted: 0,
    } satisfies Learned
    const isLarge = listing.records.length > rowsPerStep
    yield* meet(listing, now, learned)
    if (isLarge) yield
    yield* dropAbsent(listing, learned)
    evictions.listed(listing.span)
    listing.beforeEviction?.()
    if (isLarge) yield
    return { ...learned, evicted: yield* makeRoom(now) }
  }

  return {
    learn,
    release: drop,
    forgetBefore(localSecond) {
      windowFrom = localSecond
      const gone = { records: 0, again: 0 }
      const isFree = ({ awaiting, isWanted }: FailedRecord): boolean => awaiting === undefined && !isWanted
      for (const entry of [...excluded].filter(isFree)) drop(entry)
      for (const records of recordIndex.bySubscription().values()) {
        for (const entry of records) {
          if (entry.localSecond >= localSecond || !isFree(entry)) continue
          drop(entry)
          if (neverInWindow.has(entry)) continue
          gone.records += 1
          if (expired.has(entry.key)) gone.again += 1
          else if (expired.size >= maxExpired) continue
          expired.set(entry.key, false)
        }
      }
      return gone
    },
    absentFrom,
    get: (id) => recordIndex.get(keyOf(id)),
    ofKey: recordIndex.get,
    holds,
    triedAt(id) {
      const key = keyOf(id)
      return recordIndex.get(key)?.triedAt ?? dropped.triedAt(key)
    },
    entries: () => recordIndex,
    bySubscription: recordIndex.bySubscription,
    size: recordIndex.size,
    evictions,
    isBusy(now) {
      const monotonic = clock.monotonic()
      let ready = 0
      for (const [subscriptionId, records] of recordIndex.bySubscription()) {
        const isClosed = stateOf(subscriptions.circuitOf(subscriptionId), monotonic) === 'closed'
        const situation = { now, backoffsEndedMs: subscriptions.backoffsEndedMs(subscriptionId, monotonic) }
        for (const entry of records)
          if (entry.awaiting !== undefined || (isClosed && decide(entry, policy, situation).decision === 'due'))
            ready += 1
        if (ready > maxRecords / 2) return true
      }
      return false
    },
    summary: (situationOf, look) =>
      summaryOf(recordIndex.bySubscription(), { policy, windowFrom, zone }, situationOf, look),
  }
}
