// Why deliveries are missing, and what nobody retries any more, as the status document gives them.
import type { CircuitState, CircuitView } from '../reconcile/retry/circuits.ts'
import type { Cause, Causes, ParkedRecord } from './causes.ts'
import type { Decision } from '../reconcile/decide.ts'
import { redact } from '../runtime/redact.ts'
import { toTime } from './time.ts'

/** Records that failed in the same way: one row instead of thousands. */
export interface CauseStatus {
  /** As the platform tells it, without what looks like a secret or an account. */
  eventType: string
  subscriptionId: string
  /** What the receiver answered at the last attempt; null when it did not. */
  responseStatusCode: number | null
  records: number
  /** Event time of the oldest. */
  oldestEvent: string | null
  byDecision: Readonly<Record<Exclude<Decision, 'excluded'>, number>>
  /** Of its subscription. */
  circuit: CircuitState
  /**
   * When the first of them may be retried, `now` or earlier when that is now. Null when it depends on something else:
   * on what `holding` tells, on an outcome that is awaited, or when all are parked.
   */
  nextAttempt: string | null
}

export interface CausesStatus {
  /** How many causes there are. */
  total: number
  /** Those with the most records (at most 50), most first. */
  list: CauseStatus[]
  /** What is not in the list: causes, and their records. */
  more: { causes: number; records: number }
  /** Missing deliveries of which only the number is known here, as there was no room for more: they are in no cause. */
  onlyCounted: number
}

export interface ParkedStatus {
  eventId: string
  webhookId: string
  eventType: string
  subscriptionId: string
  /** What the receiver answered at the last attempt; null when it did not. */
  responseStatusCode: number | null
  attempts: number
  event: string | null
  lastAttempt: string | null
}

export interface ParkedListStatus {
  /** How many records are parked. */
  total: number
  /** Those with the oldest events (at most 100), oldest first. */
  list: ParkedStatus[]
}

/** What causes are shown with. Times in epoch ms of the host's clock, spans in ms. */
export interface CauseContext {
  now: number
  /** How far the platform's clock is ahead of this host's. */
  skewMs: number
  /** True while nothing may be retried at all. */
  isHeld: boolean
  throttledForMs: number
  circuits: readonly CircuitView[]
}

interface CircuitOf {
  state: CircuitState
  pausesForMs: number
}

function createCircuitOf(circuits: readonly CircuitView[]): (subscriptionId: string) => CircuitOf {
  const bySubscription = new Map(circuits.map((view) => [view.subscriptionId, view]))
  const none: CircuitOf = { state: 'closed', pausesForMs: 0 }
  return (subscriptionId) => bySubscription.get(subscriptionId) ?? none
}

/** When the first of a cause may be retried, as far as a clock can tell. */
function nextAttemptOf(cause: Cause, circuit: CircuitOf, context: CauseContext): number | undefined {
  const { isHeld, now, skewMs, throttledForMs } = context
  if (isHeld) return undefined
  const { due, held } = cause.byDecision
  const afterBackoff = cause.nextDueAt === undefined ? Infinity : cause.nextDueAt - skewMs
  const atOnce = due > 0 ? now : Infinity
  const afterPause = held > 0 && circuit.pausesForMs > 0 ? now : Infinity
  const first = Math.min(afterBackoff, atOnce, afterPause)
  if (first === Infinity) return undefined
  return Math.max(first, now + Math.max(throttledForMs, circuit.pausesForMs))
}

export function toCauses(causes: Causes, onlyCounted: number, context: CauseContext): CausesStatus {
  const circuitOf = createCircuitOf(context.circuits)
  const listed = causes.list.reduce((sum, { records }) => sum + records, 0)

  function toCause(cause: Cause): CauseStatus {
    const circuit = circuitOf(cause.subscriptionId)
    const { due, held, awaiting, parked, 'backing-off': backingOff } = cause.byDecision
    return {
      eventType: redact(cause.eventType),
      subscriptionId: cause.subscriptionId,
      responseStatusCode: cause.responseStatusCode,
      records: cause.records,
      oldestEvent: toTime(cause.oldestAt),
      byDecision: { due, 'backing-off': backingOff, parked, held, awaiting },
      circuit: circuit.state,
      nextAttempt: toTime(nextAttemptOf(cause, circuit, context)),
    }
  }

  return {
    total: causes.total,
    list: causes.list.map(toCause),
    more: { causes: causes.total - causes.list.length, records: causes.records - listed },
    onlyCounted,
  }
}

function toParked(record: ParkedRecord): ParkedStatus {
  return {
    eventId: record.eventId,
    webhookId: record.id,
    // The one text here that the platform makes up: it may be anything.
    eventType: redact(record.eventType),
    subscriptionId: record.subscriptionId,
    responseStatusCode: record.responseStatusCode,
    attempts: record.attempts,
    event: toTime(record.eventAt),
    lastAttempt: toTime(record.lastAt),
  }
}

/** `total` counts those, too, of which only the number is known here. */
export function toParkedList({ parked }: Causes, total: number): ParkedListStatus {
  return { total: Math.max(total, parked.list.length), list: parked.list.map(toParked) }
}
