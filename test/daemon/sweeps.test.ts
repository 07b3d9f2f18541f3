// Sweeps of the whole daemon: when they come and rest, how they go on after failures, and which rows are no records.
import { expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import type { SandboxRequest } from '../../sandbox/api/http.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import type { StatusFacts } from '../../src/ops/status-document.ts'
import { listParameter } from '../../src/platform/wire.ts'
import {
  beginDay,
  emptyPage,
  hourMs,
  minuteMs,
  periodMs,
  type DaemonOptions,
  type Day,
  type RunningDaemon,
} from '../support/daemon.ts'

const observing = { RECONCILER_RETRY_ENABLED: 'false' }
/** Ten records in a slice, one page after the other: 40 slices of 400 records. */
const slowly: DaemonOptions = { policy: { sweep: { sliceRecords: 10, concurrency: 1 } } }

const down = (when: FaultRule['when'] = () => true): FaultRule => ({
  operation: 'list',
  fault: { kind: 'status', status: 500 },
  when,
})
const latency = (ms: number): FaultRule => ({ operation: 'list', fault: { kind: 'latency', ms } })

/** Of pages, not of counts and pings. */
const isOfPage = ({ query }: SandboxRequest): boolean => query.get(listParameter.pageSize) !== '1'

/** True for a list of this moment, in epoch ms. */
function isWithin({ query }: SandboxRequest, at: number): boolean {
  const [from = NaN, to = NaN] = [listParameter.from, listParameter.to].map((name) =>
    Date.parse(`${query.get(name) ?? ''}Z`),
  )
  return from <= at && at <= to
}

const reportsOf = ({ facts }: RunningDaemon): SweepReport[] =>
  facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report] : []))

const fullOf = (daemon: RunningDaemon): SweepReport[] => reportsOf(daemon).filter(({ kind }) => kind === 'full')

/** Starts it, and notes each sweep with the second in which it ended. */
async function startNoting(day: Day, more?: DaemonOptions): Promise<{ daemon: RunningDaemon; ended(): string[] }> {
  const ended: string[] = []
  let from = day.clock.monotonic()
  const daemon = await day.start(observing, undefined, {
    ...more,
    hear(fact) {
      if (fact.type !== 'sweep') return
      ended.push(`${fact.report.kind} ${Math.round((day.clock.monotonic() - from) / 1000)}`)
    },
  })
  return {
    daemon,
    ended() {
      from = day.clock.monotonic()
      return ended.splice(0)
    },
  }
}

test('a full sweep rests for twenty times its duration, and a recent one for twenty times its own', async () => {
  await using day = await beginDay()
  day.sandbox.faults.set(latency(1000))
  const { daemon, ended } = await startNoting(day)
  await day.clock.advance(hourMs)
  ended()
  await daemon.goOn(135, 1000)
  expect(ended()).toEqual(['full 6', 'recent 22', 'recent 43', 'recent 64', 'recent 85', 'recent 106', 'full 132'])
})

test('a recent sweep comes between two slices of a full one, once its rest is over', async () => {
  await using day = await beginDay()
  day.seed(400, [72, 5], { spread: 'even' })
  day.sandbox.faults.set(latency(2000))
  const { daemon, ended } = await startNoting(day, slowly)
  await day.clock.advance(hourMs)
  ended()
  await daemon.goOn(180, 1000)
  expect(ended()).toEqual(['recent 44', 'recent 86', 'full 96', 'recent 128', 'recent 170'])
})

test('an hourly schedule makes a full sweep in each hour, however long it takes', async () => {
  await using day = await beginDay()
  day.seed(400, [72, 5], { spread: 'even' })
  day.sandbox.faults.set(latency(9000))
  const { daemon, ended } = await startNoting(day, slowly)
  await day.clock.advance(hourMs)
  ended()
  await daemon.goOn(5, hourMs)
  expect(ended().filter((name) => name.startsWith('full'))).toHaveLength(5)
})

test('sweeps of a platform that fails back off to a minute, and come back at once when one works', async () => {
  await using day = await beginDay()
  day.sandbox.faults.set(down())
  const { daemon, ended } = await startNoting(day)
  await daemon.goOn(3600, 1000)
  expect(ended().length).toBeLessThan(100)
  day.sandbox.faults.set()
  await daemon.goOn(120, 1000)
  expect(ended().length).toBeGreaterThan(60)
})

test('a full sweep that a failing platform ends goes on where it ended, and counts nothing twice', async () => {
  await using day = await beginDay()
  day.seed(400, [72, 5], { spread: 'even' })
  day.sandbox.faults.set(latency(2000))
  const daemon = await day.start({ ...observing, RECONCILER_WINDOW_LOOKBACK: '73h' }, undefined, slowly)
  for (let turn = 0; turn < 3; turn += 1) {
    day.sandbox.faults.set(down())
    await daemon.goOn(5, 1000)
    day.sandbox.faults.set(latency(2000))
    await daemon.goOn(30, 1000)
  }
  expect(daemon.ops().status().missing).toBe(400)
  expect(fullOf(daemon).map(({ result }) => result)).toContain('failed')
})

test('but begins anew once it has listed nothing more for an hour', async () => {
  await using day = await beginDay()
  day.seed(400, [72, 5], { spread: 'even' })
  day.sandbox.faults.set(latency(2000))
  const daemon = await day.start({ ...observing, RECONCILER_WINDOW_LOOKBACK: '80h' }, undefined, slowly)
  day.sandbox.faults.set(down())
  await daemon.goOn(61)
  day.seed(1, [72, 72])
  day.sandbox.faults.set(latency(2000))
  await daemon.goOn(3)
  expect(daemon.ops().status().missing).toBe(401)
})

test('a sweep of which nothing could be listed is over, and forgets no part that cannot be listed', async () => {
  await using day = await beginDay()
  day.seed(1, [2, 2])
  const bad = day.clock.now() - 72 * hourMs
  day.sandbox.faults.set(down(isOfPage))
  const daemon = await day.start(observing)
  await daemon.goOn(5)
  expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'failed' })
  day.sandbox.faults.set(down((request) => isOfPage(request) && isWithin(request, bad)))
  await daemon.goOn(5)
  expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'incomplete', listed: 1 })
  day.sandbox.faults.set(down(isOfPage))
  await daemon.goOn(5)
  expect(reportsOf(daemon).at(-1)).toMatchObject({ result: 'failed' })
  expect(daemon.ops().status().unlisted).toMatchObject({ seconds: 3 })
})

test('records that had no room are listed by a full sweep as soon as half of the backlog is free, until all are done', async () => {
  await using day = await beginDay()
  day.seed(430, [72, 2], { spread: 'even' })
  const daemon = await day.start({ RECONCILER_BACKLOG_MAX_RECORDS: '50' }, undefined, { gapMs: 24 * hourMs })
  await day.clock.advance(10 * minuteMs)
  expect(day.sandbox.counts()).toMatchObject({ failed: 0, successful: 430 })
  const { length } = fullOf(daemon)
  expect([length > 8, length < 20, reportsOf(daemon).length - length]).toEqual([true, true, 0])
  expect(daemon.lists()).toBeLessThan(100)
})

/** The listing of a page takes longer than it takes the next record to leave. */
test.each([
  ['pages', 4000, 9000],
  ['sweeps of many slices', 40, 7000],
])('what leaves the window is reported once, also where %s are slow', async (_, sliceRecords, ms) => {
  await using day = await beginDay()
  day.seed(400, [119 / 60, 89 / 60], { spread: 'even', attempts: 30 })
  const policy = { sweep: { sliceRecords, concurrency: 4 } }
  const daemon = await day.start({ ...observing, RECONCILER_WINDOW_LOOKBACK: '2h' }, undefined, { policy })
  day.sandbox.faults.set(latency(ms))
  await daemon.goOn(80, periodMs)
  const expired = daemon.facts.reduce((sum, fact) => sum + (fact.type === 'expired' ? fact.records : 0), 0)
  expect(expired).toBe(400)
  expect(daemon.ops().status().failed.exhausted).toBe(0)
})

test('rows that cannot be read, and rows that were not asked for, are reported', async () => {
  await using day = await beginDay({ ignores: ['status'] })
  const eventInstant = day.clock.now() - hourMs / 2
  day.sandbox.addWebhook({ eventInstant, status: 'successful' })
  day.sandbox.addWebhook({ eventInstant, status: 'unheard-of' })
  const daemon = await day.start(observing)
  expect(daemon.facts).toContainEqual({ type: 'unexpected', wrongTime: 0, wrongStatus: 1 })
  expect(daemon.facts).toContainEqual(expect.objectContaining({ type: 'unreadable' }))
  expect(daemon.ops().status().unreadable).toEqual({ rows: 1, field: 'status' })
})

test('what lies beyond the window, and what is stuck, is counted; a count that fails does not fail the sweep, and the last one stands', async () => {
  await using day = await beginDay()
  day.seed(4, [200, 180])
  day.seed(7, [24, 23], { failed: 0, processing: 1, lastAttemptAfterMs: 1000 })
  const daemon = await day.start(observing)
  const counts = (): object => {
    const { beyondWindow, stuckProcessing } = daemon.ops().status()
    return { beyondWindow, stuckProcessing }
  }
  expect(counts()).toEqual({ beyondWindow: 4, stuckProcessing: 7 })
  day.sandbox.faults.set(
    down(({ query }) => query.get(listParameter.status) !== 'failed' || !query.has(listParameter.from)),
  )
  const before = fullOf(daemon).length
  await daemon.goOn(3)
  const after = fullOf(daemon).slice(before)
  expect(new Set(after.map(({ result }) => result))).toEqual(new Set(['complete']))
  expect(counts()).toEqual({ beyondWindow: 4, stuckProcessing: 7 })
})

test('excluded records are missing nowhere: neither older than the window nor ahead of the clock', async () => {
  await using day = await beginDay()
  const [wanted, unwanted] = ['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000002']
  for (const span of [
    [200, 180],
    [-2, -1],
  ] as const) {
    day.seed(3, span, { subscriptions: [wanted] })
    day.seed(150, span, { subscriptions: [unwanted] })
  }
  const daemon = await day.start({ RECONCILER_SELECT_SUBSCRIPTION_IDS: wanted })
  expect(daemon.ops().status()).toMatchObject({ beyondWindow: 3, aheadOfClock: 3 })
})

test.each(['status', 'from', 'to'] as const)(
  'no sweep is complete while the filter %s hides all records, also behind a page of new ones',
  async (filter) => {
    await using day = await beginDay({ order: 'event-desc' })
    day.seed(3, [24, 23])
    day.seed(150, [0.05, 0.01], { failed: 0 })
    let isHiding = true
    const daemon = await day.start(observing, ({ url }) =>
      isHiding && url.searchParams.has(listParameter[filter]) ? { body: emptyPage } : undefined,
    )
    expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'incomplete', listed: 0 })
    isHiding = false
    await daemon.goOn(5)
    expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'complete', listed: 3 })
  },
)

test('once a list has shown what it filters for, lists without a filter come once in two hours', async () => {
  await using day = await beginDay()
  day.seed(1, [24, 24], { failed: 0 })
  const daemon = await day.start(observing)
  await daemon.goOn(110)
  const asked = daemon.requests.filter(
    ({ method, url }) => method === 'GET' && !url.searchParams.has(listParameter.status),
  )
  expect(asked).toHaveLength(2)
})

test.each([0, 30])('after %i minutes a gateway responds with 204 to all lists: none succeeds', async (minutes) => {
  await using day = await beginDay({ emptyList: 'no-content' })
  day.sandbox.emit({ eventInstant: day.clock.now() - hourMs })
  const gateway = { operation: 'list', fault: { kind: 'status', status: 204, body: 'empty' } } as const
  if (minutes === 0) day.sandbox.faults.set(gateway)
  const daemon = await day.start(observing)
  await daemon.goOn(minutes)
  if (minutes > 0) expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'complete', listed: 0 })
  day.sandbox.faults.set(gateway)
  await daemon.goOn(3)
  expect(fullOf(daemon).at(-1)).toMatchObject({ result: 'failed', failure: { reason: 'invalid-body', status: 204 } })
})

test('the circuit of a subscription is forgotten some minutes after its last open record, and not before', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 300 } })
  day.sandbox.receiver.down()
  day.seed(9, [1.5, 1.5], { subscriptions: 1 })
  const daemon = await day.start({ RECONCILER_WINDOW_LOOKBACK: '2h' })
  const changes = (): string[] => daemon.facts.flatMap((fact) => (fact.type === 'circuit' ? [fact.to] : []))
  await daemon.goOn(35)
  expect(daemon.facts).toContainEqual({ type: 'expired', records: 9, again: 0 })
  expect(changes()).not.toContain('closed')
  await daemon.goOn(10)
  expect(changes().at(-1)).toBe('closed')
})

/** A daemon whose full sweep takes minutes. All lists with one bound alone fail, which are counts, until the faults are set anew. */
async function startUncounted(day: Day): Promise<{ daemon: RunningDaemon; asked(): number }> {
  let asked = 0
  const isCount = ({ query }: SandboxRequest): boolean => query.has(listParameter.from) !== query.has(listParameter.to)
  const fails = down((request) => isCount(request) && (asked += 1) > 0)
  day.seed(400, [72, 5], { spread: 'even' })
  day.sandbox.faults.set(latency(2000), fails)
  const daemon = await day.start(observing, undefined, slowly)
  for (let left = 20; left > 0 && fullOf(daemon).length === 0; left -= 1) await daemon.goOn(1, minuteMs / 4)
  return { daemon, asked: () => asked }
}

test.each([
  ['ahead of the clock', 'aheadOfClock', -2],
  ['older than the window', 'beyondWindow', 240],
] as const)('failures %s are known by the next recent sweep if their count failed', async (_, what, hoursAgo) => {
  await using day = await beginDay()
  const at = day.clock.now() - hoursAgo * hourMs
  day.sandbox.seed({ count: 5, from: at - minuteMs, to: at, attempts: 3 })
  const { daemon } = await startUncounted(day)
  const status = (): StatusFacts => daemon.ops().status()
  expect(status()).toMatchObject({ missing: 400, [what]: 0 })
  day.sandbox.faults.set(latency(2000))
  await daemon.goOn(3)
  expect(fullOf(daemon)).toHaveLength(1)
  expect(status()[what]).toBe(5)
})

test('recent sweeps repeat a count that always fails five times in all', async () => {
  await using day = await beginDay()
  const { asked, daemon } = await startUncounted(day)
  await daemon.goOn(25)
  expect(fullOf(daemon)).toHaveLength(1)
  // Each of two counts, by a call that may be repeated once.
  expect(asked()).toBeGreaterThanOrEqual(2 * (1 + 5))
  expect(asked()).toBeLessThanOrEqual(2 * 2 * (1 + 5))
})
