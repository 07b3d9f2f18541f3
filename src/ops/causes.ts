// Why deliveries are missing: failed records grouped by event type, subscription and last answer, and the parked ones.
import type { CircuitState, CircuitView } from '../reconcile/retry/circuits.ts'
import type { Gate } from '../reconcile/retry/gates.ts'
import { decide, noCounts, type Counts } from '../reconcile/decide.ts'
import { redact } from '../runtime/redact.ts'
import type { FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'

/** Records that failed in the same way. */
export interface Cause {
  eventType: string
  subscriptionId: string
  /** The receiver's answer at the last attempt; null when there was none. */
  responseStatusCode: number | null
  records: number
  byDecision: Counts
  /** Event time of the oldest, epoch ms. */
  oldestAt: number
  /** When the first of those that back off may be retried, epoch ms of the platform's clock; undefined when none does. */
  nextDueAt: number | undefined
}

/** A record at the attempt limit, as it is shown. */
export interface ParkedRecord {
  eventId: string
  webhookId: string
  /** As the platform has it, without parts that look like a secret or an account. */
  eventType: string
  subscriptionId: string
  /** The receiver's answer at the last attempt; null when there was none. */
  responseStatusCode: number | null
  attempts: number
  event: Date | null
  lastAttempt: Date | null
}

export interface Causes {
  /** How many causes there are, and how many records they have. */
  total: number
  records: number
  /** Causes with the most records, most first; among equals the oldest first. */
  list: Cause[]
  /** How many records are parked, and those with the oldest events, oldest first. */
  parked: { total: number; list: ParkedRecord[] }
}

export interface CausesOptions {
  policy: Policy
  /** Epoch ms of the platform's clock. */
  now: number
  /** The gate that blocks a subscription. */
  gateOf: (subscriptionId: string) => Gate | undefined
  /** The most causes, and the most parked records, that are listed. */
  maxCauses: number
  maxParked: number
}

/** Null for a time that Date can't hold: it must not keep the rest from being shown. */
export function toDate(ms: number | undefined): Date | null {
  const date = new Date(ms ?? NaN)
  return Number.isNaN(date.getTime()) ? null : date
}

/** Keeps the first `max` in an order, however many come, without sorting them all. */
function createFirsts<T>(max: number, order: (a: T, b: T) => number): { add(item: T): void; list(): T[] } {
  let kept: T[] = []
  const cut = (): void => {
    kept = kept.toSorted(order).slice(0, max)
  }
  return {
    add(item) {
      kept.push(item)
      if (kept.length >= 2 * max + 64) cut()
    },
    list() {
      cut()
      return kept
    },
  }
}

type ByCode = Map<number | null, Cause>

/** Finds a record's group without making a key of it: there may be a hundred thousand records. */
function createGroups(): { of(entry: FailedRecord): Cause; list(): Cause[] } {
  const groups = new Map<string, Map<string, ByCode>>()
  const list: Cause[] = []

  function inner<K, V>(map: Map<K, V>, key: K, make: () => V): V {
    const known = map.get(key)
    if (known !== undefined) return known
    const made = make()
    map.set(key, made)
    return made
  }

  return {
    of({ eventType, responseStatusCode, subscriptionId }) {
      const ofType = inner(groups, eventType, () => new Map<string, ByCode>())
      const ofSubscription = inner(ofType, subscriptionId, (): ByCode => new Map())
      return inner(ofSubscription, responseStatusCode, () => {
        const cause: Cause = {
          eventType,
          subscriptionId,
          responseStatusCode,
          records: 0,
          byDecision: noCounts(),
          oldestAt: Infinity,
          nextDueAt: undefined,
        }
        list.push(cause)
        return cause
      })
    },
    list: () => list,
  }
}

function toParked(entry: FailedRecord): ParkedRecord {
  const { eventId, id, eventType, subscriptionId, responseStatusCode, attempts, tries, eventAt, lastAt, triedAt } =
    entry
  return {
    eventId,
    webhookId: id,
    eventType: redact(eventType),
    subscriptionId,
    responseStatusCode,
    attempts: Math.max(attempts, tries),
    event: toDate(eventAt),
    lastAttempt: toDate(Math.max(lastAt, triedAt)),
  }
}

const oldestFirst = (a: FailedRecord, b: FailedRecord): number => a.eventAt - b.eventAt
const byCount = (a: Cause, b: Cause): number => b.records - a.records || a.oldestAt - b.oldestAt

/** Groups the records. Those that are excluded are not ours to miss. */
export function groupByCause(entries: Iterable<FailedRecord>, options: CausesOptions): Causes {
  const { policy, now, gateOf, maxCauses, maxParked } = options
  const groups = createGroups()
  const firstCauses = createFirsts(maxCauses, byCount)
  const firstParked = createFirsts(maxParked, oldestFirst)
  let [records, parked] = [0, 0]
  for (const entry of entries) {
    const { decision, dueAt } = decide(entry, policy, { now, gate: gateOf(entry.subscriptionId) })
    if (decision === 'excluded') continue
    const cause = groups.of(entry)
    records += 1
    cause.records += 1
    cause.byDecision[decision] += 1
    cause.oldestAt = Math.min(cause.oldestAt, entry.eventAt)
    if (decision === 'backing-off') {
      cause.nextDueAt = Math.min(cause.nextDueAt ?? Infinity, dueAt)
    }
    if (decision === 'parked') {
      parked += 1
      firstParked.add(entry)
    }
  }
  for (const cause of groups.list()) firstCauses.add(cause)
  return {
    total: groups.list().length,
    records,
    list: firstCauses.list(),
    parked: { total: parked, list: firstParked.list().map(toParked) },
  }
}

/** A cause as it is shown. */
export interface CauseStatus extends Omit<Cause, 'oldestAt' | 'nextDueAt'> {
  oldestEvent: Date | null
  /** Of its subscription. */
  circuit: CircuitState
  /**
   * When the first of them may be retried, `now` or earlier when that is now. Null when it depends on something else: on
   * a shut gate, on an awaited outcome, or when all are parked.
   */
  nextAttempt: Date | null
}

/** Causes are shown with these. Times in epoch ms of the host's clock, spans in ms. */
export interface CauseContext {
  now: number
  /** How far the platform's clock is ahead of this host's. */
  skewMs: number
  /** True while no record may be retried. */
  isStopped: boolean
  throttledForMs: number
  circuits: readonly CircuitView[]
}

export function showCauses(list: readonly Cause[], context: CauseContext): CauseStatus[] {
  const { isStopped, now, skewMs, throttledForMs } = context
  const circuits = new Map(context.circuits.map((view) => [view.subscriptionId, view]))

  /** As far as a clock can say. */
  function nextAttemptOf({ byDecision: { due, held }, nextDueAt }: Cause, pausesForMs: number): number | undefined {
    if (isStopped) return undefined
    const afterBackoff = nextDueAt === undefined ? Infinity : nextDueAt - skewMs
    const first = due > 0 || (held > 0 && pausesForMs > 0) ? Math.min(now, afterBackoff) : afterBackoff
    return first === Infinity ? undefined : Math.max(first, now + Math.max(throttledForMs, pausesForMs))
  }

  return list.map(({ nextDueAt, oldestAt, ...cause }) => {
    const { pausesForMs = 0, state = 'closed' } = circuits.get(cause.subscriptionId) ?? {}
    return {
      ...cause,
      eventType: redact(cause.eventType),
      oldestEvent: toDate(oldestAt),
      circuit: state,
      nextAttempt: toDate(nextAttemptOf({ ...cause, nextDueAt, oldestAt }, pausesForMs)),
    }
  })
}
