// The report of a round, as `--json` prints it: the tally of its retries, the estimate of their time, and the exit code. Pure functions.
import type { CauseStatus } from '../../ops/causes.ts'
import { meaningOf, type CallAnswer, type FoundStatus, type RetryResult } from '../../platform/operations.ts'
import type { Config } from '../../config/schema.ts'
import { firstCheckMs, type Outcome } from '../../reconcile/confirm/evidence.ts'
import type { TelemetryEvent } from '../../observe/events.ts'
import type { Counts } from '../../reconcile/decide.ts'
import { estimateDrain } from '../../reconcile/drain.ts'
import type { RetryEvent } from '../../reconcile/retry/dispatcher.ts'
import { isBreakers } from '../../reconcile/retry/gates.ts'
import type { Trouble } from '../../reconcile/retry/platform-breaker.ts'
import { exitCode, type ExitCode } from '../../runtime/errors.ts'
import type { ExplainedRecord } from '../../records/shown-record.ts'
import type { Gathered } from './gather.ts'
import type { RecordSelection } from './select.ts'

/** The end of a round before every due record was retried and had an outcome: by a signal, or by the gate that was shut. */
export type StoppedBy = 'signal' | Trouble | 'paused' | 'receiver-down' | 'circuit'

/** One retried record. */
export interface RetriedRecord extends Pick<RetryEvent, 'webhookId' | 'eventId' | 'subscriptionId' | 'eventType'> {
  /** The platform's answer to the last PATCH. */
  result: RetryResult
  /** With a refusal: what it was. */
  answer?: CallAnswer
  /** With `already-resolved`: the status that the platform found. */
  found?: FoundStatus
  /** True when the platform may have taken it, though its answer was lost. */
  lost?: true
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
  /** Being delivered when the PATCH came: by another retry, with an outcome that is not known. */
  underway: number
  /** The platform refused, or could not be asked. */
  refused: number
}

/** What a retry came to; undefined while its outcome is yet to come. */
export function resultOf({
  found,
  lost,
  outcome,
  result,
}: RetriedRecord): Exclude<keyof RetrySums, 'retried'> | undefined {
  if (outcome !== undefined || lost === true) return outcome
  const { countsAs } = meaningOf(result)
  return countsAs === 'resolved' && found === 'processing' ? 'underway' : countsAs
}

/** Notes what an event says of a retried record, by its webhook id. */
export function noteRetried(retried: Map<string, RetriedRecord>, event: TelemetryEvent): void {
  if (event.type !== 'retry' && event.type !== 'outcome') return
  const { eventId, eventType, subscriptionId, webhookId } = event
  const known = retried.get(webhookId) ?? { webhookId, eventId, subscriptionId, eventType, result: 'accepted' }
  if (event.type === 'outcome') {
    const { outcome, responseStatusCode } = event
    retried.set(webhookId, { ...known, outcome, responseStatusCode })
  } else if (event.answer.sent) {
    const { found, lost, problem, reason, result, status } = event.answer
    const answer = result === 'accepted' ? {} : { answer: { reason, status, problem } }
    // A final answer gives its outcome before the retry event comes.
    retried.set(webhookId, { ...known, result, ...answer, ...(found && { found }), ...(lost && { lost }) })
  }
}

export function sumsOf(retried: readonly RetriedRecord[]): RetrySums {
  const sums = {
    retried: retried.length,
    resolved: 0,
    underway: 0,
    refused: 0,
    recovered: 0,
    'failed-again': 0,
    unknown: 0,
  }
  for (const record of retried) {
    const result = resultOf(record)
    if (result !== undefined) sums[result] += 1
  }
  return sums
}

/** `schemaVersion` follows SemVer's major: fields are added, not changed. Times are ISO 8601 in UTC. */
export interface RoundReport extends Omit<Gathered, 'excluded'> {
  schemaVersion: 2
  command: 'plan' | 'once' | 'retry'
  instance: string
  /** Host of the platform's base URL. */
  platform: string
  startedAt: Date
  seconds: number
  selection: { by: RecordSelection['by'] }
  /** When decisions were made, on the platform's clock. */
  decidedAt: Date | null
  /** Selected records by decision, before the first retry. */
  failed: Counts
  /** Records for which there was no room in memory (backlog.maxRecords); another run comes to them. */
  leftOut: number
  /** Null without `receiver.healthUrl`, or where it was not asked. */
  receiver: { up: boolean } | null
  /** The running daemon, as far as it could be asked. */
  daemon:
    | { url: string; problem: string }
    | { url: string; instance: string; holding: readonly string[]; pausedSince: Date | null; openCircuits: string[] }
  /** All of them, most records first. */
  causes: readonly CauseStatus[]
  estimate: { records: number; seconds: number; callsPerSecond: number }
  /** True when nothing was to be retried: `plan`, or `once` while retry.enabled is false. */
  dryRun: boolean
  /** False where `retry.enabled` is: then this is the plan for when it is true. */
  retriesEnabled: boolean
  sums: RetrySums
  /** The records that were retried. */
  retried: readonly RetriedRecord[]
  /** Due and not retried in this round; `stoppedBy` says why. */
  blocked: number
  /** Retries without a known outcome at the end. */
  awaiting: number
  /** Retries in flight when `shutdown.grace` was over. */
  cutOff: number
  stoppedBy: StoppedBy | null
  /** With --records: all that were selected. */
  records?: readonly ExplainedRecord[]
  exitCode: ExitCode
}

/** One retry, and its share of the checks of outcomes. @see docs/architecture.md "Outcomes" */
const callsPerRecord = 1.05

/** How long the retries take at the pace that is permitted. A circuit starts slowly: its limit doubles with each round of outcomes. */
export function estimateOf(
  { circuit, retry }: Pick<Config, 'circuit' | 'retry'>,
  records: number,
  callsPerSecond: number,
): RoundReport['estimate'] {
  const perSecond = Math.min(callsPerSecond / callsPerRecord, retry.maxPerSecond ?? Infinity)
  const rounds = Math.ceil(Math.log2(records / circuit.initialLimit + 1))
  const { doneAt = 0 } = estimateDrain({
    pending: records,
    backingOff: 0,
    notBefore: rounds * firstCheckMs,
    recoveredPerMs: perSecond / 1000,
    now: 0,
  })
  return { records, seconds: Math.round(doneAt / 1000), callsPerSecond: Math.round(callsPerSecond * 10) / 10 }
}

/** The exit code of a round that ended so. */
export function exitCodeOf(report: RoundReport): ExitCode {
  const { failed, listing, stoppedBy, sums } = report
  if (stoppedBy === 'unauthorized' || listing.failure?.rejected === true) return exitCode.authenticationRejected
  if ((stoppedBy !== null && stoppedBy !== 'signal' && isBreakers(stoppedBy)) || listing.result === 'failed')
    return exitCode.platformUnreachable
  const isPart = listing.result === 'incomplete' || report.leftOut > 0 || stoppedBy !== null
  const isSelected = report.selection.by !== 'due'
  const nothing = isSelected && listing.found + report.notFailed === 0
  // Delivered, under way, or mistyped: it is not known which.
  const isMissing = report.selection.by === 'ids' && report.notFound.length > 0
  const { awaiting, cutOff, blocked } = report
  const bad = sums.underway + sums.refused + sums['failed-again'] + sums.unknown + blocked + awaiting + cutOff
  // An operator who selects records wants them all retried; the daemon's own round leaves them to their rules.
  const leftAlone = isSelected && !report.dryRun ? failed.exhausted + failed.excluded + failed['backing-off'] : 0
  return isPart || nothing || isMissing || bad + leftAlone > 0 ? exitCode.incomplete : exitCode.done
}
