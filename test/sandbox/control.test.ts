// The control API: everything that a test in another process needs, and clear refusals.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { client, start } from './client.ts'

async function ask(
  sandbox: Sandbox,
  path: string,
  body?: unknown,
  method = body === undefined ? 'GET' : 'POST',
): Promise<unknown> {
  const answer = await fetch(`${sandbox.controlUrl}${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { httpStatus: answer.status, ...((await answer.json()) as object) }
}

test('an incident, played from outside', async () => {
  await using sandbox = await start()
  expect(
    await ask(sandbox, '/seed', { count: 10, from: '2025-03-04T00:00:00Z', to: '2025-03-05T00:00:00Z' }),
  ).toMatchObject({ count: 10 })
  const { id } = (await ask(sandbox, '/records', { attempts: 4, status: 'failed' })) as { id: string }
  expect(await ask(sandbox, '/state')).toMatchObject({ counts: { failed: 11, processing: 0, successful: 0 } })

  await ask(sandbox, '/receiver', { state: 'down' })
  expect(await ask(sandbox, '/state')).toMatchObject({ receiver: { isUp: false, received: 0 } })
  const platform = await client(sandbox)
  await platform.retry(id)
  expect(await ask(sandbox, `/records/${id}`)).toMatchObject({
    httpStatus: 200,
    numberOfAttempts: 5,
    acceptedRetries: 1,
    deliveries: [],
  })
  await ask(sandbox, '/receiver', { state: 'up', fail: [{ status: 503, webhookIds: [id] }] })
  await platform.retry(id)
  await ask(sandbox, '/receiver', { heal: true })
  await platform.retry(id)
  await sandbox.idle()
  expect(await ask(sandbox, '/state')).toMatchObject({
    counts: { failed: 10, successful: 1 },
    stats: { retries: { accepted: 3 }, deliveries: { started: 3, succeeded: 1, failed: 2 } },
  })
  const retried = { operation: 'retry', status: 200 }
  const log = await fetch(`${sandbox.controlUrl}/log`)
  expect(await log.json()).toMatchObject([{ operation: 'token' }, retried, retried, retried])
})

test('faults, readings and tokens can be changed', async () => {
  await using sandbox = await start()
  const platform = await client(sandbox)
  await ask(sandbox, '/faults', [{ operation: 'list', count: 1, fault: { kind: 'status', status: 503 } }])
  expect((await platform.get()).status).toBe(503)
  expect(await ask(sandbox, '/state')).toMatchObject({ faults: { hits: { status: 1 } } })
  await ask(sandbox, '/faults', undefined, 'DELETE')
  expect(sandbox.faults.rules()).toEqual([])

  await ask(sandbox, '/readings', { order: 'shuffled', totals: 'absent' })
  expect(await ask(sandbox, '/state')).toMatchObject({ readings: { order: 'shuffled', totals: 'absent' } })
  await ask(sandbox, '/readings', { skewMs: 86_400_000 })
  const date = Date.parse((await platform.get()).headers.get('date') ?? '')
  expect(date - Date.now()).toBeGreaterThan(86_000_000)
  await ask(sandbox, '/readings', { dateHeader: false })
  expect(sandbox.readings).toMatchObject({ dateHeader: false, skewMs: 86_400_000 })

  await ask(sandbox, '/tokens', { revoke: true })
  expect((await platform.get()).status).toBe(401)
  await ask(sandbox, '/reset', {})
  expect(await ask(sandbox, '/state')).toMatchObject({ counts: { failed: 0, successful: 0 } })
  expect(sandbox.readings).toMatchObject({ order: 'event-asc', dateHeader: true })
})

test('events can happen, one or many', async () => {
  await using sandbox = await start()
  const { id } = (await ask(sandbox, '/events', { eventType: 'account-activated' })) as { id: string }
  await sandbox.idle()
  expect(sandbox.record(id)).toMatchObject({ status: 'successful', numberOfAttempts: 1 })
  await ask(sandbox, '/events', { perSecond: 500 })
  await expect.poll(() => sandbox.counts().successful).toBeGreaterThan(10)
  await ask(sandbox, '/events', { perSecond: 0 })
  await sandbox.idle()
  expect(sandbox.counts().processing).toBe(0)
})

test('events that are due faster than they can be made leave room for requests', async () => {
  let ms = 0
  const clock = { ...systemClock, monotonic: () => (ms += 5) }
  await using sandbox = await start({ clock })
  await ask(sandbox, '/events', { perSecond: 500 })
  expect(await ask(sandbox, '/events', { perSecond: 0 })).toMatchObject({ httpStatus: 200 })
})

test.each([
  ['/seed', { count: 1 }, 400, /from/],
  ['/faults', { operation: 'lst', fault: { kind: 'cut' } }, 400, /operation/],
  ['/readings', { oder: 'id' }, 400, /oder/],
  ['/receiver', { state: 'sideways' }, 400, /state/],
  ['/nothing', {}, 404, /no such/],
])('POST %s with %o is refused with %d', async (path, body, status, message) => {
  await using sandbox = await start()
  const answer = (await ask(sandbox, path, body)) as { httpStatus: number; error: string }
  expect(answer.httpStatus).toBe(status)
  expect(answer.error).toMatch(message)
})

test('what a web page could send unasked is refused', async () => {
  await using sandbox = await start()
  const answer = await fetch(`${sandbox.controlUrl}/receiver`, { method: 'POST', body: '{"state":"down"}' })
  expect(answer.status).toBe(415)
  expect(sandbox.receiver.isUp).toBe(true)
  expect((await fetch(`${sandbox.controlUrl}/records/00000000-0000-4000-8000-000000000000`)).status).toBe(404)
})
