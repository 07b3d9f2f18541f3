// Outcomes and gates of the whole daemon beside a sandbox, in virtual time: retries that take long, get lost or fail all the time.
import { expect, test } from 'vitest'
import type { SandboxRequest } from '../../sandbox/api/http.ts'
import { listParameter } from '../../src/platform/wire.ts'
import { beginDay, emptyPage, hourMs, minuteMs, startDaemon, type DaemonOptions, type Day } from '../support/daemon.ts'
import { wireInvalidStatus } from '../support/webhooks.ts'

/** Events of half a day ago, one for each second. */
const seed = (day: Day, count: number): string[] => day.seed(count, [12 + count / 3600, 12], { subscriptions: 1 })

/** When PATCHes came, in ms of the clock. */
function patchesOf({ sandbox }: Day): number[] {
  return sandbox.requestLog().flatMap(({ at, operation }) => (operation === 'retry' ? [at] : []))
}

test('a retry whose answer was lost is not given up while its delivery is under way', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 8 * minuteMs } })
  day.sandbox.faults.set({ operation: 'retry', fault: { kind: 'reset', when: 'after' } })
  seed(day, 1)
  const daemon = await day.start()
  await daemon.goOn(6)
  expect(await daemon.metric('retries_total', { result: 'unreachable' })).toBe(1)
  expect(await daemon.metric('outcomes_total')).toBe(0)
  await daemon.goOn(9)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(1)
  expect(await daemon.metric('outcomes_total')).toBe(1)
})

test('rows take another form while outcomes are awaited: they stay unknown, and it is said why', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000 } })
  seed(day, 3)
  const daemon = await day.start({ RECONCILER_OUTCOME_GIVE_UP_AFTER: '2m' }, ({ method }) => {
    if (method === 'PATCH') day.sandbox.read({ times: 'array' })
    return undefined
  })
  expect(daemon.ops().status().unreadable).toEqual({ rows: 3, field: 'eventDateTime' })
  await daemon.goOn(2)
  expect(await daemon.metric('outcomes_total')).toBe(3)
  expect(await daemon.metric('outcomes_total', { outcome: 'unknown' })).toBe(3)
})

test('a platform that lists records as failed, but finds another status in each retry: it is said that none is accepted', async () => {
  await using day = await beginDay()
  day.seed(12, [48, 2])
  const body = wireInvalidStatus({ messageParameters: ['Failed', 'Expired'] })
  const daemon = await day.start({}, ({ method }) => (method === 'PATCH' ? { status: 409, body } : undefined))
  expect(daemon.ops().status().summary).toMatchObject({
    level: 'trouble',
    headline: expect.stringMatching(/^None of the last \d\d retries was accepted: HTTP 409/) as string,
  })
})

test('a platform that accepts retries without a body: no retry is said to be rejected', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.down()
  day.sandbox.faults.set({ operation: 'retry', fault: { kind: 'status', status: 204, body: 'empty', applied: true } })
  day.seed(40, [48, 2])
  const daemon = await day.start()
  expect(daemon.ops().status().notAccepted).toBeNull()
  expect(await daemon.metric('consecutive_retries_not_accepted')).toBe(0)
  expect(await daemon.metric('outcomes_total', { outcome: 'failed-again' })).toBeGreaterThan(10)
})

test('a dead receiver, and attempts dated in another zone: both are said within minutes, and retries stop', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 2000 } })
  day.sandbox.receiver.down()
  day.seed(200, [48, 12], { subscriptions: 1 })
  const daemon = await day.start({ RECONCILER_PLATFORM_TIME_ZONE: 'Africa/Cairo' })
  await daemon.goOn(9)
  expect(daemon.ops().status()).toMatchObject({
    timeZone: { actualOffset: '+00:00' },
    circuits: { list: [{ state: expect.not.stringMatching('closed') as string }] },
  })
  expect(day.sandbox.stats.retries.accepted).toBeLessThan(30)
})

test('a platform whose clock is set back while it delivers does not appear to be in another zone', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5 * minuteMs } })
  seed(day, 2)
  const daemon = await day.start()
  expect(day.sandbox.counts().processing).toBe(2)
  day.sandbox.read({ skewMs: -20 * minuteMs })
  await daemon.goOn(9)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(2)
  expect(daemon.ops().status().timeZone.offsetSeconds).toBe(0)
})

test('a record whose event id is no UUID is never looked up by it', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000 } })
  const eventInstant = day.clock.now() - 2 * hourMs
  day.sandbox.addWebhook({ wire: { eventId: 'order-7' }, eventInstant, attempts: 1 })
  const daemon = await day.start()
  await daemon.goOn(2)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(1)
  expect(day.sandbox.requestLog().filter(({ target }) => target.includes('order-7'))).toEqual([])
})

/** Checks of outcomes list without a status. */
function isOldCheck({ query }: SandboxRequest): boolean {
  const to = Date.parse(`${query.get(listParameter.to) ?? ''}Z`)
  return !query.has(listParameter.status) && to < Date.UTC(2026, 0, 15)
}

// Records of the same hour share a span; without an id of its event, one is searched by its second.
test.each<{
  what: string
  isRefused: (request: SandboxRequest) => boolean
  perHour: number
  wire: Record<string, unknown>
  recovered: number
}>([
  { what: 'events', isRefused: ({ query }) => query.has(listParameter.eventId), perHour: 1, wire: {}, recovered: 60 },
  { what: 'old seconds', isRefused: isOldCheck, perHour: 1, wire: { eventId: 'order-7' }, recovered: 9 },
  { what: 'old spans', isRefused: isOldCheck, perHour: 2, wire: {}, recovered: 60 },
])('a platform that cannot list $what keeps no other outcome waiting', async (row) => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 } })
  for (let n = 0; n < 60; n += 1) {
    const ageMs = 1.2 * hourMs * Math.floor(1 + n / row.perHour) + n * 1000
    day.sandbox.addWebhook({ wire: row.wire, eventInstant: day.clock.now() - ageMs, attempts: 1 })
  }
  day.sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 400 }, when: row.isRefused })
  const daemon = await day.start({ RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000' })
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(row.recovered)
})

/** All lists fail once a retry has come. */
const failingLists = (day: Day): DaemonOptions['instead'] => {
  const fault = { kind: 'status', status: 500 } as const
  return ({ method }) => {
    if (method === 'PATCH') day.sandbox.faults.set({ operation: 'list', fault })
    return undefined
  }
}

test('an event whose list shows nothing is searched by its second', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 } })
  seed(day, 1)
  const daemon = await day.start({}, ({ url }) =>
    url.searchParams.has(listParameter.eventId) ? { body: emptyPage } : undefined,
  )
  await daemon.goOn(2)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(1)
})

test('a platform that ignores the event of a list is asked for one only once', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 }, ignores: ['eventId'] })
  // So far apart that no call serves two of them.
  day.seed(20, [100, 12], { spread: 'even' })
  const daemon = await day.start({ RECONCILER_RETRY_MAX_PER_SECOND: '1' })
  await daemon.goOn(2)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(20)
  const ofEvents = daemon.requests.filter(({ url }) => url.searchParams.has(listParameter.eventId))
  expect(ofEvents.length).toBe(1)
})

test('a record alone that no list can show is given up in time', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 9 * hourMs } })
  seed(day, 1)
  const daemon = await day.start({ RECONCILER_OUTCOME_GIVE_UP_AFTER: '10m' }, failingLists(day))
  await daemon.goOn(20)
  expect(await daemon.metric('outcomes_total', { outcome: 'unknown' })).toBe(1)
})

test('checks of a platform that fails all lists are few, and nothing is lost', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 } })
  day.seed(60, [100, 12], { spread: 'even' })
  const daemon = await day.start({ RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000' }, failingLists(day))
  await daemon.goOn(10)
  expect(daemon.lists()).toBeLessThan(200)
  day.sandbox.faults.set()
  await daemon.goOn(5)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(60)
  // After a success, the backoff is short again.
  day.seed(1, [12, 12])
  await daemon.goOn(1, 5000)
  day.sandbox.faults.set()
  await day.clock.advance(10_000)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(61)
})

test('failures become sure while the records beside them are checked all the time', async () => {
  // Each check shows a page, and all of them stand on it.
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 }, ignores: ['eventId'] })
  day.sandbox.receiver.down()
  seed(day, 90)
  const daemon = await day.start({ RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000', RECONCILER_RETRY_MAX_PER_SECOND: '1' })
  // A minute has passed, in which a retry went out, and checks came, by the second.
  const sent = patchesOf(day).length
  expect(sent).toBeGreaterThan(50)
  expect(await daemon.metric('outcomes_total', { outcome: 'failed-again' })).toBeGreaterThan(sent - 10)
})

test('a backlog that awaits all of its outcomes takes no more', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5 * minuteMs } })
  seed(day, 100)
  const daemon = await day.start({
    RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000',
    RECONCILER_BACKLOG_MAX_RECORDS: '40',
    RECONCILER_RETRY_CONCURRENCY: '8',
  })
  await daemon.goOn(3)
  expect(patchesOf(day).length).toBe(40)
  expect(await daemon.metric('failed_webhooks_only_counted')).toBe(60)
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ failed: 0, successful: 100 })
})

test('what failed before an outage of the platform opens no circuit after it', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 } })
  const { clock, sandbox } = day
  await using daemon = startDaemon({
    clock,
    sandbox,
    env: { RECONCILER_CIRCUIT_INITIAL_LIMIT: '1', RECONCILER_RETRY_CONCURRENCY: '1' },
  })
  sandbox.receiver.down()
  day.seed(30, [5, 1], { subscriptions: 5 })
  while (sandbox.requestLog().every(({ operation }) => operation !== 'retry')) await clock.advance(10)
  sandbox.faults.set({ operation: 'api', fault: { kind: 'status', status: 503 } })
  await daemon.goOn(5)
  expect(daemon.ops().status().holding).toContain('platform')
  sandbox.faults.set()
  sandbox.receiver.up()
  await daemon.goOn(6)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 30 })
  expect(daemon.facts.filter((fact) => fact.type === 'circuit' && fact.to === 'open')).toEqual([])
})

test('a receiver that fails half of all is neither dead nor mended, though failures are known later than successes', async () => {
  await using day = await beginDay({ delivery: { mode: 'sync', delayMs: 100 } })
  const { clock, sandbox } = day
  await using daemon = startDaemon({ clock, sandbox, env: { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' } })
  sandbox.receiver.fail({ status: 500, probability: 0.5 })
  const times = { from: clock.now() - 5 * hourMs, to: clock.now() - 4 * minuteMs }
  sandbox.seed({ ...times, count: 600, subscriptions: 3, attempts: 1 })
  const said: string[] = []
  const goOn = async (steps: number): Promise<void> => {
    for (let step = 0; step < steps; step += 1) {
      await clock.advance(5000)
      if (step % 6 === 0) daemon.tick()
      const { detail, headline, notices } = daemon.ops().status().summary
      said.push([headline, detail, ...notices.map(({ text }) => text)].join(' '))
    }
  }
  await goOn(60)
  expect(said.slice(5).filter((text) => !text.includes('fails some retries of'))).toEqual([])
  expect(said.filter((text) => /failed all of the last \d\d|keeps rejecting|succeed again/.test(text))).toEqual([])
  sandbox.receiver.heal()
  const healedAt = clock.now()
  await goOn(24)
  const { failed, mended, missing } = daemon.ops().status()
  expect([mended?.records, failed['backing-off']]).toEqual([missing, missing])
  expect(Math.abs((mended?.since?.getTime() ?? 0) - healedAt)).toBeLessThan(2 * minuteMs)
  expect(said.at(-1)).toContain('Deliveries succeed again since')
})
