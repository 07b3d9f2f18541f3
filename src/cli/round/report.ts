// The report of a round, as `--json` prints it, and the exit code that follows from it. Pure functions.
import { retryResults, type FoundStatus, type RetryResult } from '../../platform/operations.ts'
import { toDate, type CauseStatus } from '../../ops/causes.ts'
import {
  decide,
  nextRetryOf,
  noRetry,
  type Counts,
  type Decision,
  type NextRetry,
  type Situation,
  type Verdict,
} from '../../reconcile/decide.ts'
import type { Policy } from '../../reconcile/policy.ts'
import type { WebhookRecord } from '../../platform/record.ts'
import type { Outcome } from '../../reconcile/confirm/evidence.ts'
import type { OutcomeEvent } from '../../reconcile/confirm/outcomes.ts'
import type { FailedRecord } from '../../reconcile/failed-record.ts'
import { sentenceOf, type Because } from '../../reconcile/reasons.ts'
import type { RetryEvent } from '../../reconcile/retry/dispatcher.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'
import { exitCode, type ExitCode } from '../../runtime/errors.ts'
import type { RecordSelection } from './select.ts'

/** The end of a round before every due record was retried and had an outcome, and the advice for the operator. */
export const stopTable = {
  signal: 'a signal came: run again for the rest; deliveries that arrived are skipped',
  unauthorized:
    "the list is allowed, the retry is not: ask the platform's operator for the permission to retry webhooks",
  platform: 'the platform does not answer: run again when it does',
  paused: 'an operator has paused the daemon: webhook-reconciler resume ends the pause',
  receiver: 'the health address of the receiver does not answer 2xx (receiver.healthUrl): run again when it does',
  circuit: 'nearly all retries failed again: mend the receiver, then run again',
} as const satisfies Record<string, string>

export type StoppedBy = keyof typeof stopTable

/** One retried record. */
export interface RetriedRecord {
  webhookId: string
  eventId: string
  subscriptionId: string
  eventType: string
  /** The platform's answer to the last PATCH. */
  result: RetryResult
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** Undefined while it is not known, and when there is none to wait for. */
  outcome?: Outcome
  /** The receiver's last response; null: none. */
  responseStatusCode?: number | null
}

export interface RetrySums extends Record<Outcome, number> {
  /** Records that were sent a PATCH. */
  retried: number
  /** Not failed any more when the PATCH came: another had retried it before. */
  resolved: number
  /** The platform refused, or could not be asked. */
  refused: number
}

/** Follows the events of one round. */
export interface RetryTally {
  retried(event: RetryEvent): void
  settled(event: OutcomeEvent): void
  records(): readonly RetriedRecord[]
  sums(): RetrySums
  results(): Record<RetryResult, number>
}

/** Undefined while its outcome is not known. */
function kindOf({ outcome, result }: RetriedRecord): keyof RetrySums | undefined {
  if (outcome !== undefined) return outcome
  if (result === 'accepted') return undefined
  return result === 'already-resolved' ? 'resolved' : 'refused'
}

export function createRetryTally(): RetryTally {
  const byId = new Map<string, RetriedRecord>()
  /** Retries whose answer was lost: their outcome is yet to come. */
  const lost = new Set<string>()

  return {
    retried({ answer, eventId, eventType, id, subscriptionId }) {
      if (!answer.sent) return
      const { found, result } = answer
      const known = byId.get(id)
      byId.set(id, {
        webhookId: id,
        eventId,
        subscriptionId,
        eventType,
        result,
        ...(found !== undefined && { found }),
        // A final answer gives its outcome before the retry event comes.
        ...(known?.outcome !== undefined && {
          outcome: known.outcome,
          responseStatusCode: known.responseStatusCode ?? null,
        }),
      })
      if (answer.lost === true && known?.outcome === undefined) lost.add(id)
    },
    settled({ eventId, eventType, id, outcome, responseStatusCode, subscriptionId }) {
      const known = byId.get(id) ?? { webhookId: id, eventId, subscriptionId, eventType, result: 'accepted' as const }
      lost.delete(id)
      byId.set(id, { ...known, outcome, responseStatusCode })
    },
    records: () => [...byId.values()],
    sums() {
      const sums: RetrySums = {
        retried: byId.size,
        resolved: 0,
        refused: 0,
        recovered: 0,
        'failed-again': 0,
        unknown: 0,
      }
      for (const one of byId.values()) {
        const kind = lost.has(one.webhookId) ? undefined : kindOf(one)
        if (kind !== undefined) sums[kind] += 1
      }
      return sums
    },
    results() {
      const results = Object.fromEntries(retryResults.map((name) => [name, 0])) as Record<RetryResult, number>
      for (const { result } of byId.values()) results[result] += 1
      return results
    },
  }
}

/** When something is retried next, and what that waits for; null when no clock tells. */
export interface ReportedNext {
  nextRetry: string | null
  nextRetryBy: NextRetry['by']
}

/** A decision, or what holds before any: the status in place of `failed`, or a place outside the window. */
export type State = Decision | Exclude<WebhookRecord['status'], 'failed'> | 'outside' | 'settling'

/** One record as the platform shows it, with what is decided of it and why. */
export interface ExplainedRecord
  extends
    Pick<FailedRecord, 'attempts' | 'eventId' | 'eventType' | 'responseStatusCode' | 'subscriptionId'>,
    ReportedNext {
  webhookId: string
  status: WebhookRecord['status']
  state: State
  event: string | null
  lastAttempt: string | null
  leavesWindow: string | null
  /** The rule that matched, and its sentence. */
  why: Because
  explanation: string
}

export function asIso(ms: number | undefined): string | null {
  return toDate(ms)?.toISOString() ?? null
}

export function reportNext({ at, by }: NextRetry): ReportedNext {
  return { nextRetry: asIso(at), nextRetryBy: by }
}

export interface ExplainOptions {
  policy: Policy
  situation: Situation
  /** Default: `failed`. */
  status?: WebhookRecord['status']
  /** True for a record that an operator selected, in the window or not. */
  isSelected?: boolean
}

type Stated = Pick<Verdict, 'because'> & { state: State; next: NextRetry }

function stateOf(
  entry: FailedRecord,
  leavesAt: number,
  { isSelected, policy, situation, status }: ExplainOptions,
): Stated {
  if (status !== undefined && status !== 'failed') return { state: status, because: status, next: noRetry }
  const verdict = decide(entry, policy, situation)
  const { because, decision, dueAt } = verdict
  const decided = { state: decision, because, next: nextRetryOf(verdict, situation, leavesAt) }
  if (decision === 'excluded' || isSelected === true) return decided
  if (leavesAt < situation.now) return { state: 'outside', because: 'outside', next: noRetry }
  const settledAt = entry.eventAt + policy.window.settle
  if (settledAt <= situation.now || decision === 'exhausted') return decided
  const settling = { ...verdict, decision: 'backing-off', dueAt: Math.max(settledAt, dueAt) } as const
  return { state: 'settling', because: 'settling', next: nextRetryOf(settling, situation, leavesAt) }
}

/** A pure function of the record, the policy and the situation: `explain` shows one, `plan --records` many. */
export function explainRecord(entry: FailedRecord, options: ExplainOptions): ExplainedRecord {
  const { attempts, eventId, eventType, responseStatusCode, subscriptionId } = entry
  const leavesAt = entry.eventAt + options.policy.window.lookback
  const { because, next, state } = stateOf(entry, leavesAt, options)
  return {
    webhookId: entry.id,
    ...{ eventId, subscriptionId, eventType, attempts, responseStatusCode },
    status: options.status ?? 'failed',
    state,
    event: asIso(entry.eventAt),
    lastAttempt: entry.lastAttemptLocal === null ? null : asIso(entry.lastAt),
    leavesWindow: asIso(leavesAt),
    why: because,
    explanation: sentenceOf(because),
    ...reportNext(next),
  }
}

/** `schemaVersion` follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC. */
export interface RoundReport {
  schemaVersion: 2
  command: 'plan' | 'once' | 'retry'
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  startedAt: string
  seconds: number
  selection: { by: RecordSelection['by'] }
  /** `found`: failed records that were selected. `moved`: the list became shorter while it was read. */
  listing: {
    result: SweepReport['result']
    found: number
    moved: boolean
    failure?: { stage: 'token' | 'list'; reason: string; rejected: boolean; message: string; advice: string }
  }
  /** When decisions were made, on the platform's clock. */
  decidedAt: string | null
  /** Selected records by decision, before the first retry. */
  failed: Counts
  /** Records of the event in another status. */
  notFailed: number
  /** Selected by name, and without a failed record: `type account-activated`, `webhook id ...`. */
  notFound: readonly string[]
  /** Records for which there was no room in memory (backlog.maxRecords); another run comes to them. */
  leftOut: number
  /** Null without `receiver.healthUrl`, or where it was not asked. */
  receiver: { up: boolean } | null
  /** The running daemon, as far as it could be asked; null where it was not. `recovered`: while the list was read. */
  daemon:
    | { url: string; problem: string }
    | {
        url: string
        instance: string
        holding: readonly string[]
        pausedSince: string | null
        openCircuits: string[]
        recovered: number
      }
    | null
  /** All of them, most records first. */
  causes: readonly CauseStatus[]
  estimate: { records: number; seconds: number; callsPerSecond: number }
  /** True when nothing was to be retried: `plan`, or `once` while retry.enabled is false. */
  dryRun: boolean
  /** False where `retry.enabled` is: then this is the plan for when it is true. */
  retriesEnabled: boolean
  sums: RetrySums
  /** Retried records by the platform's last answer. */
  retries: Record<RetryResult, number>
  /** Due and not retried in this round; `stoppedBy` says why. */
  blocked: number
  /** Retries without a known outcome at the end. */
  awaiting: number
  /** Retries in flight when `shutdown.grace` was over. */
  cutOff: number
  stoppedBy: StoppedBy | null
  /** The records that were retried. */
  retried: readonly RetriedRecord[]
  /** With --records: all that were selected. */
  records?: readonly ExplainedRecord[]
  exitCode: ExitCode
}

/** The exit code of a round that ended. */
export function judge(report: Omit<RoundReport, 'exitCode'>): ExitCode {
  const { failed, listing, stoppedBy, sums } = report
  if (stoppedBy === 'unauthorized' || listing.failure?.rejected === true) return exitCode.authenticationRejected
  if (stoppedBy === 'platform' || listing.result === 'failed') return exitCode.platformUnreachable
  const isPart = listing.result === 'incomplete' || report.leftOut > 0 || stoppedBy !== null
  const isSelected = report.selection.by !== 'due'
  const nothing = isSelected && listing.found + report.notFailed === 0
  // Delivered, under way, or mistyped: it is not known which.
  const isMissing = report.selection.by === 'ids' && report.notFound.length > 0
  const { awaiting, cutOff, blocked } = report
  const bad = sums.refused + sums['failed-again'] + sums.unknown + blocked + awaiting + cutOff
  // An operator who selects records wants them all retried; the daemon's own round leaves them to their rules.
  const leftAlone = isSelected && !report.dryRun ? failed.exhausted + failed.excluded + failed['backing-off'] : 0
  return isPart || nothing || isMissing || bad + leftAlone > 0 ? exitCode.incomplete : exitCode.done
}
