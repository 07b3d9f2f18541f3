// Draws what the specification leaves open, and how long things take.
import { minuteMs, secondMs, type Draw } from './draw.ts'
import { looksFailed, type Habits } from './scenario.ts'
import type { Theme } from './themes.ts'

/** Lists that lag for longer: readings.ts. */
const shortLagMs = 2 * secondMs

function plainHabits(draw: Draw, timeZone: string): Habits {
  const quick = draw.chance(0.7)
  const delivery = draw.pick(['sync', 'async'])
  const meanwhile = draw.chance(0.7) ? 'processing' : 'failed'
  const counts = draw.pick(['start', 'end'])
  const isEarly = delivery === 'async' && looksFailed({ counts, meanwhile })
  return {
    timeZone,
    delivery,
    meanwhile,
    counts,
    ownRetries: draw.pick([0, 0, 1, 3]),
    ownRetryMs: draw.within(5 * secondMs, 90 * secondMs),
    order: draw.pick(['event-asc', 'event-desc', 'id', 'attempt-asc', 'attempt-desc']),
    fromInclusive: draw.chance(0.5),
    toInclusive: draw.chance(0.5),
    timePrecision: draw.pick(['ms', 'ms', 'second']),
    missingHasCode: false,
    conflictStatus: draw.pick([200, 400, 409, 422]),
    tokenLifeSeconds: draw.pick([3600, 3600, 300, 45]),
    tokenTime: [0, 0],
    tokenKnownAfterMs: 0,
    voidToken: 401,
    latency: quick ? [5, 60] : [20, 700],
    queue:
      delivery === 'sync'
        ? [0, 0]
        : draw.pick([
            [0, 200],
            [500, 3000],
            [2000, 20_000],
          ] as const),
    deliveryTime: isEarly
      ? [5, 1500]
      : draw.pick([
          [5, 100],
          [50, 1500],
          [1000, 6000],
        ] as const),
    deliveryTimeout: draw.pick([3 * secondMs, 15 * secondMs]),
    identityAheadMs: draw.chance(0.3) ? draw.within(-40_000, 40_000) : 0,
    // A list that lags behind makes it longer still.
    lagMs: draw.chance(0.15) && !isEarly ? shortLagMs : 0,
    ownRetriesAfterRetry: draw.pick([0, 0, 0, 0, 2]),
    withoutEventId: draw.pick([0, 0, 0, 0, 0.3, 1]),
    eventIdFilter: draw.pick(['works', 'works', 'works', 'works', 'ignored', 'finds-nothing']),
    idCase: draw.pick(['lower', 'lower', 'lower', 'mixed']),
    limits: [],
    statusCase: 'lower',
    rowBytes: 500,
  }
}

/** Lists of several slow pages, while deliveries that go on look as if they had not begun. */
function longLists(): Partial<Habits> {
  return {
    lagMs: 0,
    latency: [100, 900],
    delivery: 'async',
    meanwhile: 'failed',
    counts: 'end',
    queue: [0, 200],
    deliveryTime: [1000, 6000],
  }
}

/** Deliveries that take longer than a retry keeps its place: behind the response, or with a PATCH that is not answered. */
function hanging(draw: Draw): Partial<Habits> {
  const longest = draw.pick([150 * secondMs, 5 * minuteMs])
  return draw.chance(0.5)
    ? { delivery: 'async', meanwhile: 'processing', counts: 'end', queue: [100 * secondMs, longest], lagMs: 0 }
    : { delivery: 'sync', counts: 'end', queue: [0, 0], deliveryTime: [5, 1500], deliveryTimeout: longest, lagMs: 0 }
}

/** Lists that lag behind, and a platform that retries by itself in between. */
function replicas(draw: Draw): Partial<Habits> {
  return {
    counts: 'end',
    lagMs: shortLagMs,
    ownRetriesAfterRetry: draw.pick([0, 3, 8]),
    ownRetryMs: draw.within(secondMs, 6 * secondMs),
    idCase: draw.pick(['lower', 'mixed']),
  }
}

export function habitsOf(draw: Draw, timeZone: string, theme: Theme): Habits {
  const habits = plainHabits(draw, timeZone)
  if (theme === 'long-lists') return { ...habits, ...longLists() }
  if (theme === 'hanging') return { ...habits, ...hanging(draw) }
  if (theme === 'replicas') return { ...habits, ...replicas(draw) }
  if (theme === 'identity') return { ...habits, tokenLifeSeconds: draw.pick([20, 45, 120]) }
  return habits
}
