// Recent responses of receivers: how many deliveries of a subscription were accepted, and which failures are over. No I/O.
import { refusesRecord } from '../../platform/record.ts'
import type { OutcomeEvent } from '../confirm/outcomes.ts'
import type { Mendable, Mending } from '../decide.ts'
import type { ReceiverKind } from './subscriptions.ts'

/** The last finished deliveries of a subscription, at most 20. */
export interface Lately {
  subscriptionId: string
  taken: number
  failed: number
  /** Consecutive accepted or failed deliveries, and how long the last ones have failed, in ms. */
  takenInARow: number
  failedInARow: number
  failingForMs: number
  /** True while it fails some deliveries: from half of them on, until it accepts nearly all, or none. */
  isPartly: boolean
  /** True if it accepted none for so long, and of so many, that it is no chance, and not of a few records alone. */
  takesNothing: boolean
  /** The last failed response; null: none. */
  responseStatusCode: number | null
}

/** Times are monotonic ms. */
export interface ReceiverResponses {
  note(event: OutcomeEvent, now: number): void
  /** `mendedAt` is -Infinity if such a failure was not seen to be over. */
  mendingOf(subscriptionId: string, record: Mendable): Mending
  /** What its last deliveries show; undefined when they show nothing. */
  receiverOf(subscriptionId: string, now: number): ReceiverKind | undefined
  /** Most failures first. */
  lately(now: number): Lately[]
}

/** Number of outcomes that count, and the minimum for a share. */
const [maxOutcomes, minOutcomes] = [20, 10]
/** Maximum number of failures among the last outcomes of a working receiver. */
const maxStray = 3
/** Consecutive failures that rule out chance: a success then shows a change. */
const minStreak = 5
/** An accepted record with fewer earlier failures proves nothing for a record with more: the record may be the problem. */
const maxWeakTries = 3
/** Failures of one record that may be chance, while its receiver fails at least half of all, and fewer. */
const [partlyTries, someTries] = [9, 3]
/** As many consecutive failures as open a new circuit; or fewer, without earlier ones, by responses that no single record causes; and for this long, ms. */
const [deadStreak, silentStreak, deadMs, sureMs] = [9, 3, 120_000, 300_000]
/** A receiver that took a delivery within this time takes them, ms. */
const latelyMs = 600_000
/** Number of remembered keys, most recent first. */
const maxLines = 20_000

type ReceiverResult = 'taken' | 'failed'

/** Outcomes in order. */
interface Recent {
  /** Newest first. */
  outcomes: readonly ReceiverResult[]
  /** True from `enters` failures among the last ones, until nearly all, or none, are accepted. */
  isMixed: boolean
  /** When the last accepted delivery was followed by a failure. */
  failingSince: number
  failedAt: number
  takenAt: number
  /** When a delivery was last accepted after many failures, and after any. */
  mendedAt: number
  takingSince: number
  responseStatusCode: number | null
  /** Of the failures since one was last taken. */
  streak: Streak
}

interface Streak {
  /** Records that failed first in it, at most `deadStreak`, and the number of their failures: others may fail for themselves. */
  own: ReadonlySet<string>
  ownFailures: number
  /** Whether any response refused its record, or may be of one record alone. */
  isRefusing: boolean
  isDoubtful: boolean
}

const noStreak: Streak = { own: new Set(), ownFailures: 0, isRefusing: false, isDoubtful: false }

const untried: Recent = {
  outcomes: [],
  isMixed: false,
  failingSince: 0,
  failedAt: -Infinity,
  takenAt: -Infinity,
  mendedAt: -Infinity,
  takingSince: -Infinity,
  responseStatusCode: null,
  streak: noStreak,
}

const countOf = ({ outcomes }: Recent, kind: ReceiverResult): number => outcomes.filter((one) => one === kind).length

function inARow({ outcomes }: Recent, kind: ReceiverResult): number {
  const end = outcomes.findIndex((one) => one !== kind)
  return end === -1 ? outcomes.length : end
}

/** A receiver that failed again after successes, twice: it is neither dead nor recovered. */
function isMixedNow(line: Recent, minShare: number): boolean {
  const { isMixed, outcomes } = line
  const failed = countOf(line, 'failed')
  if (isMixed) return failed > (minShare > 0 ? maxStray : 0) && failed < outcomes.length
  const relapses = outcomes.filter((one, index) => one === 'failed' && outcomes[index + 1] === 'taken').length
  return relapses >= 2 && (minShare === 0 || (outcomes.length >= minOutcomes && failed >= minShare * outcomes.length))
}

function goOn(streak: Streak, { isRepeated, responseStatusCode, webhookId }: OutcomeEvent): Streak {
  const own = isRepeated || streak.own.size >= deadStreak ? streak.own : new Set([...streak.own, webhookId])
  return {
    own,
    ownFailures: streak.ownFailures + Number(own.has(webhookId)),
    isRefusing: streak.isRefusing || refusesRecord(responseStatusCode),
    isDoubtful: streak.isDoubtful || responseStatusCode === 500,
  }
}

function follow(before: Recent, event: OutcomeEvent, minShare: number, now: number): Recent {
  const { outcome, responseStatusCode } = event
  const kind = outcome === 'recovered' ? 'taken' : 'failed'
  const line: Recent = { ...before, outcomes: [kind, ...before.outcomes.slice(0, maxOutcomes - 1)] }
  const isMixed = isMixedNow(line, minShare)
  if (kind === 'failed') {
    const failingSince = inARow(line, 'failed') === 1 ? now : line.failingSince
    return { ...line, isMixed, failingSince, failedAt: now, responseStatusCode, streak: goOn(line.streak, event) }
  }
  const isMended = !isMixed && (before.isMixed || inARow(before, 'failed') >= minStreak)
  return {
    ...line,
    // Earlier failures say nothing about now.
    outcomes: isMended ? [kind] : line.outcomes,
    isMixed,
    takenAt: now,
    takingSince: inARow(line, 'taken') === 1 ? now : line.takingSince,
    mendedAt: isMended ? now : line.mendedAt,
    streak: noStreak,
  }
}

/** Its circuit may still be closed: it accepted others before. */
function takesNothing(line: Recent): boolean {
  const { failedAt, failingSince, streak } = line
  const { isDoubtful, isRefusing, own, ownFailures } = streak
  const failed = inARow(line, 'failed')
  // A few may be chance where others have failed before.
  const enough = failed === countOf(line, 'failed') ? silentStreak : deadStreak
  const isSoMany = isRefusing ? own.size >= deadStreak : isDoubtful ? ownFailures >= deadStreak : failed >= enough
  return isSoMany && failedAt - failingSince >= deadMs
}

interface RecentByKey {
  of(key: string): Recent
  note(key: string, event: OutcomeEvent, now: number): void
  all(): Iterable<[string, Recent]>
}

/** `minShare`: share of failures from which outcomes are mixed. */
function createLines(minShare: number): RecentByKey {
  const lines = new Map<string, Recent>()
  return {
    of: (key) => lines.get(key) ?? untried,
    note(key, event, now) {
      const line = follow(lines.get(key) ?? untried, event, minShare, now)
      // Moves the key to the end, and drops the first one beyond the limit.
      lines.delete(key)
      lines.set(key, line)
      const [first] = lines.keys()
      if (lines.size > maxLines && first !== undefined) lines.delete(first)
    },
    all: () => lines,
  }
}

export function createReceiverResponses(): ReceiverResponses {
  const subscriptions = createLines(0.5)
  /** Of records that had failed before, by subscription, and by type: other accepted records prove nothing for them. */
  const repeated = createLines(0)
  const keyOf = (subscriptionId: string, eventType: string): string => `${subscriptionId} ${eventType}`

  return {
    note(event, now) {
      const { eventType, isRepeated, outcome, subscriptionId } = event
      if (outcome === 'unknown') return
      subscriptions.note(subscriptionId, event, now)
      if (!isRepeated) return
      repeated.note(subscriptionId, event, now)
      repeated.note(keyOf(subscriptionId, eventType), event, now)
    },
    mendingOf(subscriptionId, { eventType, responseStatusCode, tries }) {
      const ofType = repeated.of(keyOf(subscriptionId, eventType))
      // A response that rejects one record says nothing about other types.
      const isOfRecord = refusesRecord(responseStatusCode)
      const of = isOfRecord ? ofType : repeated.of(subscriptionId)
      const ofAll = subscriptions.of(subscriptionId)
      const mendedAt = Math.max(ofType.mendedAt, of.mendedAt, tries <= maxWeakTries ? of.takingSince : -Infinity)
      const takingSince = isOfRecord ? -Infinity : ofAll.takingSince
      return {
        mendedAt,
        takingSince,
        chanceTries: isOfRecord || !of.isMixed ? 0 : ofAll.isMixed ? partlyTries : someTries,
      }
    },
    receiverOf(subscriptionId, now) {
      const line = subscriptions.of(subscriptionId)
      if (!takesNothing(line)) return now - line.takenAt < latelyMs ? 'taking' : undefined
      // One that rejects its records, or has failed few, pages nobody.
      const isSure = inARow(line, 'failed') >= deadStreak && now - line.failingSince >= sureMs
      return isSure && !line.streak.isRefusing ? 'failing' : 'suspected'
    },
    lately(now) {
      return [...subscriptions.all()]
        .map(([subscriptionId, line]) => ({
          subscriptionId,
          isPartly: line.isMixed,
          takesNothing: takesNothing(line),
          responseStatusCode: line.responseStatusCode,
          failingForMs: now - line.failingSince,
          takenInARow: inARow(line, 'taken'),
          failedInARow: inARow(line, 'failed'),
          taken: countOf(line, 'taken'),
          failed: countOf(line, 'failed'),
        }))
        .sort((a, b) => b.failed - a.failed)
    },
  }
}
