// Starting, ending and resetting: nothing is left behind.
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { client, token } from './client.ts'
import { startPlatform } from '../support/platform.ts'

/** True when a server listens at this origin. */
async function answers(origin: string): Promise<boolean> {
  return fetch(origin).then(
    () => true,
    () => false,
  )
}

test('close ends kept-alive connections at once, and every port', async () => {
  const sandbox = await startPlatform()
  const agent = new Agent({ keepAlive: true })
  const headers = { authorization: `Bearer ${await token(sandbox)}` }
  const socketClosed = Promise.withResolvers<unknown>()
  await new Promise((resolve, reject) => {
    const outgoing = request(`${sandbox.baseUrl}/webhooks`, { agent, headers }, (answer) => {
      answer.resume().on('end', resolve)
    })
    outgoing.on('socket', (socket) => socket.on('close', socketClosed.resolve))
    outgoing.on('error', reject).end()
  })
  await sandbox.close()
  // The server would keep it for a minute, longer than this test may take.
  await socketClosed.promise
  agent.destroy()
  const origins = [sandbox.baseUrl, sandbox.authUrl, sandbox.receiverHealthUrl]
  expect(await Promise.all(origins.map(answers))).toEqual([false, false, false])
})

test('close in the middle of everything: hanging calls, delayed deliveries, traffic and latency all end', async () => {
  const clock = createVirtualClock(systemClock.now())
  const sandbox = await startPlatform({
    clock,
    delivery: { mode: 'async', delayMs: 1e9 },
    automaticRetries: { delaysMs: [1e9], status: 'failed' },
  })
  const platform = await client(sandbox, clock.now())
  await platform.retry(sandbox.addWebhook())
  sandbox.receiver.down()
  sandbox.emit()
  sandbox.startTraffic({ perSecond: 1 })
  sandbox.faults.set(
    { operation: 'list', fault: { kind: 'hang' }, count: 1 },
    { operation: 'list', fault: { kind: 'latency', ms: 1e9 } },
  )
  const hanging = [platform.get(), platform.get()].map((answer) =>
    answer.then(
      () => 'answered',
      () => 'ended',
    ),
  )
  await expect.poll(() => clock.sleepers()).toBeGreaterThanOrEqual(4)
  await sandbox.close()
  expect(await Promise.all(hanging)).toEqual(['ended', 'ended'])
  await expect.poll(() => clock.sleepers()).toBe(0)
})

test('a taken port is reported, and what was started before ends', async () => {
  const other = createServer()
  const port = await new Promise<number>((resolve) => {
    other.listen(0, '127.0.0.1', () => {
      resolve((other.address() as { port: number }).port)
    })
  })
  await expect(startPlatform({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await expect(startPlatform({ receiverPort: port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await new Promise((resolve) => other.close(resolve))
})

test('public origin: the issuer is what clients see, not where it listens', async () => {
  await using sandbox = await startPlatform({ publicOrigin: 'http://sandbox:8090/', pathPrefix: 'v1' })
  expect(sandbox.baseUrl).toBe('http://sandbox:8090/v1')
  expect(sandbox.issuerUrl).toBe('http://sandbox:8090/auth/realms/demo')
})

test('the log of requests says what was asked, and no secret', async () => {
  await using sandbox = await startPlatform()
  const platform = await client(sandbox)
  await platform.get('data.webhook.status=failed')
  expect(sandbox.requestLog().map(({ operation, target, status }) => [operation, target, status])).toEqual([
    ['token', '/auth/realms/demo/protocol/openid-connect/token', 200],
    ['list', '/webhooks?data.webhook.status=failed', 200],
  ])
})
