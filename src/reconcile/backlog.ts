// The bounded cache of failed records: a view of the platform, never the truth. @see design section 9
import type { RetryAnswer } from '../platform/client.ts'
import { laterReadingNotAfter, type Zone } from '../platform/local-time.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { createCensus, noCounts, type Census, type Counts } from './census.ts'
import { decide, type Decision, type Known } from './decide.ts'
import type { Listing } from './listing.ts'
import { freshMs, type Policy } from './policy.ts'
import { contains } from './window.ts'

/** A record that the backlog holds. */
export interface Entry extends Known {
  eventId: string
  /** Second of the event on the platform's wall clock. */
  localSecond: number
  /** Last attempt on the platform's wall clock as the platform shows it; null when it shows none. */
  lastAttemptLocal: number | null
  responseStatusCode: number | null
  /** Monotonic ms of the last thing that happened to it here; a listing asked for earlier knows less. */
  touchedAt: number
}

/** What a PATCH's record, or a later look at it, tells of the platform's wall clock. */
export interface TimeOffset {
  /** How far the attempt lies before (negative) or after the time in which it must have been made. */
  offsetMs: number
}

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
  /** Takes a listing in. `now` in epoch ms of the platform's clock; `counting` for the listings of a full sweep. */
  learn(listing: Listing, now: number, counting: boolean): Learned
  /** Notes what came of a PATCH. Times: when it was sent and answered (platform epoch ms), and the monotonic now. */
  note(entry: Entry, answer: RetryAnswer, at: { sentAt: number; answeredAt: number; monotonic: number }): Noted
  /** Drops what has left the window. */
  forgetBefore(localSecond: number): Entry[]
  get(id: string): Entry | undefined
  entries(): Iterable<Entry>
  size(): number
  /** Failed records by decision, held here or only counted. */
  summary(now: number, held: boolean): Summary
  census: Census
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

/** A last attempt this far ahead of the platform's clock is no time that was. */
const toleratedAheadMs = 60_000
const youngMs = 600_000

const open = (decision: Decision): boolean => decision !== 'parked' && decision !== 'excluded'

export function createBacklog(options: BacklogOptions): Backlog {
  const { policy, zone, maxRecords } = options
  const byId = new Map<string, Entry>()
  const census = createCensus()
  /** The same few words stand in every record: each is kept once. */
  const words = new Map<string, string>()

  function intern(word: string): string {
    const known = words.get(word)
    if (known !== undefined) return known
    if (words.size >= 20_000) words.clear()
    words.set(word, word)
    return word
  }

  function lastAt(record: WebhookRecord, eventAt: number, now: number): number {
    if (record.lastAttemptLocal === null) return eventAt
    const last = laterReadingNotAfter(zone, record.lastAttemptLocal, now + toleratedAheadMs)
    return last > now + toleratedAheadMs ? eventAt : last
  }

  function toEntry(record: WebhookRecord, now: number, askedAt: number): Entry {
    const eventAt = laterReadingNotAfter(zone, record.eventLocal, now)
    return {
      id: record.id,
      eventId: record.eventId,
      subscriptionId: intern(record.subscriptionId),
      eventType: intern(record.eventType),
      module: intern(record.module),
      eventAt,
      localSecond: Math.floor(record.eventLocal / 1000),
      attempts: record.attempts,
      lastAt: lastAt(record, eventAt, now),
      lastAttemptLocal: record.lastAttemptLocal,
      responseStatusCode: record.responseStatusCode,
      tries: 0,
      triedAt: 0,
      awaiting: false,
      touchedAt: askedAt,
    }
  }

  /** How far a changed last attempt lies outside the time between our PATCH and the look that saw it. */
  function offsetOf(entry: Entry, record: WebhookRecord, seenAt: number): TimeOffset | undefined {
    const last = record.lastAttemptLocal
    if (entry.tries === 0 || last === null || last === entry.lastAttemptLocal) return undefined
    const offsets = zone
      .toInstants(last)
      // Attempts are told to the second by some platforms.
      .map((instant) => (instant < entry.triedAt - 1000 ? instant - entry.triedAt : Math.max(0, instant - seenAt)))
    return { offsetMs: offsets.reduce((least, offset) => (Math.abs(offset) < Math.abs(least) ? offset : least)) }
  }

  function update(entry: Entry, record: WebhookRecord, now: number): void {
    entry.attempts = record.attempts
    entry.lastAttemptLocal = record.lastAttemptLocal
    entry.lastAt = lastAt(record, entry.eventAt, now)
    entry.responseStatusCode = record.responseStatusCode
  }

  /** Who gives way first when there is no room: the lower number. @see design section 9 */
  function rank(entry: Entry, now: number): number {
    const { decision } = decide(entry, policy, { now, held: false })
    if (decision === 'awaiting') return 4
    if (decision === 'parked' || decision === 'backing-off') return 0
    return now - entry.eventAt < freshMs ? 2 : 1
  }

  /** Those that give way to newcomers, first the lowest rank, in it the newest events. */
  function evict(count: number, below: number, now: number): Entry[] {
    if (below === 0) return []
    const candidates = [...byId.values()]
      .map((entry) => ({ entry, rank: rank(entry, now) }))
      .filter((candidate) => candidate.rank < below)
      .toSorted((a, b) => a.rank - b.rank || b.entry.eventAt - a.entry.eventAt)
      .slice(0, count)
      .map((candidate) => candidate.entry)
    for (const entry of candidates) drop(entry, now)
    return candidates
  }

  function leaveOut(entry: Entry, now: number): void {
    census.add(decide(entry, policy, { now, held: false }).decision, entry.localSecond, entry.eventAt)
  }

  function drop(entry: Entry, now: number): void {
    byId.delete(entry.id.toLowerCase())
    leaveOut(entry, now)
  }

  /** Lets newcomers in as far as there is room, or somebody gives way. */
  function admit(newcomers: Entry[], now: number, learned: Learned): void {
    const ranked = newcomers.map((entry) => ({ entry, rank: rank(entry, now) }))
    ranked.sort((a, b) => b.rank - a.rank || a.entry.eventAt - b.entry.eventAt)
    for (const [index, { entry, rank: own }] of ranked.entries()) {
      if (byId.size >= maxRecords) {
        const same = ranked.slice(index).filter((other) => other.rank === own).length
        learned.removed.push(...evict(same, own, now))
      }
      if (byId.size >= maxRecords) {
        for (const { entry: late } of ranked.slice(index)) leaveOut(late, now)
        return
      }
      byId.set(entry.id.toLowerCase(), entry)
      learned.changed.push(entry)
    }
  }

  function learn(listing: Listing, now: number, counting: boolean): Learned {
    const learned: Learned = { changed: [], removed: [], offsets: [], earlyAtLimit: 0 }
    const listed = new Set<string>()
    const newcomers: Entry[] = []
    for (const record of listing.records) {
      const key = record.id.toLowerCase()
      listed.add(key)
      const known = byId.get(key)
      if (known !== undefined) {
        if (known.touchedAt >= listing.askedAt) continue
        const offset = offsetOf(known, record, now)
        if (offset !== undefined) learned.offsets.push(offset)
        update(known, record, now)
        known.awaiting = false
        known.touchedAt = listing.askedAt
        learned.changed.push(known)
        continue
      }
      const entry = toEntry(record, now, listing.askedAt)
      const { decision } = decide(entry, policy, { now, held: false })
      if (decision === 'parked' && now - entry.eventAt < youngMs) learned.earlyAtLimit += 1
      if (decision !== 'excluded') newcomers.push(entry)
      else if (counting) leaveOut(entry, now)
    }
    if (listing.complete) {
      for (const [key, entry] of byId) {
        if (listed.has(key) || !contains(listing.span, entry.localSecond) || entry.touchedAt >= listing.askedAt)
          continue
        byId.delete(key)
        learned.removed.push(entry)
      }
    }
    admit(newcomers, now, learned)
    return learned
  }

  function note(
    entry: Entry,
    answer: RetryAnswer,
    at: { sentAt: number; answeredAt: number; monotonic: number },
  ): Noted {
    entry.touchedAt = at.monotonic
    if (!answer.sent) return { resolved: false, offset: undefined }
    entry.tries += 1
    entry.triedAt = at.sentAt
    if (answer.result !== 'accepted') return { resolved: false, offset: undefined }
    const { record } = answer
    const offset = record === undefined ? undefined : offsetOf(entry, record, at.answeredAt)
    if (record !== undefined) update(entry, record, at.answeredAt)
    entry.awaiting = record?.status !== 'failed'
    const resolved = record?.status === 'successful'
    if (resolved) byId.delete(entry.id.toLowerCase())
    return { resolved, offset }
  }

  return {
    learn,
    note,
    forgetBefore(localSecond) {
      const gone = [...byId.values()].filter((entry) => entry.localSecond < localSecond)
      for (const entry of gone) byId.delete(entry.id.toLowerCase())
      census.forgetBefore(localSecond)
      return gone
    },
    get: (id) => byId.get(id.toLowerCase()),
    entries: () => byId.values(),
    size: () => byId.size,
    summary(now, held) {
      const counts = noCounts()
      let oldest = census.oldestOpenAt() ?? Infinity
      for (const entry of byId.values()) {
        const { decision } = decide(entry, policy, { now, held })
        counts[decision] += 1
        if (open(decision)) oldest = Math.min(oldest, entry.eventAt)
      }
      const counted = census.counts()
      for (const decision of Object.keys(counts) as Decision[]) counts[decision] += counted[decision]
      return { counts, oldestOpenAt: oldest === Infinity ? undefined : oldest }
    },
    census,
  }
}
