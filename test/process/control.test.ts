// The operator's commands on a real daemon: pause and resume by token, the /status after them, and who is refused.
import { expect, test } from 'vitest'
import type { StatusDocument } from '../../src/ops/status-document.ts'
import { command, token } from '../support/control.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { startLocalDaemon, type LocalDaemon } from '../support/local-daemon.ts'
import { get, makeFolder } from '../support/process.ts'

const control = { RECONCILER_CONTROL_TOKEN: token }

const portOf = ({ url }: LocalDaemon): number => Number(new URL(url).port)

async function statusOf(daemon: LocalDaemon): Promise<StatusDocument> {
  return JSON.parse((await get(`${daemon.url}/status`)).body) as StatusDocument
}

test.concurrent('a pause holds all retries until it is resumed', async ({ expect }) => {
  const gate = createGate()
  await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('list')] })
  seedDue(sandbox, 20)
  await using daemon = await startLocalDaemon({ ...(await sandboxEnv(sandbox)), ...control })
  const port = portOf(daemon)
  await gate.arrived(1)
  const paused = JSON.parse((await command(port, '/-/pause')).body) as { since: string }
  gate.open()
  const blocked = async (): Promise<number> => (await daemon.metrics()).sum('failed_webhooks', { decision: 'blocked' })
  await expect.poll(blocked).toBe(20)

  expect(await statusOf(daemon)).toMatchObject({
    paused: { since: paused.since },
    holding: ['paused'],
    failed: { blocked: 20, due: 0 },
  })
  expect((await daemon.metrics()).sum('paused')).toBe(1)
  expect(sandbox.stats.requests.retry).toEqual({})

  expect(JSON.parse((await command(port, '/-/resume')).body)).toEqual({ paused: false, changed: true })
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: 20 })
  await expect.poll(() => statusOf(daemon)).toMatchObject({ paused: null, holding: [] })
  await expect.poll(async () => (await daemon.metrics()).sum('paused')).toBe(0)
  expect((await daemon.stop()).code).toBe(0)
})

test.concurrent('a restart forgets a pause', async ({ expect }) => {
  await using sandbox = await startPlatform()
  const env = { ...(await sandboxEnv(sandbox)), ...control }
  {
    await using daemon = await startLocalDaemon(env)
    await command(portOf(daemon), '/-/pause')
    expect((await daemon.stop()).code).toBe(0)
  }
  seedDue(sandbox, 1)
  await using daemon = await startLocalDaemon(env)
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0 })
  expect(await statusOf(daemon)).toMatchObject({ paused: null })
})

test.concurrent('without the token nothing changes, and the token is shown nowhere', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const tokenFile = await folder.write('token', `${token}\n`)
  await using daemon = await startLocalDaemon({
    ...(await sandboxEnv(sandbox)),
    RECONCILER_CONTROL_TOKEN_FILE: tokenFile,
    RECONCILER_LOG_LEVEL: 'trace',
  })
  const port = portOf(daemon)
  const wrong = { authorization: `Bearer ${token}x` }
  for (const path of ['/-/pause', '/-/probe']) expect((await command(port, path, wrong)).status).toBe(401)
  expect(await statusOf(daemon)).toMatchObject({ paused: null })
  expect((await command(port, '/-/pause')).status).toBe(200)

  const [metrics, status] = [await get(`${daemon.url}/metrics`), await get(`${daemon.url}/status`)]
  const { err, out } = await daemon.stop()
  for (const text of [out, err, metrics.body, status.body]) expect(text).not.toContain('CANARY')
})

test.concurrent('without control.token there are no commands', async () => {
  await using sandbox = await startPlatform()
  await using daemon = await startLocalDaemon(await sandboxEnv(sandbox))
  for (const path of ['/-/pause', '/-/resume', '/-/probe']) {
    expect((await command(portOf(daemon), path)).status).toBe(404)
  }
})

test.concurrent('every command is in the audit', async ({ expect }) => {
  await using sandbox = await startPlatform()
  await using daemon = await startLocalDaemon({
    ...(await sandboxEnv(sandbox)),
    ...control,
    RECONCILER_AUDIT_ENABLED: 'true',
  })
  for (const path of ['/-/pause', '/-/pause', '/-/resume', '/-/probe']) await command(portOf(daemon), path)
  const { out } = await daemon.stop()
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  expect(lines.filter(({ audit }) => audit === true)).toMatchObject([
    { event: 'operator_paused', changed: true },
    { event: 'operator_paused', changed: false },
    { event: 'operator_resumed', changed: true },
    { event: 'operator_probed', circuits: 0 },
  ])
})
