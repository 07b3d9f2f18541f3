// An incident of the whole daemon, in its log and its status: nothing is retried while the receiver is dead.
import { expect, test } from 'vitest'
import { startDaemon, withControl, withReceiver } from '../support/daemon.ts'
import { wirePage, wireWebhook } from '../support/webhooks.ts'

const minuteMs = 60_000

test('a receiver that is dead for ten minutes: the log and /status say from when to when, how many, and why', async () => {
  const event = new Date(Date.UTC(2026, 0, 15, 10)).toISOString().slice(0, 19)
  let isDown = true
  let status: 'failed' | 'successful' = 'successful'
  await using scene = startDaemon({
    env: { ...withControl, ...withReceiver },
    instead: ({ method, url }) => {
      if (url.hostname === 'receiver.example') return { status: isDown ? 503 : 200 }
      if (!url.pathname.includes('/webhooks')) return undefined
      if (method === 'PATCH') status = 'successful'
      const record = wireWebhook({ eventDateTime: event, lastAttemptDateTime: event, status })
      if (method === 'PATCH') return { body: { data: { webhook: record } } }
      const wanted = url.searchParams.get('data.webhook.status')
      return { body: wirePage(wanted === null || wanted === status ? [record] : []) }
    },
  })
  const patches = (): number => scene.requests.filter(({ method }) => method === 'PATCH').length
  await scene.goOn(2)
  expect(scene.ops().status().incident).toBeNull()
  status = 'failed'
  const from = scene.clock.now()
  await scene.goOn(10)
  const sums = {
    begunBefore: false,
    peak: 1,
    exhausted: 0,
    expired: 0,
    failedAgain: 0,
    backingOff: 0,
  }
  expect(scene.ops().status().incident).toMatchObject({
    ...sums,
    since: new Date(from),
    endedAt: null,
    recovered: 0,
    gates: [{ gate: 'receiver-down', seconds: 600 }],
    causes: [],
  })
  expect(scene.ops().status()).toMatchObject({
    failed: { blocked: 1 },
    receiver: { up: false },
    holding: ['receiver-down'],
  })
  expect([patches(), await scene.metric('receiver_up')]).toEqual([0, 0])
  isDown = false
  await scene.clock.advance(5000)
  expect([patches(), await scene.metric('receiver_up')]).toEqual([1, 1])
  const asked = scene.requests.filter(({ url }) => url.hostname === 'receiver.example')
  expect(asked.flatMap(({ headers }) => Object.keys(headers))).not.toContain('authorization')
  await scene.goOn(10)
  const { incident } = scene.ops().status()
  expect(incident).toMatchObject({ ...sums, recovered: 1, causes: [] })
  const to = incident?.endedAt?.getTime() ?? NaN
  expect((to - from) / minuteMs).toBeCloseTo(10, 0)
  const lines = scene.lines.filter((line) => line.event.startsWith('incident'))
  expect(lines).toMatchObject([
    { event: 'incident_started', level: 'info', fields: { begunBefore: false, peak: 1 } },
    { event: 'incident_ended', level: 'info', fields: { ...incident } },
  ])
})

test('an incident from the start on: the receiver, of which nothing was known yet, was not dead', async () => {
  const event = '2026-01-15T10:00:00'
  const record = wireWebhook({ eventDateTime: event, lastAttemptDateTime: event })
  await using scene = startDaemon({
    env: withReceiver,
    instead: ({ method, url }) => {
      if (url.hostname === 'receiver.example') return { status: 200 }
      if (method === 'PATCH') return { body: { data: { webhook: record } } }
      return url.pathname.includes('/webhooks') ? { body: wirePage([record]) } : undefined
    },
  })
  await scene.goOn(3)
  expect(scene.ops().status().incident).toMatchObject({ begunBefore: true, gates: [] })
})
