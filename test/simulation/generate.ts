// Draws a scenario from its seed: each run is another mixture of habits, numbers, troubles and ends of processes.
import { dayMs, drawOf, hourMs, minuteMs, secondMs, type Draw } from './draw.ts'
import { habitsOf } from './draw-habits.ts'
import { recordsOf } from './draw-records.ts'
import { faultKinds, type FaultKind, type FaultWindow } from './fault-kinds.ts'
import { withReadings } from './readings.ts'
import {
  plannedRecord,
  well,
  type Outage,
  type PlannedLife,
  type PlannedReceiver,
  type PlannedRecord,
  type Scenario,
} from './scenario.ts'
import { themes, type Theme } from './themes.ts'
import { variantOf } from './variants.ts'

const putBackAt = Date.UTC(2026, 9, 25, 0, 40)
/** A plain day, and half an hour before the clock is put back and forward in Berlin. */
const starts = [
  { at: Date.UTC(2026, 0, 15, 12), timeZone: 'UTC' },
  { at: Date.UTC(2026, 5, 1, 3), timeZone: 'Asia/Kolkata' },
  { at: putBackAt, timeZone: 'Europe/Berlin' },
  { at: Date.UTC(2026, 2, 29, 0, 40), timeZone: 'Europe/Berlin' },
] as const

/** Enough retries under way that some have an outcome while a list is read. */
const longListsEnvironment = {
  RECONCILER_RETRY_CONCURRENCY: '8',
  RECONCILER_CIRCUIT_INITIAL_LIMIT: '20',
  RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20',
}

function outagesOf(draw: Draw, theme: Theme, troubledMs: number): Outage[] {
  const how = (): Outage['how'] => draw.pick([503, 405, 500, 429, 'no-answer', 'refused'])
  if (theme === 'calm' || theme === 'expiry' || theme === 'crowded') return []
  if (theme === 'dead') return [{ from: 0, to: troubledMs, how: how() }]
  if (theme === 'hanging') return [{ from: 0, to: draw.within(2, 6) * minuteMs, how: 'no-answer' }]
  const count = draw.within(0, 2)
  return Array.from({ length: count }, () => {
    const from = draw.chance(0.4) ? 0 : draw.within(0, troubledMs)
    return { from, to: Math.min(troubledMs, from + draw.within(10 * secondMs, troubledMs)), how: how() }
  })
}

/** What hits some of the calls between the daemon and the platform. */
const strayFaults = faultKinds.filter(
  (kind) => !['misrouted', 'gateway-page', 'bad-span', 'health-404', 'ignored', 'barred'].includes(kind),
)
const gatewayFaults = ['misrouted', 'bad-span', 'health-404', 'forbidden', 'coded-error', 'throttled'] as const
const identityFaults = ['no-token', 'token-refused', 'token-throttled', 'slow', 'unauthorized'] as const

/** How many faults a theme has, at least and at most. */
const faultCounts: Partial<Record<Theme, readonly [least: number, most: number]>> = {
  mixed: [0, 3],
  faults: [3, 7],
  ends: [0, 1],
  narrow: [0, 2],
  'long-lists': [0, 1],
  identity: [1, 3],
  gateway: [1, 3],
}

function pickFault(draw: Draw, theme: Theme): FaultKind {
  if (theme === 'gateway') return draw.pick(gatewayFaults)
  if (theme === 'identity' && draw.chance(0.8)) return draw.pick(identityFaults)
  return strayFaults[draw.below(strayFaults.length)] ?? 'slow'
}

function faultOf(draw: Draw, theme: Theme, troubledMs: number, records: readonly PlannedRecord[]): FaultWindow {
  const from = draw.within(0, troubledMs - 1)
  const kind = pickFault(draw, theme)
  const isWhole = theme === 'gateway' || draw.chance(0.2)
  return {
    from,
    to: Math.min(troubledMs, from + draw.within(5 * secondMs, isWhole ? 3 * minuteMs : 10 * minuteMs)),
    kind,
    // Tokens are asked for so seldom that a part of them is none.
    share: (isWhole ? 1 : 0.03 + draw.next() * 0.4) + (kind === 'token-throttled' ? 1 : 0),
    on: theme === 'gateway' ? 'retry' : draw.pick(['all', 'list', 'retry']),
    ...(kind === 'bad-span' && { eventAt: records[draw.below(records.length)]?.at ?? 0 }),
  }
}

function faultsOf(draw: Draw, theme: Theme, troubledMs: number, records: readonly PlannedRecord[]): FaultWindow[] {
  const [least, most] = faultCounts[theme] ?? [0, 0]
  return Array.from({ length: draw.within(least, most) }, () => faultOf(draw, theme, troubledMs, records))
}

const mostLives: Partial<Record<Theme, number>> = {
  mixed: 2,
  calm: 1,
  dead: 2,
  faults: 1,
  ends: 8,
  narrow: 1,
  identity: 1,
  gateway: 1,
  replicas: 1,
}

function livesOf(draw: Draw, theme: Theme, troubledMs: number): PlannedLife[] {
  const most = mostLives[theme] ?? 0
  const count = theme === 'ends' ? draw.within(2, most) : draw.within(0, most)
  return Array.from({ length: count }, () => ({
    ends: draw.chance(0.5)
      ? { after: draw.within(1, Math.max(2, Math.floor(troubledMs / count))) }
      : { call: draw.within(1, 60), when: draw.pick(['arrived', 'applied']) },
    how: draw.chance(0.6) ? 'crash' : 'stop',
    gapMs: draw.pick([0, 100, 2 * secondMs, draw.within(0, 2 * minuteMs)]),
  }))
}

interface Shape {
  lookback: number
  /** Of the backlog. */
  places: number
  startAt: number
}

function environmentOf(draw: Draw, theme: Theme, { lookback, places, startAt }: Shape): Record<string, string> {
  const narrow = theme === 'narrow'
  const ms = (value: number): string => `${value}ms`
  const initial = draw.pick([10 * secondMs, 30 * secondMs, minuteMs])
  return {
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: String(narrow ? draw.pick([1, 2, 5]) : draw.pick([5, 20, 100])),
    RECONCILER_BACKLOG_MAX_RECORDS: String(places),
    RECONCILER_WINDOW_LOOKBACK: ms(lookback),
    RECONCILER_WINDOW_SETTLE: ms(draw.pick([0, 5 * secondMs, minuteMs])),
    RECONCILER_RETRY_CONCURRENCY: String(narrow ? draw.pick([1, 2]) : draw.pick([2, 8, 32])),
    RECONCILER_RETRY_MAX_ATTEMPTS: String(theme === 'identity' ? draw.pick([3, 6]) : draw.pick([6, 30, 30])),
    RECONCILER_RETRY_BACKOFF_INITIAL: ms(initial),
    RECONCILER_RETRY_BACKOFF_MAX: ms(
      Math.max(initial, draw.pick(theme === 'expiry' ? [2 * hourMs] : [minuteMs, 4 * minuteMs, 10 * minuteMs])),
    ),
    ...(draw.chance(0.15) && { RECONCILER_RETRY_MAX_PER_SECOND: String(draw.pick([0.5, 3])) }),
    ...(draw.chance(0.15) && { RECONCILER_SELECT_EVENT_TYPES: 'account-activated' }),
    // Near a change of daylight saving, an event may lie before it or behind it.
    ...(startAt !== putBackAt &&
      draw.chance(0.12) && {
        // Not a whole second: what is before it in that second is listed, and not retried.
        RECONCILER_WINDOW_NOT_BEFORE: new Date(
          startAt - draw.pick([minuteMs, 5 * minuteMs, hourMs]) + 500,
        ).toISOString(),
      }),
    RECONCILER_OUTCOME_GIVE_UP_AFTER: ms(theme === 'hanging' ? hourMs : draw.pick([5 * minuteMs, hourMs])),
    RECONCILER_CIRCUIT_INITIAL_LIMIT: String(draw.pick([1, 3, 10, 10, 20])),
    RECONCILER_CIRCUIT_COOLDOWN: ms(draw.pick([5 * secondMs, 30 * secondMs])),
    RECONCILER_SHUTDOWN_GRACE: ms(draw.pick([0, 2 * secondMs, 25 * secondMs])),
  }
}

/** Slices of a few records, as there are few. */
function sweepOf(draw: Draw, theme: Theme): Scenario['sweep'] {
  if (theme === 'long-lists') return { sliceRecords: 5000, concurrency: 1 }
  const sliceRecords = draw.pick(theme === 'narrow' ? [1, 5, 20] : [20, 500, 5000])
  return { sliceRecords, concurrency: draw.pick([1, 4]) }
}

function jumpsOf(draw: Draw, troubledMs: number): Scenario['jumps'] {
  if (draw.chance(0.7)) return []
  return Array.from({ length: draw.within(1, 3) }, () => ({
    at: draw.within(1, troubledMs),
    ms: draw.pick([-1, 1]) * draw.pick([2 * secondMs, 40 * secondMs, hourMs]),
  }))
}

function pausesOf(draw: Draw, troubledMs: number): Scenario['pauses'] {
  if (draw.chance(0.85)) return []
  const from = draw.within(1, troubledMs)
  return [{ from, to: Math.min(troubledMs, from + draw.within(secondMs, 5 * minuteMs)) }]
}

/** The platform's clock; near a change of daylight saving, one could not be distinguished from the other. */
function platformJumpsOf(draw: Draw, timeZone: string, troubledMs: number): Scenario['platformJumps'] {
  if (timeZone === 'Europe/Berlin' || draw.chance(0.88)) return []
  const ms = draw.pick([-1, 1]) * draw.pick([2 * secondMs, 40 * secondMs, hourMs])
  return [{ at: draw.within(1, troubledMs), ms }]
}

/** The new key comes to the file and to the identity host at about the same time; the file may hold none in between. */
function keysOf(draw: Draw, theme: Theme, troubledMs: number): Scenario['keys'] {
  if (draw.chance(theme === 'identity' ? 0.2 : 0.9)) return { file: [], registered: [] }
  const at = draw.within(1, troubledMs)
  const isBroken = draw.chance(0.4)
  const brokenMs = draw.within(secondMs, minuteMs)
  const registeredAt = Math.max(1, at + draw.within(-30 * secondMs, 90 * secondMs))
  return {
    file: [...(isBroken ? [{ at: Math.max(0, at - brokenMs), key: 'broken' as const }] : []), { at, key: 1 }],
    registered: [{ at: Math.min(troubledMs, registeredAt), key: 1 }],
  }
}

function certificatesOf(draw: Draw, startAt: number, troubledMs: number): Scenario['certificates'] {
  if (draw.chance(0.7)) return []
  const first = { at: 0, notAfter: startAt + draw.within(1, 20) * dayMs }
  return draw.chance(0.5) ? [first] : [first, { at: draw.within(1, troubledMs), notAfter: startAt + 400 * dayMs }]
}

/** Places in the backlog. */
function placesOf(draw: Draw, theme: Theme): number {
  if (theme === 'narrow') return draw.pick([1, 3, 20])
  return theme === 'crowded' ? draw.pick([10, 20, 40]) : 100_000
}

function receiversOf(draw: Draw, theme: Theme, count: number, troubledMs: number): PlannedReceiver[] {
  if (theme === 'crowded') {
    const how = draw.pick([503, 500, 'refused'])
    return [{ outages: [{ from: 0, to: troubledMs, how }], flaky: 0 }, well]
  }
  return Array.from({ length: count }, () => ({
    outages: outagesOf(draw, theme, troubledMs),
    flaky: theme === 'dead' ? 0 : draw.pick([0, 0, 0.05, 0.2]),
  }))
}

/** With `window.notBefore`, a record of the same second before it. */
function justBefore({ env, startAt }: Scenario): PlannedRecord[] {
  const notBefore = env['RECONCILER_WINDOW_NOT_BEFORE']
  if (notBefore === undefined) return []
  const at = Date.parse(notBefore) - startAt - 1
  return [plannedRecord({ at, lastAttemptAt: at + secondMs })]
}

/** The scenario of this seed. */
export function generate(seed: number): Scenario {
  const draw = drawOf(seed)
  const theme = draw.pick(themes)
  const start = draw.pick(starts)
  const isCalm = theme === 'calm' || theme === 'expiry' || theme === 'crowded'
  const troubledMs =
    theme === 'expiry' || theme === 'crowded'
      ? draw.within(20, 40) * minuteMs
      : draw.within(2, draw.chance(0.3) ? 40 : 12) * minuteMs
  const lookback =
    theme === 'expiry' ? draw.within(30, 90) * minuteMs : draw.pick([7 * dayMs, 7 * dayMs, 7 * dayMs, 2 * hourMs])
  const habits = habitsOf(draw, start.timeZone, theme)
  const receiverCount = theme === 'crowded' ? 2 : draw.pick([1, 1, 2])
  const subscriptionCount = theme === 'crowded' ? draw.within(2, 4) : draw.within(1, 4)
  const subscriptions = Array.from({ length: subscriptionCount }, (_, index) =>
    theme === 'crowded' ? Math.min(1, index) : index % receiverCount,
  )
  const receivers = receiversOf(draw, theme, receiverCount, troubledMs)
  const isWatched = receiverCount === 1 && draw.chance(theme === 'gateway' ? 0.4 : 0.1)
  const most = { narrow: 40, 'long-lists': 250, identity: 20, gateway: 60 }[theme as string] ?? draw.pick([10, 60, 250])
  const places = placesOf(draw, theme)
  const shape = { theme, subscriptions: subscriptions.length, lookback, most, places }
  const records = recordsOf(draw, troubledMs, shape)
  const scenario: Scenario = {
    seed,
    theme,
    startAt: start.at,
    calmAt: troubledMs,
    // A healthy record among poisoned ones of an open circuit waits for its turn among the probes.
    patienceMs: 4 * hourMs,
    periodMs: draw.pick([5 * secondMs, 30 * secondMs, minuteMs]),
    sweep: sweepOf(draw, theme),
    env: {
      ...environmentOf(draw, theme, { lookback, places, startAt: start.at }),
      ...(theme === 'long-lists' && longListsEnvironment),
      ...(isWatched && { RECONCILER_RECEIVER_HEALTH_URL: 'http://receiver.simulated/health' }),
    },
    habits,
    subscriptions,
    receivers,
    records,
    faults: faultsOf(draw, theme, troubledMs, records),
    revocations: isCalm || draw.chance(0.8) ? [] : [draw.within(1, troubledMs)],
    others:
      isCalm || draw.chance(0.7)
        ? []
        : Array.from({ length: draw.within(1, 5) }, () => ({
            at: draw.within(1, troubledMs),
            records: draw.within(1, 20),
          })),
    hostAheadMs: draw.pick([0, 0, draw.within(-1500, 1500), draw.within(-600_000, 600_000)]),
    jumps: jumpsOf(draw, troubledMs),
    platformJumps: isCalm ? [] : platformJumpsOf(draw, start.timeZone, troubledMs),
    keys: isCalm ? { file: [], registered: [] } : keysOf(draw, theme, troubledMs),
    certificates: certificatesOf(draw, start.at, troubledMs),
    jobs: [],
    pauses: isCalm ? [] : pausesOf(draw, troubledMs),
    lives: livesOf(draw, theme, troubledMs),
    readings: [],
  }
  const whole = { ...scenario, records: [...records, ...justBefore(scenario)] }
  return withReadings(theme === 'calm' ? variantOf(draw, whole) : whole)
}
