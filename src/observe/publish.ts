// The only writer of metrics: counts facts as they are told, and reads the state when Prometheus asks.
import type { Fact } from './events.ts'
import type { CircuitState } from '../reconcile/retry/circuits.ts'
import type { Summary } from '../reconcile/retry/backlog.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { OutcomeFact } from '../reconcile/confirm/outcomes.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import { gateNames, type ShutGate } from '../reconcile/retry/gates.ts'
import { expiringDecisions, type ExpiringDecision, type Metrics } from './metrics.ts'
import type { Watched } from './progress.ts'

/** What is read at scrape time. Times in epoch ms of this host's clock. */
export interface State extends Watched {
  /** The summary's own `expiring` knows nothing of what had no room in the backlog. */
  summary: Omit<Summary, 'expiring'>
  backlogRecords: number
  beyondWindow: number
  /** Selected records within `window.expiryWarning` of leaving the window, those without room in the backlog too. */
  expiring: Readonly<Record<ExpiringDecision, number>>
  /** Retried records whose outcome is not known yet. */
  awaiting: number
  stuckProcessing: number
  circuits: Readonly<Record<CircuitState, number>>
  /** Undefined without `receiver.healthUrl`, and before the first answer. */
  receiverUp: boolean | undefined
  paused: boolean
  /** Those that are shut. */
  gates: readonly ShutGate[]
  inFlight: number
  rateLimit: number
  /** Undefined when no Retry-After goes on. */
  throttledUntil: number | undefined
  tokenExpiresAt: number | undefined
  certificateExpiresAt: number | undefined
  /** Undefined while the key file has not changed. */
  keyReloadSuccessful: boolean | undefined
  skewMs: Readonly<Record<'auth' | 'api', number>>
  nextTickAt: number | undefined
}

function publishSweep(metrics: Metrics, report: SweepReport, now: number): void {
  metrics.add('sweeps_total', { kind: report.kind, result: report.result })
  metrics.observe('sweep_duration_seconds', report.seconds, { kind: report.kind })
  if (report.result !== 'failed') metrics.set('last_sweep_timestamp_seconds', now / 1000)
  const whole = report.kind === 'full' && !report.continued && report.result === 'complete'
  if (whole) metrics.set('last_complete_sweep_timestamp_seconds', now / 1000)
  const short = report.kind === 'full' && !report.continued && report.result !== 'complete'
  if (short) metrics.set('last_incomplete_sweep_timestamp_seconds', now / 1000)
}

/** Nothing was seen of an unknown outcome, so nothing is measured. Clocks that differ must not make a sum shrink. */
function publishOutcome(metrics: Metrics, { outcome, sinceEventMs, sinceRetryMs, timeOffsetMs }: OutcomeFact): void {
  metrics.add('outcomes_total', { outcome })
  if (timeOffsetMs !== undefined) metrics.set('platform_time_offset_seconds', timeOffsetMs / 1000)
  if (outcome === 'unknown') return
  metrics.observe('retry_to_outcome_seconds', Math.max(0, sinceRetryMs) / 1000, {})
  if (outcome === 'recovered') metrics.observe('recovery_duration_seconds', Math.max(0, sinceEventMs) / 1000, {})
}

/** Counts one fact. `now` in epoch ms of this host's clock. */
export function publishFact(metrics: Metrics, fact: Fact, now: number): void {
  switch (fact.type) {
    case 'token-request':
    case 'platform-request': {
      const operation = fact.type === 'token-request' ? 'token' : fact.operation
      metrics.add('platform_requests_total', { operation, reason: fact.reason })
      metrics.observe('platform_request_duration_seconds', fact.seconds, { operation })
      return
    }
    case 'token-refreshed':
      metrics.add('access_token_refreshes_total', { result: fact.result })
      return
    case 'retry': {
      const { answer } = fact
      if (answer.sent) metrics.add('retries_total', { result: answer.result })
      if (answer.found !== undefined) metrics.add('already_resolved_total', { found: answer.found })
      return
    }
    case 'outcome':
      publishOutcome(metrics, fact)
      return
    case 'circuit':
      metrics.add('circuit_transitions_total', { to: fact.to })
      return
    case 'lapsed':
      metrics.add('lapsed_webhooks_total', {}, fact.records)
      return
    case 'sweep':
      publishSweep(metrics, fact.report, now)
      return
    case 'tick-skipped':
      metrics.add('ticks_skipped_total', { reason: fact.reason })
      return
    case 'unreadable':
      metrics.add('unreadable_records_total', {}, fact.rows.length)
      return
    case 'unexpected':
      metrics.add('unexpected_records_total', { kind: 'time' }, fact.time)
      metrics.add('unexpected_records_total', { kind: 'status' }, fact.status)
      return
    case 'token-scope-missing':
    case 'key-reloaded':
    case 'key-reload-failed':
    case 'trouble':
    case 'slice-skipped':
    case 'early-at-limit':
    case 'receiver':
    case 'paused':
      return
    default:
      fact satisfies never
  }
}

function publishRecords(metrics: Metrics, state: State): void {
  for (const [decision, count] of Object.entries(state.summary.counts) as [Decision, number][]) {
    metrics.set('failed_webhooks', count, { decision })
  }
  // Whoever counts may count by all decisions: those that are no label must not become one.
  for (const decision of expiringDecisions) metrics.set('expiring_webhooks', state.expiring[decision], { decision })
  metrics.set('oldest_failed_event_timestamp_seconds', (state.summary.oldestOpenAt ?? 0) / 1000)
  metrics.set('backlog_records', state.backlogRecords)
  metrics.set('failed_webhooks_beyond_window', state.beyondWindow)
  metrics.set('awaiting_webhooks', state.awaiting)
  metrics.set('stuck_processing_webhooks', state.stuckProcessing)
}

/** What holds retries. */
function publishHolds(metrics: Metrics, { circuits, gates, receiverUp, paused }: State): void {
  for (const gate of gateNames) metrics.set('gates', Number(gates.some((shut) => shut.gate === gate)), { gate })
  for (const [state, count] of Object.entries(circuits) as [CircuitState, number][]) {
    metrics.set('circuits', count, { state })
  }
  if (receiverUp !== undefined) metrics.set('receiver_up', Number(receiverUp))
  metrics.set('paused', Number(paused))
}

/** What proves who we are. */
function publishCredentials(metrics: Metrics, state: State): void {
  metrics.set('access_token_expiry_timestamp_seconds', (state.tokenExpiresAt ?? 0) / 1000)
  if (state.certificateExpiresAt !== undefined) {
    metrics.set('client_certificate_expiry_timestamp_seconds', state.certificateExpiresAt / 1000)
  }
  if (state.keyReloadSuccessful !== undefined) {
    metrics.set('key_reload_successful', Number(state.keyReloadSuccessful))
  }
}

/** Whether it goes on, and how fast. */
function publishProgress(metrics: Metrics, state: State): void {
  metrics.set('last_progress_timestamp_seconds', (state.progressAt ?? 0) / 1000)
  metrics.set('progress_due_timestamp_seconds', state.progressDueAt / 1000)
  metrics.set('estimated_drain_seconds', state.estimatedDrainSeconds)
}

/** Writes the gauges that show a state. */
export function publishState(metrics: Metrics, state: State): void {
  publishRecords(metrics, state)
  publishHolds(metrics, state)
  publishCredentials(metrics, state)
  publishProgress(metrics, state)
  metrics.set('retries_in_flight', state.inFlight)
  metrics.set('platform_request_rate_limit', state.rateLimit)
  metrics.set('throttled_until_timestamp_seconds', (state.throttledUntil ?? 0) / 1000)
  metrics.set('clock_skew_seconds', state.skewMs.auth / 1000, { origin: 'auth' })
  metrics.set('clock_skew_seconds', state.skewMs.api / 1000, { origin: 'api' })
  if (state.nextTickAt !== undefined) metrics.set('next_sweep_timestamp_seconds', state.nextTickAt / 1000)
}
