// Starting, ending and resetting: nothing is left behind.
import { Agent, request } from 'node:http'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { client, token } from './client.ts'
import { startPlatform } from '../support/platform.ts'

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
  for (const url of [sandbox.baseUrl, sandbox.receiverHealthUrl]) await expect(fetch(url)).rejects.toThrow()
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
  const hanging = Promise.allSettled([platform.get(), platform.get()])
  await expect.poll(() => clock.sleepers()).toBeGreaterThanOrEqual(4)
  await sandbox.close()
  expect((await hanging).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await expect.poll(() => clock.sleepers()).toBe(0)
})

test('a taken port is reported, and what was started before ends', async () => {
  await using other = await startPlatform()
  const port = Number(new URL(other.baseUrl).port)
  await expect(startPlatform({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await expect(startPlatform({ receiverPort: port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
})
