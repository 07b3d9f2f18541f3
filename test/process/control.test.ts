// The operator's hand on a real daemon: pause, resume and sweep by token, what /status says of it, and the port that can't be had.
import { createServer, type AddressInfo } from 'node:net'
import { expect, test, vi } from 'vitest'
import type { StatusDocument } from '../../src/ops/status.ts'
import { command, token } from '../support/control.ts'
import { sandboxEnv } from '../support/engine.ts'
import { seedDue, startPlatform } from '../support/gate.ts'
import { get, makeFolder, patience, runProgram, startDaemon, type Daemon } from '../support/process.ts'

vi.setConfig({ testTimeout: 60_000 })

const control = { RECONCILER_CONTROL_TOKEN: token, RECONCILER_CONTROL_PORT: '0' }
/** After the first one, ticks don't come in the time of a test. */
const onceADay = { RECONCILER_SCHEDULE_CRON: '0 0 4 * * *' }

async function controlPort(daemon: Daemon): Promise<number> {
  return Number((await daemon.said('daemon_started'))['controlPort'])
}

async function statusOf(daemon: Daemon): Promise<StatusDocument> {
  return JSON.parse((await get(`${daemon.url}/status`)).body) as StatusDocument
}

test.concurrent(
  'a pause holds all retries until it is resumed; a sweep comes when it is asked for',
  async ({ expect }) => {
    await using sandbox = await startPlatform()
    await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...control, ...onceADay })
    const port = await controlPort(daemon)
    await daemon.said('full_sweep_completed')

    const paused = JSON.parse((await command(port, '/-/pause')).body) as { since: string }
    seedDue(sandbox, 20)
    expect(await command(port, '/-/sweep')).toMatchObject({ status: 202, body: '{"sweep":"started"}\n' })
    const held = async (): Promise<number> => (await daemon.metrics()).sum('failed_webhooks', { decision: 'held' })
    await expect.poll(held, patience).toBe(20)

    expect(await statusOf(daemon)).toMatchObject({
      paused: { since: paused.since },
      holding: ['paused'],
      failed: { held: 20, due: 0 },
    })
    expect((await daemon.metrics()).sum('paused')).toBe(1)
    expect(sandbox.stats.requests.retry).toEqual({})

    expect(JSON.parse((await command(port, '/-/resume')).body)).toEqual({ paused: false, changed: true })
    await expect.poll(() => sandbox.counts(), patience).toMatchObject({ failed: 0, successful: 20 })
    await expect.poll(() => statusOf(daemon), patience).toMatchObject({ paused: null, holding: [] })
    await expect.poll(async () => (await daemon.metrics()).sum('paused'), patience).toBe(0)
    daemon.kill('SIGTERM')
    expect((await daemon.ended()).code).toBe(0)
  },
)

test.concurrent('a restart forgets a pause', async ({ expect }) => {
  await using sandbox = await startPlatform()
  const env = { ...(await sandboxEnv(sandbox)), ...control }
  {
    await using daemon = await startDaemon(env)
    await command(await controlPort(daemon), '/-/pause')
    daemon.kill('SIGTERM')
    expect((await daemon.ended()).code).toBe(0)
  }
  seedDue(sandbox, 1)
  await using daemon = await startDaemon(env)
  await expect.poll(() => sandbox.counts(), patience).toMatchObject({ failed: 0 })
  expect(await statusOf(daemon)).toMatchObject({ paused: null })
})

test.concurrent('who does not hold the token changes nothing, and the token is shown nowhere', async () => {
  await using sandbox = await startPlatform()
  await using folder = await makeFolder()
  const tokenFile = await folder.write('token', `${token}\n`)
  await using daemon = await startDaemon({
    ...(await sandboxEnv(sandbox)),
    RECONCILER_CONTROL_TOKEN_FILE: tokenFile,
    RECONCILER_CONTROL_PORT: '0',
    RECONCILER_LOG_LEVEL: 'trace',
  })
  const port = await controlPort(daemon)
  const wrong = { authorization: `Bearer ${token}x` }
  for (const path of ['/-/pause', '/-/sweep']) expect((await command(port, path, wrong)).status).toBe(401)
  expect(await statusOf(daemon)).toMatchObject({ paused: null })
  expect((await command(port, '/-/pause')).status).toBe(200)
  // The open port takes no orders.
  expect((await command(Number(new URL(daemon.url).port), '/-/resume')).status).toBe(405)

  const [metrics, status] = [await get(`${daemon.url}/metrics`), await get(`${daemon.url}/status`)]
  daemon.kill('SIGTERM')
  const { stdout, stderr } = await daemon.ended()
  for (const text of [stdout, stderr, metrics.body, status.body]) expect(text).not.toContain('CANARY')
})

test.concurrent('without a token nothing listens there', async () => {
  await using sandbox = await startPlatform()
  await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), RECONCILER_CONTROL_PORT: '0' })
  expect((await daemon.said('daemon_started'))['controlPort']).toBeUndefined()
})

test.concurrent('a control port that is taken is said by its name, and ends it with 78', async () => {
  await using sandbox = await startPlatform()
  const blocker = createServer()
  await new Promise<void>((resolve) => {
    blocker.listen(0, '127.0.0.1', resolve)
  })
  const { port } = blocker.address() as AddressInfo
  try {
    const env = {
      ...(await sandboxEnv(sandbox)),
      RECONCILER_SERVER_HOST: '127.0.0.1',
      RECONCILER_SERVER_PORT: '0',
      RECONCILER_CONTROL_TOKEN: token,
      RECONCILER_CONTROL_PORT: String(port),
    }
    const { code, stderr, stdout } = await runProgram(['run'], { env })
    expect(code).toBe(78)
    expect(stderr).toContain('control.port')
    expect(stderr).toContain('taken')
    expect(stdout + stderr).not.toContain('CANARY')
    expect(sandbox.stats.requests.token).toEqual({})
  } finally {
    blocker.close()
  }
})
