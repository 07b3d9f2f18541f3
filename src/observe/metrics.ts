// Table of the daemon's metrics: name, type, help, labels, and how to read a gauge from the snapshot. `npm run generate` writes docs/metrics.md from it.
import { termEnds } from '../leader-election/leadership.ts'
import { gateNames } from '../reconcile/retry/gates.ts'
import { reasons } from '../platform/http/http.ts'
import { retryResults } from '../platform/operations.ts'
import { trafficClasses } from '../platform/rate-limiter.ts'
import { circuitStates } from '../reconcile/retry/circuit-breaker.ts'
import { receiverKinds } from '../reconcile/retry/subscriptions.ts'
import { ledgerResults } from '../reconcile/books/ledger-client.ts'
import { decisions } from '../reconcile/decide.ts'
import { outcomes } from '../reconcile/confirm/evidence.ts'
import { sweepKinds, sweepResults } from '../reconcile/sweep/sweep-report.ts'
import { drainOf } from '../reconcile/drain.ts'
import { countedLevels } from './log/log.ts'
import { expiringDecisions, missingIn, type Snapshot } from './snapshot.ts'

export const metricPrefix = 'webhook_reconciler_'

export interface MetricDefinition {
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  /** Label names and values: each combination exists from the start. An empty list is filled at run time. */
  labels?: Readonly<Record<string, readonly string[]>>
  buckets?: readonly number[]
  /**
   * For a gauge: its value, or one for each label value (a missing one is 0). Undefined: the gauge is absent, because 0 would be
   * false. Only `build_info` lacks it. New values are new fields of the snapshot, set by `state` in reconciler.ts or in daemon-parts.ts,
   * or counted in progress.ts.
   */
  read?: (snapshot: Snapshot) => number | undefined | Readonly<Record<string, number>>
}

/** 0 if it never happened. */
const toSeconds = (at: number | undefined): number => (at ?? 0) / 1000
const toFlag = (flag: boolean | undefined): number | undefined => (flag === undefined ? undefined : Number(flag))

/** Records by the name of their subscription; `other` is the rest of the total. */
function byName(
  names: Snapshot['subscriptions'],
  records: Iterable<readonly [subscriptionId: string, count: number]>,
  total: number,
): Readonly<Record<string, number>> {
  const counts = Object.fromEntries(Object.values(names).map((name) => [name, 0]))
  let others = total
  for (const [subscriptionId, count] of records) {
    const name = names[subscriptionId]
    if (name === undefined) continue
    counts[name] = (counts[name] ?? 0) + count
    others -= count
  }
  return { ...counts, other: others }
}

/** Absent before the first full sweep of this process or term: 0 would say that nothing is missing. */
const whenSwept =
  <T>(read: (snapshot: Snapshot) => T) =>
  (snapshot: Snapshot): T | undefined =>
    snapshot.lastFullSweepAt === undefined ? undefined : read(snapshot)

export const callSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const sweepSeconds = [0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600]
const outcomeSeconds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800, 3600]
/** From a minute to a week. */
const recoverySeconds = [60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800]

export const metricDefinitions = {
  sweeps_total: {
    type: 'counter',
    help: 'Sweeps that ended, by kind and result.',
    labels: { kind: sweepKinds, result: sweepResults },
  },
  sweep_duration_seconds: {
    type: 'histogram',
    help: 'Duration of sweeps, including failed ones.',
    labels: { kind: sweepKinds },
    buckets: sweepSeconds,
  },
  last_complete_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'Time of the last full sweep that listed the whole window; 0 before the first. Unreadable rows do not count against it.',
    read: ({ lastCompleteSweepAt }) => toSeconds(lastCompleteSweepAt),
  },
  last_incomplete_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'Time of the last full sweep that failed or did not list the whole window; 0 if there was none.',
    read: ({ lastIncompleteSweepAt }) => toSeconds(lastIncompleteSweepAt),
  },
  progress_due_timestamp_seconds: {
    type: 'gauge',
    help: 'Deadline for the next progress: the first tick after the last progress, plus two periods of the schedule (at most 5 minutes). A rest of sweeps may add 3 minutes. Far in the past: the daemon is stalled.',
    read: ({ progressDueAt }) => progressDueAt / 1000,
  },
  failed_webhooks: {
    type: 'gauge',
    help: 'Failed records in the window, by current decision.',
    labels: { decision: decisions },
    read: whenSwept(({ failed }) => failed),
  },
  missing_webhooks: {
    type: 'gauge',
    help: 'Missing webhooks, as missing in /status: failed and not excluded, including exhausted and expired ones, by the name of their subscription (other: without a name, expired, or beyond backlog.maxRecords).',
    labels: { subscription: [] },
    read: whenSwept((snapshot) => byName(snapshot.subscriptions, snapshot.missingOf, missingIn(snapshot))),
  },
  failed_webhooks_only_counted: {
    type: 'gauge',
    help: 'Further failed records in the window beyond backlog.maxRecords, as of the last full sweep.',
    read: whenSwept(({ onlyCounted }) => onlyCounted),
  },
  failed_webhooks_ahead: {
    type: 'gauge',
    help: "Failed records of events ahead of the platform's clock that are not excluded, as of the last full sweep, or of any sweep while it is above 0 or unknown. They are not retried before their event time.",
    read: whenSwept(({ aheadOfClock }) => aheadOfClock),
  },
  failed_webhooks_beyond_window: {
    type: 'gauge',
    help: 'Failed records older than the window that are not excluded, as of the last full sweep. The daemon does not retry them. With select.*, those beyond the first ten pages of their list count, too.',
    read: whenSwept(({ beyondWindow }) => beyondWindow),
  },
  oldest_failed_event_timestamp_seconds: {
    type: 'gauge',
    help: 'Event time of the oldest failed record in the window that is neither exhausted nor excluded; 0 if there is none.',
    read: whenSwept(({ oldestOpenAt }) => toSeconds(oldestOpenAt)),
  },
  estimated_drain_seconds: {
    type: 'gauge',
    help: 'Estimated time until all open records (due, blocked, backing-off, awaiting) have recovered, at the pace of the last minute, and not before the last backoff ends. 0 if none is open; +Inf while unknown, for example because none recovers or a gate blocks all retries.',
    read: whenSwept((snapshot) => ((drainOf(snapshot).doneAt ?? Infinity) - snapshot.now) / 1000),
  },
  retries_total: {
    type: 'counter',
    help: "Retries sent, by the platform's response.",
    labels: { result: retryResults },
  },
  outcomes_total: {
    type: 'counter',
    help: 'Outcomes of retries that were accepted or lost their response. recovered: the platform shows the record as successful. failed-again: also one that had recovered. unknown: the checks gave up.',
    labels: { outcome: outcomes },
  },
  awaiting_webhooks: {
    type: 'gauge',
    help: 'Retried records with a pending outcome.',
    read: ({ awaiting }) => awaiting,
  },
  recovery_duration_seconds: {
    type: 'histogram',
    help: 'Time from the event until a check saw its record as successful.',
    buckets: recoverySeconds,
  },
  retry_to_outcome_seconds: {
    type: 'histogram',
    help: 'Time from a retry until its outcome recovered or failed-again was known.',
    buckets: outcomeSeconds,
  },
  stuck_processing_webhooks: {
    type: 'gauge',
    help: 'Records that have been processing for longer than 15 min and are not excluded, as of the last full sweep, or of any sweep while it is above 0 or unknown.',
    read: whenSwept(({ stuckProcessing }) => stuckProcessing),
  },
  expiring_webhooks: {
    type: 'gauge',
    help: 'Failed records that leave the window within 6 h, or within a quarter of window.lookback if that is less, by current decision.',
    labels: { decision: expiringDecisions },
    read: whenSwept(({ expiring }) => expiring),
  },
  expired_webhooks_total: {
    type: 'counter',
    help: 'Known failed records that left the window. The daemon no longer retries them.',
  },
  circuits: {
    type: 'gauge',
    help: 'Circuits, one for each subscription, by state. open: no retries. half-open: probes, then a slow start.',
    labels: { state: circuitStates },
    read: ({ circuitCounts }) => circuitCounts,
  },
  subscriptions: {
    type: 'gauge',
    help: 'Subscriptions that have or had open records in the last ten minutes and were sent a retry, by their receiver. failing, of those with a missing one: its circuit is not closed and it does not take deliveries again, or it took none of the last 9 deliveries or more, for 5 min or more. suspected, likewise: so for 2 min; or it took none of the last 3 for as long, with responses that no single record causes, or rejected 9 records and took none. taking: it took a delivery in the last ten minutes. A receiver of which nothing is known is not counted.',
    labels: { receiver: receiverKinds },
    read: ({ receivers }) => receivers,
  },
  circuit_transitions_total: {
    type: 'counter',
    help: 'State changes of circuits, by the new state.',
    labels: { to: circuitStates },
  },
  receiver_up: {
    type: 'gauge',
    help: 'Receiver health: 1 if its last health check returned 2xx, otherwise 0. Only with receiver.healthUrl, after the first response.',
    read: ({ receiver }) => toFlag(receiver?.up),
  },
  leader: {
    type: 'gauge',
    help: 'Leadership: 1 while this instance works, 0 while it stands by, by the lease (namespace/name). Only with leaderElection.kind kubernetes.',
    labels: { lease: [] },
    read: ({ leadership: { isLeading, lease } }) => (lease === undefined ? undefined : { [lease]: Number(isLeading) }),
  },
  leader_terms_ended_total: {
    type: 'counter',
    help: 'Ended leadership terms of this instance, by cause, as in the log event standing_by. All 0 unless leaderElection.kind is kubernetes.',
    labels: { cause: termEnds },
  },
  lease_available: {
    type: 'gauge',
    help: 'Lease: 0 when this instance stands by and has been unable to use the lease for leaderElection.leaseDuration, otherwise 1. Only with leaderElection.kind kubernetes.',
    read: ({ leadership: { lastingProblem, lease } }) =>
      lease === undefined ? undefined : Number(lastingProblem === undefined),
  },
  gates: {
    type: 'gauge',
    help: 'Gates: 1 while the gate is shut, for all retries or those of any subscription; otherwise 0.',
    labels: { gate: gateNames },
    read: ({ gates }) => Object.fromEntries(gates.map(({ gate }) => [gate, 1])),
  },
  unprocessed_webhooks: {
    type: 'gauge',
    help: 'Records delivered with 2xx that are not in the ledger, within ledger.lookback, by the name of their subscription (other: without one). Only with ledger.url.',
    labels: { subscription: [] },
    read({ books, subscriptions }) {
      const { causes = [], total = 0 } = books?.missed ?? {}
      const records = causes.map((cause) => [cause.subscriptionId, cause.records] as const)
      return books && byName(subscriptions, records, total)
    },
  },
  delivered_since_unprocessed_webhooks: {
    type: 'gauge',
    help: 'All delivered records since the event of the oldest one in unprocessed_webhooks; 0 without one. Only with ledger.url.',
    read: ({ books }) => books && (books.missed?.delivered ?? 0),
  },
  compared_until_timestamp_seconds: {
    type: 'gauge',
    help: 'Event time before which all records of ledger.lookback were compared with the ledger. Only with ledger.url.',
    read: ({ books }) => books && books.comparedUntil / 1000,
  },
  comparison_due_timestamp_seconds: {
    type: 'gauge',
    help: 'Deadline for comparing the next hour with the ledger: ledger.settle and three hours after it began. Only with ledger.url.',
    read: ({ books }) => books && books.dueAt / 1000,
  },
  ledger_requests_total: {
    type: 'counter',
    help: 'Requests to ledger.url, by result. no-answer: no response, or a truncated one. refused: not 2xx. unusable: no keys. mismatch: no key that the platform has.',
    labels: { result: ledgerResults },
  },
  platform_requests_total: {
    type: 'counter',
    help: 'HTTP calls to the platform, by operation and result.',
    labels: { operation: trafficClasses, reason: reasons },
  },
  platform_request_duration_seconds: {
    type: 'histogram',
    help: 'Duration of HTTP calls to the platform.',
    labels: { operation: trafficClasses },
    buckets: callSeconds,
  },
  token_requests_total: {
    type: 'counter',
    help: 'HTTP calls to the identity host for an access token, by result.',
    labels: { reason: reasons },
  },
  token_request_duration_seconds: {
    type: 'histogram',
    help: 'Duration of HTTP calls to the identity host.',
    buckets: callSeconds,
  },
  platform_request_limit_per_second: {
    type: 'gauge',
    help: 'Current limit of calls per second, learned from the platform.',
    read: ({ rateLimit }) => rateLimit,
  },
  platform_request_max_per_second: {
    type: 'gauge',
    help: 'Calls per second that platform.maxRequestsPerSecond allows.',
    read: ({ rateMaximum }) => rateMaximum,
  },
  throttled_until_timestamp_seconds: {
    type: 'gauge',
    help: 'End of the pause of list calls after a 429 or a Retry-After; 0 without one.',
    read: ({ now, throttledForMs }) => (throttledForMs > 0 ? (now + throttledForMs) / 1000 : 0),
  },
  access_token_expiry_timestamp_seconds: {
    type: 'gauge',
    help: 'Time from which the access token counts as expired, up to 10 s before its expiry; 0 without a token.',
    read: ({ tokenExpiresAt }) => toSeconds(tokenExpiresAt),
  },
  access_token_refreshes_total: {
    type: 'counter',
    help: 'Attempts to get a new access token, by result. new-key-rejected: a new key was rejected, and the previous one stays in use.',
    labels: { result: ['ok', 'transient', 'rejected', 'new-key-rejected'] },
  },
  client_certificate_expiry_timestamp_seconds: {
    type: 'gauge',
    help: 'Expiry of the certificate in auth.certificateFile; absent without one.',
    read: ({ certificateExpiresAt }) => certificateExpiresAt && certificateExpiresAt / 1000,
  },
  key_reload_successful: {
    type: 'gauge',
    help: 'Key reload: 1 if the key file was usable after its last change; 0 if not, while the old key stays in use. Absent before the first change.',
    read: ({ keyReload }) => toFlag(keyReload && keyReload.problem === undefined),
  },
  retries_in_flight: {
    type: 'gauge',
    help: "Retries waiting for the platform's response.",
    read: ({ inFlight }) => inFlight,
  },
  consecutive_retries_not_accepted: {
    type: 'gauge',
    help: 'Consecutive retries with the result rejected, gone, intercepted, platform-error or unreachable; 0 after accepted or already-resolved, and once a check shows that one was accepted. Or, if more, those with the outcome unknown.',
    read: ({ notAccepted, unknownInARow }) => Math.max(notAccepted.inARow, unknownInARow),
  },
  unattempted_webhooks: {
    type: 'gauge',
    help: 'Failed records with three or more retries in a row after which the platform shows no attempt: it rejected them, made no attempt, or did not receive them.',
    read: whenSwept(({ endless }) => endless.unattempted),
  },
  clock_timestamp_seconds: {
    type: 'gauge',
    help: "This host's time, to compare with other times of this host, because the clock of Prometheus may differ.",
    read: ({ now }) => now / 1000,
  },
  clock_skew_seconds: {
    type: 'gauge',
    help: "How far the server's clock is ahead of this host's, from its Date headers. auth: identity host. api: platform.",
    labels: { origin: ['auth', 'api'] },
    read: ({ skewMs }) => ({ auth: skewMs.auth / 1000, api: skewMs.api / 1000 }),
  },
  platform_time_offset_seconds: {
    type: 'gauge',
    help: 'Offset between the time of a retry and that of the attempt that the platform shows for it. Far from 0: platform.timeZone is wrong.',
    read: ({ timeOffsetMs }) => (timeOffsetMs ?? 0) / 1000,
  },
  unreadable_records: {
    type: 'gauge',
    help: 'Unreadable listed rows, as last seen by sweeps or outcome checks. They are neither counted as failed nor retried.',
    read: whenSwept(({ unreadable }) => unreadable?.rows ?? 0),
  },
  unexpected_records_total: {
    type: 'counter',
    help: 'Listed rows with a time or status that was not requested. They are not retried.',
    labels: { kind: ['time', 'status'] },
  },
  log_messages_total: {
    type: 'counter',
    help: 'Log lines since the start, by level, including dropped ones.',
    labels: { level: countedLevels },
  },
  log_lines_dropped_total: {
    type: 'counter',
    help: 'Dropped log and audit lines: the reader of stdout was too slow (more than 1 MiB waited), or its disk was full.',
  },
  build_info: {
    type: 'gauge',
    help: 'Always 1. The labels are instance.name and the versions of the daemon and of Node.',
    labels: { instance_name: [], version: [], node_version: [] },
  },
} as const satisfies Record<string, MetricDefinition>

type Definitions = typeof metricDefinitions
export type MetricName = keyof Definitions
export type NameOf<Type extends MetricDefinition['type']> = {
  [Name in MetricName]: Definitions[Name]['type'] extends Type ? Name : never
}[MetricName]

type LabelValueOf<Values extends readonly string[]> = Values extends readonly [] ? string : Values[number]
/** The labels of a metric with their declared values; no other series can exist. */
export type LabelsOf<Name extends MetricName> = Definitions[Name] extends {
  labels: infer All extends Record<string, readonly string[]>
}
  ? { readonly [Label in keyof All]: LabelValueOf<All[Label]> }
  : Readonly<Record<string, never>>
