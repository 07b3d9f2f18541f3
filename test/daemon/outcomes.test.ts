// Outcomes, gates and sweeps of the whole daemon beside a sandbox, in virtual time: retries that take long, get lost or fail all the time.
import { expect, test } from 'vitest'
import { listParameter } from '../../src/platform/wire.ts'
import { beginDay, type Day } from '../support/daemon.ts'

const hourMs = 3_600_000
const minuteMs = 60_000

function seed({ clock, sandbox }: Day, count: number, ageMs = 12 * hourMs): string[] {
  const now = clock.now()
  return sandbox.seed({ count, from: now - ageMs - count * 1000, to: now - ageMs, attempts: 1, subscriptions: 1 })
}

/** When PATCHes came, in ms of the clock. */
function patchesOf({ sandbox }: Day): number[] {
  return sandbox.requestLog().flatMap(({ at, operation }) => (operation === 'retry' ? [at] : []))
}

test('a retried record that leaves the window still gets its outcome, and has not expired', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 10 * minuteMs } })
  seed(day, 1, hourMs - 5 * minuteMs)
  const daemon = await day.start({ RECONCILER_WINDOW_LOOKBACK: '1h' })
  expect(await daemon.metric('awaiting_webhooks')).toBe(1)
  // It leaves the window after five minutes, and is delivered after ten.
  await daemon.goOn(8)
  expect(await daemon.metric('awaiting_webhooks')).toBe(1)
  await daemon.goOn(10)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(1)
  expect(await daemon.metric('expired_webhooks_total')).toBe(0)
})

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

test('a record whose event id is no UUID is never looked up by it', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5000 } })
  const eventInstant = day.clock.now() - 2 * hourMs
  day.sandbox.addWebhook({ wire: { eventId: 'order-7' }, eventInstant, attempts: 1 })
  const daemon = await day.start()
  await daemon.goOn(2)
  expect(await daemon.metric('outcomes_total', { outcome: 'recovered' })).toBe(1)
  expect(day.sandbox.requestLog().filter(({ target }) => target.includes('order-7'))).toEqual([])
})

test('failures become sure while the records beside them are checked all the time', async () => {
  // Each check shows a page, and all of them stand on it.
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 100 }, ignores: ['eventId'] })
  day.sandbox.receiver.down()
  seed(day, 90)
  const daemon = await day.start({ RECONCILER_CIRCUIT_ENABLED: 'false', RECONCILER_RETRY_MAX_PER_SECOND: '1' })
  // A minute has passed, in which a retry went out, and checks came, by the second.
  const sent = patchesOf(day).length
  expect(sent).toBeGreaterThan(50)
  expect(await daemon.metric('outcomes_total', { outcome: 'failed-again' })).toBeGreaterThan(sent - 10)
})

test('what failed together at the longest backoff does not come back together', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.down()
  const now = day.clock.now()
  day.sandbox.seed({ count: 20, from: now - 20 * hourMs, to: now - 12 * hourMs, attempts: 20 })
  const daemon = await day.start({
    RECONCILER_CIRCUIT_ENABLED: 'false',
    RECONCILER_RETRY_BACKOFF_MAX: '10m',
    RECONCILER_RETRY_MAX_ATTEMPTS: '1000',
  })
  const first = patchesOf(day)
  expect(first).toHaveLength(20)
  expect(Math.max(...first) - Math.min(...first)).toBeLessThan(minuteMs)
  await daemon.goOn(10)
  const second = patchesOf(day).slice(20, 40)
  expect(second).toHaveLength(20)
  expect(Math.max(...second) - Math.min(...second)).toBeGreaterThan(minuteMs)
})

test('the rate is halved once for a burst of calls that are throttled', async () => {
  await using day = await beginDay()
  const daemon = await day.start({
    RECONCILER_CIRCUIT_ENABLED: 'false',
    RECONCILER_RETRY_CONCURRENCY: '9',
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '100',
  })
  seed(day, 40)
  day.sandbox.faults.set({ operation: 'retry', fault: { kind: 'throttle', retryAfter: 'absent' }, count: 8 })
  await daemon.goOn(1, 2000)
  expect(await daemon.metric('retries_total', { result: 'throttled' })).toBe(8)
  // It comes back by 5 a second.
  expect(await daemon.metric('platform_request_rate_limit')).toBeGreaterThanOrEqual(50)
  expect(await daemon.metric('platform_request_rate_limit')).toBeLessThan(75)
})

test('no more are retried while half of the backlog awaits its outcome', async () => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs: 5 * minuteMs } })
  seed(day, 100)
  const daemon = await day.start({
    RECONCILER_CIRCUIT_ENABLED: 'false',
    RECONCILER_BACKLOG_MAX_RECORDS: '40',
    RECONCILER_RETRY_CONCURRENCY: '8',
  })
  await daemon.goOn(3)
  // Those in flight when the limit is reached come on top.
  expect(patchesOf(day).length).toBeGreaterThanOrEqual(20)
  expect(patchesOf(day).length).toBeLessThan(28)
  expect(await daemon.metric('gates', { gate: 'outcomes' })).toBe(1)
  await daemon.goOn(60)
  expect(day.sandbox.counts()).toMatchObject({ failed: 0, successful: 100 })
})

test('the last free slot is for a subscription that has no retry in flight', async () => {
  const deliveryMs = 9000
  await using day = await beginDay({ delivery: { mode: 'sync', delayMs: deliveryMs } })
  const [slow, other] = ['11111111-2222-4333-8444-555555555555', '99999999-2222-4333-8444-555555555555']
  const now = day.clock.now()
  for (let index = 0; index < 40; index += 1) {
    day.sandbox.addWebhook({ subscriptionId: slow, eventInstant: now - 20 * hourMs - index * 1000, attempts: 1 })
  }
  // Due 30 s after the start, when slots of the slow one come free 3 s before and 6 s after that.
  const times = { eventInstant: now - hourMs, lastAttempt: now - 30_000 }
  const id = day.sandbox.addWebhook({ subscriptionId: other, attempts: 1, ...times })
  await day.start({
    RECONCILER_CIRCUIT_ENABLED: 'false',
    RECONCILER_RETRY_CONCURRENCY: '4',
    RECONCILER_RETRY_BACKOFF_JITTER: '0',
  })
  const sent = day.sandbox.requestLog().find(({ operation, target }) => operation === 'retry' && target.includes(id))
  // The request is logged with its answer.
  const lateMs = (sent?.at ?? Infinity) - deliveryMs - (times.lastAttempt + minuteMs)
  expect(lateMs).toBeGreaterThanOrEqual(-1000)
  expect(lateMs).toBeLessThan(2500)
})

test('a sweep of which every slice fails is given up, although a list of one row works', async () => {
  await using day = await beginDay()
  seed(day, 200, 2 * hourMs)
  let lists = 0
  const daemon = await day.start({ RECONCILER_RETRY_ENABLED: 'false' }, ({ method, url }) => {
    if (method !== 'GET' || url.searchParams.get(listParameter.pageSize) === '1') return undefined
    lists += 1
    return { status: 500 }
  })
  await day.clock.advance(4 * minuteMs)
  expect(await daemon.metric('sweeps_total', { result: 'failed' })).toBe(1)
  expect(lists).toBeLessThan(100)
})
