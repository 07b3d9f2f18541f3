// Decides about one record: its decision, the rule that matched, and its next retry. Pure functions of record, policy and time. @see docs/architecture.md "Backlog and decisions"
import { refusesRecord } from '../platform/record.ts'
import { backoffDelayMs } from './backoff.ts'
import type { FailedRecord } from './failed-record.ts'
import type { Policy } from './policy.ts'
import type { Because, Excluded, Rule } from './reasons.ts'
import { isBreakers, type Gate } from './retry/gates.ts'
import { expiryWarningMs } from './window.ts'

export const decisions = ['due', 'backing-off', 'exhausted', 'excluded', 'blocked', 'awaiting'] as const
export type Decision = (typeof decisions)[number]
export type Counts = Record<Decision, number>

export function noCounts(): Counts {
  return Object.fromEntries(decisions.map((decision) => [decision, 0])) as Counts
}

/** The facts that decide about a record: the platform's, and the daemon's own tries. */
export type Known = Pick<
  FailedRecord,
  | ('askedFor' | 'attempts' | 'eventAt' | 'eventType' | 'failedAgainAt' | 'jitterSeed' | 'lastAt')
  | ('provenTries' | 'refusals' | 'responseStatusCode' | 'subscriptionId' | 'triedAt' | 'tries')
> & {
  /** Set while a retry has a pending outcome. */
  awaiting: { lostAt?: number | undefined } | undefined
}

export interface Verdict {
  decision: Decision
  /**
   * When it may be retried, in epoch ms of the platform's clock; not in the future for `due` and `blocked`, always for
   * `backing-off`: otherwise the retry loop would spin.
   */
  dueAt: number
  /** The rule that matched; with `blocked` the shut gate. */
  because: Because
}

/** The facts that show whether a failure may be of its receiver. */
export interface FailedBefore {
  eventType: string
  /** The response to its last retry; null: none. */
  responseStatusCode: number | null
  /** Number of its failed retries. */
  failures: number
}

/** The circumstances of a decision, apart from the record. */
export interface Situation {
  /** Epoch ms of the platform's clock, and monotonic ms. */
  now: number
  monotonic?: number
  /** The gate that blocks its subscription now; undefined without one. */
  gate?: Gate | undefined
  /** True if an operator paused its subscription. Default: false. */
  isPaused?: boolean
  /** While the platform limits the retries of its subscription alone: for how long it has let none through, in ms. */
  unservedForMs?: number | undefined
  /** How long all but its circuit blocks it: global gates, a missing token, its pause, its limit. In ms; Infinity if unknown. Default: 0. */
  stopsForMs?: number | undefined
  /** Remaining cooldown of its circuit, in ms. Default: 0. */
  pausesForMs?: number | undefined
  /** How long ago its closing circuit ended the backoffs of the receiver's failures, in ms. Default: never. */
  backoffsEndedMs?: number
  /** While its circuit is not closed: since when, in epoch ms of the platform's clock, and the receiver's latest response. */
  failing?: { since: number; responseStatusCode: number | null } | undefined
  /** Since when its receiver accepts all, too many for chance, in epoch ms of the platform's clock. Default: never. */
  overSince?: number
  /**
   * When its receiver last took a record that had failed alike, at least half as often (the first delivery counts) as this one
   * before its last failure; in epoch ms of the platform's clock. Default: never.
   */
  takenAtOf?: ((failure: FailedBefore) => number) | undefined
}

/** The current situation of each subscription's records. */
export type SituationOf = (subscriptionId: string) => Situation

/** The next automatic retry of a record. */
export interface NextRetry {
  /**
   * The reason for the wait: a `time`; the `probe` of an open circuit, which may send another record first; the `outcome` of a retry;
   * a `gate` that may open then, or at an unknown time; or nothing, because it will `never` be retried.
   */
  by: (typeof waits)[number]
  /** The earliest time, in epoch ms of the platform's clock; Infinity if unknown. */
  at: number
}

/** Of two without a time, the first in this order counts as sooner. */
export const waits = ['time', 'probe', 'outcome', 'gate', 'never'] as const

export const noRetry: NextRetry = { by: 'never', at: Infinity }

/** The rule that excludes a record; undefined if selected. */
export function exclusionOf(known: Known, { select, window }: Policy): keyof Excluded | undefined {
  const { eventTypes, subscriptionIds } = select
  if (eventTypes.length > 0 && !eventTypes.includes(known.eventType)) return 'event-type'
  if (subscriptionIds.length > 0 && !subscriptionIds.includes(known.subscriptionId)) return 'subscription'
  return window.notBefore !== undefined && known.eventAt < window.notBefore ? 'not-before' : undefined
}

/** The larger of the platform's count and the daemon's. The platform may not count every retry. */
export function attemptsOf({ attempts, tries }: Pick<Known, 'attempts' | 'tries'>): number {
  return Math.max(attempts, tries)
}

/** After a restart, the platform's count replaces own tries, up to this number: retries are neither late nor a storm. */
const maxForeignSteps = 3

/** Steps of the backoff: own tries. It does not wait for the platform's own attempts. */
function stepsOf({ attempts, tries }: Known): number {
  return Math.max(1, tries, Math.min(attempts, maxForeignSteps))
}

function endOfBackoff(known: Known, last: number, { backoff }: Policy, endedAt: number): number {
  if (last <= endedAt && !refusesRecord(known.responseStatusCode)) return endedAt
  return last + backoffDelayMs(known.jitterSeed, stepsOf(known), backoff)
}

/**
 * `last + delay(steps)`, by the later of the platform's attempt and the daemon's try. Ends at `endedAt` if its receiver failed
 * before. Retries that were not let through since have a backoff of their own, `triedAt + delay(refusals)`: the later end counts.
 * Either ends two periods before the record leaves the window at the latest; only once, because a retry after that time gets no
 * second cut.
 */
export function dueAt(known: Known, policy: Policy, endedAt = -Infinity): number {
  const { jitterSeed, lastAt, refusals, triedAt } = known
  // Truncated to the second, as the platform's attempt times may be: an attempt at the last chance must not look earlier.
  const lastChance = Math.floor((known.eventAt + policy.window.lookback - 2 * policy.periodMs) / 1000) * 1000
  const cut = (end: number, last: number): number => (last < lastChance ? Math.min(end, lastChance) : end)
  const last = refusals > 0 ? lastAt : Math.max(lastAt, triedAt)
  const due = cut(endOfBackoff(known, last, policy, endedAt), last)
  return refusals > 0
    ? Math.max(due, cut(triedAt + backoffDelayMs(jitterSeed, refusals, policy.backoff), triedAt))
    : due
}

/** When it reaches the attempt limit if always rejected, in epoch ms of the platform's clock. */
export function exhaustedAt(known: Known, policy: Policy): number {
  let at = dueAt(known, policy)
  const retries = policy.maxAttempts - attemptsOf(known) - 1
  for (let retry = 1; retry <= retries; retry += 1)
    at += backoffDelayMs(known.jitterSeed, stepsOf(known) + retry, policy.backoff)
  return at
}

/** Why a record backs off. */
function waitOf(known: Known, due: number, { window }: Policy): Rule {
  if (due > known.eventAt + window.lookback) return 'too-late'
  return known.refusals > 0 ? 'refused' : 'backoff'
}

export type Refusal =
  | { why: 'refused' | 'unattempted' | 'unproven' }
  /** Since when its receiver accepts all, epoch ms of the platform's clock. */
  | { why: 'mended'; overSince: number }

/** A receiver that took such a record within this time may fail this one by chance, ms. */
const chanceMs = 600_000

/** After so many retries without an attempt in a row, another is not expected to bring one. */
const minUnattempted = 3

/**
 * Why a record that was tried has not arrived, though others do. `unattempted`: the platform shows no attempt after its last three
 * retries. `refused`: it failed twice or more, and since then, or within ten minutes, its receiver took none that had failed nearly as
 * often (`Situation.takenAtOf`). `unproven`: its last retry has no outcome, as when the platform rejects it. Arrival cannot be
 * estimated then. `mended`: the receiver accepts all since, and the next retry probably arrives.
 */
export function refusalOf(known: Known, situation: Situation): Refusal | undefined {
  if (situation.failing !== undefined) return undefined
  const { awaiting, failedAgainAt } = known
  const failures = awaiting === undefined ? known.tries : known.tries - 1
  const unprovenTries = failures - known.provenTries
  if (unprovenTries + known.refusals >= minUnattempted) return { why: 'unattempted' }
  // One retry that was not let through is of the platform, more may be of the record.
  const isUnproven = unprovenTries > 0 || known.refusals > 1 || awaiting?.lostAt !== undefined
  const unproven = isUnproven ? ({ why: 'unproven' } as const) : undefined
  if (known.provenTries < 1) return unproven
  const { eventType, lastAt, responseStatusCode, triedAt } = known
  const { overSince = -Infinity, takenAtOf } = situation
  const takenAt = takenAtOf?.({ eventType, responseStatusCode, failures }) ?? -Infinity
  // A later retry without an outcome proves nothing.
  const seenAt = situation.now - ((situation.monotonic ?? 0) - failedAgainAt)
  const failedAt = seenAt > -Infinity ? Math.min(triedAt, seenAt) : lastAt
  const isOver = failedAt <= overSince
  const isOfReceiver = takenAt >= Math.min(failedAt, situation.now - chanceMs)
  if (!isOfReceiver) return known.provenTries > 1 ? { why: 'refused' } : unproven
  return unproven ?? (isOver ? { why: 'mended', overSince } : undefined)
}

/** The first match counts. */
export function decide(known: Known, policy: Policy, { backoffsEndedMs = Infinity, gate, now }: Situation): Verdict {
  const due = dueAt(known, policy, now - backoffsEndedMs)
  if (known.awaiting !== undefined) return { decision: 'awaiting', dueAt: due, because: 'awaiting' }
  if (known.askedFor) {
    const at = Math.min(due, now)
    return { dueAt: at, ...(gate ? { decision: 'blocked', because: gate } : { decision: 'due', because: 'asked-for' }) }
  }
  const exclusion = exclusionOf(known, policy)
  if (exclusion !== undefined) return { decision: 'excluded', dueAt: due, because: exclusion }
  if (attemptsOf(known) >= policy.maxAttempts) return { decision: 'exhausted', dueAt: due, because: 'max-attempts' }
  if (now < due) return { decision: 'backing-off', dueAt: due, because: waitOf(known, due, policy) }
  if (gate !== undefined) return { decision: 'blocked', dueAt: due, because: gate }
  const isExpiring = known.eventAt + policy.window.lookback - now < expiryWarningMs(policy.window)
  return { decision: 'due', dueAt: due, because: isExpiring ? 'expiring' : 'due' }
}

/** When a record is no longer retried, in epoch ms of the platform's clock: an operator's request holds beyond the window. */
export function retriedUntil({ askedFor, eventAt }: Pick<Known, 'askedFor' | 'eventAt'>, { window }: Policy): number {
  return askedFor ? Infinity : eventAt + window.lookback
}

/**
 * When the record itself allows its retry, in epoch ms of the platform's clock; Infinity while it is awaited, exhausted, excluded,
 * or has left the window.
 */
export function sendableAt(known: Known, policy: Policy, situation: Situation): number {
  const { decision, dueAt: at } = decide(known, policy, situation)
  const isOpen = decision === 'backing-off' || decision === 'due'
  return isOpen && situation.now <= retriedUntil(known, policy) ? at : Infinity
}

/** The next retry of a decided record, in the same situation. `until`: it is no longer retried then. */
export function nextRetryOf({ decision, dueAt: due }: Verdict, situation: Situation, until: number): NextRetry {
  const { gate, now, pausesForMs = 0, stopsForMs = 0 } = situation
  if (decision === 'due') return { by: 'time', at: now }
  if (decision === 'awaiting') return { by: 'outcome', at: Infinity }
  if (decision === 'excluded' || decision === 'exhausted' || due > until) return noRetry
  if (stopsForMs === Infinity) return { by: 'gate', at: Infinity }
  const blockedForMs = Math.max(stopsForMs, pausesForMs)
  if (decision === 'blocked' && blockedForMs === 0) return { by: 'outcome', at: Infinity }
  const at = Math.max(due, now + blockedForMs)
  if (at > until) return noRetry
  if (at === due) return { by: 'time', at }
  // A ping is sent then, and may fail.
  if (gate !== undefined && isBreakers(gate)) return { by: 'gate', at }
  return { by: pausesForMs > 0 ? 'probe' : 'time', at }
}

export function soonerOf(a: NextRetry, b: NextRetry): NextRetry {
  const order = a.at - b.at || waits.indexOf(a.by) - waits.indexOf(b.by)
  return order > 0 ? b : a
}
