// The control API: everything that a test in another process needs, and clear refusals.
import { expect, test } from 'vitest'
import { startControl, type ControlApi } from '../../sandbox/control.ts'
import { client } from './client.ts'
import { startPlatform } from '../support/platform.ts'

async function ask(control: ControlApi, path: string, body?: unknown): Promise<unknown> {
  const answer = await fetch(`${control.url}${path}`, {
    ...(body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { httpStatus: answer.status, ...((await answer.json()) as object) }
}

test('an incident, played from outside', async () => {
  await using sandbox = await startPlatform()
  await using control = await startControl(sandbox, 0)
  expect(
    await ask(control, '/seed', { count: 10, from: '2025-03-04T00:00:00Z', to: '2025-03-05T00:00:00Z' }),
  ).toMatchObject({ count: 10 })
  const id = sandbox.addWebhook({ attempts: 4 })
  expect(await ask(control, '/state')).toMatchObject({ counts: { failed: 11, processing: 0, successful: 0 } })

  await ask(control, '/receiver', { state: 'down' })
  expect(await ask(control, '/state')).toMatchObject({ receiver: { isUp: false, received: 0 } })
  const platform = await client(sandbox)
  await platform.retry(id)
  await ask(control, '/receiver', { state: 'up', fail: [{ status: 503, webhookIds: [id] }] })
  await platform.retry(id)
  await ask(control, '/receiver', { heal: true })
  await platform.retry(id)
  await sandbox.idle()
  expect(await ask(control, '/state')).toMatchObject({
    counts: { failed: 10, successful: 1 },
    stats: { retries: { accepted: 3 }, deliveries: { succeeded: 1, failed: 2 } },
  })
})

test('faults and readings can be changed', async () => {
  await using sandbox = await startPlatform()
  await using control = await startControl(sandbox, 0)
  const platform = await client(sandbox)
  await ask(control, '/faults', [{ operation: 'list', count: 1, fault: { kind: 'status', status: 503 } }])
  expect((await platform.get()).status).toBe(503)
  expect(await ask(control, '/state')).toMatchObject({ faults: { hits: { status: 1 } } })
  await ask(control, '/faults', [])
  expect(sandbox.faults.rules()).toEqual([])

  await ask(control, '/readings', { order: 'shuffled', totals: 'absent' })
  expect(await ask(control, '/state')).toMatchObject({ readings: { order: 'shuffled', totals: 'absent' } })
  await ask(control, '/readings', { skewMs: 86_400_000 })
  const date = Date.parse((await platform.get()).headers.get('date') ?? '')
  expect(date - Date.now()).toBeGreaterThan(86_000_000)
  await ask(control, '/readings', { dateHeader: false })
  expect((await platform.get()).headers.get('date')).toBeNull()
  expect(sandbox.readings).toMatchObject({ dateHeader: false, skewMs: 86_400_000 })
})

test.each([
  ['/seed', { count: 1 }, 400, /from/],
  ['/faults', { operation: 'lst', fault: { kind: 'cut' } }, 400, /operation/],
  ['/readings', { oder: 'id' }, 400, /oder/],
  ['/receiver', { state: 'sideways' }, 400, /state/],
  ['/nothing', {}, 404, /no such/],
])('POST %s with %o is refused with %d', async (path, body, status, message) => {
  await using sandbox = await startPlatform()
  await using control = await startControl(sandbox, 0)
  const answer = (await ask(control, path, body)) as { httpStatus: number; error: string }
  expect(answer.httpStatus).toBe(status)
  expect(answer.error).toMatch(message)
  // What a web page could send unasked.
  expect((await fetch(control.url + path, { method: 'POST', body: '{}' })).status).toBe(status === 404 ? 404 : 415)
})
