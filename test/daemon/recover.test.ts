// Days of the daemon beside a sandbox, in virtual time: what it shows while it observes, ticks without work, and records that keep failing.
import { describe, expect, test } from 'vitest'
import { beginDay } from '../support/day.ts'

const hourMs = 3_600_000

test('ticks without work go on, and say nothing at info once the recovery is over', async () => {
  await using day = await beginDay()
  const now = day.clock.now()
  day.sandbox.seed({ count: 3, from: now - 20 * hourMs, to: now - 12 * hourMs, attempts: 1 })
  await day.start()
  expect(await day.metric('outcomes_total', { outcome: 'recovered' })).toBe(3)
  // The first sweep after it reports that nothing is missing any more.
  await day.tick()

  const [lines, sweeps] = [day.log.length, await day.metric('sweeps_total', { kind: 'full' })]
  await day.tick(10)
  expect(await day.metric('sweeps_total', { kind: 'full' })).toBe(sweeps + 10)
  expect(day.log.slice(lines).map(({ event }) => event)).toEqual([])
})

test('sweeps go on while a thousand retries wait for the rate', async () => {
  await using day = await beginDay()
  const now = day.clock.now()
  day.sandbox.seed({ count: 1500, from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1 })
  await day.start({ RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '4' })

  const sweeps = await day.metric('sweeps_total')
  await day.tick(3)
  expect((await day.metric('sweeps_total')) - sweeps).toBeGreaterThanOrEqual(3)
  expect(await day.metric('failed_webhooks', { decision: 'due' })).toBeGreaterThan(300)
})

test('a record that keeps failing backs off, and is exhausted at the limit', async () => {
  await using day = await beginDay()
  day.sandbox.receiver.fail({ status: 500 })
  const now = day.clock.now()
  const [id = ''] = day.sandbox.seed({ count: 1, from: now - 20 * hourMs, to: now - 12 * hourMs, attempts: 1 })
  await day.start({ RECONCILER_RETRY_MAX_ATTEMPTS: '4' })
  const sent: number[] = [day.sandbox.acceptedRetries(id)]
  for (let turn = 0; turn < 20; turn += 1) {
    await day.tick()
    sent.push(day.sandbox.acceptedRetries(id))
  }
  // At once; one or two minutes later, less the jitter; two to four minutes after that.
  expect(sent[0]).toBe(1)
  expect(sent.indexOf(2)).toBeGreaterThanOrEqual(1)
  expect(sent.indexOf(3) - sent.indexOf(2)).toBeGreaterThanOrEqual(2)
  expect(sent.at(-1)).toBe(3)
  expect(await day.metric('failed_webhooks', { decision: 'exhausted' })).toBe(1)
  expect(day.sandbox.record(id)).toMatchObject({ status: 'failed', numberOfAttempts: 4 })
})

test('a retry that the platform refuses is no try: refusals never park a record', async () => {
  await using day = await beginDay()
  const now = day.clock.now()
  const [id = ''] = day.sandbox.seed({ count: 1, from: now - 20 * hourMs, to: now - 12 * hourMs, attempts: 1 })
  day.sandbox.faults.set({ operation: 'retry', count: 6, fault: { kind: 'throttle', retryAfter: 'absent' } })
  await day.start({
    RECONCILER_RETRY_MAX_ATTEMPTS: '3',
    RECONCILER_RETRY_BACKOFF_INITIAL: '10s',
    RECONCILER_RETRY_BACKOFF_MAX: '1m',
  })
  await day.tick(10)
  expect(await day.metric('retries_total', { result: 'throttled' })).toBe(6)
  expect(await day.metric('failed_webhooks', { decision: 'exhausted' })).toBe(0)
  expect(day.sandbox.record(id)).toMatchObject({ status: 'successful', numberOfAttempts: 2 })
})

describe('observing only', () => {
  test('retry.enabled: false shows what would be done, and touches nothing', async () => {
    await using day = await beginDay()
    const now = day.clock.now()
    day.sandbox.seed({ count: 50, from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1 })
    day.sandbox.seed({ count: 7, from: now - 90 * hourMs, to: now - 80 * hourMs, attempts: 30 })
    await day.start({ RECONCILER_RETRY_ENABLED: 'false' })
    await day.tick(2)

    expect(day.log.find(({ event }) => event === 'daemon_started')?.['retries']).toBe('observe only')
    // The second full sweep comes by the schedule, and reports nothing new.
    expect(day.log.filter(({ event }) => event === 'full_sweep_completed')).toHaveLength(1)
    expect(await day.metric('failed_webhooks', { decision: 'blocked' })).toBe(50)
    expect(await day.metric('failed_webhooks', { decision: 'exhausted' })).toBe(7)
    expect(await day.metric('failed_webhooks')).toBe(57)
    expect(await day.metric('oldest_failed_event_timestamp_seconds')).toBeGreaterThan(0)
    expect(await day.metric('retries_total')).toBe(0)
    expect(day.sandbox.stats.requests.retry).toEqual({})
  })
})
