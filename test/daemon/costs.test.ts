// What a recovery costs in calls: retries, sweeps and checks of a whole outage. @see docs/architecture.md "Outcomes"
import { expect, test } from 'vitest'
import { beginDay, periodMs } from '../support/daemon.ts'

test.each<[string, hours: number, delayMs: number, perSecond: number, calls: number]>([
  ['over 61 s', 61 / 3600, 2000, 20, 1.09],
  ['over 61 s, at 2,000 calls a second', 61 / 3600, 2000, 2000, 1.09],
  ['over 88 hours', 88, 400, 20, 1.1],
])('a thousand records %s: few calls each', async (_, hours, delayMs, perSecond, calls) => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs } })
  day.seed(1000, [12 + hours, 12], { spread: 'even' })
  const daemon = await day.start({
    RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: String(perSecond),
    RECONCILER_RETRY_CONCURRENCY: '64',
  })
  for (let minute = 0; day.sandbox.counts().failed > 0 && minute < 10; minute += 1) await daemon.goOn(2, periodMs)
  expect(day.sandbox.counts()).toMatchObject({ successful: 1000 })
  expect(daemon.requests.length).toBeLessThan(1000 * calls)
})

test('each tick while nothing is missing: five calls', async () => {
  await using day = await beginDay()
  day.seed(20, [100, 1], { failed: 0 })
  const daemon = await day.start()
  const before = daemon.lists()
  await daemon.goOn(10, periodMs)
  expect(daemon.lists() - before).toBe(50)
})

test('to list 10,000 records: few calls', async () => {
  await using day = await beginDay()
  day.seed(10_000, [167, 1], { spread: 'even', attempts: 30 })
  const daemon = await day.start()
  expect(daemon.ops().status().missing).toBe(10_000)
  expect(daemon.lists()).toBeLessThan(115)
})

test.each([
  [400, 1],
  [2000, 3],
  [30_000, 7],
])('a lonely record, delivered in %i ms: %i checks', async (delayMs, checks) => {
  await using day = await beginDay({ delivery: { mode: 'async', delayMs } })
  day.seed(1, [12, 12])
  const daemon = await day.start()
  expect(daemon.requests.filter(({ method }) => method === 'PATCH')).toHaveLength(1)
  const ofChecks = daemon.requests.filter(
    ({ method, url }) => method === 'GET' && url.searchParams.has('data.webhook.eventId'),
  )
  expect(ofChecks).toHaveLength(checks)
})
