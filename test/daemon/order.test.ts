// `retry.orderPerEntity` where the window can't be listed whole: the whole daemon on a virtual clock.
import { expect, test } from 'vitest'
import { startScene, type Reply } from '../support/daemon-scene.ts'
import { idOf } from '../support/fake-platform.ts'

const rowAt = (number: number, eventDateTime: string): Record<string, unknown> => ({
  ...{ status: 'failed', numberOfAttempts: 1, responseStatusCode: 503, responsePayload: null, responseHeaders: null },
  ...{ lastAttemptErrorMessage: null, eventDateTime, lastAttemptDateTime: eventDateTime },
  ...{ id: idOf(number), eventId: idOf(number), subscriptionId: idOf(100) },
  requestPayload: {
    data: { account: { id: idOf(200) } },
    webhook: { type: 'account-activated', module: 'accounts' },
  },
})
const [older, younger] = ['2026-01-15T05:00:00', '2026-01-15T11:30:00']

test('a later event waits while a second of the window can not be listed', async () => {
  let isBroken = true
  let rows = [rowAt(1, older), rowAt(2, younger)]
  const retried: string[] = []

  function list({ searchParams }: URL): Reply {
    const [from, to] = ['From', 'To'].map((end) => searchParams.get(`data.webhook.eventDateTime${end}`))
    const isInside = (at: string): boolean => (from ?? '') <= at && at <= (to ?? '9999')
    if (isBroken && isInside(older) && searchParams.get('metadata.page.size') !== '1') return { status: 400 }
    const webhooks = rows.filter(({ eventDateTime }) => isInside(String(eventDateTime)))
    const page = { size: 100, number: 0, totalElements: webhooks.length, totalPages: 1 }
    return { body: { data: { webhooks }, metadata: { page } } }
  }

  function retry({ pathname }: URL): Reply {
    const id = pathname.split('/').at(-1) ?? ''
    retried.push(id)
    const row = rows.find((one) => one['id'] === id)
    rows = rows.filter((one) => one !== row)
    return { body: { data: { webhook: { ...row, status: 'successful', numberOfAttempts: 2 } } } }
  }

  const scene = startScene({
    env: { RECONCILER_RETRY_ORDER_PER_ENTITY: 'true', RECONCILER_WINDOW_LOOKBACK: '12h' },
    instead({ method, url }) {
      if (method === 'POST') return undefined
      return method === 'GET' ? list(url) : retry(url)
    },
  })
  await scene.clock.advance(600_000)
  expect(scene.facts).toContainEqual(expect.objectContaining({ type: 'slice-skipped' }))
  expect(retried).toEqual([])
  isBroken = false
  scene.tick()
  await scene.clock.advance(600_000)
  scene.tick()
  await scene.clock.advance(60_000)
  expect(retried).toEqual([idOf(1), idOf(2)])
  await scene.end()
})
