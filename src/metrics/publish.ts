// The only writer of metrics: counts facts as they are told, and reads the state when Prometheus asks.
import type { Fact } from '../facts.ts'
import type { Decision } from '../reconcile/decide.ts'
import type { Summary } from '../reconcile/backlog.ts'
import type { SweepReport } from '../reconcile/sweeper.ts'
import type { Metrics } from './registry.ts'

/** What is read at scrape time. Times in epoch ms of this host's clock. */
export interface State {
  summary: Summary
  backlogRecords: number
  beyondWindow: number
  inFlight: number
  rateLimit: number
  tokenExpiresAt: number | undefined
  certificateExpiresAt: number | undefined
  skewMs: Readonly<Record<'auth' | 'api', number>>
  nextTickAt: number | undefined
}

function publishSweep(metrics: Metrics, report: SweepReport, now: number): void {
  metrics.add('sweeps_total', { kind: report.kind, result: report.result })
  metrics.observe('sweep_duration_seconds', report.seconds, { kind: report.kind })
  if (report.result !== 'failed') metrics.set('last_sweep_timestamp_seconds', now / 1000)
  const whole = report.kind === 'full' && !report.continued && report.result === 'complete'
  if (whole) metrics.set('last_complete_sweep_timestamp_seconds', now / 1000)
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
    case 'time-offset': {
      // A wrong zone moves every attempt; a single one may have been made by somebody else.
      const [least] = fact.offsets.toSorted((a, b) => Math.abs(a.offsetMs) - Math.abs(b.offsetMs))
      if (least !== undefined) metrics.set('platform_time_offset_seconds', least.offsetMs / 1000)
      return
    }
    case 'token-scope-missing':
    case 'key-reloaded':
    case 'key-reload-failed':
    case 'trouble':
    case 'slice-skipped':
    case 'early-at-limit':
    case 'left-window':
      return
    default:
      fact satisfies never
  }
}

/** Writes the gauges that show a state. */
export function publishState(metrics: Metrics, state: State): void {
  for (const [decision, count] of Object.entries(state.summary.counts) as [Decision, number][]) {
    metrics.set('failed_webhooks', count, { decision })
  }
  metrics.set('oldest_failed_event_timestamp_seconds', (state.summary.oldestOpenAt ?? 0) / 1000)
  metrics.set('backlog_records', state.backlogRecords)
  metrics.set('failed_webhooks_beyond_window', state.beyondWindow)
  metrics.set('retries_in_flight', state.inFlight)
  metrics.set('platform_request_rate_limit', state.rateLimit)
  metrics.set('access_token_expiry_timestamp_seconds', (state.tokenExpiresAt ?? 0) / 1000)
  if (state.certificateExpiresAt !== undefined) {
    metrics.set('client_certificate_expiry_timestamp_seconds', state.certificateExpiresAt / 1000)
  }
  metrics.set('clock_skew_seconds', state.skewMs.auth / 1000, { origin: 'auth' })
  metrics.set('clock_skew_seconds', state.skewMs.api / 1000, { origin: 'api' })
  if (state.nextTickAt !== undefined) metrics.set('next_sweep_timestamp_seconds', state.nextTickAt / 1000)
}
