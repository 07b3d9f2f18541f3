// Whose turn it is: due records take turns between subscriptions, fresh and old apart, oldest event first. @see design section 10
import TinyQueue from 'tinyqueue'
import type { Entry } from './entry.ts'
import { decide } from './decide.ts'
import { freshMs, type Policy } from './policy.ts'
import { contains, type Span } from './window.ts'

export interface Turns {
  /** Takes new and changed records in. `now` in epoch ms of the platform's clock. */
  offer(entries: Iterable<Entry>, now: number): void
  /** The record whose turn it is, undefined when none is due. With `idleOnly`, of a subscription that has none in flight. */
  next(now: number, idleOnly: boolean): Entry | undefined
  /** True when next() would give one. */
  ready(now: number, idleOnly: boolean): boolean
  /** When the next record that backs off becomes due, in epoch ms of the platform's clock. */
  nextDueAt(): number | undefined
  /** Keeps the records of a span back until it is released. */
  fence(span: Span): () => void
  /** Places in all queues, those included that have become void and were not cleared away yet. */
  places(): number
}

export interface TurnsOptions {
  policy: Policy
  /** False for a record that the backlog no longer holds. */
  isHeld: (entry: Entry) => boolean
  isInFlight: (entry: Entry) => boolean
  /** Retries of a subscription that are in flight. */
  inFlightOf: (subscriptionId: string) => number
}

/** A place in a queue: a lane's, or the one of those that back off. It is void once the record has been given another. */
interface Place {
  entry: Entry
  /** Order within the queue: epoch ms of the event in a lane, of becoming due among the resting. */
  at: number
  /** Key of the lane; undefined among the resting. */
  lane: string | undefined
}

interface Lane {
  key: string
  subscriptionId: string
  queue: TinyQueue<Place>
}

const earliestFirst = (a: Place, b: Place): number => a.at - b.at
/** So many void places may stand in the queues, or as many as there are others. */
const toleratedVoids = 1000

export function createTurns(options: TurnsOptions): Turns {
  /** Whether retries are enabled or held is the dispatcher's question; the order of turns does not depend on it. */
  const policy: Policy = { ...options.policy, enabled: true }
  /** The first lane has the next turn; a lane that had its turn goes to the end. */
  const lanes = new Map<string, Lane>()
  let resting = new TinyQueue<Place>([], earliestFirst)
  /** The one valid place of a record; places that are not it are passed over. */
  const places = new WeakMap<Entry, Place>()
  const fences = new Set<Span>()
  /** Places whose turn came while their slice was being listed. */
  let keptBack: Place[] = []
  /** Places in all queues, and how many of them were valid when the void ones were last cleared away. */
  let standing = 0
  let validOnce = 0

  const isVoid = (place: Place): boolean => places.get(place.entry) !== place || !options.isHeld(place.entry)
  const isFenced = (entry: Entry): boolean => [...fences].some((span) => contains(span, entry.localSecond))

  function laneOf(entry: Entry, now: number): string {
    return `${now - entry.eventAt < freshMs ? 'fresh' : 'old'} ${entry.subscriptionId}`
  }

  /** True for a place that still counts; what is void is forgotten. */
  function keep(place: Place): boolean {
    if (!isVoid(place)) return true
    forget(place)
    return false
  }

  function forget(place: Place): void {
    if (places.get(place.entry) === place) places.delete(place.entry)
  }

  /** While nothing may go out, nobody comes to the void places: they would pile up with every sweep. */
  function clearAway(): void {
    resting = new TinyQueue(resting.data.filter(keep), earliestFirst)
    keptBack = keptBack.filter(keep)
    standing = resting.length + keptBack.length
    for (const lane of lanes.values()) {
      lane.queue = new TinyQueue(lane.queue.data.filter(keep), earliestFirst)
      standing += lane.queue.length
      if (lane.queue.length === 0) lanes.delete(lane.key)
    }
    validOnce = standing
  }

  /** Takes the first place out of a queue; its record has none then. Undefined when it was void. */
  function take(queue: TinyQueue<Place>): Place | undefined {
    const place = queue.pop()
    if (place === undefined) return undefined
    standing -= 1
    const isValid = !isVoid(place)
    forget(place)
    return isValid ? place : undefined
  }

  function stand(place: Place): void {
    places.set(place.entry, place)
    standing += 1
    if (place.lane === undefined) {
      resting.push(place)
      return
    }
    const { subscriptionId } = place.entry
    const lane = lanes.get(place.lane) ?? {
      key: place.lane,
      subscriptionId,
      queue: new TinyQueue<Place>([], earliestFirst),
    }
    lane.queue.push(place)
    lanes.set(place.lane, lane)
  }

  /** Each sweep offers every record again: one whose place is still right keeps it, so that queues don't grow. */
  function put(entry: Entry, now: number): void {
    const { decision, dueAt } = decide(entry, policy, { now, held: false })
    const known = places.get(entry)
    if (decision === 'backing-off') {
      if (known?.lane !== undefined || known?.at !== dueAt) stand({ entry, at: dueAt, lane: undefined })
    } else if (decision === 'due') {
      if (known?.lane === undefined) stand({ entry, at: entry.eventAt, lane: laneOf(entry, now) })
    } else {
      places.delete(entry)
    }
  }

  function wake(now: number): void {
    for (let first = resting.peek(); first !== undefined && first.at <= now; first = resting.peek()) {
      const place = take(resting)
      if (place !== undefined) put(place.entry, now)
    }
  }

  /** True when the first place of a lane may be used now. */
  function isUsable(place: Place, now: number): boolean {
    if (isVoid(place) || options.isInFlight(place.entry) || isFenced(place.entry)) return false
    return decide(place.entry, policy, { now, held: false }).decision === 'due'
  }

  /** What becomes of a place that may not be used: kept back while its slice is listed, decided anew, or dropped. */
  function passOver(place: Place, now: number): void {
    if (isFenced(place.entry)) {
      places.set(place.entry, place)
      keptBack.push(place)
      standing += 1
    } else if (!options.isInFlight(place.entry)) {
      // A record in flight is offered again when its answer is there.
      put(place.entry, now)
    }
  }

  function front(lane: Lane, now: number): Place | undefined {
    for (let first = lane.queue.peek(); first !== undefined; first = lane.queue.peek()) {
      if (isUsable(first, now)) return first
      const place = take(lane.queue)
      if (place !== undefined) passOver(place, now)
    }
    return undefined
  }

  function find(now: number, idleOnly: boolean): { lane: Lane; place: Place } | undefined {
    wake(now)
    for (const lane of lanes.values()) {
      if (idleOnly && options.inFlightOf(lane.subscriptionId) > 0) continue
      const place = front(lane, now)
      if (place !== undefined) return { lane, place }
      lanes.delete(lane.key)
    }
    return undefined
  }

  return {
    offer(entries, now) {
      for (const entry of entries) put(entry, now)
      if (standing > 2 * validOnce + toleratedVoids) clearAway()
    },
    next(now, idleOnly) {
      const found = find(now, idleOnly)
      if (found === undefined) return undefined
      take(found.lane.queue)
      lanes.delete(found.lane.key)
      lanes.set(found.lane.key, found.lane)
      return found.place.entry
    },
    ready: (now, idleOnly) => find(now, idleOnly) !== undefined,
    nextDueAt() {
      for (let place = resting.peek(); place !== undefined && isVoid(place); place = resting.peek()) take(resting)
      return resting.peek()?.at
    },
    fence(span) {
      const own = { ...span }
      fences.add(own)
      return () => {
        fences.delete(own)
        const back = keptBack
        keptBack = []
        standing -= back.length
        for (const place of back.filter(keep)) stand(place)
      }
    },
    places: () => standing,
  }
}
