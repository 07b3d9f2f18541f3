// Every metric of the daemon in one table: name, type, help, labels and their values. docs/metrics.md's table is generated from it.
import { gateNames } from '../reconcile/retry/gates.ts'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { reasons } from '../platform/http.ts'
import { foundStatuses, retryResults } from '../platform/operations.ts'
import { circuitStates } from '../reconcile/retry/circuits.ts'
import { decisions } from '../reconcile/decide.ts'
import { outcomes } from '../reconcile/confirm/evidence.ts'
import { skipReasons, sweepKinds, sweepResults } from '../reconcile/sweep/sweep-report.ts'
import { drainSeconds } from './drain.ts'
import { countedLevels } from './log.ts'
import { addProcessMetrics } from './process-metrics.ts'
import { expiringDecisions, type Snapshot } from './snapshot.ts'

export const metricPrefix = 'webhook_reconciler_'

export interface MetricDefinition {
  type: 'counter' | 'gauge' | 'histogram'
  help: string
  /** Label names with all their values: each series exists from the start with 0. An empty list is filled at run time. */
  labels?: Readonly<Record<string, readonly string[]>>
  buckets?: readonly number[]
  /** `when-set`: without a value the metric is left out, instead of showing a 0 that means nothing. */
  presence?: 'when-set'
  /**
   * Of a gauge: its value, or one for each value of its label; undefined leaves it as it is. Only `build_info` has none.
   */
  read?: (snapshot: Snapshot) => number | undefined | Readonly<Record<string, number>>
}

/** 0 before the first time. */
const toSeconds = (at: number | undefined): number => (at ?? 0) / 1000
const toFlag = (flag: boolean | undefined): number | undefined => (flag === undefined ? undefined : Number(flag))

const operations = ['token', 'list', 'retry', 'confirm'] as const
const callSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
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
    help: 'Duration of sweeps, failed ones too.',
    labels: { kind: sweepKinds },
    buckets: sweepSeconds,
  },
  ticks_skipped_total: {
    type: 'counter',
    help: 'Ticks of the schedule that started no sweep: the last one was still under way, retries are paused, or sweeps back off after a failure.',
    labels: { reason: skipReasons },
  },
  last_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'When a sweep of any kind last ended without failing; 0 before the first.',
    read: ({ lastSweepAt }) => toSeconds(lastSweepAt),
  },
  last_complete_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'When a full sweep last saw the whole window; 0 before the first.',
    read: ({ lastCompleteSweepAt }) => toSeconds(lastCompleteSweepAt),
  },
  last_incomplete_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'When a full sweep last ended without having seen the whole window, or failed; 0 when none has.',
    read: ({ lastIncompleteSweepAt }) => toSeconds(lastIncompleteSweepAt),
  },
  next_sweep_timestamp_seconds: {
    type: 'gauge',
    help: 'When the schedule ticks next.',
    read: ({ nextTickAt }) => nextTickAt && nextTickAt / 1000,
  },
  last_progress_timestamp_seconds: {
    type: 'gauge',
    help: 'When there was progress: a sweep ended without failing, a retry was answered by accepted, already-resolved, gone or rejected, or an outcome was seen as recovered or failed-again; 0 before the first.',
    read: ({ progressAt }) => toSeconds(progressAt),
  },
  progress_due_timestamp_seconds: {
    type: 'gauge',
    help: 'When there is to be progress again at the latest: by the first tick of the schedule after the last progress, or after the rest that follows a long sweep, and two of its shortest periods (at most 5 minutes) more. Past for long: nothing goes on.',
    read: ({ progressDueAt }) => progressDueAt / 1000,
  },
  failed_webhooks: {
    type: 'gauge',
    help: 'Failed records in the window by what is decided of them now.',
    labels: { decision: decisions },
    read: ({ failed }) => failed,
  },
  failed_webhooks_beyond_window: {
    type: 'gauge',
    help: 'Failed records older than the window, as the last full sweep saw them: nobody retries them any more.',
    read: ({ beyondWindow }) => beyondWindow,
  },
  backlog_records: {
    type: 'gauge',
    help: 'Records held in memory.',
    read: ({ backlogRecords }) => backlogRecords,
  },
  oldest_failed_event_timestamp_seconds: {
    type: 'gauge',
    help: 'Event time of the oldest failed record in the window; parked and excluded ones do not count; 0 when there is none.',
    read: ({ oldestOpenAt }) => toSeconds(oldestOpenAt),
  },
  recovery_target_seconds: {
    type: 'gauge',
    help: 'How old the oldest failed record may become (recovery.target): alerts compare with it.',
    read: ({ recoveryTargetMs }) => recoveryTargetMs / 1000,
  },
  estimated_drain_seconds: {
    type: 'gauge',
    help: 'How long the open records (due, held, backing-off, awaiting) take at the pace of recoveries in the last minute (in the last five when there was none), whatever backing-off ones wait besides; 0 when none is open, +Inf when nothing recovers.',
    read: ({ failed, recoveredPerMs }) => drainSeconds(failed, recoveredPerMs),
  },
  retries_total: {
    type: 'counter',
    help: 'Retries that were sent, by what the platform said.',
    labels: { result: retryResults },
  },
  already_resolved_total: {
    type: 'counter',
    help: 'Retries of records that were no longer failed, by the status that the platform found.',
    labels: { found: foundStatuses },
  },
  outcomes_total: {
    type: 'counter',
    help: 'What became of retries that were accepted or whose answer was lost: recovered is what the platform shows as successful, unknown what was given up.',
    labels: { outcome: outcomes },
  },
  awaiting_webhooks: {
    type: 'gauge',
    help: 'Retried records whose outcome is not known yet.',
    read: ({ awaiting }) => awaiting,
  },
  recovery_duration_seconds: {
    type: 'histogram',
    help: 'Time from the event until its record was seen to be recovered.',
    buckets: recoverySeconds,
  },
  retry_to_outcome_seconds: {
    type: 'histogram',
    help: 'Time from a retry until it was seen to have recovered or failed again.',
    buckets: outcomeSeconds,
  },
  stuck_processing_webhooks: {
    type: 'gauge',
    help: 'Records that have been processing for longer than outcome.stuckAfter, as the last full sweep saw them.',
    read: ({ stuckProcessing }) => stuckProcessing,
  },
  expiring_webhooks: {
    type: 'gauge',
    help: 'Failed records that leave the window within window.expiryWarning, by what is decided of them now.',
    labels: { decision: expiringDecisions },
    read: ({ expiring }) => expiring,
  },
  lapsed_webhooks_total: {
    type: 'counter',
    help: 'Failed records that left the window unrecovered, as far as they were known here: nobody retries them any more.',
  },
  circuits: {
    type: 'gauge',
    help: 'Circuits, one for each subscription, by state: open ones pause, half-open ones begin again slowly.',
    labels: { state: circuitStates },
    read: ({ circuitCounts }) => circuitCounts,
  },
  circuit_transitions_total: {
    type: 'counter',
    help: 'Changes of circuits, by the state that they changed to.',
    labels: { to: circuitStates },
  },
  receiver_up: {
    type: 'gauge',
    help: 'Whether the receiver answered 2xx when it was last asked (1) or not (0); only with receiver.healthUrl, from the first answer on.',
    presence: 'when-set',
    read: ({ receiver }) => toFlag(receiver?.up),
  },
  paused: {
    type: 'gauge',
    help: 'Whether the operator has paused the retries (1) or not (0).',
    read: ({ pausedSince }) => Number(pausedSince !== undefined),
  },
  gates: {
    type: 'gauge',
    help: 'Gates that keep retries from going out: 1 while it blocks everything or any subscription.',
    labels: { gate: gateNames },
    read: ({ gates }) => Object.fromEntries(gates.map(({ gate }) => [gate, 1])),
  },
  platform_requests_total: {
    type: 'counter',
    help: 'HTTP calls to the platform, by operation and how they ended.',
    labels: { operation: operations, reason: reasons },
  },
  platform_request_duration_seconds: {
    type: 'histogram',
    help: 'Duration of HTTP calls to the platform.',
    labels: { operation: operations },
    buckets: callSeconds,
  },
  platform_request_rate_limit: {
    type: 'gauge',
    help: 'Calls a second that are allowed at present; it falls when the platform throttles.',
    read: ({ rateLimit }) => rateLimit,
  },
  throttled_until_timestamp_seconds: {
    type: 'gauge',
    help: 'Until when nothing is sent because the platform throttled (429, or a Retry-After); 0 when that is not so.',
    read: ({ now, throttledForMs }) => (throttledForMs > 0 ? (now + throttledForMs) / 1000 : 0),
  },
  access_token_expiry_timestamp_seconds: {
    type: 'gauge',
    help: 'From when on the access token counts as expired, up to 10 s before its end; 0 without one.',
    read: ({ tokenExpiresAt }) => toSeconds(tokenExpiresAt),
  },
  access_token_refreshes_total: {
    type: 'counter',
    help: 'Attempts to get an access token, by result.',
    labels: { result: ['success', 'transient', 'rejected'] },
  },
  client_certificate_expiry_timestamp_seconds: {
    type: 'gauge',
    help: 'When the certificate of the signing key ends; only with auth.certificateFile.',
    presence: 'when-set',
    read: ({ certificateExpiresAt }) => certificateExpiresAt && certificateExpiresAt / 1000,
  },
  key_reload_successful: {
    type: 'gauge',
    help: 'Whether the key file could be used when it was last read after a change (1) or not (0), and the old key goes on; only after a change.',
    presence: 'when-set',
    read: ({ keyReloadSuccessful }) => toFlag(keyReloadSuccessful),
  },
  retries_in_flight: {
    type: 'gauge',
    help: 'Retries that wait for their answer.',
    read: ({ inFlight }) => inFlight,
  },
  clock_skew_seconds: {
    type: 'gauge',
    help: "How far the server's clock is ahead of this host's, from its Date headers.",
    labels: { origin: ['auth', 'api'] },
    read: ({ skewMs }) => ({ auth: skewMs.auth / 1000, api: skewMs.api / 1000 }),
  },
  platform_time_offset_seconds: {
    type: 'gauge',
    help: 'How far attempt times of retried records lie outside the time in which they were made; far from 0 means that platform.timeZone is wrong.',
    read: ({ timeOffsetMs }) => (timeOffsetMs ?? 0) / 1000,
  },
  unreadable_records_total: {
    type: 'counter',
    help: 'Listed rows without a readable id, event time or status: they cannot be retried.',
  },
  unexpected_records_total: {
    type: 'counter',
    help: 'Listed rows whose own time or status is not what was asked for: they are not retried.',
    labels: { kind: ['time', 'status'] },
  },
  log_messages_total: {
    type: 'counter',
    help: 'Lines written to the log since the daemon started, by level; those that were dropped count, too.',
    labels: { level: countedLevels },
  },
  log_lines_dropped_total: {
    type: 'counter',
    help: 'Lines of the log and the audit that were dropped because nobody read the output: more than 1 MiB waited.',
  },
  build_info: {
    type: 'gauge',
    help: 'Always 1; the labels tell the version.',
    labels: { version: [], node_version: [] },
  },
} as const satisfies Record<string, MetricDefinition>

type Definitions = typeof metricDefinitions
export type MetricName = keyof Definitions
type NameOf<Type extends MetricDefinition['type']> = {
  [Name in MetricName]: Definitions[Name]['type'] extends Type ? Name : never
}[MetricName]

type LabelValueOf<Values extends readonly string[]> = Values extends readonly [] ? string : Values[number]
/** The labels of a metric with the values that it knows: no other series can come about. */
type LabelsOf<Name extends MetricName> = Definitions[Name] extends {
  labels: infer All extends Record<string, readonly string[]>
}
  ? { readonly [Label in keyof All]: LabelValueOf<All[Label]> }
  : Readonly<Record<string, never>>

export interface Metrics {
  /** Adds to a counter. */
  add<Name extends NameOf<'counter'>>(name: Name, labels: LabelsOf<Name>, by?: number): void
  /** Sets all gauges that are read from a snapshot. */
  show(snapshot: Snapshot): void
  /** Takes a measurement of a histogram, in seconds. */
  observe<Name extends NameOf<'histogram'>>(name: Name, value: number, labels: LabelsOf<Name>): void
  /** The text exposition format, and its content type. */
  text(): Promise<string>
  contentType: string
}

type Instrument = Counter | Gauge | Histogram

/** All combinations of a definition's label values. */
function series(labels: Readonly<Record<string, readonly string[]>>): Record<string, string>[] {
  return Object.entries(labels).reduce<Record<string, string>[]>(
    (combinations, [label, values]) =>
      combinations.flatMap((combination) => values.map((value) => ({ ...combination, [label]: value }))),
    [{}],
  )
}

function seed(instrument: Instrument, definition: MetricDefinition): void {
  if (definition.presence === 'when-set') {
    instrument.remove({})
    return
  }
  for (const labels of series(definition.labels ?? {})) {
    if (instrument instanceof Counter) instrument.inc(labels, 0)
    else if (instrument instanceof Gauge) instrument.set(labels, 0)
    else instrument.zero(labels)
  }
}

function create(name: string, definition: MetricDefinition, registry: Registry): Instrument {
  const settings = {
    name: metricPrefix + name,
    help: definition.help,
    labelNames: Object.keys(definition.labels ?? {}),
    registers: [registry],
  }
  if (definition.type === 'counter') return new Counter(settings)
  if (definition.type === 'gauge') return new Gauge(settings)
  return new Histogram({ ...settings, buckets: [...(definition.buckets ?? callSeconds)] })
}

/** Sets a gauge to what the snapshot says. Of a label only the declared values are shown. */
function showGauge(gauge: Instrument | undefined, { labels = {}, read }: MetricDefinition, snapshot: Snapshot): void {
  const value = read?.(snapshot)
  if (!(gauge instanceof Gauge) || value === undefined) return
  if (typeof value === 'number') {
    gauge.set(value)
    return
  }
  const [[label, labelValues] = ['', []]] = Object.entries(labels)
  for (const labelValue of labelValues) gauge.set({ [label]: labelValue }, value[labelValue] ?? 0)
}

export interface MetricsOptions {
  /** The usual process_* and nodejs_* metrics too. */
  processMetrics: boolean
  /** For `build_info`; default: it is left out. */
  build?: { version: string; node_version: string }
}

/** Makes a registry of its own with every metric, seeded. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry()
  const instruments = new Map<MetricName, Instrument>()
  const definitions = Object.entries(metricDefinitions) as [MetricName, MetricDefinition][]
  for (const [name, definition] of definitions) {
    const instrument = create(name, definition, registry)
    seed(instrument, definition)
    instruments.set(name, instrument)
  }
  const build = instruments.get('build_info')
  if (options.build !== undefined && build instanceof Gauge) build.set(options.build, 1)
  if (options.processMetrics) addProcessMetrics(registry)

  return {
    add(name, labels, by = 1) {
      const instrument = instruments.get(name)
      if (!(instrument instanceof Counter)) throw new TypeError(`${name} is no counter`)
      instrument.inc(labels, by)
    },
    show(snapshot) {
      for (const [name, definition] of definitions) showGauge(instruments.get(name), definition, snapshot)
    },
    observe(name, value, labels) {
      const instrument = instruments.get(name)
      if (!(instrument instanceof Histogram)) throw new TypeError(`${name} is no histogram`)
      instrument.observe(labels, value)
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
