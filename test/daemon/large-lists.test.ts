// A platform that limits the rate, in virtual time: what it allows is used, and new failures are seen however long the backlog is.
import { expect, test } from 'vitest'
import type { ReadingsInput } from '../../sandbox/options.ts'
import { beginDay, type RunningDaemon } from '../support/daemon.ts'

type Limits = NonNullable<ReadingsInput['limits']>

const [minuteMs, hourMs] = [60_000, 3_600_000]
const env = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '20' }

const failedSweeps = ({ facts }: RunningDaemon): number =>
  facts.filter((fact) => fact.type === 'sweep' && fact.report.result === 'failed').length

test.each<[string, Limits]>([
  ['429 without Retry-After', [{ kind: 'bucket', perSecond: 2, burst: 10, retryAfter: 'absent' }]],
  ['503 with Retry-After', [{ kind: 'bucket', perSecond: 2, burst: 20, status: 503 }]],
])('two calls a second, by %s: 1,500 are recovered at that rate, and no sweep fails', async (_, limits) => {
  await using day = await beginDay({ limits, delivery: { mode: 'async', delayMs: 200 } })
  const { sandbox } = day
  const now = day.clock.now()
  sandbox.seed({ count: 1500, from: now - 3 * hourMs, to: now - hourMs, attempts: 1, subscriptions: 3 })
  const daemon = await day.start(env)
  const before = sandbox.counts().successful
  await daemon.goOn(20, 30_000)
  expect((sandbox.counts().successful - before) / 1200).toBeGreaterThan(0.6)
  expect(failedSweeps(daemon)).toBe(0)
  expect(daemon.ops().status().rate.callsPerSecond).toBeLessThan(3)
})

test('120 calls a minute from second 12 on, 4,000 failed: a new failure is retried within five minutes', async () => {
  await using day = await beginDay({ limits: [{ kind: 'quota', perMinute: 120, fromSecond: 12 }] })
  const { clock, sandbox } = day
  const now = clock.now()
  sandbox.seed({ count: 4000, from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1, subscriptions: 1 })
  const daemon = await day.start(env)
  for (let round = 0; round < 3; round += 1) {
    const eventInstant = clock.now() - 2 * minuteMs
    const id = sandbox.addWebhook({ eventInstant, status: 'failed', attempts: 1, lastAttempt: eventInstant })
    await daemon.goOn(10, 30_000)
    expect(sandbox.acceptedRetries(id)).toBe(1)
  }
  expect(failedSweeps(daemon)).toBe(0)
})

test('lists whose every answer is too large, whatever is asked for: some 10 calls a sweep, and ten minutes later all is recovered', async () => {
  await using day = await beginDay()
  const { clock, sandbox } = day
  const now = clock.now()
  sandbox.seed({ count: 20, from: now - 100 * hourMs, to: now - 2 * hourMs, attempts: 1 })
  sandbox.faults.set({ operation: 'list', fault: { kind: 'huge-body', mebibytes: 9 } })
  const daemon = await day.start(env)
  await daemon.goOn(20, 30_000)
  const sweeps = failedSweeps(daemon)
  expect(sweeps).toBeGreaterThan(5)
  expect(daemon.lists()).toBeLessThan(12 * sweeps)
  sandbox.faults.set()
  await daemon.goOn(20, 30_000)
  expect(sandbox.counts()).toMatchObject({ failed: 0, successful: 20 })
})
