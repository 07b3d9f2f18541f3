// An incident of the whole daemon, in its log and its status: nothing is retried while the receiver is dead.
import { expect, test } from 'vitest'
import { TransportError, type HttpRequest } from '../../src/platform/http/http.ts'
import { beginDay, minuteMs, withControl, withReceiver, type Day, type Reply } from '../support/daemon.ts'

/** The health address of a receiver; the sandbox has the platform alone. */
const health =
  (status: () => number) =>
  ({ url }: HttpRequest): Reply | undefined =>
    url.hostname === 'receiver.example' ? { status: status() } : undefined

function fail({ clock, sandbox }: Day): void {
  const eventInstant = clock.now() - 120 * minuteMs
  sandbox.addWebhook({ eventInstant, attempts: 1, lastAttempt: eventInstant })
}

test('a receiver that is dead for ten minutes: the log and /status say from when to when, how many, and why', async () => {
  let isDown = true
  await using day = await beginDay()
  const scene = await day.start(
    { ...withControl, ...withReceiver },
    health(() => (isDown ? 503 : 200)),
  )
  const patches = (): number => scene.requests.filter(({ method }) => method === 'PATCH').length
  await scene.goOn(1)
  expect(scene.ops().status().incident).toBeNull()
  fail(day)
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
  await using day = await beginDay()
  fail(day)
  day.sandbox.receiver.down()
  const scene = await day.start(
    withReceiver,
    health(() => 200),
  )
  await scene.goOn(2)
  expect(scene.ops().status().incident).toMatchObject({ begunBefore: true, gates: [] })
})

test('a pause that the platform demands counts whole, though nothing happens meanwhile', async () => {
  await using day = await beginDay()
  fail(day)
  day.sandbox.receiver.down()
  let isPaused = false
  const reply = { status: 503, headers: { 'retry-after': '3600' } }
  const scene = await day.start({}, () => (isPaused ? reply : undefined))
  await scene.goOn(4, 20_000)
  isPaused = true
  await scene.goOn(1, 30 * minuteMs)
  expect(scene.ops().status().incident?.gates).toEqual([{ gate: 'throttled', seconds: 29 * 60 }])
})

test('a health URL whose certificate cannot be verified: the receiver itself may be up', async () => {
  await using day = await beginDay()
  const { goOn, lines, ops } = await day.start(
    withReceiver,
    health(() => {
      throw new TransportError('tls', 'CERT_HAS_EXPIRED')
    }),
  )
  fail(day)
  await goOn(1)
  expect(ops().status().summary).toMatchObject({
    headline: 'The receiver fails its health check: receiver.healthUrl does not return 2xx. 1 delivery is missing.',
    detail: expect.stringContaining('tls (CERT_HAS_EXPIRED)') as string,
    advice: expect.stringMatching(/^Its certificate has expired/) as string,
  })
  const advice = expect.stringMatching(/^its certificate has expired/) as string
  expect(lines.find(({ event }) => event === 'receiver_down')?.fields).toMatchObject({ advice })
})
