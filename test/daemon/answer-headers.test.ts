// What headers of answers say of time: a Retry-After of the platform, and the Date of a cache. The whole daemon on a virtual clock.
import { expect, test } from 'vitest'
import { emptyPage, fullSweeps, startDaemon, type Reply, type RunningDaemon } from '../support/daemon.ts'
import { idOf } from '../support/fake-platform.ts'

/** Of two subscriptions. */
const failed = [1, 2].map((number) => ({
  ...{ status: 'failed', numberOfAttempts: 1, responseStatusCode: 503, responsePayload: null, responseHeaders: null },
  ...{ lastAttemptErrorMessage: null, requestPayload: { webhook: { type: 'account-activated', module: 'accounts' } } },
  ...{ eventDateTime: '2026-01-15T11:30:00', lastAttemptDateTime: '2026-01-15T11:30:00' },
  ...{ id: idOf(number), eventId: idOf(number), subscriptionId: idOf(10 + number) },
}))
const listed: Reply = {
  body: { data: { webhooks: failed }, metadata: { page: { size: 100, number: 0, totalElements: 2, totalPages: 1 } } },
}
const waitFor = (seconds: number): Reply => ({ status: 429, headers: { 'retry-after': String(seconds) } })

test('a shorter Retry-After does not end a longer one', async () => {
  let sent = 0
  await using scene: RunningDaemon = startDaemon({
    instead({ method }) {
      if (method === 'GET') return listed
      if (method === 'POST') return undefined
      sent += 1
      return sent === 1 ? waitFor(120) : scene.clock.sleep(3000).then(() => waitFor(5))
    },
  })
  await scene.clock.advance(4000)
  expect(sent).toBe(2)
  const before = scene.requests.length
  await scene.goOn(11, 10_000)
  expect(scene.requests.length).toBe(before)
  await scene.clock.advance(20_000)
  scene.tick()
  await scene.clock.settle()
  expect(scene.requests.length).toBeGreaterThan(before)
})

test('a Date beyond the year 9999 is none: HTTP writes four digits', async () => {
  const headers = { date: 'Sat, 13 Sep 275760 00:00:00 GMT' }
  await using scene = startDaemon({
    env: { RECONCILER_WINDOW_SETTLE: '0s', RECONCILER_PLATFORM_TIME_ZONE: 'Europe/Berlin' },
    instead: ({ method }) => (method === 'GET' ? { headers, body: emptyPage } : undefined),
  })
  await scene.goOn(5)
  expect(fullSweeps(scene)).toBe(5)
})

test('the Date of an answer with an Age says nothing of the platform’s time', async () => {
  let isCached = false
  await using scene: RunningDaemon = startDaemon({
    instead({ method }) {
      const at = (ms: number): string => new Date(ms).toUTCString()
      if (method !== 'GET') return undefined
      const headers = isCached
        ? { date: at(scene.clock.now() - 3_600_000), age: '3600' }
        : { date: at(scene.clock.now()) }
      return { headers, body: emptyPage }
    },
  })
  await scene.clock.advance(60_000)
  isCached = true
  const before = scene.lists()
  await scene.goOn(5)
  expect(scene.lists()).toBeGreaterThan(before + 3)
  expect(Math.abs(await scene.metric('clock_skew_seconds', { origin: 'api' }))).toBeLessThan(2)
})
