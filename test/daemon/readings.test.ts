// Each reading of what the specification leaves open (docs/platform-api.md "Open points"): what is ours is delivered once, what is not ours is never touched.
import { expect, test } from 'vitest'
import type { Fault } from '../../sandbox/api/faults.ts'
import type { Readings, SandboxOptions } from '../../sandbox/options.ts'
import { sweepNumbers, type Policy } from '../../src/reconcile/policy.ts'
import type { SweepResult } from '../../src/reconcile/sweep/sweep-report.ts'
import { beginDay, hourMs, minuteMs, type Day, type RunningDaemon } from '../support/daemon.ts'

interface Reading {
  /** How the sandbox reads the specification. */
  readings?: Partial<SandboxOptions>
  env?: Readonly<Record<string, string>>
  /** How far the daemon's host is ahead of the true time. */
  hostAheadMs?: number
  /** The true time at the start. */
  start?: string
}

function place(timeZone: string, start: string): Reading {
  return { readings: { timeZone }, env: { RECONCILER_PLATFORM_TIME_ZONE: timeZone }, start }
}

/** A reading of each value. */
function each<const Name extends keyof SandboxOptions>(name: Name, values: readonly SandboxOptions[Name][]): Reading[] {
  return values.map((value) => ({ readings: { [name]: value } }))
}

const sides = ['inclusive', 'exclusive'] as const
const bounds = sides.flatMap((from) =>
  sides.flatMap((to) => (['second', 'fraction'] as const).map((precision) => ({ from, to, precision }))),
)

/** The responses to half of the retries are lost. */
const loses = (fault: Fault): SandboxOptions['faults'] => [{ operation: 'retry', fault, probability: 0.5 }]

/** Each open point with its values. */
const points: readonly (readonly Reading[])[] = [
  // Daylight saving in Berlin, 2026: 29 March 01:00Z skips 02:00 to 03:00, 25 October 01:00Z repeats it. The window is six hours.
  [
    {},
    place('Europe/Berlin', '2026-10-25T00:42:00.300Z'),
    place('Europe/Berlin', '2026-10-25T01:30:00.300Z'),
    place('Europe/Berlin', '2026-10-25T04:10:00.999Z'),
    place('Europe/Berlin', '2026-10-25T06:40:00Z'),
    place('Europe/Berlin', '2026-10-25T07:20:00Z'),
    place('Europe/Berlin', '2026-03-29T01:05:00.500Z'),
    place('Europe/Berlin', '2026-03-29T03:20:00Z'),
    place('Europe/Berlin', '2026-03-29T07:02:00.100Z'),
    place('Pacific/Kiritimati', '2026-12-31T10:15:00Z'),
    place('America/St_Johns', '2026-03-08T08:00:00Z'),
    place('Australia/Lord_Howe', '2026-04-04T17:00:00Z'),
  ],
  each('bounds', bounds),
  each('order', ['event-asc', 'event-desc', 'id', 'shuffled']),
  each('errorStatus', [400, 200, 409, 422, 404, 500]),
  each('delivery', [
    { mode: 'sync' },
    { mode: 'async', delayMs: 2 },
    { mode: 'async', delayMs: 150 },
    { mode: 'async', delayMs: 150, meanwhile: 'failed' },
  ]),
  each('countedAt', ['start', 'end']),
  [
    {},
    { readings: { pathPrefix: '/v1/x' } },
    {
      readings: { pathPrefix: '/v1/x' },
      env: { RECONCILER_PLATFORM_BASE_URL: 'https://platform.invalid/v1/x/' },
    },
  ],
  [
    {},
    { hostAheadMs: 5 * minuteMs },
    { hostAheadMs: -5 * minuteMs },
    ...each('skewMs', [
      { identity: 5 * minuteMs, api: 0 },
      { identity: -5 * minuteMs, api: 0 },
    ]),
    { hostAheadMs: -12 * hourMs, readings: { skewMs: { identity: 12 * hourMs, api: 0 } } },
    { readings: { dateHeader: false } },
  ],
  each('counting', ['attempts', 'retries']),
  [
    ...each('tokenScope', ['api', null, 'openid']),
    { env: { RECONCILER_AUTH_SCOPE: '' }, readings: { tokenScope: null } },
  ],
  each('unknownFields', [false, true]),
  each('faults', [
    undefined,
    loses({ kind: 'reset', when: 'after' }),
    loses({ kind: 'status', status: 500, applied: true, body: 'html' }),
    loses({ kind: 'cut' }),
    loses({ kind: 'huge-body', mebibytes: 9 }),
  ]),
  each('statusCase', ['lower', 'capital', 'upper']),
  [
    ...each('totals', ['exact', 'absent', 'low', 'high', 'zero', 'page']),
    { readings: { maxPageSize: 7, pageSizeTold: 'asked', totals: 'exact' } },
    { readings: { maxPageSize: 7, pageSizeTold: 'asked', totals: 'absent' } },
    { readings: { maxPageSize: 7 } },
  ],
  each('emptyList', ['array', 'absent', 'null', 'proto3', 'no-content']),
  each('fraction', ['micro', 'nano', 'grouped', 'trimmed']),
  each('acceptedStatus', [200, 201, 202]),
  each('statusEncoding', ['both', 'repeated', 'comma', 'single']),
  each('ignores', [[], ['status'], ['page.size']]),
]

/** Scenes that hold each value of each point at least twice, beside others. */
const scenes = Array.from({ length: 2 * Math.max(...points.map((values) => values.length)) }, (_, scene) =>
  points
    .map((values, index) => values[(scene + index * Math.floor(scene / 12)) % values.length] ?? {})
    .reduce<Reading>(
      (whole, one) => ({
        ...whole,
        ...one,
        readings: { ...whole.readings, ...one.readings },
        env: { ...whole.env, ...one.env },
      }),
      {},
    ),
)

/** Records that must be recovered, and records that must never be touched. */
function populate({ clock, sandbox }: Day): { ours: string[]; others: string[] } {
  const now = clock.now()
  const add = (minutesAgo: number, more: object = {}): string =>
    sandbox.addWebhook({ eventInstant: now - minutesAgo * minuteMs, attempts: 1, lastAttempt: null, ...more })
  const spread = Array.from({ length: 39 }, (_, index) => add(12 + index * 9))
  const second = Array.from({ length: 40 }, (_, index) => add(125, { wire: index < 5 ? { eventId: undefined } : {} }))
  const seconds = Array.from({ length: 60 }, (_, index) => add(240 + index / 60))
  return {
    ours: [...spread, ...second, ...seconds, add(10.2), add(359.8), add(180, { attempts: 4 })],
    others: [
      ...[12 * 60, -180, (now - Date.UTC(9999, 0)) / minuteMs].map((minutesAgo) => add(minutesAgo)),
      ...['successful', 'processing'].map((status) => add(180, { status })),
      ...[5, 1000].map((attempts) => add(180, { attempts })),
    ],
  }
}

/** Plays a recovery of six hours, by slices of a few records. Nothing that is not ours may be touched, and nothing delivered twice. */
async function recover(
  day: Day,
  { env, hostAheadMs = 0, slices = { sliceRecords: 10, concurrency: 4 } }: Reading & { slices?: Policy['sweep'] },
): Promise<{ daemon: RunningDaemon; ours: string[]; missing: string[]; sweeps: SweepResult[] }> {
  const { clock, sandbox } = day
  const { ours, others } = populate(day)
  const window = {
    ...{ RECONCILER_WINDOW_LOOKBACK: '6h', RECONCILER_WINDOW_SETTLE: '10m', RECONCILER_RETRY_MAX_ATTEMPTS: '5' },
    ...{ RECONCILER_RETRY_BACKOFF_INITIAL: '1s', RECONCILER_RETRY_BACKOFF_MAX: '10s' },
  }
  const daemon = await day.start({ ...window, ...env }, undefined, {
    policy: { sweep: slices },
    hostClock: { ...clock, now: () => clock.now() + hostAheadMs },
  })
  await daemon.goOn(4)
  expect(others.map((id) => sandbox.acceptedRetries(id))).toEqual(others.map(() => 0))
  expect(sandbox.receiver.counts().repeated).toBe(0)
  const missing = ours.filter((id) => sandbox.record(id)?.status.toLowerCase() !== 'successful')
  const sweeps = daemon.facts.flatMap((fact) =>
    fact.type === 'sweep' && fact.report.kind === 'full' ? [fact.report.result] : [],
  )
  return { daemon, ours, missing, sweeps }
}

test.each(scenes)('all is recovered: %j', async (reading) => {
  const { readings: given = {}, start } = reading
  await using day = await beginDay(given, start === undefined ? undefined : Date.parse(start))
  const { daemon, missing, ours, sweeps } = await recover(day, reading)
  expect(missing).toEqual([])
  const { facts } = daemon
  const outcomes = facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
  expect(outcomes).toEqual(ours.map(() => 'recovered'))
  expect(facts.some((fact) => fact.type === 'retry' && fact.response.lost === true)).toBe(given.faults !== undefined)
  // Such totals leave a slice in doubt.
  if (given.totals !== 'high' && given.totals !== 'page') expect(new Set(sweeps)).toEqual(new Set(['complete']))
})

const times: Readings['ignores'][] = [['from'], ['to'], ['from', 'to'], ['from', 'to', 'status']]
const others: Readings['ignores'][] = [
  ['page.number'],
  ['page.number', 'page.size'],
  ['from', 'to', 'status', 'eventId', 'page.number', 'page.size'],
]
const totals = ['exact', 'absent'] as const
const ignoring = (some: Readings['ignores'][]) =>
  some.flatMap((ignores) => totals.map((told) => ({ ignores, totals: told })))

test.each(ignoring([...times, ...others]))('a gateway, %j: no sweep is complete that lacks some', async (given) => {
  await using day = await beginDay(given)
  const { daemon, missing, sweeps } = await recover(day, {})
  if (missing.length > 0) expect(sweeps).not.toContain('complete')
  expect(daemon.lists() / sweeps.length).toBeLessThan(60)
  if (!times.includes(given.ignores) || given.totals !== 'exact') return
  const told = daemon.facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure?.message] : []))
  expect(told[0]).toContain('the platform ignores eventDateTimeFrom/To')
  expect(new Set(sweeps)).toEqual(new Set(['failed']))
})

test.each(ignoring(times))('a gateway, %j: all in one slice is recovered', async (given) => {
  await using day = await beginDay(given)
  const { missing, sweeps } = await recover(day, { slices: sweepNumbers })
  expect(missing).toEqual([])
  expect(new Set(sweeps)).toEqual(new Set(['complete']))
})

test.each([...[-5, 1, 5].map((hours) => ({ boundsLaterSeconds: hours * 3600 })), { statusHides: true }])(
  '%j: no sweep is complete',
  async (given) => {
    await using day = await beginDay(given)
    const { missing, sweeps } = await recover(day, {})
    expect(missing).not.toEqual([])
    expect(sweeps).not.toContain('complete')
  },
)

test.each(['America/St_Johns', 'Australia/Adelaide'])(
  '%s repeats an hour that begins within one: of its deliveries the ledger lacks those that are lost, and no other',
  async (timeZone) => {
    await using day = await beginDay(
      { timeZone },
      Date.parse(timeZone.startsWith('Am') ? '2026-11-01T12:05Z' : '2026-04-05T02:05Z'),
    )
    const { clock, sandbox } = day
    const span = { from: clock.now() - 12 * hourMs, to: clock.now() - hourMs }
    const lost = sandbox.seed({ count: 480, ...span, failed: 0, lastAttemptAfterMs: 500 }).slice(0, 10)
    sandbox.ledger.lose(lost)
    const daemon = await day.start({
      RECONCILER_PLATFORM_TIME_ZONE: timeZone,
      RECONCILER_LEDGER_URL: sandbox.ledgerUrl,
    })
    await daemon.goOn(15)
    const { records } = await daemon.records('group=unprocessed')
    expect(records.map(({ webhookId }) => webhookId).toSorted()).toEqual(lost.toSorted())
  },
)

test('no Date header, and a host five minutes ahead: no token, so nothing is touched, and it says so', async () => {
  await using day = await beginDay({ dateHeader: false })
  const { daemon, missing, ours, sweeps } = await recover(day, { hostAheadMs: 5 * minuteMs })
  expect(missing).toEqual(ours)
  expect(new Set(sweeps)).toEqual(new Set(['failed']))
  const failures = daemon.facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure] : []))
  expect(failures[0]).toMatchObject({ stage: 'token', rejected: true })
  expect(daemon.lists()).toBe(0)
})

test.each(['processing', 'failed'] as const)(
  'a platform that retries by itself, %s in between: nothing is delivered twice',
  async (status) => {
    await using day = await beginDay({ automaticRetries: { delaysMs: [20_000, 20_000, 20_000], status } })
    const { clock, sandbox } = day
    sandbox.receiver.fail({ status: 503, count: 40 })
    const ids = Array.from({ length: 20 }, (_, index) =>
      sandbox.emit({ eventInstant: clock.now() - (index + 2) * minuteMs }),
    )
    const daemon = await day.start({ RECONCILER_RETRY_BACKOFF_INITIAL: '1s' })
    await daemon.goOn(3)
    expect(sandbox.stats.retries.accepted > 0).toBe(status === 'failed')
    expect(ids.map((id) => sandbox.receiver.deliveries(id))).toEqual(ids.map(() => 1))
  },
)
