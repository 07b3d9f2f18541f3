// From facts and state to series: each fact moves what it should, and nothing else.
import { describe, expect, test } from 'vitest'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { publishEvent } from '../../../src/observe/publish.ts'
import { createMetrics, type Metrics } from '../../../src/observe/registry.ts'
import { metricDefinitions, metricPrefix } from '../../../src/observe/metrics.ts'
import type { Snapshot } from '../../../src/observe/snapshot.ts'
import { retryResults } from '../../../src/platform/operations.ts'
import { reasons } from '../../../src/platform/http/http.ts'
import { noCounts } from '../../../src/reconcile/decide.ts'
import { aStatusState } from '../../support/status.ts'
import { parseSamples } from '../../support/samples.ts'
import { everyFact, failedSweep, outcomeFact, retryFact, sweepFact, tokenRefused } from '../../support/facts.ts'

const empty = aStatusState({ now: 0, rateLimit: 0, rateMaximum: 0 })

/** Every series that is not 0, without the prefix and without buckets. */
async function nonZero(metrics: Metrics, snapshot: Snapshot = empty): Promise<Record<string, number>> {
  const samples = [...parseSamples(await metrics.text(snapshot))]
  const shown = samples.filter(([series, value]) => value !== 0 && !series.includes('_bucket'))
  return Object.fromEntries(shown.map(([series, value]) => [series.replace(metricPrefix, ''), value]))
}

/** A series for each value of a label. */
function seriesOf(name: string, label: string, values: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([value, n]) => [`${name}{${label}="${value}"}`, n]))
}

test('each fact moves what it should, and no other series', async () => {
  const metrics = createMetrics({ processMetrics: false })
  const facts: TelemetryEvent[] = [
    ...Object.values(everyFact),
    tokenRefused(),
    tokenRefused({ isNewKey: true }),
    failedSweep(),
    sweepFact({ kind: 'recent', result: 'incomplete' }),
    outcomeFact({ outcome: 'failed-again' }),
    // The hour after which it was given up is no measurement, and clocks that differ do not take away from a sum.
    outcomeFact({ outcome: 'unknown', sinceRetryMs: 3_600_000 }),
    outcomeFact({ sinceEventMs: -5_000, sinceRetryMs: -3 }),
  ]
  for (const fact of facts) publishEvent(metrics, fact)
  expect(await nonZero(metrics)).toEqual({
    'token_requests_total{reason="ok"}': 1,
    token_request_duration_seconds_sum: 0.1,
    token_request_duration_seconds_count: 1,
    'platform_requests_total{operation="list",reason="server-error"}': 1,
    'platform_request_duration_seconds_sum{operation="list"}': 0.2,
    'platform_request_duration_seconds_count{operation="list"}': 1,
    'access_token_refreshes_total{result="ok"}': 1,
    'access_token_refreshes_total{result="rejected"}': 1,
    'access_token_refreshes_total{result="new-key-rejected"}': 1,
    'sweeps_total{kind="full",result="complete"}': 1,
    'sweeps_total{kind="full",result="failed"}': 1,
    'sweeps_total{kind="recent",result="incomplete"}': 1,
    'sweep_duration_seconds_sum{kind="full"}': 2.46912,
    'sweep_duration_seconds_count{kind="full"}': 2,
    'sweep_duration_seconds_sum{kind="recent"}': 1.23456,
    'sweep_duration_seconds_count{kind="recent"}': 1,
    'retries_total{result="accepted"}': 1,
    'unexpected_records_total{kind="time"}': 2,
    'unexpected_records_total{kind="status"}': 3,
    'outcomes_total{outcome="recovered"}': 2,
    'outcomes_total{outcome="failed-again"}': 1,
    'outcomes_total{outcome="unknown"}': 1,
    recovery_duration_seconds_sum: 86_400,
    recovery_duration_seconds_count: 2,
    retry_to_outcome_seconds_sum: 1,
    retry_to_outcome_seconds_count: 3,
    'circuit_transitions_total{to="open"}': 1,
    expired_webhooks_total: 5,
    'leader_terms_ended_total{cause="expired"}': 1,
    'ledger_requests_total{result="refused"}': 1,
  })
})

test('every value of a closed list has its series, so that no fact makes a new one', async () => {
  const metrics = createMetrics({ processMetrics: false })
  const count = async (): Promise<number> => parseSamples(await metrics.text(empty)).size
  const before = await count()
  for (const fact of Object.values(everyFact)) publishEvent(metrics, fact)
  for (const reason of reasons) publishEvent(metrics, { ...everyFact['platform-request'], reason })
  for (const result of retryResults) publishEvent(metrics, retryFact({ result, reason: 'ok' }))
  publishEvent(metrics, tokenRefused({ description: 'text from outside' }))
  expect(await count()).toBe(before)
})

describe('a snapshot', () => {
  test('of nothing is nothing', async () => {
    const metrics = createMetrics({ processMetrics: false })
    expect(await nonZero(metrics)).toEqual({})
    expect(await metrics.text(empty)).not.toMatch(
      /(?:client_certificate_expiry_timestamp_seconds|receiver_up|key_reload_successful|leader|lease_available)(?:\{.*\})? \d/,
    )
  })

  test('of a standby and of no known end has a series that says so', async () => {
    const metrics = createMetrics({ processMetrics: false })
    const leadership = { ...empty.leadership, isLeading: false, lease: 'a/b' } as const
    const text = await metrics.text({
      ...empty,
      lastFullSweepAt: 1,
      leadership,
      failed: { ...noCounts(), due: 1 },
    })
    expect(text).toContain(`${metricPrefix}leader{lease="a/b"} 0\n`)
    expect(text).toContain(`${metricPrefix}estimated_drain_seconds +Inf\n`)
  })

  test('is shown in base units, and what is over goes back to 0', async () => {
    const metrics = createMetrics({ processMetrics: false })
    const expiring = { due: 21, 'backing-off': 22, exhausted: 23, blocked: 24, awaiting: 26 }
    const counts = { due: 1, 'backing-off': 2, exhausted: 3, excluded: 4, blocked: 5, awaiting: 6 }
    const snapshot = {
      ...empty,
      lastFullSweepAt: 1,
      failed: counts,
      subscriptions: { one: 'payments' },
      missingOf: new Map([
        ['one', 7],
        ['two', 9],
      ]),
      oldestOpenAt: 1_500,
      lastDueAt: 1_600,
      beyondWindow: 8,
      // The contract has no series for excluded ones.
      expiring: { ...expiring, ...{ excluded: 25 } },
      awaiting: 31,
      stuckProcessing: 32,
      circuitCounts: { closed: 41, 'half-open': 42, open: 43 },
      receivers: { failing: 44, suspected: 46, taking: 45 },
      receiver: { up: true },
      gates: [{ gate: 'limit', since: undefined, subscriptions: 3 }],
      inFlight: 9,
      rateLimit: 12.5,
      rateMaximum: 15,
      now: 5_000,
      throttledForMs: 500,
      leadership: { ...empty.leadership, isLeading: true, lease: 'a/b' },
      tokenExpiresAt: 2_500,
      certificateExpiresAt: 3_500,
      keyReload: { problem: undefined },
      lastCompleteSweepAt: 11_500,
      lastIncompleteSweepAt: 12_500,
      progressDueAt: 7_500,
      pace: { recoveredPerMinute: 120, failedShare: 0, isSteady: true },
      timeOffsetMs: -14_500,
      notAccepted: { inARow: 11, reason: 'server-error' },
      unknownInARow: 12,
      skewMs: { auth: -250, api: 40_000 },
    } satisfies Snapshot
    const shown = await nonZero(metrics, snapshot)
    const gauges = Object.entries(metricDefinitions).flatMap(([name, { type }]) => (type === 'gauge' ? name : []))
    const names = new Set(Object.keys(shown).map((series) => series.replace(/\{.*/, '')))
    // Each of these has a test of its own.
    const others = [
      ...['failed_webhooks_only_counted', 'failed_webhooks_ahead', 'unreadable_records', 'unattempted_webhooks'],
      ...['unprocessed_webhooks', 'delivered_since_unprocessed_webhooks', 'compared_until_timestamp_seconds'],
      ...['comparison_due_timestamp_seconds', 'build_info'],
    ]
    expect(gauges.filter((name) => !names.has(name)).toSorted()).toEqual(others.toSorted())
    expect(shown).toEqual({
      ...seriesOf('subscriptions', 'receiver', snapshot.receivers),
      ...seriesOf('failed_webhooks', 'decision', counts),
      'missing_webhooks{subscription="payments"}': 7,
      'missing_webhooks{subscription="other"}': 10,
      oldest_failed_event_timestamp_seconds: 1.5,
      failed_webhooks_beyond_window: 8,
      ...seriesOf('expiring_webhooks', 'decision', expiring),
      awaiting_webhooks: 31,
      stuck_processing_webhooks: 32,
      ...seriesOf('circuits', 'state', snapshot.circuitCounts),
      receiver_up: 1,
      'gates{gate="limit"}': 1,
      'leader{lease="a/b"}': 1,
      lease_available: 1,
      retries_in_flight: 9,
      consecutive_retries_not_accepted: 12,
      platform_request_limit_per_second: 12.5,
      platform_request_max_per_second: 15,
      clock_timestamp_seconds: 5,
      access_token_expiry_timestamp_seconds: 2.5,
      client_certificate_expiry_timestamp_seconds: 3.5,
      throttled_until_timestamp_seconds: 5.5,
      key_reload_successful: 1,
      progress_due_timestamp_seconds: 7.5,
      estimated_drain_seconds: 7.5,
      last_complete_sweep_timestamp_seconds: 11.5,
      last_incomplete_sweep_timestamp_seconds: 12.5,
      platform_time_offset_seconds: -14.5,
      'clock_skew_seconds{origin="auth"}': -0.25,
      'clock_skew_seconds{origin="api"}': 40,
    })
    const down = { ...empty, certificateExpiresAt: 3_500, receiver: { up: false }, keyReload: { problem: 'empty' } }
    // Down is a value, not the absence of one.
    expect(await metrics.text(down)).toContain(`${metricPrefix}key_reload_successful 0\n`)
    expect(await metrics.text(down)).toContain(`${metricPrefix}receiver_up 0\n`)
    expect(await nonZero(metrics, down)).toEqual({
      // The lease is the same for as long as the process lives.
      client_certificate_expiry_timestamp_seconds: 3.5,
    })
  })
})
