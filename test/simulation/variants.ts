// Variants of a calm scenario: a receiver that fails some deliveries at random, or the first of each record, and one that refuses some records.
import { dayMs, hourMs, minuteMs, type Draw } from './draw.ts'
import { plannedRecord, well, type PlannedRecord, type RecordKind, type Scenario } from './scenario.ts'

function withEnvironment({ env }: Scenario, changes: Record<string, string>): Scenario['env'] {
  const dropped = new Set([
    'RECONCILER_WINDOW_NOT_BEFORE',
    'RECONCILER_SELECT_EVENT_TYPES',
    'RECONCILER_RECEIVER_HEALTH_URL',
  ])
  const kept = Object.entries(env).filter(([name]) => !dropped.has(name))
  return {
    ...Object.fromEntries(kept),
    RECONCILER_RETRY_BACKOFF_INITIAL: '10s',
    RECONCILER_RETRY_BACKOFF_MAX: '1m',
    RECONCILER_WINDOW_LOOKBACK: `${7 * dayMs}ms`,
    ...changes,
  }
}

function recordsOf(
  draw: Draw,
  count: number,
  [youngest, oldest]: readonly [number, number],
  kind: RecordKind = 'plain',
): PlannedRecord[] {
  return Array.from({ length: count }, () =>
    plannedRecord({
      at: -draw.within(youngest, oldest),
      kind,
      lastAttemptAt: -draw.within(5 * minuteMs, 10 * minuteMs),
      entity: draw.below(1000),
    }),
  )
}

/** A receiver that fails a share of the deliveries at random, in the first quarter of the scenario's patience. */
function halfWell(draw: Draw, scenario: Scenario): Scenario {
  const flaky = draw.pick([0.3, 0.5, 0.7])
  return {
    ...scenario,
    receivers: scenario.receivers.map(() => ({ outages: [], flaky })),
    records: recordsOf(draw, 200, [2 * minuteMs, 30 * minuteMs]),
    lives: [],
    env: withEnvironment(scenario, {
      RECONCILER_RETRY_CONCURRENCY: '32',
      RECONCILER_RETRY_MAX_ATTEMPTS: '1000',
      RECONCILER_CIRCUIT_INITIAL_LIMIT: '5',
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20',
    }),
  }
}

/** A receiver that takes no delivery at once: its first response comes too late. */
function slowAtFirst(draw: Draw, scenario: Scenario): Scenario {
  const failsFirst = draw.pick([1, 2, 2])
  return {
    ...scenario,
    patienceMs: 16 * hourMs,
    receivers: scenario.receivers.map(() => ({ ...well, failsFirst })),
    records: recordsOf(draw, draw.pick([60, 150]), [2 * minuteMs, 30 * minuteMs]),
    lives: [],
    env: withEnvironment(scenario, { RECONCILER_RETRY_MAX_ATTEMPTS: '1000' }),
  }
}

/** Records that the receiver refuses, three times as many as there are places, in front of others of their subscription. */
function poisoned(draw: Draw, scenario: Scenario): Scenario {
  const places = 60
  return {
    ...scenario,
    receivers: scenario.receivers.map(() => well),
    records: [
      ...recordsOf(draw, 3 * places, [20 * minuteMs, 50 * minuteMs], 'unwanted'),
      ...recordsOf(draw, 20, [2 * minuteMs, 15 * minuteMs]),
    ],
    lives: [],
    env: withEnvironment(scenario, {
      RECONCILER_BACKLOG_MAX_RECORDS: String(places),
      RECONCILER_RETRY_MAX_ATTEMPTS: '12',
      RECONCILER_CIRCUIT_INITIAL_LIMIT: '5',
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20',
    }),
  }
}

export function variantOf(draw: Draw, scenario: Scenario): Scenario {
  const variant = draw.pick([halfWell, poisoned, slowAtFirst, (_: Draw, plain: Scenario) => plain])
  return variant(draw, scenario)
}
