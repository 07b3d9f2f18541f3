// Platforms that limit the rate: beside all other troubles, and alone, where the daemon is to use what they allow. @see readings.ts
import { limitSchema, type Limit } from '../../sandbox/api/limits.ts'
import { hourMs, minuteMs, secondMs, type Draw } from './draw.ts'
import { comingRecord, noTrouble, plannedRecord, well, type Scenario } from './scenario.ts'

/** Most refuse by 429; a gateway may do it by 503. */
function bucketOf(draw: Draw): Limit {
  const status = draw.chance(0.8) ? 429 : 503
  const retryAfter = draw.pick(['exact', 'exact', 'absent', 1] as const)
  const perSecond = draw.pick([0.5, 1, 2, 3, 5, 10])
  return limitSchema.parse({ kind: 'bucket', perSecond, burst: draw.within(1, 20), retryAfter, status })
}

function quotaOf(draw: Draw): Limit {
  const perMinute = draw.pick([60, 120, 120, 300])
  const status = draw.chance(0.7) ? 429 : 503
  return limitSchema.parse({ kind: 'quota', perMinute, fromSecond: draw.below(60), status })
}

/** How many calls a second a limit allows in the long run. */
export function perSecondOf(limit: Limit): number {
  return limit.kind === 'bucket' ? limit.perSecond : limit.perMinute / 60
}

/** How many calls of an operation a second the limits allow in the long run. */
export function perSecondFor(operation: 'list' | 'retry', limits: readonly Limit[]): number {
  return Math.min(...limits.filter(({ operations }) => operations.includes(operation)).map(perSecondOf))
}

/** The limit is of lists or retries alone, or these are refused for a while, whatever their rate. */
function limitedAlone(on: 'list' | 'retry', draw: Draw, scenario: Scenario): Scenario | undefined {
  const { calmAt, faults, habits, theme } = scenario
  if (theme === 'expiry' || habits.limits.length > 0) return undefined
  const limit = draw.chance(0.7) ? bucketOf(draw) : quotaOf(draw)
  if (draw.chance(0.5)) return { ...scenario, habits: { ...habits, limits: [{ ...limit, operations: [on] }] } }
  const from = draw.below(calmAt)
  const to = Math.min(calmAt, from + draw.within(minuteMs, 20 * minuteMs))
  return { ...scenario, faults: [{ from, to, kind: 'throttled', share: 1, on }, ...faults] }
}

/** The limit is of the retries of one subscription alone. */
function limitedOne(draw: Draw, scenario: Scenario): Scenario | undefined {
  const { habits, subscriptions, theme } = scenario
  if (theme === 'expiry' || habits.limits.length > 0) return undefined
  const limit = draw.chance(0.7) ? bucketOf(draw) : quotaOf(draw)
  const limits = [{ ...limit, operations: ['retry'] as const, subscription: draw.below(subscriptions.length) }]
  return { ...scenario, habits: { ...habits, limits } }
}

/** Low limits meet all that a scenario has. What leaves its window soon could not go out in time. */
function lowLimit(draw: Draw, scenario: Scenario): Scenario | undefined {
  if (scenario.theme === 'expiry') return undefined
  const limits = [draw.chance(0.7) ? bucketOf(draw) : quotaOf(draw)]
  return { ...scenario, habits: { ...scenario.habits, limits } }
}

/** A backlog for minutes of work and failures that come, without any trouble but the limit and ends of the process. */
function stageOf(draw: Draw, scenario: Scenario, limit: Limit): Scenario {
  const perSecond = perSecondOf(limit)
  const count = Math.min(2500, Math.max(300, Math.round(perSecond * 8 * 60)))
  const eventType = 'other-type'
  const old = Array.from({ length: count }, (_, index) => {
    const age = 3 * hourMs - (index * 2.5 * hourMs) / count
    return plannedRecord({ at: -age, subscription: index % 3, entity: index, eventType })
  })
  const coming = Array.from({ length: 12 }, (_, index) =>
    comingRecord({ at: (index + 1) * minuteMs, subscription: 3, entity: count + index, eventType }),
  )
  const life = { how: draw.pick(['crash', 'stop'] as const), gapMs: draw.pick([100, 5 * secondMs]) }
  return {
    ...scenario,
    theme: 'limit',
    calmAt: 13 * minuteMs,
    periodMs: 30 * secondMs,
    // In slices of a few records a sweep of days takes more calls than the records.
    sweep: { ...scenario.sweep, sliceRecords: Math.max(500, scenario.sweep.sliceRecords) },
    env: { RECONCILER_WINDOW_SETTLE: '5s' },
    habits: {
      ...scenario.habits,
      ...{
        delivery: 'async',
        meanwhile: 'processing',
        counts: 'end',
        ownRetries: 0,
        ownRetriesAfterRetry: 0,
        lagMs: 0,
      },
      ...{ queue: [0, 200], deliveryTime: [5, 100], withoutEventId: 0, eventIdFilter: 'works', tokenLifeSeconds: 3600 },
      latency: draw.pick([[0, 5] as const, [15, 25] as const, [250, 350] as const, [2500, 3500] as const]),
      limits: [limit],
    },
    subscriptions: [0, 0, 0, 1],
    // The first deliveries to the second one fail: these are the failures that come.
    receivers: [well, { ...well, flaky: 0.5 }],
    records: [...old, ...coming],
    ...noTrouble,
    ...{ certificates: [], jobs: [], hostAheadMs: 0 },
    lives: [{ ends: { after: draw.within(5, 7) * minuteMs }, ...life }],
  }
}

/** Lists or retries are refused for so long beside a backlog for most of it. */
function throttled(on: 'list' | 'retry', to: number, draw: Draw, scenario: Scenario): Scenario {
  const staged = stageOf(draw, scenario, limitSchema.parse({ kind: 'bucket', perSecond: draw.pick([2, 3]) }))
  const from = draw.within(30, 90) * secondMs
  return {
    ...staged,
    calmAt: to,
    records: staged.records.filter(({ at }) => at < 0),
    habits: { ...staged.habits, limits: [] },
    env: { ...staged.env, RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '2' },
    faults: [{ from, to, kind: 'throttled', share: 1, on }],
    lives: [],
  }
}

/** One subscription of three is let through far less than the rate; its limit is none of the others. */
function oneThrottled(draw: Draw, scenario: Scenario): Scenario {
  const retryAfter = draw.pick([1, 20])
  const perSecond = draw.pick([0.004, 0.02, 0.2])
  const limit = { ...bucketOf(draw), burst: 1, perSecond, retryAfter, operations: ['retry'] as const }
  const staged = stageOf(draw, scenario, limitSchema.parse({ kind: 'bucket', perSecond: 5 }))
  return {
    ...staged,
    habits: { ...staged.habits, limits: [{ ...limit, subscription: 0 }] },
    env: { ...staged.env, RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '2' },
    // More would not arrive in time.
    records: staged.records.filter(
      ({ subscription }, index) => subscription > 0 || index < 3 * (36 + 1000 * perSecond),
    ),
    lives: [],
  }
}

export const limitReadings = {
  'low limit': { share: 0.06, change: lowLimit },
  'lists limited': { share: 0.06, change: limitedAlone.bind(undefined, 'list') },
  'retries limited': { share: 0.06, change: limitedAlone.bind(undefined, 'retry') },
  'a subscription limited': { share: 0.06, change: limitedOne },
}

export const limitStages = {
  'lists throttled': throttled.bind(undefined, 'list', 30 * minuteMs),
  'retries throttled': throttled.bind(undefined, 'retry', 45 * minuteMs),
  'retries of a subscription throttled': oneThrottled,
  'rate limit': (draw: Draw, scenario: Scenario): Scenario => stageOf(draw, scenario, bucketOf(draw)),
  'rate limit of retries': (draw: Draw, scenario: Scenario): Scenario =>
    stageOf(draw, scenario, { ...bucketOf(draw), operations: ['retry'] }),
  'quota a minute': (draw: Draw, scenario: Scenario): Scenario => stageOf(draw, scenario, quotaOf(draw)),
}
