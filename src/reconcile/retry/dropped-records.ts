// Remembers tried records that have left the backlog, until a restart: to ignore their stale rows, and to know one that has failed again. @see docs/architecture.md "Backlog and decisions"
import type { FailedRecord, Ours } from '../failed-record.ts'
import { keyOfPacked } from '../packed-id.ts'
import { maxLagMs } from '../policy.ts'

/** The last attempt of a record as shown. */
type ShownAttempt = Pick<FailedRecord, 'attempts' | 'lastAt'>

/** That of one seen as successful, whose number is Infinity if unknown; and the number of its retry in its subscription. */
export type Success = ShownAttempt & { sent: number }

/**
 * A record that was successful, and has failed by a later attempt, or a new record of its event has, which its retry made; with the
 * number of that retry in its subscription, and the seed of the retried record.
 */
export interface Relapse extends Pick<FailedRecord, 'jitterSeed'> {
  record: FailedRecord
  sent: number
}

/** A tried record that was dropped; with its last attempt as shown until then. */
interface Dropped extends Pick<FailedRecord, 'jitterSeed'> {
  ours: Ours
  shown: ShownAttempt
  done: Success | undefined
  /** A new record of its event has failed: its success no longer counts. */
  isTakenBack: boolean
}

/** What is remembered of a record that is listed as failed again. */
interface Remembered {
  ours: Ours
  /** True if it shows an attempt after the daemon's retries. */
  isProven: boolean
  relapse: Relapse | undefined
}

export interface DroppedRecords {
  /** Does nothing for one that was never tried. `done`: it is successful as of this attempt. */
  remember(entry: FailedRecord, done?: Success): void
  /** True for a row of a record that is no longer failed. */
  isStale(entry: FailedRecord, askedAt: number): boolean
  of(entry: FailedRecord): Remembered | undefined
  /** It is in the backlog again. */
  forget(entry: FailedRecord): void
  /** When the daemon last sent a PATCH of the record with this key, in epoch ms of the platform's clock; undefined if not remembered. */
  triedAt(key: string): number | undefined
}

/** Number of remembered keys, two of each: those of a lag of two minutes at 400 retries a second. */
const maxKeys = 100_000
/** Oldest ones beyond it that are forgotten together: to find the oldest, a Map passes the places of thousands that it held before. */
const forgottenAtOnce = 2000

/** True if a record has an attempt after the shown one. */
const isLater = ({ attempts, lastAt }: ShownAttempt, shown: ShownAttempt): boolean =>
  attempts > shown.attempts || lastAt > shown.lastAt

/** That of all records of its event in its subscription. */
const eventKeyOf = ({ eventKey, localSecond, subscriptionId }: FailedRecord): string =>
  `${keyOfPacked(eventKey)} ${localSecond} ${subscriptionId}`

export function createDroppedRecords(): DroppedRecords {
  /** In the order in which they were dropped; successful ones by their event, too. */
  const dropped = new Map<string, Dropped>()

  /** A platform may make a new record of the event by a retry, and show the retried one as successful. */
  function madeAnew(entry: FailedRecord): Dropped | undefined {
    const known = dropped.get(eventKeyOf(entry))
    if (known?.done === undefined || known.isTakenBack) return undefined
    // One without an attempt waits for its first.
    return entry.lastAttemptLocal === null || entry.lastAt >= known.done.lastAt ? known : undefined
  }

  return {
    remember(entry, done) {
      if (entry.triedAt === 0) return
      const { attempts, jitterSeed, lastAt, ours } = entry
      const known = { ours, shown: { attempts, lastAt }, done, jitterSeed, isTakenBack: false }
      dropped.set(entry.key, known)
      if (done !== undefined && entry.eventKey !== '') dropped.set(eventKeyOf(entry), known)
      if (dropped.size < maxKeys + forgottenAtOnce) return
      for (const key of dropped.keys().take(forgottenAtOnce)) dropped.delete(key)
    },
    isStale({ attempts, key, lastAt }, askedAt) {
      const { done, ours } = dropped.get(key) ?? {}
      if (done === undefined || ours === undefined) return false
      // Fewer attempts are old at any time: that of a clock that was put back since may lie ahead.
      const isFewer = attempts < done.attempts && done.attempts < Infinity
      const isOld = isFewer || (attempts <= done.attempts && lastAt <= done.lastAt)
      return askedAt < ours.changedAt || (isOld && askedAt < ours.changedAt + maxLagMs)
    },
    of(entry) {
      const own = dropped.get(entry.key)
      const known = own ?? madeAnew(entry)
      if (known === undefined) return undefined
      const { done, isTakenBack, jitterSeed, ours, shown } = known
      const isNew = own === undefined
      const isRelapse = done !== undefined && !isTakenBack && (isNew || isLater(entry, done))
      const relapse = isRelapse ? { record: entry, sent: done.sent, jitterSeed } : undefined
      // While it was processing, it was not listed as failed.
      const isProven = isNew ? entry.lastAttemptLocal !== null : isLater(entry, shown)
      return { ours, isProven, relapse }
    },
    forget(entry) {
      dropped.delete(entry.key)
      const retried = madeAnew(entry)
      if (retried !== undefined) retried.isTakenBack = true
    },
    triedAt: (key) => dropped.get(key)?.ours.triedAt,
  }
}
