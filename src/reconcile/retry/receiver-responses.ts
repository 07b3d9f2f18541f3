// Recent responses of receivers: how many deliveries of a subscription were accepted, and which failures are over. No I/O.
import { mayBeOfRecord, refusesRecord } from '../../platform/record.ts'
import { jitterSeed } from '../backoff.ts'
import type { OutcomeEvent, SeenAt } from '../confirm/outcomes.ts'
import type { Mendable, Mending } from '../decide.ts'
import type { ReceiverKind } from './subscriptions.ts'

/** The last finished deliveries of a subscription, at most 20. */
export interface Lately {
  subscriptionId: string
  taken: number
  failed: number
  /** Records whose last one of these failed. */
  failedRecords: number
  /** True if it accepted its last delivery, and failed none for a minute: earlier failures may be over. */
  takesAgain: boolean
  /** Consecutive failed deliveries, and how long the last ones have failed, in ms. */
  failedInARow: number
  failingForMs: number
  /**
   * True while it fails some: from three records on, until it accepts nine in a row, or three after failing all. Fewer are no
   * chance if it took none, as others with as few, and these failed nine in all.
   */
  isFailing: boolean
  /** True if it accepted none for so long, and of so many, that it is no chance, and not of a few records alone. */
  takesNothing: boolean
  /** The last failed response; null: none. */
  responseStatusCode: number | null
}

/** Times are monotonic ms. */
export interface ReceiverResponses {
  /** It counts once no failure that was seen before it is in doubt. */
  note(event: OutcomeEvent, at: SeenAt, now: number): void
  /** Counts outcomes that have waited for others long enough. */
  turn(now: number): void
  /** `mendedAt` is -Infinity if such a failure was not seen to be over. */
  mendingOf(subscriptionId: string, record: Mendable): Mending
  /** The state shown by its last deliveries; undefined if they show none. */
  receiverOf(subscriptionId: string, now: number): ReceiverKind | undefined
  /** @see Lately.takesAgain */
  takesAgain(subscriptionId: string, now: number): boolean
  /** Most failures first, at most 20. */
  lately(now: number): Lately[]
}

/** Number of outcomes that count, and the minimum for a share. */
const [maxOutcomes, minOutcomes] = [20, 10]
/** Maximum number of failures among the last outcomes of a working receiver. */
const maxStray = 3
/** Consecutive failures that rule out chance, also of a receiver that fails half of all: a success then shows a change. */
const [minStreak, minAll] = [5, 15]
/** An accepted record with fewer earlier failures proves nothing for a record with more: the record may be the problem. */
const maxWeakTries = 3
/** Failures of one record that may be chance, while its receiver fails at least half of all, and fewer. */
const [partlyTries, someTries] = [9, 3]
/** As many consecutive failures as open a new circuit; or fewer, without earlier ones, by responses that no single record causes; and for this long, ms. */
const [deadStreak, silentStreak, deadMs, sureMs] = [9, 3, 120_000, 300_000]
/** A receiver that took a delivery within this time takes them, ms. */
const latelyMs = 600_000
/** A share with fewer failed records may be theirs; and so many accepted ones are no chance, or so many after a row of failures. */
const [minFailed, minTaken, minTakenAfterAll] = [3, 9, 3]
/** A receiver that failed nothing for so long takes its deliveries again, ms. */
const againMs = 60_000
/** An outcome waits at most so long for the doubt about earlier failures to end, ms. */
const maxHeldMs = 60_000
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
  /** Newest first. `record`: hash of its id, as thousands of lines would keep the texts of 20 each. */
  outcomes: readonly ({ kind: ReceiverResult; record: number } & SeenAt)[]
  /** True from `minShare` of failures among the last ones on, until nearly all are accepted, or one after none. */
  isMixed: boolean
  /** When the last accepted delivery was followed by a failure. */
  failingSince: number
  failedAt: number
  takenAt: number
  /** When a delivery was last accepted after many failures, and after any. */
  mendedAt: number
  takingSince: number
  /** Since when it accepted all, the last time that it did for long enough. */
  overSince: number
  responseStatusCode: number | null
  /** Of the failures since one was last taken. */
  streak: Streak
}

interface Streak {
  /** Records that failed first in it, at most `deadStreak`, and the number of their failures: others may fail for themselves. */
  own: ReadonlySet<number>
  ownFailures: number
  /** Their event types, at most two. */
  ownTypes: ReadonlySet<string>
  /** Whether any response refused its record, or may be of one record alone. */
  isRefusing: boolean
  isDoubtful: boolean
}

const noStreak: Streak = {
  ...{ own: new Set(), ownFailures: 0, ownTypes: new Set() },
  ...{ isRefusing: false, isDoubtful: false },
}

const untried: Recent = {
  outcomes: [],
  isMixed: false,
  failingSince: 0,
  failedAt: -Infinity,
  takenAt: -Infinity,
  mendedAt: -Infinity,
  takingSince: -Infinity,
  overSince: -Infinity,
  responseStatusCode: null,
  streak: noStreak,
}

/** Failures before it recovered say nothing about what it fails now. */
const outcomesSince = ({ outcomes }: Recent, at: number): Recent['outcomes'] =>
  outcomes.filter(({ seenAt }) => seenAt >= at)

const countOf = ({ outcomes }: Pick<Recent, 'outcomes'>, kind: ReceiverResult): number =>
  outcomes.filter((one) => one.kind === kind).length

function inARow({ outcomes }: Pick<Recent, 'outcomes'>, kind: ReceiverResult): number {
  const end = outcomes.findIndex((one) => one.kind !== kind)
  return end === -1 ? outcomes.length : end
}

/** A receiver that failed again after successes, twice: it is neither dead nor recovered. */
function isMixedNow(line: Recent, minShare: number): boolean {
  const outcomes = outcomesSince(line, line.mendedAt)
  const failed = countOf({ outcomes }, 'failed')
  const [, ...earlier] = outcomes
  // One that took none of many has changed once it takes one again. Until then, nothing shows that it takes others.
  const isChanged = inARow(line, 'taken') === 1 && inARow({ outcomes: earlier }, 'failed') >= minAll
  if (line.isMixed) return failed > (minShare > 0 ? maxStray : 0) && !isChanged
  // Failures in a row are of a receiver that was well before.
  if (inARow(line, 'failed') >= minStreak) return false
  const relapses = outcomes.filter(
    ({ kind }, index) => kind === 'failed' && outcomes[index + 1]?.kind === 'taken',
  ).length
  return relapses >= 2 && (minShare === 0 || (outcomes.length >= minOutcomes && failed >= minShare * outcomes.length))
}

function goOn(streak: Streak, { eventType, isRepeated, responseStatusCode }: OutcomeEvent, record: number): Streak {
  const own = isRepeated || streak.own.size >= deadStreak ? streak.own : new Set([...streak.own, record])
  const isOwn = own.has(record)
  return {
    own,
    ownFailures: streak.ownFailures + Number(isOwn),
    ownTypes: isOwn && streak.ownTypes.size < 2 ? new Set([...streak.ownTypes, eventType]) : streak.ownTypes,
    isRefusing: streak.isRefusing || refusesRecord(responseStatusCode),
    isDoubtful: streak.isDoubtful || mayBeOfRecord(responseStatusCode),
  }
}

interface SeenOutcome extends SeenAt {
  event: OutcomeEvent
}

const isAfter = (a: SeenAt, b: SeenAt): boolean => a.seenAt > b.seenAt || (a.seenAt === b.seenAt && a.sentAt > b.sentAt)

/** One that was held for too long counts at its place, and ends a row of failures that began before it. */
function insert(before: Recent, own: Recent['outcomes'][number], minShare: number): Recent {
  const later = before.outcomes.filter((one) => isAfter(one, own))
  const outcomes = [...later, own, ...before.outcomes.slice(later.length)].slice(0, maxOutcomes)
  const takenAt = Math.max(before.takenAt, own.kind === 'taken' ? own.seenAt : -Infinity)
  const line = { ...before, outcomes, takenAt }
  const isMixed = isMixedNow(line, minShare)
  const endsRow = own.kind === 'taken' && own.seenAt > before.failingSince
  return endsRow && later.every(({ kind }) => kind === 'failed')
    ? { ...line, isMixed, failingSince: later.at(-1)?.seenAt ?? own.seenAt, streak: noStreak }
    : { ...line, isMixed }
}

function follow(before: Recent, { event, seenAt, sentAt }: SeenOutcome, minShare: number): Recent {
  const { outcome, responseStatusCode } = event
  const record = jitterSeed(event.webhookId)
  const own = { kind: outcome === 'recovered' ? 'taken' : 'failed', record, seenAt, sentAt } as const
  const [newest] = before.outcomes
  // Earlier failures say nothing about now.
  if (seenAt < before.mendedAt) return before
  if (newest !== undefined && isAfter(newest, own)) return insert(before, own, minShare)
  const line: Recent = { ...before, outcomes: [own, ...before.outcomes.slice(0, maxOutcomes - 1)] }
  const endsRow = own.kind === 'taken' && inARow(before, 'failed') >= minStreak
  // A second row that ends soon after the first shows a receiver that accepts few.
  const isSecondRow =
    endsRow &&
    minShare > 0 &&
    before.mendedAt > -Infinity &&
    outcomesSince(before, before.mendedAt).length < maxOutcomes
  const isMixed = isSecondRow || isMixedNow(line, minShare)
  if (own.kind === 'failed') {
    const failingSince = inARow(line, 'failed') === 1 ? seenAt : line.failingSince
    return {
      ...line,
      isMixed,
      failingSince,
      failedAt: seenAt,
      responseStatusCode,
      streak: goOn(line.streak, event, record),
    }
  }
  const isMended = !isMixed && (before.isMixed || endsRow)
  const taking = {
    ...line,
    isMixed,
    takenAt: seenAt,
    takingSince: inARow(line, 'taken') === 1 ? seenAt : line.takingSince,
    mendedAt: isMended ? seenAt : line.mendedAt,
    streak: noStreak,
  }
  return isOver(taking) ? { ...taking, overSince: taking.takingSince } : taking
}

/** True after `deadStreak` failures in a row, or `silentStreak` without earlier ones, for `deadMs` until `until`. Its circuit may still be closed. */
function takesNothing(line: Recent, until: number): boolean {
  const { failingSince, streak } = line
  const { isDoubtful, isRefusing, own, ownFailures, ownTypes } = streak
  const failed = inARow(line, 'failed')
  // A few may be chance where others have failed before.
  const outcomes = outcomesSince(line, line.mendedAt)
  const enough = failed === countOf({ outcomes }, 'failed') ? silentStreak : deadStreak
  // One that rejects a single event type takes the others, at the first attempt: the daemon sees none of these.
  const isSoMany = isRefusing
    ? own.size >= deadStreak && ownTypes.size > 1
    : isDoubtful
      ? ownFailures >= deadStreak
      : failed >= enough
  return isSoMany && until - failingSince >= deadMs
}

/** True if the last ones were accepted, too many for chance: all earlier failures are over. */
function isOver(line: Recent): boolean {
  const isAfterAll = line.mendedAt > line.failedAt
  return inARow(line, 'taken') >= (isAfterAll ? minTakenAfterAll : minTaken)
}

function failedRecords(line: Recent): number {
  const outcomes = outcomesSince(line, line.overSince)
  const last = new Map(outcomes.toReversed().map(({ kind, record }) => [record, kind]))
  return last
    .values()
    .filter((kind) => kind === 'failed')
    .toArray().length
}

const takesAgain = (line: Recent, now: number): boolean => inARow(line, 'taken') > 0 && now - line.failedAt >= againMs

interface RecentByKey {
  of(key: string): Recent
  note(key: string, seen: SeenOutcome): void
  all(): Iterable<[string, Recent]>
}

/** `minShare`: share of failures from which outcomes are mixed. */
function createLines(minShare: number): RecentByKey {
  const lines = new Map<string, Recent>()
  return {
    of: (key) => lines.get(key) ?? untried,
    note(key, seen) {
      const line = follow(lines.get(key) ?? untried, seen, minShare)
      // Moves the key to the end, and drops the first one beyond the limit.
      lines.delete(key)
      lines.set(key, line)
      if (lines.size <= maxLines) return
      const [first = ''] = lines.keys()
      lines.delete(first)
    },
    all: () => lines,
  }
}

/** `doubtedSince`: when the oldest failure of a subscription that is still in doubt was seen; Infinity for none. */
export function createReceiverResponses(doubtedSince: (subscriptionId: string) => number): ReceiverResponses {
  const subscriptions = createLines(0.5)
  /** Of records that had failed before, by subscription, and by type: other accepted records prove nothing for them. */
  const repeated = createLines(0)
  const keyOf = (subscriptionId: string, eventType: string): string => `${subscriptionId} ${eventType}`

  /** Outcomes that do not count yet, by subscription, first seen first. */
  const held = new Map<string, SeenOutcome[]>()

  function count(seen: SeenOutcome): void {
    const { eventType, isRepeated, subscriptionId } = seen.event
    subscriptions.note(subscriptionId, seen)
    if (!isRepeated) return
    repeated.note(subscriptionId, seen)
    repeated.note(keyOf(subscriptionId, eventType), seen)
  }

  /** A check may show others that were sent before. */
  function release(subscriptionId: string, waiting: SeenOutcome[], now: number): void {
    const end = Math.max(Math.min(doubtedSince(subscriptionId), now), now - maxHeldMs)
    const first = waiting.findIndex(({ seenAt }) => seenAt >= end)
    for (const seen of waiting.splice(0, first === -1 ? waiting.length : first)) count(seen)
    if (waiting.length === 0) held.delete(subscriptionId)
  }

  return {
    note(event, at, now) {
      if (event.outcome === 'unknown') return
      const { subscriptionId } = event
      const waiting = held.getOrInsertComputed(subscriptionId, () => [])
      const place = waiting.findLastIndex((other) => isAfter(at, other)) + 1
      waiting.splice(place, 0, { event, ...at })
      release(subscriptionId, waiting, now)
    },
    turn(now) {
      for (const [subscriptionId, waiting] of held) release(subscriptionId, waiting, now)
    },
    mendingOf(subscriptionId, { eventType, responseStatusCode, tries }) {
      const ofType = repeated.of(keyOf(subscriptionId, eventType))
      // A response that rejects one record says nothing about other types.
      const isOfRecord = refusesRecord(responseStatusCode)
      const of = isOfRecord ? ofType : repeated.of(subscriptionId)
      const ofAll = subscriptions.of(subscriptionId)
      const takingSince = isOfRecord ? -Infinity : ofAll.takingSince
      // A response that no record causes is over once the receiver takes any.
      const again = mayBeOfRecord(responseStatusCode) ? of.takingSince : Math.max(of.takingSince, takingSince)
      const mendedAt = Math.max(ofType.mendedAt, of.mendedAt, tries <= maxWeakTries ? again : -Infinity)
      return {
        mendedAt,
        takingSince,
        chanceTries: isOfRecord || !of.isMixed ? 0 : ofAll.isMixed ? partlyTries : someTries,
        overSince: isOver(ofAll) ? ofAll.takingSince : -Infinity,
      }
    },
    receiverOf(subscriptionId, now) {
      const line = subscriptions.of(subscriptionId)
      if (!takesNothing(line, line.failedAt)) return now - line.takenAt < latelyMs ? 'taking' : undefined
      // One that rejects its records, or has failed few, pages nobody.
      const isSure = inARow(line, 'failed') >= deadStreak && now - line.failingSince >= sureMs
      return isSure && !line.streak.isRefusing ? 'failing' : 'suspected'
    },
    takesAgain: (subscriptionId, now) => takesAgain(subscriptions.of(subscriptionId), now),
    lately(now) {
      const isRecent = ({ failedAt }: Recent): boolean => now - failedAt < latelyMs
      const all = [...subscriptions.all()].map(([subscriptionId, line]) => {
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
          isFailing: isRecent(line) && !isOver(line) && (failedRecords(line) >= minFailed || (areMany && tookNone)),
          // Retries may wait for long: without a later success, it still does.
          takesNothing: takesNothing(line, now),
          responseStatusCode: line.responseStatusCode,
          failingForMs: now - line.failingSince,
          takesAgain: takesAgain(line, now),
          failedInARow: inARow(line, 'failed'),
        }))
    },
  }
}
