// What the daemon's ops server and log show: before the first token, while the platform is down, and while it refuses.
import { test } from 'vitest'
import { metricDefinitions, metricPrefix } from '../../src/observe/metrics.ts'
import { createGate } from '../support/gate.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { get, startDaemon, type Daemon, type OpsAnswer } from '../support/process.ts'

const everySecond = { RECONCILER_SCHEDULE_CRON: '* * * * * *' }

function messages(daemon: Daemon, ...levels: string[]): string[] {
  return daemon.log().flatMap(({ event, level }) => (levels.includes(level) ? [event] : []))
}

test.concurrent(
  'not ready before the first token and the first page, but alive; all metrics are there from the start',
  async ({ expect }) => {
    const gate = createGate()
    const startedAt = Date.now()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('token'), gate.hold('list')] })
    seedDue(sandbox, 5)
    await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), RECONCILER_RETRY_ENABLED: 'false' })
    const look = (path: string): Promise<OpsAnswer> => get(`${daemon.url}${path}`)

    await gate.arrived(1)
    const nothingYet = { status: 503, body: 'no access token yet\nno list page of the platform yet\n' }
    expect(await look('/readyz')).toMatchObject(nothingYet)
    expect(await look('/livez')).toMatchObject({ status: 200, body: 'ok\n' })
    const { headers, body } = await look('/metrics')
    expect(headers['content-type']).toContain('text/plain; version=0.0.4')
    for (const [name, { type }] of Object.entries(metricDefinitions)) {
      expect(body).toContain(`# TYPE ${metricPrefix}${name} ${type}\n`)
    }
    const before = await daemon.metrics()
    expect(before.sum('access_token_expiry_timestamp_seconds')).toBe(0)
    expect([...before.samples.keys()].filter((series) => series.includes('client_certificate'))).toEqual([])

    gate.release()
    await gate.arrived(2)
    expect(await look('/readyz')).toMatchObject({ status: 503, body: 'no list page of the platform yet\n' })
    const tokenEnd = async (): Promise<number> =>
      (await daemon.metrics()).sum('access_token_expiry_timestamp_seconds') * 1000
    await expect.poll(tokenEnd).toBeGreaterThan(Date.now())

    gate.open()
    await daemon.said('full_sweep_completed')
    expect(await look('/readyz')).toMatchObject({ status: 200, body: 'ok\n' })
    const blocked = async (): Promise<number> =>
      (await daemon.metrics()).sum('failed_webhooks', { decision: 'blocked' })
    await expect.poll(blocked).toBe(5)
    const after = await daemon.metrics()
    expect(after.sum('sweeps_total', { kind: 'full', result: 'complete' })).toBe(1)
    expect(after.sum('last_complete_sweep_timestamp_seconds') * 1000).toBeGreaterThan(startedAt)
  },
)

test.concurrent(
  'an outage of the platform: stays up and alive, says so once, and goes on, with a new token, when it is over',
  async ({ expect }) => {
    const first = await startPlatform()
    const env = { ...(await sandboxEnv(first)), ...everySecond }
    await using daemon = await startDaemon(env)
    // The second one, by the schedule, sees nothing new.
    await daemon.said('full_sweep_completed', { level: 'debug' })
    await first.close()
    const told = await daemon.said('sweep_failed', { stage: 'list', reason: 'connection' })
    await daemon.said('sweep_failed', { level: 'debug', kind: 'full' })

    expect(told['advice']).toContain('platform.baseUrl')
    expect(messages(daemon, 'warn', 'error')).toEqual(['sweep_failed'])
    expect(await get(`${daemon.url}/livez`)).toMatchObject({ status: 200 })
    const failed = await daemon.metrics()
    expect(failed.sum('sweeps_total', { result: 'failed' })).toBeGreaterThanOrEqual(2)

    await using second = await startPlatform({ port: Number(new URL(first.baseUrl).port) })
    seedDue(second, 5)
    await expect.poll(() => second.counts().successful).toBe(5)
    await expect.poll(() => daemon.log().filter(({ failures }) => Number(failures) >= 1)).toHaveLength(1)
    expect(second.stats.tokens.issued).toBe(1)
    // Once for the outage, and at most once for a token so young that it was tried a second time.
    expect(new Set(messages(daemon, 'warn', 'error'))).toEqual(new Set(['sweep_failed']))
    expect(messages(daemon, 'error').length).toBeLessThanOrEqual(2)
  },
)

test.concurrent('a refused assertion: stays up, says why once, and asks at most twice in 30 s', async ({ expect }) => {
  const refusal = { kind: 'refuse-token', description: 'No such client.' } as const
  await using sandbox = await startPlatform({ faults: [{ operation: 'token', fault: refusal }] })
  await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...everySecond })

  const told = await daemon.said('token_rejected', { level: 'error' })
  await daemon.said('token_rejected', { level: 'debug' })
  // The sweeps go on asking; what they get is the refusal that is known already.
  await expect
    .poll(async () => (await daemon.metrics()).sum('sweeps_total', { result: 'failed' }))
    .toBeGreaterThanOrEqual(4)

  expect(told).toMatchObject({ oauthError: 'invalid_client', description: 'No such client.', result: 'rejected' })
  expect(daemon.log().find(({ event }) => event === 'sweep_failed')?.['advice']).toContain('auth.clientId')
  expect(messages(daemon, 'warn', 'error')).toEqual([told.event, 'sweep_failed'])
  expect(sandbox.requestLog().filter(({ operation }) => operation === 'token')).toHaveLength(2)
  expect(sandbox.stats.requests.list).toEqual({})
  expect(await get(`${daemon.url}/livez`)).toMatchObject({ status: 200 })
  expect(await get(`${daemon.url}/readyz`)).toMatchObject({ status: 503 })
  daemon.kill('SIGTERM')
  expect((await daemon.ended()).code).toBe(0)
})
