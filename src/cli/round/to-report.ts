// The report of a round before its first retry: decisions, causes, and an estimate of the time.
import { groupByCause, showCause, type CauseStatus } from '../../ops/causes.ts'
import { estimateDrain } from '../../reconcile/drain.ts'
import { retryResults, type RetryResult } from '../../platform/operations.ts'
import type { Situation } from '../../reconcile/decide.ts'
import { openCircuitsOf, pausedSince } from '../daemon-client.ts'
import { permittedPace, slowStartRounds } from './pace.ts'
import { situationIn, type CommandRound } from './look.ts'
import { asIso, explainRecord, type RoundReport } from './report.ts'

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
  const seconds = Math.round((drain?.doneAt ?? 0) / 1000)
  return { records, seconds, callsPerSecond: Math.round(callsPerSecond * 10) / 10 }
}

function daemonOf({ daemon, recoveredMeanwhile: recovered }: CommandRound): RoundReport['daemon'] {
  if ('problem' in daemon) return daemon
  const { gates, instance, url } = daemon
  const holding = gates.map(({ gate }) => gate)
  return { url, instance, holding, pausedSince: pausedSince(daemon), openCircuits: openCircuitsOf(daemon), recovered }
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
  const { counts: failed } = reconciler.backlog.summary(decidedAt, (id) => situationIn(round, id).gate)
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
