// Notifications: one POST when somebody is needed, one when all is well again, and nothing in between.
import { expect, test } from 'vitest'
import type { Reply, RunningDaemon } from '../support/daemon.ts'
import { startDaemon, withReceiver } from '../support/daemon.ts'

const secondMs = 1000
const posted = ({ requests }: RunningDaemon): unknown[] =>
  requests.filter(({ url }) => url.hostname === 'hooks.example').map(({ body }) => JSON.parse(body ?? '') as unknown)

/** A daemon whose receiver is up or down as the test says, and whose chat answers as it says. */
async function startNotified(answer: () => Reply | Promise<Reply>, env: Record<string, string> = {}) {
  let isDown = false
  const scene = startDaemon({
    env: { ...withReceiver, RECONCILER_NOTIFY_URL: 'https://hooks.example/T0/CANARY', ...env },
    instead: ({ url }) => {
      if (url.hostname === 'receiver.example') return { status: isDown ? 503 : 200 }
      return url.hostname === 'hooks.example' ? answer() : undefined
    },
  })
  await scene.clock.advance(30 * secondMs)
  return {
    scene,
    async receiver(state: 'up' | 'down', seconds: number) {
      isDown = state === 'down'
      await scene.clock.advance(seconds * secondMs)
    },
  }
}

test('trouble that lasts a minute, and its end; neither a flap nor a good start is sent', async () => {
  const { receiver, scene } = await startNotified(() => ({}), {
    RECONCILER_SERVER_PAGE_URL: 'https://reconciler.example/',
    RECONCILER_INSTANCE_NAME: 'blue',
  })
  await receiver('down', 45)
  await receiver('up', 600)
  expect(posted(scene)).toEqual([])
  await receiver('down', 600)
  const headline =
    'The receiver is down: receiver.healthUrl does not return 2xx. Nothing is missing of events up to 11:59:00 UTC; newer failures are not known yet.'
  const advice = 'Bring the receiver up; retries resume automatically.'
  expect(posted(scene)).toEqual([
    {
      text: `blue: ${headline}\n${advice}\nhttps://reconciler.example/`,
      instance: 'blue',
      level: 'trouble',
      headline,
      advice,
      missing: 0,
      recoveredLastDay: 0,
      at: expect.any(String) as string,
      link: 'https://reconciler.example/',
    },
  ])
  await receiver('up', 600)
  expect(posted(scene)).toMatchObject([{ level: 'trouble' }, { level: 'well', headline: 'Nothing is missing.' }])
  expect(await scene.metric('notifications_total', { result: 'sent' })).toBe(2)
  expect(JSON.stringify(scene.lines)).not.toContain('CANARY')
  await scene.end()
})

test('a redirect is a log line and a counter, and is tried again a minute later while the level lasts', async () => {
  let answered = 0
  const { receiver, scene } = await startNotified(() => ((answered += 1) === 1 ? { status: 302 } : {}))
  await receiver('down', 100)
  const failed = scene.lines.filter(({ event }) => event === 'notification_failed')
  expect(failed).toMatchObject([{ level: 'warn', fields: { level: 'trouble', detail: 'HTTP 302' } }])
  expect(await scene.metric('notifications_total', { result: 'failed' })).toBe(1)
  expect(posted(scene)).toHaveLength(1)
  await receiver('down', 600)
  expect(posted(scene)).toHaveLength(2)
  await scene.end()
})

test('one that failed is not sent once the trouble is over', async () => {
  const { receiver, scene } = await startNotified(() => ({ status: 500 }))
  await receiver('down', 100)
  await receiver('up', 600)
  expect(posted(scene)).toHaveLength(1)
  await scene.end()
})

test('without an address nothing is posted', async () => {
  await using scene = startDaemon({
    env: withReceiver,
    instead: ({ url }) => (url.hostname === 'receiver.example' ? { status: 503 } : undefined),
  })
  await scene.clock.advance(300 * secondMs)
  expect(scene.requests.filter(({ method, url }) => method === 'POST' && !url.pathname.endsWith('/token'))).toEqual([])
})
