// What a platform, its gateway, identity host, receiver or host may be like, beyond what generate.ts draws: each kind by a stream of its own, so that none changes what a seed draws of the others.
import { limitSchema } from '../../sandbox/api/limits.ts'
import { dayMs, drawOf, hourMs, minuteMs, secondMs, type Draw } from './draw.ts'
import type { FaultWindow } from './fault-kinds.ts'
import { ledgerUrl } from './ledger.ts'
import { limitReadings, limitStages } from './readings-limits.ts'
import { evidenceReadings } from './readings-evidence.ts'
import { listingReadings, withFirstRows } from './readings-listing.ts'
import { oddReadings } from './readings-odd.ts'
import { saidStages } from './readings-said.ts'
import { noTrouble, plannedRecord, well, withHabits, type PlannedRecord, type Scenario } from './scenario.ts'

/** Changes a scenario as it was drawn; undefined where the two can't be told apart. */
type Reading = (draw: Draw, scenario: Scenario) => Scenario | undefined

const yearMs = 365 * dayMs

/** A board without a battery, or a virtual machine whose host is wrong: the host's clock is days or years off, for a moment or for good. */
function clockFarOff(draw: Draw, scenario: Scenario): Scenario {
  const { calmAt, jumps, startAt } = scenario
  const off = draw.pick([-1, 1, 10]) * draw.within(1, 30) * dayMs + draw.pick([0, 0, 10 * yearMs, hourMs - startAt])
  // No clock is before 1970.
  const ms = Math.max(hourMs - startAt, off)
  const at = draw.within(1, calmAt)
  const back = { at: at + draw.pick([9 * secondMs, draw.within(secondMs, 5 * minuteMs)]), ms: -ms }
  return { ...scenario, jumps: [...jumps, { at, ms }, ...(draw.chance(0.7) ? [back] : [])] }
}

/** A machine is suspended: its monotonic clock stands still, and all other clocks are later when it goes on. */
function suspended(draw: Draw, scenario: Scenario): Scenario | undefined {
  const { calmAt, habits, jumps, platformJumps, theme } = scenario
  // Beside a change of daylight saving the two can't be told apart, and in these themes the platform's clock is not set.
  if (habits.timeZone === 'Europe/Berlin' || ['calm', 'expiry', 'crowded'].includes(theme)) return undefined
  const sleep = { at: draw.within(1, calmAt), ms: draw.within(minuteMs, 3 * hourMs) }
  return { ...scenario, jumps: [...jumps, sleep], platformJumps: [...platformJumps, sleep] }
}

/** Hours that daylight saving repeats, or skips, in a schedule that names hours: all of them, so that the period is what it was. */
function hourFields(draw: Draw, { env, ...scenario }: Scenario): Scenario {
  const [seconds, minutes] = scenario.periodMs < minuteMs ? [`*/${scenario.periodMs / secondMs}`, '*'] : ['0', '*']
  const timeZone = draw.pick(['Europe/Berlin', 'Europe/Berlin', 'Australia/Lord_Howe', 'America/St_Johns'])
  const cron = `${seconds} ${minutes} 0-23 * * 0-6`
  return { ...scenario, env: { ...env, RECONCILER_SCHEDULE_CRON: cron, RECONCILER_SCHEDULE_TIME_ZONE: timeZone } }
}

/** Every token is void at some time, and a gateway says so in its own way. */
function voidToken(draw: Draw, { habits, ...scenario }: Scenario): Scenario {
  const how = draw.pick([403, 302, 'page', 404, 511, 400, 500] as const)
  return { ...scenario, habits: { ...habits, voidToken: how }, revocations: [draw.within(1, scenario.calmAt)] }
}

/** The servers of the API learn late of a token, or their clocks are apart. */
const tokenKnownLate = withHabits((draw) => ({
  tokenKnownAfterMs: draw.within(500, 6000),
  tokenLifeSeconds: draw.pick([20, 45, 300]),
}))

const slowIdentityHost = withHabits((draw) => ({
  tokenTime: [draw.within(1000, 4000), draw.within(4000, 9000)],
  tokenLifeSeconds: draw.pick([12, 45]),
}))

/** The new key is in the file long before its certificate is registered. */
function keyRegisteredLate(draw: Draw, scenario: Scenario): Scenario {
  const at = draw.within(1, scenario.calmAt)
  const registeredAt = Math.min(scenario.calmAt, at + draw.within(3 * minuteMs, 30 * minuteMs))
  return {
    ...scenario,
    habits: { ...scenario.habits, tokenLifeSeconds: draw.pick([45, 300]) },
    keys: { file: [{ at, key: 1 }], registered: [{ at: registeredAt, key: 1 }] },
  }
}

/** Fast deliveries, and nothing that hits the daemon or the platform. */
const withoutTrouble = (scenario: Scenario): Scenario => ({
  ...scenario,
  habits: { ...scenario.habits, queue: [0, 200], deliveryTime: [5, 100], lagMs: 0, ownRetriesAfterRetry: 0 },
  periodMs: 30 * secondMs,
  ...noTrouble,
  ...{ jobs: [], lives: [] },
})

/** A receiver that was down for an hour, and then takes a part of its deliveries, or refuses most records. */
function afterOutage(draw: Draw, scenario: Scenario): Scenario {
  const isRefusing = draw.chance(0.5)
  const how = draw.pick([503, 410, 429, 'no-answer', 'refused'] as const)
  const subscriptions = Array.from({ length: draw.within(1, 4) }, () => 0)
  return {
    ...withoutTrouble(scenario),
    calmAt: hourMs,
    patienceMs: 16 * hourMs,
    subscriptions,
    receivers: [{ outages: [{ from: 0, to: hourMs, how }], flaky: isRefusing ? 0 : draw.within(30, 70) / 100 }],
    records: Array.from({ length: 200 }, (_, index) =>
      plannedRecord({
        at: -draw.within(2 * minuteMs, 30 * minuteMs),
        subscription: index % subscriptions.length,
        kind: isRefusing && draw.chance(0.7) ? 'unwanted' : 'plain',
        lastAttemptAt: -draw.within(secondMs, 2 * minuteMs),
        entity: index,
      }),
    ),
    env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' },
  }
}

/** Receivers of so many subscriptions are dead for over an hour, with `each` failed records; among these are `others` of healthy ones. */
function besideDead(
  draw: Draw,
  scenario: Scenario,
  { dead, each, healthy, others }: Record<'dead' | 'each' | 'healthy' | 'others', number>,
): Scenario {
  const record = (subscription: number): PlannedRecord =>
    plannedRecord({
      at: -draw.within(2 * minuteMs, 40 * hourMs),
      subscription,
      attempts: draw.within(1, 5),
      lastAttemptAt: -draw.within(secondMs, 2 * minuteMs),
      entity: subscription,
    })
  const how = draw.pick([503, 500, 429, 'no-answer', 'refused'] as const)
  return {
    ...withoutTrouble(scenario),
    calmAt: 70 * minuteMs,
    patienceMs: 16 * hourMs,
    subscriptions: Array.from({ length: dead + healthy }, (_, index) => (index < dead ? 0 : 1)),
    receivers: [{ outages: [{ from: 0, to: 70 * minuteMs, how }], flaky: 0 }, well],
    records: [
      ...Array.from({ length: Math.ceil(dead * each) }, (_, index) => record(index % dead)),
      ...Array.from({ length: others }, (_, index) => record(dead + (index % healthy))),
    ],
    env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' },
  }
}

/** Dead receivers have five times as many failed records as the backlog holds. */
function overBound(draw: Draw, scenario: Scenario): Scenario {
  const places = draw.pick([10, 10, 30])
  const [dead, healthy] = [draw.within(Math.ceil(places / 10), 2 * places), draw.within(1, 3)]
  const counts = { dead, each: (5 * places) / dead, healthy, others: draw.within(healthy, 2 * places) }
  const { env, ...crowded } = besideDead(draw, scenario, counts)
  return { ...crowded, env: { ...env, RECONCILER_BACKLOG_MAX_RECORDS: String(places) } }
}

/** Three probes of each dead receiver every 5 minutes are more calls than the platform allows. */
function probesOverLimit(draw: Draw, scenario: Scenario): Scenario {
  const counts = { dead: draw.within(50, 70), each: 10, healthy: draw.within(1, 3), others: 150 }
  const { habits, ...beside } = besideDead(draw, scenario, counts)
  const limit = limitSchema.parse({ kind: 'bucket', perSecond: 0.5, burst: draw.within(1, 20) })
  // In slices of a few records a sweep takes more calls than the records.
  return { ...beside, sweep: { ...beside.sweep, sliceRecords: 4000 }, habits: { ...habits, limits: [limit] } }
}

/** Lists fail for seconds, again and again, before a full sweep can end. */
function outagesBesideSweeps(draw: Draw, scenario: Scenario): Scenario {
  const counts = { dead: 1, each: 300, healthy: draw.within(1, 3), others: 60 }
  const { habits, ...beside } = besideDead(draw, scenario, counts)
  const everyMs = draw.within(40, 90) * secondMs
  const faults = Array.from({ length: Math.floor(hourMs / everyMs) }, (_, index): FaultWindow => {
    const to = (index + 1) * everyMs
    return { from: to - draw.within(6, 15) * secondMs, to, kind: 'server-error', share: 1, on: 'list' }
  })
  const sweep = { ...beside.sweep, sliceRecords: 5 }
  return { ...beside, faults, sweep, habits: { ...habits, latency: [1500, 2000] } }
}

/** The first rows of lists are those of dead receivers. */
function deadFirst(draw: Draw, scenario: Scenario): Scenario {
  const counts = { dead: draw.within(1, 3), each: 400, healthy: draw.within(1, 3), others: 60 }
  const beside = besideDead(draw, scenario, counts)
  return withFirstRows(draw, { ...beside, sweep: { ...beside.sweep, sliceRecords: 4000 } })
}

/** The seconds of some records cannot be listed any more once these are retried, and nothing else shows them. */
function badSeconds(draw: Draw, scenario: Scenario): Scenario {
  const { habits, ...plain } = withoutTrouble(scenario)
  const record = (at: number, subscription: number): PlannedRecord =>
    plannedRecord({ at, subscription, lastAttemptAt: -minuteMs })
  const bad = Array.from({ length: draw.within(4, 6) }, (_, index) => -(index + 3) * 4 * hourMs)
  const pause = { from: 1, to: 3 * minuteMs }
  return {
    ...plain,
    calmAt: 2 * hourMs,
    patienceMs: 16 * hourMs,
    periodMs: minuteMs,
    sweep: { sliceRecords: 4000, concurrency: 4 },
    habits: { ...habits, withoutEventId: 1, latency: [20, 60], counts: 'end' },
    subscriptions: [0, 1],
    receivers: [well, { ...well, flaky: 0.5 }],
    records: [
      ...bad.map((at) => record(at, 0)),
      ...Array.from({ length: 120 }, (_, index) => record((index < 60 ? -15 - index : index - 50) * minuteMs, 1)),
    ],
    pauses: [pause],
    faults: bad.map((eventAt) => ({
      ...{ from: pause.to - secondMs, to: 2 * hourMs, kind: 'bad-span', share: 1, on: 'list', eventAt },
    })),
    env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20', RECONCILER_CIRCUIT_INITIAL_LIMIT: '50' },
  }
}

/** Whatever a gateway, a proxy or a firewall says when it does not pass a call on, and when it gave up on its response. */
const gatewayStatuses: readonly [number, ...number[]] = [
  200, 302, 400, 403, 404, 405, 405, 413, 414, 422, 451, 500, 501, 502, 503, 504,
]

/** Pages of HTML in place of responses for minutes, while a record may have few attempts. */
function gatewayAnswers(draw: Draw, scenario: Scenario): Scenario {
  const from = draw.below(Math.max(1, scenario.calmAt - 2 * minuteMs))
  const window: FaultWindow = {
    from,
    to: Math.min(scenario.calmAt, from + draw.within(30 * secondMs, 10 * minuteMs)),
    kind: 'gateway-page',
    status: draw.pick(gatewayStatuses),
    share: draw.pick([1, 1, 1, 0.5]),
    on: draw.pick(['retry', 'retry', 'retry', 'list', 'all']),
  }
  const env = { ...scenario.env, RECONCILER_RETRY_MAX_ATTEMPTS: String(draw.pick([3, 5])) }
  return { ...scenario, env, faults: [window, ...scenario.faults] }
}

/** The receiver answers some deliveries with 200 and loses them, and its ledger, which would tell, is late or gives no books for a while. */
function ledgerOf(draw: Draw, scenario: Scenario): Scenario | undefined {
  const { calmAt, env, habits, platformJumps } = scenario
  const settleMs = draw.pick([minuteMs, 5 * minuteMs, 15 * minuteMs])
  // Where the time is not known, a delivery may seem to be older than it is.
  const isSure = platformJumps.length === 0 && habits.withoutDate === undefined
  const faults = Array.from({ length: draw.below(3) }, () => {
    const from = draw.below(calmAt + 2 * hourMs)
    const answer = draw.pick(['down', 'error', 'page', 'half', 'cut', 'other'] as const)
    return { from, to: from + draw.within(minuteMs, hourMs), answer }
  })
  return {
    ...scenario,
    ledger: { lostShare: draw.pick([0, 0.1, 0.3]), lagMs: isSure ? draw.below(settleMs / 2) : 0, faults },
    env: {
      ...env,
      RECONCILER_LEDGER_URL: ledgerUrl,
      RECONCILER_LEDGER_KEY: 'webhookId',
      RECONCILER_LEDGER_SETTLE: `${settleMs}ms`,
      RECONCILER_LEDGER_LOOKBACK: `${draw.within(16, 24)}h`,
    },
  }
}

/** An operator asks for retries, now and then for the same ones twice, or gives up. */
function retryJobs(draw: Draw, scenario: Scenario): Scenario {
  const jobs = Array.from({ length: draw.within(1, 4) }, () => ({
    at: draw.within(1, scenario.calmAt + 10 * minuteMs),
    sinceMs: draw.within(minuteMs, 2 * dayMs),
    untilMs: draw.pick([0, 0, draw.within(1, hourMs)]),
    exhausted: draw.chance(0.5),
    rate: draw.pick([undefined, undefined, 1, 5]),
    cancelAfterMs: draw.chance(0.2) ? draw.within(secondMs, 10 * minuteMs) : undefined,
  }))
  return { ...scenario, jobs }
}

/** One of the faults is that retries are accepted, and no delivery follows. */
function retriesIgnored(_: Draw, scenario: Scenario): Scenario | undefined {
  const [first, ...others] = scenario.faults
  return first && { ...scenario, faults: [{ ...first, kind: 'ignored', on: 'retry' }, ...others] }
}

/** Each with its share of the seeds; a scenario may have several. */
const readings: Readonly<Record<string, { share: number; change: Reading }>> = {
  'host clock far off': { share: 0.08, change: clockFarOff },
  ...limitReadings,
  ...listingReadings,
  'void token answered otherwise': { share: 0.06, change: voidToken },
  'token known late': { share: 0.05, change: tokenKnownLate },
  'slow identity host': { share: 0.04, change: slowIdentityHost },
  'key registered late': { share: 0.06, change: keyRegisteredLate },
  'host suspended': { share: 0.06, change: suspended },
  ...evidenceReadings,
  'a ledger': { share: 0.06, change: ledgerOf },
  'retry jobs': { share: 0.06, change: retryJobs },
  'schedule with hours': { share: 0.08, change: hourFields },
  'errors have a body': { share: 0.5, change: withHabits(() => ({ missingHasCode: true })) },
  ...Object.fromEntries(Object.entries(oddReadings).map(([name, change]) => [name, { share: 0.04, change }])),
  'a gateway answers': { share: 0.08, change: gatewayAnswers },
  'retries are ignored': { share: 0.08, change: retriesIgnored },
  'events cannot be searched': { share: 0.04, change: withHabits(() => ({ eventIdFilter: 'refused' })) },
}

/** Each makes a scenario of its own, in which a promise of its own is put to the test: at most one, and nothing else. */
const stages: Readonly<Record<string, Reading>> = {
  ...limitStages,
  ...saidStages,
  'after an outage': afterOutage,
  'over the bound': overBound,
  'probes over the limit': probesOverLimit,
  'outages beside sweeps': outagesBesideSweeps,
  'first rows of dead receivers': deadFirst,
  'seconds that cannot be listed': badSeconds,
}
/** Share of the seeds of each stage. */
const stageShare = 0.01

export const readingNames: readonly string[] = [...Object.keys(readings), ...Object.keys(stages)]

export function withReadings(scenario: Scenario): Scenario {
  const { seed } = scenario
  const apply = (to: Scenario, name: string, change: Reading, draw: Draw): Scenario => {
    const changed = change(draw, to)
    return changed === undefined ? to : { ...changed, readings: [...to.readings, name] }
  }
  for (const [name, change] of Object.entries(stages)) {
    const draw = drawOf(seed, name)
    if (draw.chance(stageShare)) return apply(scenario, name, change, draw)
  }
  return Object.entries(readings).reduce((to, [name, { share, change }]) => {
    const draw = drawOf(seed, name)
    return draw.chance(share) ? apply(to, name, change, draw) : to
  }, scenario)
}
