// What is decided of one record, and why, in plain words. A pure function of the record, the policy and the time.
import { formatDuration } from '../config/duration.ts'
import type { TimeZone } from '../platform/time-zone.ts'
import type { WebhookRecord } from '../platform/record.ts'
import { decide, type Decision } from '../reconcile/decide.ts'
import { createFailedRecord, type FailedRecord } from '../reconcile/failed-record.ts'
import type { Policy } from '../reconcile/policy.ts'
import { reasonOf, type Gate } from '../reconcile/retry/gates.ts'

/**
 * A decision, or what comes before any: `successful`, `processing` and `other` are what the platform shows in the place
 * of `failed`; `outside` has left the window, `settling` has not come into it.
 */
export type State = Decision | 'successful' | 'processing' | 'other' | 'outside' | 'settling'

export interface Explanation {
  state: State
  why: string
  /** Epoch ms of the platform's clock: when a retry comes by itself, in the past or present for one that is due; undefined when none will. */
  nextAt: number | undefined
}

export interface Situation {
  policy: Policy
  zone: TimeZone
  /** Epoch ms of the platform's clock. */
  now: number
  /** The gate that blocks its subscription now; undefined when none does, or nobody knows. */
  gate: Gate | undefined
  /** How a moment is shown. */
  show: (ms: number) => string
}

const byHand = (id: string, more = ''): string => `\`webhook-reconciler retry ${more}${id}\` tries it all the same`

function lastOf({ attempts, lastAt, lastAttemptLocal }: FailedRecord, show: Situation['show']): string {
  if (lastAttemptLocal === null) return `no attempt is shown, and its event was at ${show(lastAt)}`
  return attempts === 0 ? `its last attempt was at ${show(lastAt)}` : `attempt ${attempts} was at ${show(lastAt)}`
}

/** Which settings leave a record out. */
function exclusions(entry: FailedRecord, { policy, show }: Situation): string[] {
  const { select, window } = policy
  const { eventAt, eventType, module, subscriptionId } = entry
  const lacks = (list: readonly string[], value: string): boolean => list.length > 0 && !list.includes(value)
  return [
    ...(lacks(select.eventTypes, eventType)
      ? [`its event type is not in select.eventTypes (${select.eventTypes.join(', ')})`]
      : []),
    ...(lacks(select.modules, module) ? [`its module is not in select.modules (${select.modules.join(', ')})`] : []),
    ...(lacks(select.subscriptionIds, subscriptionId) ? ['its subscription is not in select.subscriptionIds'] : []),
    ...(window.notBefore !== undefined && eventAt < window.notBefore
      ? [`its event was before window.notBefore (${show(window.notBefore)})`]
      : []),
  ]
}

/** A record that is not failed is not ours to retry. */
function notFailed({ attempts, status }: WebhookRecord): Explanation | undefined {
  if (status === 'failed') return undefined
  const words = {
    successful: `delivered: the platform shows it as successful, after ${attempts} attempts`,
    processing: 'the platform is delivering it; only what has failed can be retried',
    other: 'the platform shows it in a status that this version does not know; only what has failed can be retried',
  }
  return { state: status, why: words[status], nextAt: undefined }
}

/** An event that the window does not hold, or not yet. */
function notInWindow(entry: FailedRecord, dueAt: number, { policy, now, show }: Situation): Explanation | undefined {
  const { lookbackMs, settleMs } = policy.window
  const leftAt = entry.eventAt + lookbackMs
  if (leftAt < now) {
    const why =
      `outside the window: its event left it at ${show(leftAt)} (window.lookback ${formatDuration(lookbackMs)}); ` +
      byHand(entry.id)
    return { state: 'outside', why, nextAt: undefined }
  }
  const settledAt = entry.eventAt + settleMs
  if (settledAt <= now) return undefined
  const why = `its event is younger than window.settle (${formatDuration(settleMs)}): the platform's own delivery comes first`
  return { state: 'settling', why, nextAt: Math.max(settledAt, dueAt) }
}

function backingOff(entry: FailedRecord, dueAt: number, { policy, show }: Situation): Explanation {
  const leavesAt = entry.eventAt + policy.window.lookbackMs
  const edge =
    dueAt > leavesAt
      ? `; by then it has left the window (${show(leavesAt)}), so it is not retried any more; ${byHand(entry.id)}`
      : ''
  const why = `backing off until ${show(dueAt)}, because ${lastOf(entry, show)}${edge}`
  return { state: 'backing-off', why, nextAt: dueAt > leavesAt ? undefined : dueAt }
}

function due(entry: FailedRecord, dueAt: number, { gate, policy, show }: Situation): Explanation {
  const last = lastOf(entry, show)
  if (gate !== undefined) {
    const why = `held: it would be due since ${show(dueAt)}, but ${reasonOf(gate)}; ${byHand(entry.id)}`
    return { state: 'held', why, nextAt: undefined }
  }
  const order = policy.orderPerEntity
    ? '; if an older event of the same transfer or account has failed too, that one goes first (retry.orderPerEntity)'
    : ''
  return { state: 'due', why: `due since ${show(dueAt)}: ${last}${order}`, nextAt: dueAt }
}

/** Explains one record as the platform shows it. */
export function explain(record: WebhookRecord, situation: Situation): Explanation {
  const done = notFailed(record)
  if (done !== undefined) return done
  const { now, policy, zone } = situation
  const entry = createFailedRecord(record, { zone, now })
  const { decision, dueAt } = decide(entry, policy, { now })
  if (decision === 'excluded') {
    const why = `not selected: ${exclusions(entry, situation).join('; ')}; ${byHand(entry.id)}`
    return { state: decision, why, nextAt: undefined }
  }
  const outside = notInWindow(entry, dueAt, situation)
  if (outside !== undefined && (outside.state === 'outside' || decision !== 'parked')) return outside
  if (decision === 'parked') {
    const why = `parked: ${entry.attempts} attempts, and retry.maxAttempts is ${policy.maxAttempts}; ${byHand(entry.id, '--parked ')}`
    return { state: decision, why, nextAt: undefined }
  }
  return decision === 'backing-off' ? backingOff(entry, dueAt, situation) : due(entry, dueAt, situation)
}

/** When its event leaves the window, epoch ms. */
export function leavesWindowAt(record: WebhookRecord, { now, policy, zone }: Situation): number {
  return createFailedRecord(record, { zone, now }).eventAt + policy.window.lookbackMs
}
