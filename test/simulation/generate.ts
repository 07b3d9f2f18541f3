// Draws a scenario from its seed: each run is another mixture of habits, numbers, troubles and ends of processes.
import { createSequence, type Sequence } from '../../src/sandbox/hash.ts'
import { faultKinds, type FaultWindow } from './fault-kinds.ts'
import type { Habits, Outage, PlannedLife, PlannedReceiver, PlannedRecord, RecordKind, Scenario } from './scenario.ts'

const secondMs = 1000
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** A plain day, and half an hour before the clock is put back and forward in Berlin. */
const starts = [
  { at: Date.UTC(2026, 0, 15, 12), timeZone: 'UTC' },
  { at: Date.UTC(2026, 5, 1, 3), timeZone: 'Asia/Kolkata' },
  { at: Date.UTC(2026, 9, 25, 0, 40), timeZone: 'Europe/Berlin' },
  { at: Date.UTC(2026, 2, 29, 0, 40), timeZone: 'Europe/Berlin' },
] as const

/** What the run is mostly about. */
const themes = ['mixed', 'mixed', 'calm', 'dead', 'faults', 'ends', 'narrow', 'long-lists'] as const
type Theme = (typeof themes)[number]

interface Draw extends Sequence {
  /** Uniform between the two, whole. */
  within(least: number, most: number): number
}

function drawOf(seed: number): Draw {
  const sequence = createSequence(seed)
  return { ...sequence, within: (least, most) => least + Math.floor(sequence.next() * (most - least + 1)) }
}

/** More for the smaller values. */
function few(draw: Draw, most: number): number {
  return Math.floor(draw.next() ** 2 * (most + 1))
}

function habitsOf(draw: Draw, timeZone: string): Habits {
  const quick = draw.chance(0.7)
  const delivery = draw.pick(['sync', 'async'])
  const meanwhile = draw.chance(0.7) ? 'processing' : 'failed'
  const counts = draw.pick(['start', 'end'])
  // An attempt that is counted and shown as failed while it is under way can't be told from one that has failed, but by waiting.
  const looksFailed = delivery === 'async' && meanwhile === 'failed' && counts === 'start'
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
    conflictStatus: draw.pick([200, 400, 409, 422]),
    tokenLifeSeconds: draw.pick([3600, 3600, 300, 45]),
    latency: quick ? [5, 60] : [20, 700],
    queue:
      delivery === 'sync'
        ? [0, 0]
        : draw.pick([
            [0, 200],
            [500, 3000],
            [2000, 20_000],
          ] as const),
    deliveryTime: looksFailed
      ? [5, 1500]
      : draw.pick([
          [5, 100],
          [50, 1500],
          [1000, 6000],
        ] as const),
    deliveryTimeout: draw.pick([3 * secondMs, 15 * secondMs]),
    identityAheadMs: draw.chance(0.3) ? draw.within(-40_000, 40_000) : 0,
  }
}

/** Lists of several slow pages, while deliveries that go on look as if they had not begun. */
function longLists(habits: Habits): Habits {
  return {
    ...habits,
    latency: [100, 900],
    delivery: 'async',
    meanwhile: 'failed',
    counts: 'end',
    queue: [0, 200],
    deliveryTime: [1000, 6000],
  }
}

/** Enough retries under way that some have an outcome while a list is read. */
const longListsEnvironment = {
  RECONCILER_SWEEP_SLICE_RECORDS: '5000',
  RECONCILER_SWEEP_CONCURRENCY: '1',
  RECONCILER_RETRY_CONCURRENCY: '8',
  RECONCILER_CIRCUIT_INITIAL_ALLOWANCE: '20',
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20',
}

function outagesOf(draw: Draw, theme: Theme, troubledMs: number): Outage[] {
  const how = (): Outage['how'] => draw.pick([503, 503, 500, 429, 'no-answer', 'refused'])
  if (theme === 'calm') return []
  if (theme === 'dead') return [{ from: 0, to: troubledMs, how: how() }]
  const count = draw.within(0, 2)
  return Array.from({ length: count }, () => {
    const from = draw.chance(0.4) ? 0 : draw.within(0, troubledMs)
    return { from, to: Math.min(troubledMs, from + draw.within(10 * secondMs, troubledMs)), how: how() }
  })
}

function faultsOf(draw: Draw, theme: Theme, troubledMs: number): FaultWindow[] {
  const most = { mixed: 3, calm: 0, dead: 0, faults: 7, ends: 1, narrow: 2, 'long-lists': 1 }[theme]
  return Array.from({ length: most === 0 ? 0 : draw.within(theme === 'faults' ? 3 : 0, most) }, () => {
    const from = draw.within(0, troubledMs - 1)
    const isWhole = draw.chance(0.2)
    return {
      from,
      to: Math.min(troubledMs, from + draw.within(5 * secondMs, isWhole ? 3 * minuteMs : 10 * minuteMs)),
      kind: faultKinds[draw.below(faultKinds.length)] ?? 'slow',
      share: isWhole ? 1 : 0.03 + draw.next() * 0.4,
      on: draw.pick(['all', 'list', 'retry']),
    }
  })
}

/** What the platform itself refuses never counts as attempted there: where there is no room to remember it, it starves the rest. */
function kindOf(draw: Draw, odd: number, theme: Theme): RecordKind {
  if (!draw.chance(odd)) return 'plain'
  return theme === 'narrow'
    ? draw.pick(['poison', 'unwanted'])
    : draw.pick(['poison', 'poison', 'unwanted', 'barred', 'missing'])
}

function recordsOf(
  draw: Draw,
  troubledMs: number,
  shape: { theme: Theme; subscriptions: number; lookback: number; most: number },
): PlannedRecord[] {
  const odd = draw.pick([0, 0, 0.03, 0.15])
  const spread = draw.pick([10 * secondMs, 10 * minuteMs, 6 * hourMs, 3 * dayMs])
  const before = draw.within(shape.theme === 'long-lists' ? 120 : 1, shape.most)
  const after = draw.chance(0.6) ? draw.within(0, Math.floor(shape.most / 2)) : 0
  const entities = draw.within(1, before)
  const common = (): Pick<PlannedRecord, 'subscription' | 'kind' | 'entity' | 'eventType'> => ({
    subscription: few(draw, shape.subscriptions - 1),
    kind: kindOf(draw, odd, shape.theme),
    entity: draw.below(entities),
    eventType: draw.pick(['account-activated', 'account-activated', 'other-type']),
  })
  const old = Array.from({ length: before }, () => {
    const age = Math.min(90 * secondMs + draw.below(spread), shape.lookback + 5 * minuteMs)
    const attempts = draw.pick([1, 1, 1, 2, 4])
    return { ...common(), at: -age, attempts, lastAttemptAt: -draw.below(Math.min(age, 30 * minuteMs)) }
  })
  const coming = Array.from({ length: after }, () => ({
    ...common(),
    at: draw.below(troubledMs),
    attempts: 0,
    lastAttemptAt: 0,
  }))
  return [...old, ...coming]
}

function livesOf(draw: Draw, theme: Theme, troubledMs: number): PlannedLife[] {
  const most = { mixed: 2, calm: 1, dead: 2, faults: 1, ends: 8, narrow: 1, 'long-lists': 0 }[theme]
  const count = theme === 'ends' ? draw.within(2, most) : draw.within(0, most)
  return Array.from({ length: count }, () => ({
    ends: draw.chance(0.5)
      ? { after: draw.within(1, Math.max(2, Math.floor(troubledMs / count))) }
      : { call: draw.within(1, 60), when: draw.pick(['arrived', 'applied']) },
    how: draw.chance(0.6) ? 'crash' : 'stop',
    gapMs: draw.pick([0, 100, 2 * secondMs, draw.within(0, 2 * minuteMs)]),
  }))
}

function environmentOf(draw: Draw, theme: Theme, lookback: number): Record<string, string> {
  const narrow = theme === 'narrow'
  const ms = (value: number): string => `${value}ms`
  const initial = draw.pick([10 * secondMs, 30 * secondMs, minuteMs])
  return {
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: String(narrow ? draw.pick([1, 2, 5]) : draw.pick([5, 20, 100])),
    RECONCILER_SWEEP_SLICE_RECORDS: String(draw.pick(narrow ? [1, 5, 20] : [20, 500, 5000])),
    RECONCILER_SWEEP_CONCURRENCY: String(draw.pick([1, 4])),
    RECONCILER_BACKLOG_MAX_RECORDS: String(narrow ? draw.pick([1, 3, 20]) : 100_000),
    RECONCILER_WINDOW_LOOKBACK: ms(lookback),
    RECONCILER_WINDOW_SETTLE: ms(draw.pick([0, 5 * secondMs, minuteMs])),
    RECONCILER_RETRY_CONCURRENCY: String(narrow ? draw.pick([1, 2]) : draw.pick([2, 8, 32])),
    RECONCILER_RETRY_MAX_ATTEMPTS: String(draw.pick([6, 30, 30])),
    RECONCILER_RETRY_BACKOFF_INITIAL: ms(initial),
    RECONCILER_RETRY_BACKOFF_MULTIPLIER: String(draw.pick([1, 2, 3])),
    RECONCILER_RETRY_BACKOFF_MAX: ms(Math.max(initial, draw.pick([minuteMs, 4 * minuteMs, 10 * minuteMs]))),
    RECONCILER_RETRY_BACKOFF_JITTER: String(draw.pick([0, 0.3, 0.5])),
    ...(draw.chance(0.15) && { RECONCILER_RETRY_MAX_PER_SECOND: String(draw.pick([0.5, 3])) }),
    ...(draw.chance(0.15) && { RECONCILER_RETRY_ORDER_PER_ENTITY: 'true' }),
    ...(draw.chance(0.15) && { RECONCILER_SELECT_EVENT_TYPES: 'account-activated' }),
    RECONCILER_OUTCOME_GIVE_UP_AFTER: ms(draw.pick([5 * minuteMs, hourMs])),
    RECONCILER_CIRCUIT_INITIAL_ALLOWANCE: String(draw.pick([1, 3, 10, 10, 20])),
    RECONCILER_CIRCUIT_COOLDOWN: ms(draw.pick([5 * secondMs, 30 * secondMs])),
    RECONCILER_CIRCUIT_MAX_COOLDOWN: ms(draw.pick([minuteMs, 5 * minuteMs])),
    RECONCILER_SHUTDOWN_GRACE: ms(draw.pick([0, 2 * secondMs, 25 * secondMs])),
  }
}

function jumpsOf(draw: Draw, troubledMs: number): Scenario['jumps'] {
  if (draw.chance(0.7)) return []
  return Array.from({ length: draw.within(1, 3) }, () => ({
    at: draw.within(1, troubledMs),
    ms: draw.pick([-1, 1]) * draw.pick([2 * secondMs, 40 * secondMs, hourMs]),
  }))
}

function pausesOf(draw: Draw, theme: Theme, troubledMs: number): Scenario['pauses'] {
  if (theme === 'calm' || draw.chance(0.85)) return []
  const from = draw.within(1, troubledMs)
  return [{ from, to: Math.min(troubledMs, from + draw.within(secondMs, 5 * minuteMs)) }]
}

/** The scenario of this seed. */
export function generate(seed: number): Scenario {
  // Seeds next to each other give nothing alike.
  const draw = drawOf(Math.imul(seed, 0x9e3779b1))
  const theme = draw.pick(themes)
  const start = draw.pick(starts)
  const troubledMs = draw.within(2, draw.chance(0.3) ? 40 : 12) * minuteMs
  const lookback = draw.pick([7 * dayMs, 7 * dayMs, 7 * dayMs, 2 * hourMs])
  const habits = theme === 'long-lists' ? longLists(habitsOf(draw, start.timeZone)) : habitsOf(draw, start.timeZone)
  const receiverCount = draw.pick([1, 1, 2])
  const subscriptions = Array.from({ length: draw.within(1, 4) }, (_, index) => index % receiverCount)
  const receivers: PlannedReceiver[] = Array.from({ length: receiverCount }, () => ({
    outages: outagesOf(draw, theme, troubledMs),
    flaky: theme === 'dead' ? 0 : draw.pick([0, 0, 0.05, 0.2]),
  }))
  const isWatched = receiverCount === 1 && draw.chance(0.1)
  const most = { narrow: 40, 'long-lists': 250 }[theme as string] ?? draw.pick([10, 60, 250])
  const records = recordsOf(draw, troubledMs, { theme, subscriptions: subscriptions.length, lookback, most })
  const faults = faultsOf(draw, theme, troubledMs)
  return {
    seed,
    startAt: start.at,
    calmAt: troubledMs,
    patienceMs: 4 * hourMs,
    periodMs: draw.pick([5 * secondMs, 30 * secondMs, minuteMs]),
    env: {
      ...environmentOf(draw, theme, lookback),
      ...(theme === 'long-lists' && longListsEnvironment),
      ...(isWatched && { RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.simulated/health' }),
    },
    habits,
    subscriptions,
    receivers,
    records,
    faults,
    revocations: theme === 'calm' || draw.chance(0.8) ? [] : [draw.within(1, troubledMs)],
    others: draw.chance(0.7)
      ? []
      : Array.from({ length: draw.within(1, 5) }, () => ({
          at: draw.within(1, troubledMs),
          records: draw.within(1, 20),
        })),
    hostAheadMs: draw.pick([0, 0, draw.within(-1500, 1500), draw.within(-600_000, 600_000)]),
    jumps: jumpsOf(draw, troubledMs),
    pauses: pausesOf(draw, theme, troubledMs),
    sweeps: draw.chance(0.9) ? [] : [draw.within(1, troubledMs), draw.within(1, troubledMs)],
    lives: livesOf(draw, theme, troubledMs),
  }
}
