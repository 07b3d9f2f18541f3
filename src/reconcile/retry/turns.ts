// Whose turn it is: due records take turns between subscriptions, fresh and old apart, oldest event first. @see design section 10
import TinyQueue from 'tinyqueue'
import type { FailedRecord } from '../failed-record.ts'
import { decide } from '../decide.ts'
import { recentMs, type Policy } from '../policy.ts'
import { contains, type Span } from '../window.ts'

export interface Turns {
  /** Takes new and changed records in. `now` in epoch ms of the platform's clock. */
  offer(entries: Iterable<FailedRecord>, now: number): void
  /** The record whose turn it is, undefined when none is due. With `idleOnly`, of a subscription that has none in flight. */
  next(now: number, idleOnly: boolean): FailedRecord | undefined
  /** True when next() would give one. */
  ready(now: number, idleOnly: boolean): boolean
  /** True when a record is due whose subscription passes, whether it is allowed to go or not. */
  hasDue(now: number, passes: (subscriptionId: string) => boolean): boolean
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
  isHeld: (entry: FailedRecord) => boolean
  isInFlight: (entry: FailedRecord) => boolean
  /** Retries of a subscription that are in flight. */
  inFlightOf: (subscriptionId: string) => number
  /** False while a subscription has no allowance. Default: everything is allowed. */
  allows?: (subscriptionId: string) => boolean
  /** Subscriptions whose next record is the first probe after a pause, in the order in which these go. */
  firstProbes?: () => ReadonlySet<string>
  /** True while it matters which record of a subscription goes next, as it may be the only one for a while. */
  isRecovering?: (subscriptionId: string) => boolean
  /** True while one retry is to show whether the platform lets us in: a record that was not refused last goes first. */
  isTrial?: () => boolean
  /** False for a record that has to wait for another one of its entity. It is offered again when it need not any more. */
  isNext?: (entry: FailedRecord) => boolean
}

/** A place in a queue: a lane's, or the one of those that back off. It is void once the record has been given another. */
interface Place {
  entry: FailedRecord
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

/** A record whose turn it is, and where it was found. */
interface Found {
  lane: Lane
  place: Place
}

/** A probe shall tell of the receiver, not of a poisoned record: fewest attempts first, of these the newest event. */
function isBetterProbe(a: FailedRecord, b: FailedRecord): boolean {
  return a.attempts < b.attempts || (a.attempts === b.attempts && a.eventAt > b.eventAt)
}

const ages = ['fresh', 'old'] as const
const laneKey = (age: (typeof ages)[number], subscriptionId: string): string => `${age} ${subscriptionId}`

const earliestFirst = (a: Place, b: Place): number => a.at - b.at
/** So many void places may stand in the queues, or as many as there are others. */
const toleratedVoids = 1000
/** Subscriptions of which the last event type is remembered. */
const maxLastTypes = 10_000

export function createTurns(options: TurnsOptions): Turns {
  /** Whether retries are enabled or held is the dispatcher's question; the order of turns does not depend on it. */
  const policy: Policy = { ...options.policy, enabled: true }
  const {
    allows = () => true,
    firstProbes = () => new Set(),
    isNext = () => true,
    isRecovering = () => false,
    isTrial = () => false,
  } = options
  /** The first lane has the next turn; a lane that had its turn goes to the end. */
  const lanes = new Map<string, Lane>()
  let resting = new TinyQueue<Place>([], earliestFirst)
  /** The one valid place of a record; places that are not it are passed over. */
  const places = new WeakMap<FailedRecord, Place>()
  const fences = new Set<Span>()
  /** Event type of a subscription's last turn. */
  const lastTypes = new Map<string, string>()
  /** Places whose turn came while their slice was being listed. */
  let keptBack: Place[] = []
  /** Places in all queues, and how many of them were valid when the void ones were last cleared away. */
  let standing = 0
  let validOnce = 0
  /** The last record that went was a first probe: the next one is of another kind, if there is any. */
  let wasFirstProbe = false

  const isVoid = (place: Place): boolean => places.get(place.entry) !== place || !options.isHeld(place.entry)
  const isFenced = (entry: FailedRecord): boolean => [...fences].some((span) => contains(span, entry.localSecond))

  function laneOf(entry: FailedRecord, now: number): string {
    return laneKey(now - entry.eventAt < recentMs ? 'fresh' : 'old', entry.subscriptionId)
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
  function put(entry: FailedRecord, now: number): void {
    const { decision, dueAt } = decide(entry, policy, { now, held: false })
    const known = places.get(entry)
    if (decision === 'backing-off') {
      if (known?.lane !== undefined || known?.at !== dueAt) stand({ entry, at: dueAt, lane: undefined })
    } else if (decision === 'due') {
      const lane = laneOf(entry, now)
      if (known?.lane !== lane) stand({ entry, at: entry.eventAt, lane })
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
    if (!isNext(place.entry)) return false
    return decide(place.entry, policy, { now, held: false }).decision === 'due'
  }

  /** What becomes of a place that may not be used: kept back while its slice is listed, decided anew, or dropped. */
  function passOver(place: Place, now: number): void {
    if (isFenced(place.entry)) {
      places.set(place.entry, place)
      keptBack.push(place)
      standing += 1
    } else if (!options.isInFlight(place.entry) && isNext(place.entry)) {
      // A record in flight is offered again when its answer is there.
      put(place.entry, now)
    }
  }

  /** The best probe of a subscription, fresh or old, of another event type than the last one if there is any. */
  function probe(subscriptionId: string, now: number): Found | undefined {
    const lastType = lastTypes.get(subscriptionId)
    let best: Found | undefined
    let other: Found | undefined
    for (const age of ages) {
      const lane = lanes.get(laneKey(age, subscriptionId))
      for (const place of lane?.queue.data ?? []) {
        const { entry } = place
        const isBest = best === undefined || isBetterProbe(entry, best.place.entry)
        const isOther = entry.eventType !== lastType && (other === undefined || isBetterProbe(entry, other.place.entry))
        if (lane === undefined || !(isBest || isOther) || !isUsable(place, now)) continue
        if (isBest) best = { lane, place }
        if (isOther) other = { lane, place }
      }
    }
    return other ?? best
  }

  function front(lane: Lane, now: number): Place | undefined {
    for (let first = lane.queue.peek(); first !== undefined; first = lane.queue.peek()) {
      if (isUsable(first, now)) return first
      const place = take(lane.queue)
      if (place !== undefined) passOver(place, now)
    }
    return undefined
  }

  function* lanesOf(subscriptionIds: Iterable<string>): Generator<Lane> {
    for (const subscriptionId of subscriptionIds) {
      for (const age of ages) {
        const lane = lanes.get(laneKey(age, subscriptionId))
        if (lane !== undefined) yield lane
      }
    }
  }

  /** The record of a lane that goes next; a lane that has none is taken away. */
  function lookInto(lane: Lane, now: number): Found | undefined {
    const probed = isRecovering(lane.subscriptionId) ? probe(lane.subscriptionId, now) : undefined
    if (probed !== undefined) return probed
    const place = front(lane, now)
    if (place === undefined) lanes.delete(lane.key)
    return place && { lane, place }
  }

  /** The oldest record that was not refused last, of the lane that has waited longest for its turn. */
  function trial(now: number, mayGo: (subscriptionId: string) => boolean): Found | undefined {
    for (const lane of lanes.values()) {
      if (!mayGo(lane.subscriptionId)) continue
      let best: Place | undefined
      for (const place of lane.queue.data) {
        if (place.entry.refusals > 0 || (best !== undefined && best.at <= place.at)) continue
        if (isUsable(place, now)) best = place
      }
      if (best !== undefined) return { lane, place: best }
    }
    return undefined
  }

  function find(now: number, mayGo: (subscriptionId: string) => boolean): Found | undefined {
    const tried = isTrial() ? trial(now, mayGo) : undefined
    if (tried !== undefined) return tried
    const first = firstProbes()
    const findIn = (among: Iterable<Lane>, areFirstProbes: boolean): Found | undefined => {
      for (const lane of among) {
        const { subscriptionId } = lane
        if (first.has(subscriptionId) !== areFirstProbes || !mayGo(subscriptionId)) continue
        const found = lookInto(lane, now)
        if (found !== undefined) return found
      }
      return undefined
    }
    const findFirstProbe = (): Found | undefined => findIn(lanesOf(first), true)
    if (wasFirstProbe) return findIn(lanes.values(), false) ?? findFirstProbe()
    return findFirstProbe() ?? findIn(lanes.values(), false)
  }

  function findNext(now: number, idleOnly: boolean): Found | undefined {
    wake(now)
    return find(
      now,
      (subscriptionId) => !(idleOnly && options.inFlightOf(subscriptionId) > 0) && allows(subscriptionId),
    )
  }

  return {
    offer(entries, now) {
      for (const entry of entries) put(entry, now)
      if (standing > 2 * validOnce + toleratedVoids) clearAway()
    },
    next(now, idleOnly) {
      const found = findNext(now, idleOnly)
      if (found === undefined) return undefined
      const { lane, place } = found
      wasFirstProbe = firstProbes().has(lane.subscriptionId)
      // A probe, or a trial, may stand anywhere in its queue: it leaves a void place behind.
      if (lane.queue.peek() === place) take(lane.queue)
      else forget(place)
      if (lastTypes.size >= maxLastTypes) lastTypes.clear()
      lastTypes.set(lane.subscriptionId, place.entry.eventType)
      lanes.delete(lane.key)
      lanes.set(lane.key, lane)
      return place.entry
    },
    ready: (now, idleOnly) => findNext(now, idleOnly) !== undefined,
    hasDue(now, passes) {
      wake(now)
      return find(now, passes) !== undefined
    },
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
