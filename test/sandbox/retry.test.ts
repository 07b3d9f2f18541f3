// Retries against the sandbox: what is refused, what a record shows of a failure, and readings that the daemon takes in its stride.
// That a retry arrives once, and that the platform retries by itself, is what test/daemon/readings.test.ts stands on.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { client, errorOf } from './client.ts'
import { startPlatform } from '../support/platform.ts'

test.each([
  ['successful', 'Successful', 400],
  ['processing', 'Processing', 409],
  ['successful', 'Successful', 200],
])(
  'a retry of a %s record is refused with the code of the specification (%s, %d)',
  async (status, found, errorStatus) => {
    await using sandbox = await startPlatform({ errorStatus })
    const platform = await client(sandbox)
    const id = sandbox.addWebhook({ status })
    const answer = await platform.patch(id)
    expect(answer.status).toBe(errorStatus)
    expect(await errorOf(answer)).toMatchObject({
      code: invalidStatusCode,
      message: expect.stringMatching(new RegExp(`Failed.*${found}`)) as string,
      messageParameters: ['Failed', found],
    })
    expect(sandbox.receiver.counts().received).toBe(0)
    expect(sandbox.stats.retries).toMatchObject({ accepted: 0, invalidStatus: 1 })
  },
)

const retryBody = { workflow: { code: 'retry' }, data: {}, connect: {} }

test.each([
  ['a body of nothing', '', undefined, 400],
  ['a body that is no JSON', '{', undefined, 400],
  ['another workflow', { ...retryBody, workflow: { code: 'cancel' }, metadata: {} }, undefined, 400],
  ['no metadata', retryBody, undefined, 400],
  ['an id that is none', undefined, '..%2F..%2Fadmin', 400],
  ['a record that does not exist', undefined, '00000000-0000-4000-8000-000000000000', 404],
])('%s is refused and changes nothing', async (_, body, id, status) => {
  await using sandbox = await startPlatform()
  const own = sandbox.addWebhook()
  const platform = await client(sandbox)
  expect((await platform.patch(id ?? own, body)).status).toBe(status)
  expect(sandbox.record(own)?.status).toBe('failed')
})

test('when the receiver is down, resets or answers badly, the record says how', async () => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  const ids = sandbox.seed({ count: 2, from: 0, to: 1000, attempts: 1 })
  const retry = (at: number): ReturnType<typeof platform.retry> => platform.retry(ids[at] ?? '')

  sandbox.receiver.down()
  expect(await retry(0)).toMatchObject({
    status: 'failed',
    numberOfAttempts: 2,
    responseStatusCode: null,
    responseHeaders: null,
    responsePayload: null,
    lastAttemptErrorMessage: 'Connection reset',
  })
  sandbox.receiver.up()
  sandbox.receiver.fail({ status: 503, body: 'later', headers: { 'x-own': 'a' } })
  const refused = await retry(1)
  expect(refused).toMatchObject({
    status: 'failed',
    responseStatusCode: 503,
    responsePayload: 'later',
    lastAttemptErrorMessage: null,
  })
  expect(refused.responseHeaders?.['x-own']).toEqual(['a'])
  sandbox.receiver.heal()
  expect(await retry(0)).toMatchObject({ status: 'successful', numberOfAttempts: 3 })
  expect(sandbox.receiver.counts()).toMatchObject({ received: 3, webhooks: 1 })
})

test.each([
  ['processing', 409, 1],
  ['failed', 202, 2],
  ['successful', 409, 1],
] as const)(
  'async: the record is %s until its delivery comes after its delay, another retry is answered %d, and idle waits',
  async (meanwhile, another, deliveries) => {
    const clock = createVirtualClock(systemClock.now())
    const delivery = { mode: 'async', delayMs: 30_000, meanwhile } as const
    await using sandbox = await startPlatform({ clock, delivery, acceptedStatus: 202, errorStatus: 409 })
    const id = sandbox.addWebhook({ attempts: 1, lastAttempt: clock.now() - 1000 })
    const before = sandbox.record(id)
    const platform = await client(sandbox, clock.now())
    expect(await platform.retry(id)).toEqual({ ...before, status: meanwhile })
    expect((await platform.patch(id)).status).toBe(another)
    let idle = false
    const waiting = sandbox.idle().then(() => {
      idle = true
    })
    await clock.advance(29_999)
    expect([idle, sandbox.receiver.counts().received]).toEqual([false, 0])
    await clock.advance(1)
    await waiting
    expect(sandbox.record(id)).toMatchObject({ status: 'successful', numberOfAttempts: 1 + deliveries })
    expect(sandbox.receiver.deliveries(id)).toBe(deliveries)
  },
)

test.each([
  ['attempts', 'end', 1],
  ['attempts', 'start', 1],
  ['retries', 'end', 0],
  ['retries', 'start', 0],
] as const)('counting %s, at the %s: a first delivery makes it %d', async (counting, countedAt, first) => {
  await using sandbox = await startPlatform({ counting, countedAt })
  sandbox.receiver.down()
  const id = sandbox.emit()
  const record = sandbox.record(id)
  expect(record).toMatchObject({ status: 'failed', numberOfAttempts: first })
  expect(record?.lastAttemptDateTime).not.toBeNull()
  expect((await (await client(sandbox)).retry(id)).numberOfAttempts).toBe(first + 1)
})

test('its own retries leave alone what a client has retried meanwhile', async () => {
  const clock = createVirtualClock(systemClock.now())
  const automaticRetries = { delaysMs: [1000], status: 'failed' } as const
  await using sandbox = await startPlatform({ clock, automaticRetries })
  sandbox.receiver.fail({ status: 500, count: 1 })
  const id = sandbox.emit()
  await (await client(sandbox, clock.now())).retry(id)
  await clock.advance(1000)
  expect(clock.sleepers()).toBe(0)
  expect(sandbox.receiver.counts()).toMatchObject({ received: 2, repeated: 0 })
})
