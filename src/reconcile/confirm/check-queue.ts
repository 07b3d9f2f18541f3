// When outcomes are checked: in rounds, at most one a second, so that checks that come due together share list calls. @see design section 11
import TinyQueue from 'tinyqueue'
import type { FailedRecord, PendingOutcome } from '../failed-record.ts'

export interface CheckQueue {
  /** Takes in a record that is awaited, or whose check is due sooner than before; any other is passed over. */
  add(entry: FailedRecord): void
  /** Monotonic ms when the longest due check was, or will be, due; undefined when none is to come. */
  firstDueAt(): number | undefined
  /** When the next round may begin; undefined while none is to come. */
  nextRoundAt(): number | undefined
  /** Begins a round: the records whose check is due, the longest due first. Each has to be added again. */
  take(now: number): FailedRecord[]
}

/** A round begins so many times `outcome.firstCheck` after the one before: a second by default. */
const roundLooks = 2
/** Records in one round at most. */
const maxInRound = 10_000

interface Place {
  entry: FailedRecord
  /** The retry that is checked: the place is void once that has an outcome, also when the record was retried again. */
  awaited: PendingOutcome
  at: number
}

export function createCheckQueue(firstCheckMs: number): CheckQueue {
  const queue = new TinyQueue<Place>([], (a, b) => a.at - b.at)
  /** The one valid place of a retry; places that are not it are void. */
  const places = new WeakMap<PendingOutcome, Place>()
  let roundAt = -Infinity

  /** The first place that is not void; a record that was seen meanwhile is due later. */
  function first(): Place | undefined {
    for (let place = queue.peek(); place !== undefined; place = queue.peek()) {
      const { at, awaited, entry } = place
      const isVoid = entry.awaiting !== awaited || places.get(awaited) !== place
      if (!isVoid && awaited.checkAt <= at) return place
      queue.pop()
      if (!isVoid) push(entry, awaited)
    }
    return undefined
  }

  function push(entry: FailedRecord, awaited: PendingOutcome): void {
    const place = { entry, awaited, at: awaited.checkAt }
    places.set(awaited, place)
    queue.push(place)
  }

  return {
    add(entry) {
      const { awaiting } = entry
      if (awaiting === undefined) return
      const known = places.get(awaiting)
      if (known === undefined || known.at > awaiting.checkAt) push(entry, awaiting)
    },
    firstDueAt: () => first()?.at,
    nextRoundAt() {
      const dueAt = first()?.at
      return dueAt === undefined ? undefined : Math.max(dueAt, roundAt + roundLooks * firstCheckMs)
    },
    take(now) {
      roundAt = now
      const due: FailedRecord[] = []
      for (let place = first(); place !== undefined && place.at <= now && due.length < maxInRound; place = first()) {
        queue.pop()
        places.delete(place.awaited)
        due.push(place.entry)
      }
      return due
    },
  }
}
