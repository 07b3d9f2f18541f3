// The report of a round, as `--json` prints it: decisions, causes, an estimate of the time, and the exit code that follows from it.
import { type CauseStatus, groupByCause, showCause } from '../../ops/causes.ts'
import { type FoundStatus, type RetryResult, retryResults } from '../../platform/operations.ts'
import type { Outcome } from '../../reconcile/confirm/evidence.ts'
import type { OutcomeEvent } from '../../reconcile/confirm/outcomes.ts'
import { type Counts, type Situation } from '../../reconcile/decide.ts'
import { estimateDrain } from '../../reconcile/drain.ts'
import type { RetryEvent } from '../../reconcile/retry/dispatcher.ts'
import type { SweepReport } from '../../reconcile/sweep/sweep-report.ts'
import { exitCode, type ExitCode } from '../../runtime/errors.ts'
import { type AskedDaemon, openCircuitsOf, pausedSince, situationOf } from '../daemon-client.ts'
import { asIso, explainRecord, type ExplainedRecord } from '../record.ts'
import type { Session, SessionOptions } from '../session.ts'
import { type Gathered } from './gather.ts'
import type { RecordSelection, SelectionFlags } from './select.ts'

/** The end of a round before every due record was retried and had an outcome: by a signal, or by the gate that was shut. */
export type StoppedBy = 'signal' | 'unauthorized' | 'platform' | 'paused' | 'receiver-down' | 'circuit'

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
    retried({ answer, eventId, eventType, webhookId: id, subscriptionId }) {
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
    settled({ eventId, eventType, webhookId: id, outcome, responseStatusCode, subscriptionId }) {
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
        pausedSince: Date | null
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

export interface RoundOptions extends SessionOptions, SelectionFlags {
  records?: true
  yes?: true
}

export type RoundCommand = RoundReport['command']

/** Everything that one round knows. Times in epoch ms. */
export interface CommandRound {
  command: RoundCommand
  selection: RecordSelection
  options: RoundOptions
  session: Session
  gathered: Gathered
  startedAt: number
  /** Monotonic. */
  started: number
  /** The moment of all decisions, on the platform's clock. */
  decidedAt: number
  receiverUp: boolean | undefined
  daemon: AskedDaemon
  /** What the daemon recovered while the list was read. */
  recoveredMeanwhile: number
  dryRun: boolean
  /** Mean time of a call to the platform so far. */
  secondsPerCall: number
}

/**
 * The situation of a subscription's records. The daemon's own gates hold for its own records, not for selected ones. Where
 * retries are switched off, a round plans as if they were on.
 */
export function situationIn(
  { daemon, decidedAt: now, receiverUp, selection }: CommandRound,
  subscriptionId: string,
): Situation {
  if (receiverUp === false) return { now, gate: 'receiver-down', stopsForMs: Infinity }
  return { now, ...(selection.by === 'due' && situationOf(daemon, subscriptionId, 'disabled')) }
}

export interface PaceLimits {
  /** Calls a second to the platform that are allowed at present. */
  callsPerSecond: number
  /** Maximum retries a second; undefined: no limit of their own. */
  retriesPerSecond: number | undefined
  /** Maximum retries in flight. */
  concurrency: number
  /** How long a call takes, in seconds, as far as it was measured; 0 when it was not. */
  secondsPerCall: number
}

/** One retry, and its share of the checks of outcomes. @see docs/architecture.md "Outcomes" */
const callsPerRecord = 1.05

/** Retries per second. */
export function permittedPace(limits: PaceLimits): number {
  return Math.min(
    limits.callsPerSecond / callsPerRecord,
    limits.retriesPerSecond ?? Infinity,
    limits.secondsPerCall > 0 ? limits.concurrency / limits.secondsPerCall : Infinity,
  )
}

/** Rounds of outcomes that a circuit needs for so many records: its limit doubles with each. */
export function slowStartRounds(records: number, initialLimit: number): number {
  return Math.ceil(Math.log2(records / initialLimit + 1))
}

function causesOf(round: CommandRound): CauseStatus[] {
  const { policy, reconciler } = round.session
  const situationOf = (subscriptionId: string): Situation => situationIn(round, subscriptionId)
  const options = { policy, situationOf, maxCauses: Infinity, maxExhausted: 0 }
  return groupByCause(reconciler.backlog.entries(), options).list.map((cause) => showCause(cause))
}

function estimateOf(
  { secondsPerCall, session: { config, reconciler } }: CommandRound,
  records: number,
): RoundReport['estimate'] {
  const { circuit, outcome, retry } = config
  const callsPerSecond = reconciler.rate.limit()
  const { concurrency, maxPerSecond: retriesPerSecond } = retry
  const pace = permittedPace({ callsPerSecond, retriesPerSecond, concurrency, secondsPerCall })
  const rounds = circuit.enabled ? slowStartRounds(records, circuit.initialLimit) : 1
  const drain = estimateDrain({
    pending: records,
    backingOff: 0,
    notBefore: rounds * outcome.firstCheck,
    recoveredPerMs: pace / 1000,
    now: 0,
  })
  const seconds = Math.round((drain.doneAt ?? 0) / 1000)
  return { records, seconds, callsPerSecond: Math.round(callsPerSecond * 10) / 10 }
}

function daemonOf({ daemon, recoveredMeanwhile: recovered }: CommandRound): RoundReport['daemon'] {
  if ('problem' in daemon) return daemon
  const { gates, instance, url } = daemon
  const holding = gates.map(({ gate }) => gate)
  return {
    url,
    instance,
    holding,
    pausedSince: pausedSince(daemon),
    openCircuits: openCircuitsOf(daemon).map(({ subscriptionId }) => subscriptionId),
    recovered,
  }
}

function listingOf({ failure, found, moved, result }: CommandRound['gathered']): RoundReport['listing'] {
  if (failure === undefined) return { result, found, moved }
  const { advice, message, reason, rejected, stage } = failure
  return { result, found, moved, failure: { stage, reason, rejected, message, advice } }
}

export function toReport(round: CommandRound): Omit<RoundReport, 'exitCode'> {
  const { command, decidedAt, gathered, options, selection, session, startedAt } = round
  const { reconciler } = session
  const leftOut = reconciler.backlog.leftOut.counts()
  const { counts: failed } = reconciler.backlog.summary(decidedAt, (id) => situationIn(round, id))
  return {
    schemaVersion: 2,
    command,
    instance: session.instance,
    platform: session.platform,
    startedAt: new Date(startedAt).toISOString(),
    seconds: Math.round(session.clock.monotonic() - round.started) / 1000,
    selection: { by: selection.by },
    listing: listingOf(gathered),
    decidedAt: gathered.result === 'failed' ? null : asIso(decidedAt),
    failed,
    notFailed: gathered.notFailed,
    notFound: gathered.notFound,
    leftOut: Object.values(leftOut).reduce((sum, count) => sum + count, 0) - leftOut.excluded,
    receiver: round.receiverUp === undefined ? null : { up: round.receiverUp },
    daemon: daemonOf(round),
    causes: causesOf(round),
    estimate: estimateOf(round, failed.due),
    dryRun: round.dryRun,
    retriesEnabled: session.config.retry.enabled,
    sums: { retried: 0, resolved: 0, refused: 0, recovered: 0, 'failed-again': 0, unknown: 0 },
    retries: Object.fromEntries(retryResults.map((name) => [name, 0])) as Record<RetryResult, number>,
    blocked: 0,
    awaiting: 0,
    cutOff: 0,
    stoppedBy: null,
    retried: [],
    ...(options.records === true && {
      records: [...reconciler.backlog.entries()].map((entry) => {
        const situation = situationIn(round, entry.subscriptionId)
        return explainRecord(entry, { policy: session.policy, situation, isSelected: selection.by !== 'due' })
      }),
    }),
  }
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
