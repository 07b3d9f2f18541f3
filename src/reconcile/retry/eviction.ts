// Eviction when the backlog is full: a record of the subscription that holds the most places gives way. @see docs/architecture.md "Backlog and decisions"
import TinyQueue from 'tinyqueue'
import { attemptsOf, decide, type Decision } from '../decide.ts'
import { eventSecondOf, type FailedRecord } from '../failed-record.ts'
import { recentMs, type Policy } from '../policy.ts'

/** Maximum share of places for the newest hour, and for older records. */
const maxShare = 0.9
/** Eviction order: parked records first, then backing-off ones, then due ones. */
const ranks: Readonly<Record<Decision, number>> = {
  parked: 0,
  excluded: 0,
  'backing-off': 1,
  due: 2,
  held: 2,
  awaiting: 3,
}

export interface Admission {
  /**
   * Finds a place for a newcomer: a free one, or that of a record to evict; undefined when there is neither.
   */
  placeFor(newcomer: FailedRecord): { evicted: FailedRecord | undefined } | undefined
  /** A record has left the backlog: evicted, or by itself. */
  left(record: FailedRecord): void
}

export interface AdmissionOptions {
  policy: Policy
  maxRecords: number
  /** Epoch ms of the platform's clock. */
  now: number
  /** Records that there will be at most: while all have room in any case, no place is counted. */
  atMost: number
}

type Age = 'recent' | 'old'

/** A candidate for eviction. `isOursOnly`: only the daemon knows all tries of it, so it is evicted last. */
interface Candidate {
  record: FailedRecord
  rank: number
  attempts: number
  isOursOnly: boolean
  /** Among equals the larger value is evicted: the due time of a backing-off record, else the event's second. */
  at: number
}

interface SubscriptionPlaces {
  id: string
  places: number
  /** By age; heaps with the next one to evict first, created when first needed. */
  candidates: Partial<Record<Age, TinyQueue<Candidate>>>
}

/** Negative when `a` can be retried later than `b`, as far as the order of retries goes. */
function byTurn(a: Candidate, b: Candidate): number {
  return a.rank - b.rank || (a.rank === ranks.due ? b.attempts - a.attempts : 0)
}

/** Negative when `a` is worth less: it is evicted first. */
function byWorth(a: Candidate, b: Candidate): number {
  return Number(a.isOursOnly) - Number(b.isOursOnly) || byTurn(a, b) || b.at - a.at
}

/** Decides about the newcomers of one listing. `records` are those of the backlog; the counts include earlier decisions. */
export function createAdmission(
  records: Iterable<FailedRecord>,
  { atMost, maxRecords, now, policy }: AdmissionOptions,
): Admission {
  const maxOfAge = Math.ceil(maxShare * maxRecords)
  if (atMost <= maxOfAge) return { placeFor: () => ({ evicted: undefined }), left: () => undefined }
  const places: Record<Age, number> = { recent: 0, old: 0 }
  const held = new Map<string, SubscriptionPlaces>()
  const present = [...records]
  const gone = new Set<FailedRecord>()
  let bySubscription: Map<string, FailedRecord[]> | undefined
  /** Largest subscription first; one whose count has changed has a second entry. */
  const largest = new TinyQueue<{ one: SubscriptionPlaces; places: number }>([], (a, b) => b.places - a.places)

  const ageOf = ({ eventAt }: FailedRecord): Age => (now - eventAt < recentMs ? 'recent' : 'old')

  function candidate(record: FailedRecord): Candidate {
    const { decision, dueAt } = decide(record, policy, { now })
    const at = decision === 'backing-off' ? dueAt : eventSecondOf(record)
    const isOursOnly = record.tries > record.attempts
    return { record, rank: ranks[decision], attempts: attemptsOf(record), isOursOnly, at }
  }

  function heldBy(id: string): SubscriptionPlaces {
    const known = held.get(id) ?? { id, places: 0, candidates: {} }
    held.set(id, known)
    return known
  }

  function count(record: FailedRecord, by: 1 | -1): void {
    places[ageOf(record)] += by
    const one = heldBy(record.subscriptionId)
    one.places += by
    if (bySubscription !== undefined) largest.push({ one, places: one.places })
  }

  /** Its state may have changed since `records` were counted. */
  const mayLeave = (record: FailedRecord): boolean => record.awaiting === undefined && !gone.has(record)

  function candidatesOf({ candidates, id }: SubscriptionPlaces, age: Age): TinyQueue<Candidate> {
    candidates[age] ??= new TinyQueue(
      (bySubscription?.get(id) ?? []).filter((record) => mayLeave(record) && ageOf(record) === age).map(candidate),
      byWorth,
    )
    return candidates[age]
  }

  /** The next one to evict; others whose state has changed are dropped. */
  function nextOf(queue: TinyQueue<Candidate>): Candidate | undefined {
    for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
      if (mayLeave(next.record)) return next
      queue.pop()
    }
    return undefined
  }

  function takeFrom(
    one: SubscriptionPlaces,
    ages: readonly Age[],
    mayGo: (candidate: Candidate) => boolean,
  ): FailedRecord | undefined {
    let worst: { queue: TinyQueue<Candidate>; next: Candidate } | undefined
    for (const age of ages) {
      const queue = candidatesOf(one, age)
      const next = nextOf(queue)
      if (next !== undefined && (worst === undefined || byWorth(next, worst.next) < 0)) worst = { queue, next }
    }
    if (worst === undefined || !mayGo(worst.next)) return undefined
    worst.queue.pop()
    return worst.next.record
  }

  /**
   * From the largest subscription, if it holds more than the newcomer's own. With one more, the two would only swap places,
   * and again with the next listing: then a record is evicted only for one that can be retried sooner.
   */
  function takeFromLargest(own: number, entering: Candidate, ages: readonly Age[]): FailedRecord | undefined {
    const passed: { one: SubscriptionPlaces; places: number }[] = []
    let victim: FailedRecord | undefined
    for (let top = largest.peek(); top !== undefined && victim === undefined; top = largest.peek()) {
      const { one, places: then } = top
      if (then <= own) break
      largest.pop()
      if (then !== one.places) continue
      passed.push(top)
      victim = takeFrom(one, ages, (other) => then > own + 1 || byTurn(other, entering) < 0)
    }
    for (const top of passed) largest.push(top)
    return victim
  }

  function victimOf(newcomer: FailedRecord, ages: readonly Age[]): FailedRecord | undefined {
    const entering = candidate(newcomer)
    // A parked newcomer evicts no other record.
    if (entering.rank === ranks.parked) return undefined
    if (bySubscription === undefined) {
      bySubscription = Map.groupBy(present, ({ subscriptionId }) => subscriptionId)
      for (const one of held.values()) largest.push({ one, places: one.places })
    }
    const own = heldBy(newcomer.subscriptionId)
    return (
      takeFromLargest(own.places, entering, ages) ??
      // Within its own subscription: only a record that can be retried later.
      takeFrom(own, ages, (other) => byTurn(other, entering) < 0)
    )
  }

  for (const record of present) count(record, 1)

  return {
    placeFor(newcomer) {
      const age = ageOf(newcomer)
      const isAgeFull = places[age] >= maxOfAge
      let evicted: FailedRecord | undefined
      if (isAgeFull || places.recent + places.old >= maxRecords) {
        evicted = victimOf(newcomer, isAgeFull ? [age] : ['recent', 'old'])
        if (evicted === undefined) return undefined
      }
      count(newcomer, 1)
      return { evicted }
    },
    left(record) {
      gone.add(record)
      count(record, -1)
    },
  }
}
