// Counts events in the metrics: counters and histograms. Gauges are read from a snapshot, see metrics.ts.
import type { Fact } from './events.ts'
import type { OutcomeFact } from '../reconcile/confirm/outcomes.ts'
import type { SweepReport } from '../reconcile/sweep/sweep-report.ts'
import type { Metrics } from './metrics.ts'

function publishSweep(metrics: Metrics, report: SweepReport): void {
  metrics.add('sweeps_total', { kind: report.kind, result: report.result })
  metrics.observe('sweep_duration_seconds', report.seconds, { kind: report.kind })
}

/** Nothing was seen of an unknown outcome, so nothing is measured. Clocks that differ must not make a sum shrink. */
function publishOutcome(metrics: Metrics, { outcome, sinceEventMs, sinceRetryMs }: OutcomeFact): void {
  metrics.add('outcomes_total', { outcome })
  if (outcome === 'unknown') return
  metrics.observe('retry_to_outcome_seconds', Math.max(0, sinceRetryMs) / 1000, {})
  if (outcome === 'recovered') metrics.observe('recovery_duration_seconds', Math.max(0, sinceEventMs) / 1000, {})
}

/** Counts one event. */
export function publishFact(metrics: Metrics, fact: Fact): void {
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
      publishSweep(metrics, fact.report)
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
