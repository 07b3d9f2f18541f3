// Sums over the backlog: records by decision, by subscription, and why their arrival cannot be estimated. @see docs/architecture.md "Backlog and decisions"
import type { TimeZone } from '../../platform/time-zone.ts'
import { lookedAtPerStep, type Steps } from '../../runtime/steps.ts'
import { decide, noCounts, refusalOf, type Counts, type Situation, type SituationOf, type Verdict } from '../decide.ts'
import type { FailedRecord } from '../failed-record.ts'
import type { Policy } from '../policy.ts'
import { expiringBefore } from '../window.ts'
import type { RecordIndex } from './record-index.ts'

/** Looks at a decided record, subscription by subscription. */
export type LookAt = (record: FailedRecord, verdict: Verdict, situation: Situation) => void

/** Why the arrival of a record cannot be estimated: the first reason counts, for a record and for all of them. */
export const endlessReasons = ['paused', 'circuit', 'throttled', 'refused', 'unattempted', 'unproven'] as const
type Endless = Record<(typeof endlessReasons)[number], number>
export function noEndless(): Endless {
  return Object.fromEntries(endlessReasons.map((reason) => [reason, 0])) as Endless
}

export interface Summary {
  counts: Counts
  /** Missing records by subscription, without excluded ones. */
  missingOf: Map<string, number>
  /** Of these, the ones that leave the window soon. */
  expiring: Counts
  /** Epoch ms of the oldest event in the window that is not exhausted; undefined without one. */
  oldestOpenAt: number | undefined
  /** Epoch ms of the last end of a backoff; undefined if none backs off. */
  lastDueAt: number | undefined
  /** Open records without an arrival estimate: circuit not closed, subscription paused or limited alone, repeatedly rejected, or without an outcome. */
  endless: Endless
  /** Of these, the ones that leave the window soon. */
  expiringEndless: Endless
  /** The longest time for which all retries of a subscription with such records have been refused, in ms. */
  unservedForMs: number
  /** Records waiting although their receivers accept all again: since when all do, and the end of the last backoff; epoch ms. */
  mended: { records: number; since: number; lastDueAt: number } | undefined
}

interface SummaryOptions {
  policy: Policy
  zone: TimeZone
  /** The window began at this second when records last expired. */
  windowFrom: number
}

/** Adds a record to the sums, except those about the window. Returns why its arrival cannot be estimated. */
function addUp(
  sums: Summary,
  entry: FailedRecord,
  { decision, dueAt }: Verdict,
  situation: Situation,
): keyof Endless | undefined {
  const { mended } = sums
  const { unservedForMs } = situation
  sums.counts[decision] += 1
  if (decision === 'backing-off') sums.lastDueAt = Math.max(sums.lastDueAt ?? -Infinity, dueAt)
  if (decision === 'exhausted') return undefined
  if (situation.isPaused === true) return 'paused'
  if (situation.failing !== undefined) return 'circuit'
  // One that backs off after a delivery waits for its receiver.
  if (unservedForMs !== undefined && (entry.refusals > 0 || decision === 'blocked' || decision === 'due')) {
    sums.unservedForMs = Math.max(sums.unservedForMs, unservedForMs)
    return 'throttled'
  }
  const refusal = refusalOf(entry, situation)
  if (refusal?.why !== 'mended') return refusal?.why
  if (decision !== 'backing-off') return undefined
  const since = Math.max(mended?.since ?? -Infinity, refusal.overSince)
  const lastDueAt = Math.max(mended?.lastDueAt ?? -Infinity, dueAt)
  sums.mended = { records: (mended?.records ?? 0) + 1, since, lastDueAt }
  return undefined
}

/** Sums over these records in the current situation of each subscription; `look` gets each of them. */
export function* summaryOf(
  records: ReturnType<RecordIndex['bySubscription']>,
  { policy, windowFrom, zone }: SummaryOptions,
  situationOf: SituationOf,
  look?: LookAt,
): Steps<Summary> {
  const sums: Summary = {
    ...{ counts: noCounts(), missingOf: new Map(), expiring: noCounts(), mended: undefined },
    ...{ oldestOpenAt: undefined, lastDueAt: undefined, unservedForMs: 0 },
    ...{ endless: noEndless(), expiringEndless: noEndless() },
  }
  let expiringUntil: number | undefined
  let looked = 0
  for (const [subscriptionId, held] of records) {
    const situation = situationOf(subscriptionId)
    expiringUntil ??= expiringBefore(situation.now, policy.window, zone)
    let missing = 0
    for (const entry of held) {
      looked += 1
      if (looked % lookedAtPerStep === 0) yield
      const verdict = decide(entry, policy, situation)
      if (verdict.decision !== 'excluded') missing += 1
      const why = addUp(sums, entry, verdict, situation)
      if (why !== undefined) sums.endless[why] += 1
      look?.(entry, verdict, situation)
      if (entry.localSecond < windowFrom) continue
      if (verdict.decision !== 'exhausted') sums.oldestOpenAt = Math.min(sums.oldestOpenAt ?? Infinity, entry.eventAt)
      if (entry.localSecond >= expiringUntil || entry.isWanted) continue
      sums.expiring[verdict.decision] += 1
      if (why !== undefined) sums.expiringEndless[why] += 1
    }
    sums.missingOf.set(subscriptionId, missing)
  }
  return sums
}
