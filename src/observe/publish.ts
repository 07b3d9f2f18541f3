// Counts events in counters and histograms. Gauges are read from a snapshot, see metrics.ts.
import type { FactOf, TelemetryEvent } from './events.ts'
import type { Metrics } from './registry.ts'

/** Events with a counter or histogram; the others only have a log line. */
const counters: { readonly [Type in TelemetryEvent['type']]?: (metrics: Metrics, event: FactOf<Type>) => void } = {
  'token-request': (metrics, { reason, seconds }) => {
    metrics.add('token_requests_total', { reason })
    metrics.observe('token_request_duration_seconds', seconds, {})
  },
  'platform-request': (metrics, { operation, reason, seconds }) => {
    metrics.add('platform_requests_total', { operation, reason })
    metrics.observe('platform_request_duration_seconds', seconds, { operation })
  },
  'token-refreshed': (metrics, event) => {
    const isNewKey = event.result !== 'ok' && event.isNewKey
    metrics.add('access_token_refreshes_total', { result: isNewKey ? 'new-key-rejected' : event.result })
  },
  retry: (metrics, { response }) => {
    metrics.add('retries_total', { result: response.result })
  },
  /** Unknown outcomes are not measured. A negative time, from clocks that differ, must not reduce a sum. */
  outcome: (metrics, { outcome, sinceEventMs, sinceRetryMs }) => {
    metrics.add('outcomes_total', { outcome })
    if (outcome === 'unknown') return
    metrics.observe('retry_to_outcome_seconds', Math.max(0, sinceRetryMs) / 1000, {})
    if (outcome === 'recovered') metrics.observe('recovery_duration_seconds', Math.max(0, sinceEventMs) / 1000, {})
  },
  circuit: (metrics, { to }) => {
    metrics.add('circuit_transitions_total', { to })
  },
  ledger: (metrics, { result }) => {
    metrics.add('ledger_requests_total', { result })
  },
  expired: (metrics, { again, records }) => {
    metrics.add('expired_webhooks_total', {}, records - again)
  },
  sweep: (metrics, { report }) => {
    metrics.add('sweeps_total', { kind: report.kind, result: report.result })
    metrics.observe('sweep_duration_seconds', report.seconds, { kind: report.kind })
  },
  'standing-by': (metrics, { cause }) => {
    if (cause !== 'seen') metrics.add('leader_terms_ended_total', { cause })
  },
  unexpected: (metrics, { wrongStatus, wrongTime }) => {
    metrics.add('unexpected_records_total', { kind: 'time' }, wrongTime)
    metrics.add('unexpected_records_total', { kind: 'status' }, wrongStatus)
  },
}

export function publishEvent(metrics: Metrics, event: TelemetryEvent): void {
  const count = counters[event.type] as ((metrics: Metrics, event: TelemetryEvent) => void) | undefined
  count?.(metrics, event)
}
