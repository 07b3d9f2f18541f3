// What headers of answers say of time: a Retry-After of the platform, and the Date of a cache. The whole daemon on a virtual clock.
import { expect, test } from 'vitest'
import { emptyPage, fullSweeps, metricOf, startScene, type Reply, type Scene } from '../support/daemon-scene.ts'
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
  const scene: Scene = startScene({
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
  for (let seconds = 0; seconds < 110; seconds += 10) {
    scene.tick()
    await scene.clock.advance(10_000)
  }
  expect(scene.requests.length).toBe(before)
  await scene.clock.advance(20_000)
  scene.tick()
  await scene.clock.settle()
  expect(scene.requests.length).toBeGreaterThan(before)
  await scene.end()
})

test('a Date beyond the year 9999 is none: HTTP writes four digits', async () => {
  const headers = { date: 'Sat, 13 Sep 275760 00:00:00 GMT' }
  const scene = startScene({
    env: { RECONCILER_WINDOW_SETTLE: '0s', RECONCILER_PLATFORM_TIME_ZONE: 'Europe/Berlin' },
    instead: ({ method }) => (method === 'GET' ? { headers, body: emptyPage } : undefined),
  })
  for (let ticks = 0; ticks < 5; ticks += 1) {
    scene.tick()
    await scene.clock.advance(60_000)
  }
  await scene.end()
  expect(fullSweeps(scene)).toBe(5)
})

test('the Date of an answer with an Age says nothing of the platform’s time', async () => {
  let isCached = false
  const scene: Scene = startScene({
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
  const before = scene.listedAt.length
  for (let ticks = 0; ticks < 5; ticks += 1) {
    scene.tick()
    await scene.clock.advance(60_000)
  }
  expect(scene.listedAt.length).toBeGreaterThan(before + 3)
  expect(Math.abs(await metricOf(scene, 'clock_skew_seconds\\{origin="api"\\}'))).toBeLessThan(2)
  await scene.end()
})
