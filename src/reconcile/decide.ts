// The decision about one record, the rule that keeps it from going out, and when it goes out next: pure functions of record, policy and time. @see docs/architecture.md "Backlog and decisions"
import { refusesRecord } from '../platform/record.ts'
import { backoffDelayMs } from './backoff.ts'
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

/** The facts about a record that decide: the platform's, and the daemon's own tries. Times in epoch ms of the platform's clock. */
export interface Known {
  id: string
  /** Hash of the id, from which the jitter of its backoffs is drawn. */
  jitterSeed: number
  subscriptionId: string
  eventType: string
  eventAt: number
  /** The platform's count, and the last attempt that it shows (the event time when it shows none). */
  attempts: number
  lastAt: number
  /** PATCHes of this daemon that the platform answered about the record itself, or may have taken. */
  tries: number
  /** PATCHes since then that say nothing of the record (401, 403, 5xx, a gateway's responses), or never arrived. They lengthen the backoff, no more. */
  refusals: number
  /** When the last PATCH was sent, with any result; 0 when there was none. */
  triedAt: number
  /** Set while it was retried and its outcome is not known. */
  awaiting: object | undefined
  /** True while an operator asks for its retry, until it is sent. Default: false. */
  askedFor?: boolean
  /** When its last retry failed again, monotonic ms; -Infinity when its last outcome is another one. */
  failedAgainAt?: number
  /** The receiver's response to the last attempt; null: none. */
  responseStatusCode?: number | null
}

export interface Verdict {
  decision: Decision
  /** When it may be retried, in epoch ms of the platform's clock; in the past or present for `due` and `blocked`. */
  dueAt: number
  /** The rule that matched; with `blocked` the gate that is shut. */
  because: Because
}

/** The facts of a record that tell whether a failure of its receiver is over. */
export interface Mendable {
  eventType: string
  responseStatusCode: number | null
  /** Number of its tries that have ended. */
  tries: number
}

/** Evidence of other records about one that has failed. */
export interface Mending {
  /** Its receiver was mended for such a record: its circuit closed, or others that had failed were taken; epoch ms of the platform's clock. */
  mendedAt: number
  /** Any others were taken since then, and none has failed: two failures of a record may be of before, and no more is known. */
  takingSince: number
  /** While the receiver fails some of all deliveries, so many failures of one record may be chance. */
  chanceTries: number
}

/** The circumstances of a decision, apart from the record. */
export interface Situation {
  /** Epoch ms of the platform's clock, and monotonic ms. */
  now: number
  monotonic?: number
  /** The gate that blocks its subscription now; undefined when none does. */
  gate?: Gate | undefined
  /** How long the global gates stay shut, in ms; Infinity if unknown. Default: 0. */
  stopsForMs?: number | undefined
  /** How long the cooldown of its circuit goes on, in ms. Default: 0. */
  pausesForMs?: number | undefined
  /** How long ago the closing of its circuit ended the backoffs of its receiver's failures, in ms. Default: never. */
  backoffsEndedMs?: number
  /** While its circuit is not closed: since when, in epoch ms of the platform's clock, and the receiver's newest response. */
  failing?: { since: number; responseStatusCode: number | null } | undefined
  /** Default: its receiver never failed. */
  mendingOf?: ((record: Mendable) => Mending) | undefined
}

/** The situation of each subscription's records at one moment. */
export type SituationOf = (subscriptionId: string) => Situation

/** The next automatic retry of a record. */
export interface NextRetry {
  /**
   * What it waits for: a `time`; the `probe` of an open circuit, which may be another record and then goes first; the
   * `outcome` of a retry; a `gate` that may open then, or at an unknown time; or nothing, as it `never` comes.
   */
  by: (typeof waits)[number]
  /** The earliest time, in epoch ms of the platform's clock; Infinity if unknown. */
  at: number
}

/** In this order of two without a time the first counts as the sooner one. */
export const waits = ['time', 'probe', 'outcome', 'gate', 'never'] as const

export const noRetry: NextRetry = { by: 'never', at: Infinity }

/** The rule that excludes a record; undefined for a selected one. */
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

/** After a restart the platform's count stands in for own tries, up to so many: retries are neither late nor a storm. */
const maxForeignSteps = 3

/** Steps of the backoff: own tries. The platform's own attempts are not ours to wait for. */
function stepsOf({ attempts, tries }: Known): number {
  return Math.max(1, tries, Math.min(attempts, maxForeignSteps))
}

/**
 * `last + delay(steps + refusals)`. The backoff of an earlier failure of its receiver ends at `endedAt`. One that would end after its record has left the window is cut to two periods before it
 * leaves; once, as a retry after that moment is not followed by another cut.
 */
export function dueAt(known: Known, policy: Policy, endedAt = -Infinity): number {
  const last = Math.max(known.lastAt, known.triedAt)
  if (last <= endedAt && known.refusals === 0 && !refusesRecord(known.responseStatusCode ?? null)) return endedAt
  const due = last + backoffDelayMs(known.jitterSeed, stepsOf(known) + known.refusals, policy.backoff)
  const leavesAt = known.eventAt + policy.window.lookback
  // Cut to the second, as the platform's attempt times may be: an attempt at the last chance must not look earlier.
  const lastChance = Math.floor((leavesAt - 2 * policy.periodMs) / 1000) * 1000
  return due > leavesAt && last < lastChance ? lastChance : due
}

/** When it reaches the attempt limit if the receiver refuses it each time, in epoch ms of the platform's clock. */
export function exhaustedAt(known: Known, policy: Policy): number {
  let at = dueAt(known, policy)
  const retries = policy.maxAttempts - attemptsOf(known) - 1
  for (let retry = 1; retry <= retries; retry += 1)
    at += backoffDelayMs(known.jitterSeed, stepsOf(known) + retry, policy.backoff)
  return at
}

/** Whether it leaves the window soon. `now` in epoch ms of the platform's clock. */
export function isExpiring({ eventAt }: Pick<Known, 'eventAt'>, { window }: Policy, now: number): boolean {
  return eventAt + window.lookback - now < expiryWarningMs(window)
}

/** Why a record backs off. */
function waitOf(known: Known, due: number, { window }: Policy): Rule {
  if (due > known.eventAt + window.lookback) return 'too-late'
  return known.refusals > 0 ? 'refused' : 'backoff'
}

export interface Refusal {
  why: 'refused' | 'partly' | 'unproven' | 'mended'
  /** When its receiver was mended, epoch ms of the platform's clock; -Infinity when it was not. */
  mendedAt: number
}

/**
 * Why a record that was tried twice has not arrived, though others do: its receiver has `refused` it; or fails some of all: `partly`; or
 * the last retry has no outcome, as of one that the platform rejects: `unproven`. Then no time of arrival is known. Or the receiver was
 * `mended` since, and its next retry probably arrives.
 */
export function refusalOf(known: Known, situation: Situation): Refusal | undefined {
  const { awaiting } = known
  const tries = awaiting === undefined ? known.tries : known.tries - 1
  if (tries < 2 || situation.failing !== undefined) return undefined
  const { eventType, failedAgainAt, lastAt, responseStatusCode = null, triedAt } = known
  const mending = situation.mendingOf?.({ eventType, responseStatusCode, tries })
  const { mendedAt = -Infinity, takingSince = -Infinity, chanceTries = 0 } = mending ?? {}
  if (tries <= chanceTries) return { why: 'partly', mendedAt }
  // A later retry without an outcome says nothing.
  const seenAt = situation.now - ((situation.monotonic ?? 0) - (failedAgainAt ?? NaN))
  const failedAt = seenAt > -Infinity ? Math.min(triedAt, seenAt) : lastAt
  if (tries === 2 && failedAt <= takingSince && failedAt > mendedAt) return undefined
  const isUnproven = awaiting === undefined && failedAgainAt === -Infinity
  return { why: failedAt <= mendedAt ? 'mended' : isUnproven ? 'unproven' : 'refused', mendedAt }
}

/** First match wins. */
export function decide(known: Known, policy: Policy, { backoffsEndedMs = Infinity, gate, now }: Situation): Verdict {
  const due = dueAt(known, policy, now - backoffsEndedMs)
  if (known.awaiting !== undefined) return { decision: 'awaiting', dueAt: due, because: 'awaiting' }
  if (known.askedFor === true) {
    const at = Math.min(due, now)
    return { dueAt: at, ...(gate ? { decision: 'blocked', because: gate } : { decision: 'due', because: 'asked-for' }) }
  }
  const exclusion = exclusionOf(known, policy)
  if (exclusion !== undefined) return { decision: 'excluded', dueAt: due, because: exclusion }
  if (attemptsOf(known) >= policy.maxAttempts) return { decision: 'exhausted', dueAt: due, because: 'max-attempts' }
  if (now < due) return { decision: 'backing-off', dueAt: due, because: waitOf(known, due, policy) }
  if (gate !== undefined) return { decision: 'blocked', dueAt: due, because: gate }
  return { decision: 'due', dueAt: due, because: isExpiring(known, policy, now) ? 'expiring' : 'due' }
}

/** When a record of this verdict goes out next, in the situation that it was decided in. `leavesAt`: its event leaves the window. */
export function nextRetryOf({ decision, dueAt: due }: Verdict, situation: Situation, leavesAt: number): NextRetry {
  const { gate, now, pausesForMs = 0, stopsForMs = 0 } = situation
  if (decision === 'due') return { by: 'time', at: now }
  if (decision === 'awaiting') return { by: 'outcome', at: Infinity }
  if (decision === 'excluded' || decision === 'exhausted' || due > leavesAt) return noRetry
  if (stopsForMs === Infinity) return { by: 'gate', at: Infinity }
  const blockedForMs = Math.max(stopsForMs, pausesForMs)
  if (decision === 'blocked' && blockedForMs === 0) return { by: 'outcome', at: Infinity }
  const at = Math.max(due, now + blockedForMs)
  if (at > leavesAt) return noRetry
  if (at === due) return { by: 'time', at }
  // A ping goes out then, and may fail.
  if (gate !== undefined && isBreakers(gate)) return { by: 'gate', at }
  return { by: pausesForMs > 0 ? 'probe' : 'time', at }
}

/** The next retry of two records. */
export function soonerOf(a: NextRetry, b: NextRetry): NextRetry {
  if (a.at !== b.at) return a.at < b.at ? a : b
  return waits.indexOf(a.by) <= waits.indexOf(b.by) ? a : b
}
