// Retries against the sandbox: what is refused, what a record shows of a failure, and readings that the daemon takes in its stride.
// That a retry arrives once, and that the platform retries by itself, is what test/contract stands on.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { invalidStatusCode } from '../../src/platform/wire.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { client, errorOf } from './client.ts'
import { startPlatform } from '../support/platform.ts'

test.each([
  ['successful', 'Successful', 400],
  ['processing', 'Processing', 409],
  ['successful', 'Successful', 422],
  ['successful', 'Successful', 200],
])(
  'a retry of a %s record is refused with the code of the specification (%s, %d)',
  async (status, found, errorStatus) => {
    await using sandbox = await startPlatform({ errorStatus: { invalidStatus: errorStatus } })
    const platform = await client(sandbox)
    const id = sandbox.addWebhook({ status })
    const answer = await platform.patch(id)
    expect(answer.status).toBe(errorStatus)
    const error = await errorOf(answer)
    expect(error).toMatchObject({ code: invalidStatusCode, messageParameters: ['Failed', found] })
    expect(error.message).toMatch(new RegExp(`Failed.*${found}`))
    expect(sandbox.acceptedRetries(id)).toBe(0)
    expect(sandbox.receiver.counts().received).toBe(0)
    expect(sandbox.stats.retries).toMatchObject({ accepted: 0, invalidStatus: 1 })
  },
)

test('a record that does not exist is not found; an id that is none is refused', async () => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  expect((await platform.patch('00000000-0000-4000-8000-000000000000')).status).toBe(404)
  expect((await platform.patch('1')).status).toBe(400)
  expect((await platform.patch('..%2F..%2Fadmin')).status).toBe(400)
})

test.each([
  ['nothing', ''],
  ['no JSON', '{'],
  ['an empty object', {}],
  ['another workflow', { workflow: { code: 'cancel' }, data: {}, connect: {}, metadata: {} }],
  ['no metadata', { workflow: { code: 'retry' }, data: {}, connect: {} }],
])('a body of %s is refused and changes nothing', async (_, body) => {
  await using sandbox = await startPlatform()
  const id = sandbox.addWebhook()
  const platform = await client(sandbox)
  expect((await platform.patch(id, body)).status).toBe(400)
  expect(sandbox.record(id)?.status).toBe('failed')
})

test('when the receiver is down, resets or answers badly, the record says how', async () => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  const ids = sandbox.seed({ count: 4, from: 0, to: 1000, attempts: 1 })
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
  sandbox.receiver.fail({ status: 302, headers: { location: '/elsewhere' } })
  expect(await retry(2)).toMatchObject({ status: 'failed', responseStatusCode: 302 })
  sandbox.receiver.heal()
  expect(await retry(0)).toMatchObject({ status: 'successful', numberOfAttempts: 3 })
  expect(sandbox.receiver.counts()).toMatchObject({ received: 4, webhooks: 1 })
})

test('async: the answer says processing, the delivery comes after its delay, and idle waits for it', async () => {
  const clock = createVirtualClock(systemClock.now())
  await using sandbox = await startPlatform({ clock, delivery: { mode: 'async', delayMs: 30_000 } })
  const id = sandbox.addWebhook({ attempts: 1, lastAttempt: clock.now() - 1000 })
  const before = sandbox.record(id)
  const platform = await client(sandbox, clock.now())

  const answer = await platform.retry(id)
  expect(answer).toEqual({ ...before, status: 'processing' })
  expect((await errorOf(await platform.patch(id))).messageParameters).toEqual(['Failed', 'Processing'])
  let idle = false
  const waiting = sandbox.idle().then(() => {
    idle = true
  })
  await clock.advance(29_999)
  expect(idle).toBe(false)
  expect(sandbox.receiver.counts().received).toBe(0)
  await clock.advance(1)
  await waiting
  expect(sandbox.record(id)).toMatchObject({ status: 'successful', numberOfAttempts: 2 })
  expect(sandbox.stats.deliveries).toEqual({ succeeded: 1, failed: 0 })
})

test('a record can stay failed until its retry is delivered: then it can be taken twice', async () => {
  const clock = createVirtualClock(systemClock.now())
  const delivery = { mode: 'async', delayMs: 1000, meanwhile: 'failed' } as const
  await using sandbox = await startPlatform({ clock, delivery })
  const id = sandbox.addWebhook({ attempts: 1, lastAttempt: clock.now() - 60_000 })
  const before = sandbox.record(id)
  const platform = await client(sandbox, clock.now())
  expect(await platform.retry(id)).toEqual(before)
  expect((await platform.patch(id)).status).toBe(200)
  await clock.advance(1000)
  await sandbox.idle()
  expect(sandbox.record(id)).toMatchObject({ status: 'successful', numberOfAttempts: 3 })
  expect(sandbox.receiver.deliveries(id)).toBe(2)
  expect(sandbox.retriedMoreThanOnce()).toEqual([id])
})

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

test('the retry of a record is accepted in the status that is played', async () => {
  await using sandbox = await startPlatform({ acceptedStatus: 202 })
  const answer = await (await client(sandbox)).patch(sandbox.addWebhook())
  expect(answer.status).toBe(202)
  expect(Object.keys((await answer.json()) as object)).toEqual(['workflow', 'data', 'connect', 'metadata'])
})
