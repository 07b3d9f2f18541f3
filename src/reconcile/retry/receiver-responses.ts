// Recent responses of receivers: how many deliveries of a subscription were taken, and which failures are over. No I/O.
import { refusesRecord } from '../../platform/record.ts'
import type { OutcomeEvent } from '../confirm/outcomes.ts'
import type { Mendable, Mending } from '../decide.ts'

/** The last deliveries of a subscription that have ended, at most 20. */
export interface Lately {
  subscriptionId: string
  taken: number
  failed: number
  /** How many were taken, or failed, since one last was not; and for how long the last ones have failed, in ms. */
  takenInARow: number
  failedInARow: number
  failingForMs: number
  /** True while it fails a part of its deliveries: from half of them on, until it takes nearly all, or none. */
  isPartly: boolean
  /** True when it has taken none for so long, and of so many, that this is no chance; not where it refuses single records. */
  takesNothing: boolean
  /** The response to the last one that failed; null: none. */
  responseStatusCode: number | null
}

/** Times are monotonic ms. */
export interface ReceiverResponses {
  note(event: OutcomeEvent, now: number): void
  /** `mendedAt` is -Infinity when such a failure was not seen to be over. */
  mendingOf(subscriptionId: string, record: Mendable): Mending
  /** The largest numbers of failures first. */
  lately(now: number): Lately[]
}

/** Number of outcomes that count, and the fewest from which a share is taken. */
const [maxOutcomes, minOutcomes] = [20, 10]
/** Maximum number of failures among the last outcomes of a working receiver. */
const maxStray = 3
/** Failures in a row that rule out chance: a success then shows a change. */
const minStreak = 5
/** One that had failed before and is taken shows nothing for a record that was refused more often: it may be the record. */
const maxWeakTries = 3
/** Failures of one record that may be chance, while its receiver fails at least half of all, and fewer. */
const [partlyTries, someTries] = [9, 3]
/** As many failures in a row as open a circuit that is new, and for so long, ms. */
const [deadStreak, deadMs] = [9, 300_000]
/** RecentByKey that are remembered, those of the last responses. */
const maxLines = 20_000

type ReceiverResult = 'taken' | 'failed'

/** Outcomes in their order. */
interface Recent {
  /** The newest first. */
  outcomes: readonly ReceiverResult[]
  /** Some are taken and some are not, from `enters` of the last ones on until nearly all, or none, are taken. */
  isMixed: boolean
  /** When the last one that was taken was followed by one that was not. */
  failingSince: number
  failedAt: number
  /** When one was last taken after many failures, and after any. */
  mendedAt: number
  takingSince: number
  responseStatusCode: number | null
}

const untried: Recent = {
  outcomes: [],
  isMixed: false,
  failingSince: 0,
  failedAt: -Infinity,
  mendedAt: -Infinity,
  takingSince: -Infinity,
  responseStatusCode: null,
}

const countOf = ({ outcomes }: Recent, kind: ReceiverResult): number => outcomes.filter((one) => one === kind).length

function inARow({ outcomes }: Recent, kind: ReceiverResult): number {
  const end = outcomes.findIndex((one) => one !== kind)
  return end === -1 ? outcomes.length : end
}

/** A receiver that has failed after it took some, twice: it is neither dead nor mended. */
function isMixedNow(line: Recent, minShare: number): boolean {
  const { isMixed, outcomes } = line
  const failed = countOf(line, 'failed')
  if (isMixed) return failed > (minShare > 0 ? maxStray : 0) && failed < outcomes.length
  const relapses = outcomes.filter((one, index) => one === 'failed' && outcomes[index + 1] === 'taken').length
  return relapses >= 2 && (minShare === 0 || (outcomes.length >= minOutcomes && failed >= minShare * outcomes.length))
}

function follow(before: Recent, { outcome, responseStatusCode }: OutcomeEvent, minShare: number, now: number): Recent {
  const kind = outcome === 'recovered' ? 'taken' : 'failed'
  const line: Recent = { ...before, outcomes: [kind, ...before.outcomes.slice(0, maxOutcomes - 1)] }
  const isMixed = isMixedNow(line, minShare)
  if (kind === 'failed') {
    const failingSince = inARow(line, 'failed') === 1 ? now : line.failingSince
    return { ...line, isMixed, failingSince, failedAt: now, responseStatusCode }
  }
  const isMended = !isMixed && (before.isMixed || inARow(before, 'failed') >= minStreak)
  return {
    ...line,
    // Failures of before say nothing of now.
    outcomes: isMended ? [kind] : line.outcomes,
    isMixed,
    takingSince: inARow(line, 'taken') === 1 ? now : line.takingSince,
    mendedAt: isMended ? now : line.mendedAt,
  }
}

/** Its circuit may be closed all the same: it took others before. */
function takesNothing(line: Recent): boolean {
  const { failedAt, failingSince, responseStatusCode } = line
  const isRefusing = refusesRecord(responseStatusCode)
  return !isRefusing && inARow(line, 'failed') >= deadStreak && failedAt - failingSince >= deadMs
}

interface RecentByKey {
  of(key: string): Recent
  note(key: string, event: OutcomeEvent, now: number): void
  all(): Iterable<[string, Recent]>
}

/** `minShare`: failures of the outcomes from which on they are mixed. */
function createLines(minShare: number): RecentByKey {
  const lines = new Map<string, Recent>()
  return {
    of: (key) => lines.get(key) ?? untried,
    note(key, event, now) {
      const line = follow(lines.get(key) ?? untried, event, minShare, now)
      // The line moves to the end, and the first one beyond the bound goes.
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
  /** Of records that had failed before, by subscription, and by type: others that are taken say nothing of these. */
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
      // A response that refuses one record says nothing of other types.
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
