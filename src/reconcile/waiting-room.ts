// When to look: a look that is due waits a little for others to share its call, while others come and nobody needs the answer at once.
import TinyQueue from 'tinyqueue'
import type { Entry } from './entry.ts'

export interface WaitingRoom {
  /** Takes in a record that is awaited; one that is not is passed over. */
  add(entry: Entry): void
  /** Milliseconds until a round of looks should begin, or until that is to be asked again; 0 for now, undefined when nobody waits. */
  untilRound(now: number): number | undefined
  /** The records to look at now. Each has to be added again. */
  take(now: number): Entry[]
  /** What came of a round: how long deliveries take, and how many looks make one worth its calls, is learned from it. */
  learn(round: { looks: number; settled: number; calls: number }): void
}

export interface WaitingRoomOptions {
  /** From a PATCH to its first look. */
  firstLookMs: number
  /** True while retries are held up until outcomes are known: then nobody waits long. */
  waitsForOutcomes: () => boolean
}

/** So many looks make a round worth its calls: at least, and at most where a listing costs much however few are looked for. */
const smallestGoodRound = 200
const largestGoodRound = 5000
/** Whether a round is dear is judged of so many looks. */
const fewestJudged = 50
/** A round is dear that takes more calls than this for each look. */
const dearPerLook = 0.1
/** Looks in one round at most. */
const largestRound = 10_000
/**
 * Times are told in first looks, half seconds by default. As long waits the first of a round while retries wait for
 * outcomes: those sent together come due together.
 */
const shortWaitLooks = 0.2
/** As long waits the first of a round at most, once its delivery is likely to be over: more while rounds are dear. */
const longWaitLooks = 10
const longestWaitLooks = 40
/** Deliveries are taken to last up to so long; those that last longer are looked at in vain now and then. */
const longestUsualLooks = 40

interface Place {
  entry: Entry
  at: number
}

export function createWaitingRoom({ firstLookMs, waitsForOutcomes }: WaitingRoomOptions): WaitingRoom {
  const shortWaitMs = shortWaitLooks * firstLookMs
  const queue = new TinyQueue<Place>([], (a, b) => a.at - b.at)
  /** Those whose look is due, the longest due first. */
  let due: Place[] = []
  let usualMs = 0
  let goodRound = smallestGoodRound

  function add(entry: Entry): void {
    const at = entry.awaiting?.lookAt
    if (at !== undefined) queue.push({ entry, at })
  }

  /** Moves those whose look has become due; one that was seen meanwhile is due later. */
  function moveDue(now: number): void {
    for (
      let first = queue.peek();
      first !== undefined && first.at <= now && due.length < largestRound;
      first = queue.peek()
    ) {
      queue.pop()
      const { lookAt } = first.entry.awaiting ?? {}
      if (lookAt === undefined) continue
      if (lookAt <= now) due.push({ entry: first.entry, at: Math.max(first.at, lookAt) })
      else queue.push({ entry: first.entry, at: lookAt })
    }
  }

  /** When a look is likely to show an outcome. */
  function ripeAt({ at, entry }: Place): number {
    return Math.max(at, (entry.awaiting?.sentAt ?? at) + usualMs)
  }

  /** How long the first of those who are due may wait at most. */
  function latestFor(first: Place): number {
    return ripeAt(first) + firstLookMs * Math.min(longestWaitLooks, (longWaitLooks * goodRound) / smallestGoodRound)
  }

  /** Nobody else comes due in time to share the calls. */
  function isAlone(first: Place): boolean {
    return (queue.peek()?.at ?? Infinity) > latestFor(first)
  }

  /** When the next round should begin if nothing changes. */
  function roundAt(first: Place, now: number): number {
    if (isAlone(first)) return now
    if (waitsForOutcomes()) return first.at + shortWaitMs
    const ripe = due.filter((place) => ripeAt(place) <= now).length
    return ripe >= goodRound ? now : latestFor(first)
  }

  return {
    add,
    untilRound(now) {
      moveDue(now)
      const next = queue.peek()
      const [first] = due
      if (first === undefined) return next === undefined ? undefined : Math.max(1, next.at - now)
      const left = roundAt(first, now) - now
      return left <= 0 ? 0 : Math.min(left, shortWaitMs)
    },
    take(now) {
      const [first] = due
      const takesAll = first === undefined || isAlone(first) || waitsForOutcomes()
      const isTaken = (place: Place): boolean => takesAll || ripeAt(place) <= now
      const taken = due.filter(isTaken)
      due = due.filter((place) => !isTaken(place))
      return taken.map(({ entry }) => entry)
    },
    learn({ calls, looks, settled }) {
      if (looks === 0) return
      if (settled < looks / 2) usualMs = Math.min(longestUsualLooks * firstLookMs, Math.max(firstLookMs, usualMs * 1.5))
      else if (settled > looks * 0.9) usualMs *= 0.95
      if (looks < fewestJudged) return
      const isDear = calls > looks * dearPerLook
      goodRound = isDear ? Math.min(largestGoodRound, goodRound * 2) : Math.max(smallestGoodRound, goodRound / 2)
    },
  }
}
