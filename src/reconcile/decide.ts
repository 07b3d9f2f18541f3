// What the policy says of one record now: a pure function. @see design section 9
import { backoffDelayMs } from './backoff.ts'
import type { Policy, Selection } from './policy.ts'
import type { Gate } from './retry/gates.ts'

export const decisions = ['due', 'backing-off', 'parked', 'excluded', 'held', 'awaiting'] as const
export type Decision = (typeof decisions)[number]
export type Counts = Record<Decision, number>

export function noCounts(): Counts {
  return Object.fromEntries(decisions.map((decision) => [decision, 0])) as Counts
}

/** What a decision looks at: the platform's word, and what we did ourselves. Times in epoch ms of the platform's clock. */
export interface Known {
  id: string
  subscriptionId: string
  eventType: string
  module: string
  eventAt: number
  /** The platform's count, and the last attempt that it shows (the event time when it shows none). */
  attempts: number
  lastAt: number
  /** Our PATCHes of this record that the platform took, or may have taken. */
  tries: number
  /** PATCHes since the last of these that the platform refused, or that never left. They lengthen the backoff, and never park. */
  refusals: number
  /** When the last PATCH was sent, whatever came of it; 0 when there was none. */
  triedAt: number
  /** Set while it was retried and its outcome is not known. */
  awaiting: object | undefined
}

export interface Verdict {
  decision: Decision
  /** When it may be retried, in epoch ms of the platform's clock; in the past or present for `due` and `held`. */
  dueAt: number
  /** With `held`: the gate that is shut. */
  gate?: Gate
}

/** What a decision depends on besides the record. */
export interface Situation {
  /** Epoch ms of the platform's clock. */
  now: number
  /** The gate that blocks its subscription now; undefined when none does. */
  gate?: Gate | undefined
}

export function isSelected(known: Pick<Known, 'subscriptionId' | 'eventType' | 'module'>, select: Selection): boolean {
  return (
    (select.eventTypes.length === 0 || select.eventTypes.includes(known.eventType)) &&
    (select.modules.length === 0 || select.modules.includes(known.module)) &&
    (select.subscriptionIds.length === 0 || select.subscriptionIds.includes(known.subscriptionId))
  )
}

function isOurs(known: Known, policy: Policy): boolean {
  const { notBefore } = policy.window
  return isSelected(known, policy.select) && (notBefore === undefined || known.eventAt >= notBefore)
}

/** The larger of the platform's count and ours. The platform does not tell everything that it was asked for. */
export function attemptsOf({ attempts, tries }: Pick<Known, 'attempts' | 'tries'>): number {
  return Math.max(attempts, tries)
}

/**
 * `last + delay(n + refusals)`. A backoff that would end after its record has left the window is cut to two periods before it
 * leaves; once, as a retry after that moment is not followed by another cut.
 */
export function dueAt(known: Known, policy: Policy): number {
  const last = Math.max(known.lastAt, known.triedAt)
  const due = last + backoffDelayMs(known.id, Math.max(1, attemptsOf(known)) + known.refusals, policy.backoff)
  const leavesAt = known.eventAt + policy.window.lookbackMs
  // Attempts may be told to the second: one made at the last chance must not seem to have been made before it.
  const lastChance = Math.floor((leavesAt - 2 * policy.periodMs) / 1000) * 1000
  return due > leavesAt && last < lastChance ? lastChance : due
}

/** Whether it leaves the window within `window.expiryWarning`. `now` in epoch ms of the platform's clock. */
export function isExpiring({ eventAt }: Pick<Known, 'eventAt'>, { window }: Policy, now: number): boolean {
  return eventAt + window.lookbackMs - now < window.expiryWarningMs
}

/** First match wins. */
export function decide(known: Known, policy: Policy, { gate, now }: Situation): Verdict {
  const due = dueAt(known, policy)
  if (!isOurs(known, policy)) return { decision: 'excluded', dueAt: due }
  if (known.awaiting !== undefined) return { decision: 'awaiting', dueAt: due }
  if (attemptsOf(known) >= policy.maxAttempts) return { decision: 'parked', dueAt: due }
  if (now < due) return { decision: 'backing-off', dueAt: due }
  return gate === undefined ? { decision: 'due', dueAt: due } : { decision: 'held', dueAt: due, gate }
}
