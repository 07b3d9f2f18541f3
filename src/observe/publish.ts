// Counts events in the metrics: counters and histograms. Gauges are read from a snapshot, see metrics.ts.
import type { TelemetryEvent } from './events.ts'
import type { OutcomeEvent } from '../reconcile/confirm/outcomes.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import type { Metrics } from './registry.ts'

function publishSweep(metrics: Metrics, report: SweepReport): void {
  metrics.add('sweeps_total', { kind: report.kind, result: report.result })
  metrics.observe('sweep_duration_seconds', report.seconds, { kind: report.kind })
}

/** Unknown outcomes are not measured. Negative times, from clocks that differ, must not make a sum shrink. */
function publishOutcome(metrics: Metrics, { outcome, sinceEventMs, sinceRetryMs }: OutcomeEvent): void {
  metrics.add('outcomes_total', { outcome })
  if (outcome === 'unknown') return
  metrics.observe('retry_to_outcome_seconds', Math.max(0, sinceRetryMs) / 1000, {})
  if (outcome === 'recovered') metrics.observe('recovery_duration_seconds', Math.max(0, sinceEventMs) / 1000, {})
}

/** Counts one event. */
export function publishEvent(metrics: Metrics, event: TelemetryEvent): void {
  switch (event.type) {
    case 'token-request':
    case 'platform-request': {
      const operation = event.type === 'token-request' ? 'token' : event.operation
      metrics.add('platform_requests_total', { operation, reason: event.reason })
      metrics.observe('platform_request_duration_seconds', event.seconds, { operation })
      return
    }
    case 'token-refreshed':
      metrics.add('access_token_refreshes_total', { result: event.result })
      return
    case 'retry': {
      const { answer } = event
      if (answer.sent) metrics.add('retries_total', { result: answer.result })
      return
    }
    case 'outcome':
      publishOutcome(metrics, event)
      return
    case 'circuit':
      metrics.add('circuit_transitions_total', { to: event.to })
      return
    case 'expired':
      metrics.add('expired_webhooks_total', {}, event.records)
      return
    case 'sweep':
      publishSweep(metrics, event.report)
      return
    case 'unreadable':
      metrics.add('unreadable_records_total', {}, event.rows.length)
      return
    case 'unexpected':
      metrics.add('unexpected_records_total', { kind: 'time' }, event.time)
      metrics.add('unexpected_records_total', { kind: 'status' }, event.status)
      return
    case 'token-scope-missing':
    case 'credential-reloaded':
    case 'credential-reload-failed':
    case 'trouble':
    case 'slice-skipped':
    case 'early-at-limit':
    case 'receiver':
    case 'operator':
    case 'leading':
    case 'standing-by':
    case 'lease-unavailable':
    case 'lease-available':
      return
    default:
      event satisfies never
  }
}
