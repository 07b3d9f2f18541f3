// When to look: a look that is due waits a little for others to share its call, while others come and nobody needs the answer at once.
import TinyQueue from 'tinyqueue'
import type { Entry } from './entry.ts'

export interface WaitingRoom {
  /** Takes in a record that is awaited; one that is not is passed over. */
  add(entry: Entry): void
  /** Milliseconds until a round of looks should begin, or until that is to be asked again; 0 for now, undefined when nobody waits. */
  untilRound(now: number): number | undefined
  /** The records whose look was due when it was last asked. Each has to be added again. */
  take(): Entry[]
}

export interface WaitingRoomOptions {
  /** True while retries are held up until outcomes are known. */
  waitsForOutcomes: () => boolean
}

/** So many looks make a round worth its calls. */
const goodRound = 25
/** As long waits the first of a round while retries wait for outcomes: those sent together come due together. */
const shortWaitMs = 100
/** As long waits the first of a round at most, and never longer than its record has been awaited. */
const longestWaitMs = 5000
/** Looks in one round at most. */
const largestRound = 10_000

interface Place {
  entry: Entry
  at: number
}

export function createWaitingRoom({ waitsForOutcomes }: WaitingRoomOptions): WaitingRoom {
  const queue = new TinyQueue<Place>([], (a, b) => a.at - b.at)
  let due: Place[] = []

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

  /** How long the first of those who are due may wait for company. */
  function patienceMs({ entry, at }: Place): number {
    if (due.length >= goodRound || queue.length === 0) return 0
    if (waitsForOutcomes()) return shortWaitMs
    return Math.min(longestWaitMs, at - (entry.awaiting?.sentAt ?? at))
  }

  return {
    add,
    untilRound(now) {
      moveDue(now)
      const next = queue.peek()
      const [first] = due
      if (first === undefined) return next === undefined ? undefined : Math.max(1, next.at - now)
      const left = first.at + patienceMs(first) - now
      return left <= 0 ? 0 : Math.min(left, shortWaitMs)
    },
    take() {
      const taken = due.map(({ entry }) => entry)
      due = []
      return taken
    },
  }
}
