// Recent responses of receivers: how many deliveries of a subscription were accepted, and which failures are over. No I/O.
import { mayBeOfRecord, refusesRecord } from '../../platform/record.ts'
import type { OutcomeEvent, SeenAt } from '../confirm/outcomes.ts'
import type { FailedBefore } from '../decide.ts'
import type { ReceiverKind } from './subscriptions.ts'

/** The last finished deliveries of a subscription, at most 20. */
export interface Lately {
  subscriptionId: string
  taken: number
  failed: number
  /** Records that failed in one of these, since it last took all. */
  failedRecords: number
  /** True if it accepted its last delivery, and failed none for a minute: earlier failures may be over. */
  takesAgain: boolean
  /** Consecutive failed deliveries, and how long the last ones have failed, in ms. */
  failedInARow: number
  failingForMs: number
  /**
   * True while it fails some: from three records on, until it accepts nine in a row, or three after nine failures in a row. Fewer
   * are no chance if it took none, as others with as few, and these failed nine in all.
   */
  isFailing: boolean
  /** True if it accepted none for so long, and of so many, that it is no chance, and not of a few records alone. */
  takesNothing: boolean
  /** The last failed response; null: none. */
  responseStatusCode: number | null
}

/** Times are monotonic ms. */
export interface ReceiverResponses {
  note(event: OutcomeEvent, at: SeenAt, before: FailedBefore): void
  /** When its receiver last took one that had failed alike, at least half as often; -Infinity: never. */
  takenAt(subscriptionId: string, failure: FailedBefore): number
  /** Since when it accepts all, too many for chance; -Infinity if it does not. */
  overSince(subscriptionId: string): number
  /** The state shown by its last deliveries; undefined if they show none. */
  receiverOf(subscriptionId: string, now: number): ReceiverKind | undefined
  /** @see Lately.takesAgain */
  takesAgain(subscriptionId: string, now: number): boolean
  /** Most failures first, at most 20. */
  lately(now: number): Lately[]
}

/** Number of outcomes that count. */
const maxOutcomes = 20
/** As many consecutive failures as open a new circuit; or fewer, without earlier ones, by responses that no single record causes; and for this long, ms. */
const [deadStreak, silentStreak, deadMs, sureMs] = [9, 3, 120_000, 300_000]
/** A receiver that took a delivery within this time takes them, ms. */
const latelyMs = 600_000
/** A share with fewer failed records may be theirs; and so many accepted ones are no chance, or so many after a row of failures. */
const [minFailed, minTaken, minTakenAfterAll] = [3, 9, 3]
/** A receiver that failed nothing for so long takes its deliveries again, ms. */
const againMs = 60_000
/** Number of remembered keys, most recent first. */
const maxLines = 20_000
/** Number of subscriptions in `lately`. */
export const maxLately = 20

type ReceiverResult = 'taken' | 'failed'

/**
 * Outcomes in the order in which they were first seen, and of sending where one check saw several. In the order in which they
 * become known, failures come in runs: a success is known at once, a failure only after its doubt.
 */
interface Recent {
  /** Newest first. */
  outcomes: readonly ({ kind: ReceiverResult; responseStatusCode: number | null } & SeenAt)[]
  /** Since when it accepted all, the last time that it did for long enough. */
  overSince: number
  /** The failures since one was last taken; and those before, which go on if what was taken since did not last. */
  streak: Streak
  lastStreak: Streak
}

interface Streak {
  /** When the first one was seen. */
  since: number
  /** Records that failed first in it, at most `deadStreak`, and the number of their failures: others may fail for themselves. */
  own: readonly number[]
  ownFailures: number
  /** Their event types, at most two. */
  ownTypes: readonly string[]
  /** Whether any response refused its record, or may be of one record alone. */
  isRefusing: boolean
  isDoubtful: boolean
}

const noStreak: Streak = {
  ...{ since: Infinity, own: [], ownFailures: 0, ownTypes: [] },
  ...{ isRefusing: false, isDoubtful: false },
}

const untried: Recent = { outcomes: [], overSince: -Infinity, streak: noStreak, lastStreak: noStreak }

/** Failures before it recovered say nothing about what it fails now. */
const outcomesSinceOver = ({ outcomes, overSince }: Recent): Recent['outcomes'] =>
  outcomes.filter(({ seenAt }) => seenAt >= overSince)

const lastFailed = ({ outcomes }: Recent): Recent['outcomes'][number] | undefined =>
  outcomes.find(({ kind }) => kind === 'failed')

const countOf = ({ outcomes }: Pick<Recent, 'outcomes'>, kind: ReceiverResult): number =>
  outcomes.filter((one) => one.kind === kind).length

function inARow({ outcomes }: Pick<Recent, 'outcomes'>, kind: ReceiverResult): number {
  const end = outcomes.findIndex((one) => one.kind !== kind)
  return end === -1 ? outcomes.length : end
}

function goOn(
  streak: Streak,
  { eventType, isRepeated, responseStatusCode }: OutcomeEvent,
  { record, seenAt }: Pick<Recent['outcomes'][number], 'record' | 'seenAt'>,
): Streak {
  const isKnown = isRepeated || streak.own.length >= deadStreak || streak.own.includes(record)
  // By concat: V8 makes a spread array with room for 17.
  const own = isKnown ? streak.own : streak.own.concat(record)
  const isOwn = own.includes(record)
  const isNewType = isOwn && streak.ownTypes.length < 2 && !streak.ownTypes.includes(eventType)
  return {
    since: Math.min(streak.since, seenAt),
    own,
    ownFailures: streak.ownFailures + Number(isOwn),
    ownTypes: isNewType ? streak.ownTypes.concat(eventType) : streak.ownTypes,
    isRefusing: streak.isRefusing || refusesRecord(responseStatusCode),
    isDoubtful: streak.isDoubtful || mayBeOfRecord(responseStatusCode),
  }
}

const isAfter = (a: SeenAt, b: SeenAt): boolean => a.seenAt > b.seenAt || (a.seenAt === b.seenAt && a.sentAt > b.sentAt)

/** `isDoubted`: while a failure is in doubt, what was taken may be no row. */
function follow(before: Recent, event: OutcomeEvent, at: SeenAt, isDoubted: boolean): Recent {
  const { isRelapse, outcome, responseStatusCode } = event
  const { record, seenAt } = at
  const kind = outcome === 'recovered' ? 'taken' : 'failed'
  // Earlier failures say nothing about now.
  if (seenAt < before.overSince) return before
  const own = { ...at, kind, responseStatusCode, seenAt: Math.floor(seenAt) } as const
  // A success that did not last was none.
  const others = before.outcomes.filter((other) => !isRelapse || other.kind === 'failed' || other.record !== record)
  const newer = others.filter((other) => isAfter(other, own))
  const outcomes = [...newer, own, ...others.slice(newer.length)].slice(0, maxOutcomes)
  const line = { ...before, outcomes }
  if (kind === 'failed' && newer.some((other) => other.kind === 'taken')) return line
  if (kind === 'failed') {
    const isResumed = line.streak === noStreak && others[0]?.kind === 'failed'
    return { ...line, streak: goOn(isResumed ? line.lastStreak : line.streak, event, own) }
  }
  // Known already of a row without a failure since.
  const isNew = !isDoubted && isOver(line) && line.overSince <= (lastFailed(line)?.seenAt ?? -Infinity)
  return {
    ...line,
    overSince: isNew ? (outcomes[inARow(line, 'taken') - 1]?.seenAt ?? seenAt) : line.overSince,
    streak: noStreak,
    lastStreak: line.streak === noStreak ? line.lastStreak : line.streak,
  }
}

/** True after `deadStreak` failures in a row, or `silentStreak` without earlier ones, for `deadMs` until `until`. Its circuit may still be closed. */
function takesNothing(line: Recent, until: number): boolean {
  const { isDoubtful, isRefusing, own, ownFailures, ownTypes, since } = line.streak
  const failed = inARow(line, 'failed')
  // A few may be chance where others have failed lately.
  const earlier = outcomesSinceOver(line).slice(failed)
  const isFirst = !earlier.some((one) => one.kind === 'failed' && one.seenAt > since - latelyMs)
  const enough = isFirst ? silentStreak : deadStreak
  // One that rejects a single event type takes the others, at the first attempt: the daemon sees none of these.
  const isSoMany = isRefusing
    ? own.length >= deadStreak && ownTypes.length > 1
    : isDoubtful
      ? ownFailures >= deadStreak
      : failed >= enough
  return isSoMany && until - since >= deadMs
}

/** True if the last ones were accepted, too many for chance: all earlier failures are over. */
function isOver(line: Recent): boolean {
  const taken = inARow(line, 'taken')
  const failed = countOf({ outcomes: outcomesSinceOver(line) }, 'failed')
  if (failed === 0 && line.overSince > -Infinity) return true
  // A receiver that fails some has such rows by chance, between others.
  const isAfterAll = failed >= deadStreak && inARow({ outcomes: line.outcomes.slice(taken) }, 'failed') === failed
  return taken >= (isAfterAll ? minTakenAfterAll : minTaken)
}

function failedRecords(line: Recent): number {
  const failed = outcomesSinceOver(line).filter(({ kind }) => kind === 'failed')
  return new Set(failed.map(({ record }) => record)).size
}

const failedWithin = (line: Recent, ms: number, now: number): boolean =>
  now - (lastFailed(line)?.seenAt ?? -Infinity) < ms

const takesAgain = (line: Recent, now: number): boolean =>
  inARow(line, 'taken') > 0 && !failedWithin(line, againMs, now)

/** Moves the key to the end, and drops the first one beyond the limit. */
function keep<Value>(lines: Map<string, Value>, key: string, value: Value): void {
  lines.delete(key)
  lines.set(key, value)
  if (lines.size <= maxLines) return
  const [first = ''] = lines.keys()
  lines.delete(first)
}

/** Those that failed alike: the ones rejected by a response such as 422 are those of their event type. */
const keyOf = (subscriptionId: string, { eventType, responseStatusCode }: FailedBefore): string =>
  refusesRecord(responseStatusCode) ? `${subscriptionId} ${eventType}` : subscriptionId

/** `isDoubted`: true while a failure of a subscription is in doubt. */
export function createReceiverResponses(isDoubted: (subscriptionId: string) => boolean): ReceiverResponses {
  const subscriptions = new Map<string, Recent>()
  const recentOf = (subscriptionId: string): Recent => subscriptions.get(subscriptionId) ?? untried
  const hasRecovered = (id: string, line: Recent): boolean => isOver(line) && !isDoubted(id)
  /** When one was last taken that had failed before: by how it failed, and, as an index, at least how often. */
  const takenAt = new Map<string, readonly number[]>()
  const takenWith = (key: string, failures: number): number => takenAt.get(key)?.[failures] ?? -Infinity

  return {
    note(event, at, before) {
      if (event.outcome === 'unknown') return
      const { subscriptionId } = event
      const keys = new Set([subscriptionId, keyOf(subscriptionId, before)])
      if (event.isRelapse) for (const key of keys) takenAt.delete(key)
      if (event.outcome === 'recovered') {
        for (const key of keys) {
          const oftener = takenAt.get(key)?.slice(before.failures + 1) ?? []
          keep(takenAt, key, [...new Array<number>(before.failures + 1).fill(at.seenAt), ...oftener])
        }
      }
      const line = follow(recentOf(subscriptionId), event, at, isDoubted(subscriptionId))
      keep(subscriptions, subscriptionId, line)
    },
    takenAt: (subscriptionId, failure) =>
      takenWith(keyOf(subscriptionId, failure), Math.floor(failure.failures / 2) - 1),
    overSince(subscriptionId) {
      const line = recentOf(subscriptionId)
      return hasRecovered(subscriptionId, line) ? line.overSince : -Infinity
    },
    receiverOf(subscriptionId, now) {
      const line = recentOf(subscriptionId)
      if (!takesNothing(line, line.outcomes[0]?.seenAt ?? 0))
        return now - takenWith(subscriptionId, 0) < latelyMs ? 'taking' : undefined
      // One that rejects its records, or has failed few, pages nobody.
      const isSure = inARow(line, 'failed') >= deadStreak && now - line.streak.since >= sureMs
      return isSure && !line.streak.isRefusing ? 'failing' : 'suspected'
    },
    takesAgain: (subscriptionId, now) => takesAgain(recentOf(subscriptionId), now),
    lately(now) {
      const isRecent = (line: Recent): boolean => failedWithin(line, latelyMs, now)
      const all = [...subscriptions].map(([subscriptionId, line]) => {
        const failed = countOf(line, 'failed')
        const failsNow = isRecent(line) || takesNothing(line, now)
        return { subscriptionId, line, failed, failsNow, tookNone: failed === line.outcomes.length }
      })
      const takingNone = all.filter(
        ({ line, tookNone }) => tookNone && isRecent(line) && failedRecords(line) < minFailed,
      )
      const areMany =
        takingNone.length >= minFailed && takingNone.reduce((sum, { failed }) => sum + failed, 0) >= deadStreak
      return all
        .sort((a, b) => Number(b.failsNow) - Number(a.failsNow) || b.failed - a.failed)
        .slice(0, maxLately)
        .map(({ failsNow: _, line, tookNone, ...sums }) => ({
          ...sums,
          taken: countOf(line, 'taken'),
          failedRecords: failedRecords(line),
          isFailing:
            isRecent(line) &&
            !hasRecovered(sums.subscriptionId, line) &&
            (failedRecords(line) >= minFailed || (areMany && tookNone)),
          // Retries may wait for long: without a later success, it still does.
          takesNothing: takesNothing(line, now),
          responseStatusCode: lastFailed(line)?.responseStatusCode ?? null,
          failingForMs: Math.max(0, now - line.streak.since),
          takesAgain: takesAgain(line, now),
          failedInARow: inARow(line, 'failed'),
        }))
    },
  }
}
