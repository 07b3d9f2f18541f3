// What `once` tells at its end: the report as JSON and in words, and the exit code that follows from it. Pure functions.
import { exitCode, type ExitCode } from '../runtime/errors.ts'
import { retryResults, type RetryResult } from '../platform/operations.ts'
import type { Counts } from '../reconcile/decide.ts'
import { decisions } from '../reconcile/decide.ts'
import { outcomes, type Outcome } from '../reconcile/confirm/evidence.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'

/**
 * What ended the run before all that was due had been retried, or had an outcome. `unauthorized`: token or permission
 * is refused; `platform`: the platform does not answer; `receiver`: its health address does not answer 2xx; `circuit`:
 * nearly all retries failed again; `signal`: SIGTERM or SIGINT.
 */
export type StoppedBy = 'unauthorized' | 'platform' | 'receiver' | 'circuit' | 'signal'

/** The report, as `--json` prints it. `schemaVersion` follows SemVer's major: fields are added, not changed. */
export interface OnceReport {
  schemaVersion: 1
  instance: string
  platform: string
  dryRun: boolean
  startedAt: string
  seconds: number
  sweep: {
    result: SweepReport['result']
    listed: number
    slices: number
    incompleteSlices: number
    skippedSlices: number
    failure?: { stage: string; reason: string }
  }
  /** Failed records of the window by decision, when the sweep had ended. */
  failed: Counts
  /** Records for which there was no room in memory; another run comes to them. */
  leftOut: boolean
  /** Retries that were answered, by result. */
  retries: Record<RetryResult, number>
  /** What became of the retries that were accepted, and of those whose answer was lost. */
  outcomes: Record<Outcome, number>
  /** Records that were due, and were not retried in this run; `stoppedBy` tells why. */
  held: number
  /** Retries whose outcome was not known yet at the end: the next run sees what became of them. */
  awaiting: number
  /** Retries that were in flight when `shutdown.grace` was over: what came of them is not known. */
  cutOff: number
  stoppedBy: StoppedBy | null
  exitCode: ExitCode
}

/** Results after which nothing is left to do, or an outcome tells it. */
const good = new Set<RetryResult>(['accepted', 'already-resolved'])

/** Counts what the facts tell of retries. */
export interface Tally {
  retries: Record<RetryResult, number>
  outcomes: Record<Outcome, number>
  /** Retries that were refused or failed; not those whose answer was lost, as they have an outcome. */
  refused: number
}

function zeros<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>
}

export function emptyTally(): Tally {
  return { retries: zeros(retryResults), outcomes: zeros(outcomes), refused: 0 }
}

export function tallyRetry(tally: Tally, { result, lost }: { result: RetryResult; lost?: true }): void {
  tally.retries[result] += 1
  if (!good.has(result) && lost !== true) tally.refused += 1
}

/** The sweep, as the report tells it. */
export function toldSweep(sweep: SweepReport): OnceReport['sweep'] {
  const { result, listed, slices, incompleteSlices, skippedSlices, failure } = sweep
  return {
    result,
    listed,
    slices,
    incompleteSlices,
    skippedSlices,
    ...(failure && { failure: { stage: failure.stage, reason: failure.reason } }),
  }
}

/** What is known of a sweep that was stopped in the middle. */
export function stoppedSweep(failed: Counts): OnceReport['sweep'] {
  const listed = Object.values(failed).reduce((sum, count) => sum + count, 0)
  return { result: 'incomplete', listed, slices: 0, incompleteSlices: 0, skippedSlices: 0 }
}

/** `rejected`: the platform refused token or permission already at the sweep. `refused`: as the tally counts them. */
export function judge(
  report: Omit<OnceReport, 'exitCode'>,
  { rejected, refused }: { rejected: boolean; refused: number },
): ExitCode {
  if (report.stoppedBy === 'unauthorized' || rejected) return exitCode.authenticationRejected
  if (report.stoppedBy === 'platform' || report.sweep.result === 'failed') return exitCode.platformUnreachable
  const bad = refused + report.outcomes['failed-again'] + report.outcomes.unknown
  const left = report.held + report.awaiting + report.cutOff
  const partial = report.sweep.result === 'incomplete' || report.leftOut || report.stoppedBy === 'signal'
  return bad + left > 0 || partial ? exitCode.incomplete : exitCode.done
}

/** Why the run ended early, and what to do about it. */
const advice: Readonly<Record<StoppedBy, string>> = {
  unauthorized:
    "the list is allowed, the retry is not: ask the platform's operator for the permission to retry webhooks",
  platform: 'the platform does not answer; run again when it does',
  receiver: 'the health address of the receiver does not answer 2xx (receiver.healthUrl); run again when it does',
  circuit: 'nearly all retries failed again, so the circuit is open; put the receiver right, then run again',
  signal: 'a signal; run again for the rest',
}

function nonZero<Name extends string>(counts: Readonly<Record<Name, number>>, names: readonly Name[]): string {
  const told = names.filter((name) => counts[name] > 0).map((name) => `${counts[name]} ${name}`)
  return told.join(', ') || 'none'
}

function retryLines(report: OnceReport): string[] {
  const { awaiting, cutOff, held } = report
  return [
    `retries: ${nonZero(report.retries, retryResults)}`,
    `outcomes: ${nonZero(report.outcomes, outcomes)}`,
    ...(held > 0 ? [`due, and not retried: ${held}`] : []),
    ...(awaiting > 0 ? [`outcomes not awaited: ${awaiting}; the next run sees what became of them`] : []),
    ...(cutOff > 0 ? [`cut off: ${cutOff}; what came of them is not known, the next run sees it`] : []),
  ]
}

/** The report in words; `retriesEnabled` is `retry.enabled`. */
export function asText(report: OnceReport, retriesEnabled: boolean): string {
  const { failure, result } = report.sweep
  const isKnown = result !== 'failed'
  const why = failure === undefined ? '' : ` (${failure.stage}: ${failure.reason})`
  const lines = [
    `${report.instance} at ${report.platform}: one full sweep in ${report.seconds} s, ${result}${why}`,
    `failed records in the window: ${isKnown ? nonZero(report.failed, decisions) : 'not known: the sweep failed'}`,
  ]
  if (report.leftOut) lines.push('there was no room for all of them (backlog.maxRecords): run again for the rest')
  if (report.dryRun) lines.push('dry run: nothing was touched')
  else if (!retriesEnabled) lines.push('retry.enabled is false: nothing was touched')
  else if (isKnown) lines.push(...retryLines(report))
  else
    lines.push('retries: none, as nothing is known to be due; for each step to the platform: webhook-reconciler check')
  const { stoppedBy } = report
  if (stoppedBy !== null && isKnown) lines.push(`stopped early by: ${stoppedBy} (${advice[stoppedBy]})`)
  return `${lines.join('\n')}\n`
}
