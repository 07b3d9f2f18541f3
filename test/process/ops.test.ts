// What the daemon's ops server shows: before the first token, while it works, while the platform is down, while it is busy.
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { metricDefinitions, metricPrefix } from '../../src/observe/metrics.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { startLocalDaemon, type LocalDaemon } from '../support/local-daemon.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { get, type OpsAnswer } from '../support/process.ts'

const everySecond = { RECONCILER_SCHEDULE_CRON: '* * * * * *' }

function messages(daemon: LocalDaemon, ...levels: string[]): string[] {
  return daemon.log().flatMap(({ event, level }) => (levels.includes(level) ? [event] : []))
}

describe('an answer', () => {
  let sandbox: Awaited<ReturnType<typeof startPlatform>>
  let daemon: LocalDaemon

  beforeAll(async () => {
    sandbox = await startPlatform()
    daemon = await startLocalDaemon(await sandboxEnv(sandbox))
  })

  afterAll(async () => {
    await daemon[Symbol.asyncDispose]()
    await sandbox.close()
  })

  test.each([
    ['GET', '/', 200, 'text/html'],
    ['GET', '/nothing', 404, 'text/plain'],
    ['GET', '/metrics/', 404, 'text/plain'],
    ['GET', '/..%2fetc/passwd', 404, 'text/plain'],
    ['GET', '/livez?verbose=1', 200, 'text/plain'],
    ['HEAD', '/metrics', 200, 'text/plain; version=0.0.4'],
    ['HEAD', '/livez', 200, 'text/plain'],
    ['HEAD', '/nowhere', 404, 'text/plain'],
    ['POST', '/metrics', 405, 'text/plain'],
    ['PUT', '/livez', 405, 'text/plain'],
    ['DELETE', '/', 405, 'text/plain'],
    ['OPTIONS', '/metrics', 405, 'text/plain'],
  ] as const)('to %s %s is %i', async (method, path, status, type) => {
    const { status: answered, headers, body } = await get(`${daemon.url}${path}`, method)
    expect(answered).toBe(status)
    expect(headers['content-type']).toContain(type)
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    expect(Number(headers['content-length'])).toBeGreaterThan(0)
    expect(body === '').toBe(method === 'HEAD')
    expect(headers.allow).toBe(status === 405 ? 'GET, HEAD' : undefined)
    expect(headers.connection).toBe('close')
  })

  test('that is not fetched does not hold the end up', async () => {
    await using own = await startLocalDaemon(await sandboxEnv(sandbox))
    const { port } = new URL(own.url)
    const half = connect(Number(port), '127.0.0.1')
    half.on('error', () => undefined)
    await new Promise<void>((resolve) => {
      half.write('GET /metrics HTTP/1.1\r\nHost: x\r\n', () => {
        resolve()
      })
    })
    // A whole request on another connection: the half one has come, too, by then.
    await get(`${own.url}/livez`)
    const { code } = await own.stop()
    half.destroy()
    expect(code).toBe(0)
  })
})

test.concurrent(
  'not ready before the first token and the first page, but alive; all metrics are there from the start',
  async ({ expect }) => {
    const gate = createGate()
    const startedAt = Date.now()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('token'), gate.hold('list')] })
    seedDue(sandbox, 5)
    await using daemon = await startLocalDaemon({ ...(await sandboxEnv(sandbox)), RECONCILER_RETRY_ENABLED: 'false' })
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
  'a platform that is not there yet: stays up, says so once, and begins by itself when it comes',
  async ({ expect }) => {
    const absent = await startPlatform()
    const port = Number(new URL(absent.baseUrl).port)
    const env = { ...(await sandboxEnv(absent)), ...everySecond }
    await absent.close()
    await using daemon = await startLocalDaemon(env)
    await daemon.said('sweep_failed', { stage: 'token', reason: 'connection' })

    await using sandbox = await startPlatform({ port })
    expect(await get(`${daemon.url}/readyz`)).toMatchObject({ status: 503 })
    expect(await get(`${daemon.url}/livez`)).toMatchObject({ status: 200 })
    seedDue(sandbox, 5)
    expect(await daemon.said('token_obtained')).toHaveProperty('failures')
    expect(await daemon.said('full_sweep_completed')).toHaveProperty('failures')
    await daemon.said('retry_answered', { result: 'accepted' })

    expect(await get(`${daemon.url}/readyz`)).toMatchObject({ status: 200 })
    expect(messages(daemon, 'warn', 'error')).toEqual(['token_unavailable', 'sweep_failed'])
  },
)

test.concurrent(
  'an outage of the platform: stays up and alive, says so once, and goes on, with a new token, when it is over',
  async ({ expect }) => {
    const first = await startPlatform()
    const env = { ...(await sandboxEnv(first)), ...everySecond }
    await using daemon = await startLocalDaemon(env)
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
  await using daemon = await startLocalDaemon({ ...(await sandboxEnv(sandbox)), ...everySecond })

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
  expect((await daemon.stop()).code).toBe(0)
})

test.concurrent(
  'scrapes are answered while a thousand are recovered, and never show more than the platform has',
  async ({ expect }) => {
    const count = 1000
    await using sandbox = await startPlatform()
    seedDue(sandbox, count)
    await using daemon = await startLocalDaemon({
      ...(await sandboxEnv(sandbox)),
      RECONCILER_LOG_LEVEL: 'info',
      // Slowly enough that several scrapes differ: those of one second are the same.
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '170',
      RECONCILER_RETRY_CONCURRENCY: '32',
    })
    const seen: number[] = []
    for (let accepted = 0; accepted < count; seen.push(accepted)) {
      const metrics = await daemon.metrics()
      accepted = metrics.sum('retries_total', { result: 'accepted' })
      const answered = metrics.sum('platform_requests_total', { operation: 'retry', reason: 'ok' })
      expect(answered).toBeGreaterThanOrEqual(accepted)
      expect(sandbox.stats.retries.accepted).toBeGreaterThanOrEqual(answered)
      expect(metrics.sum('failed_webhooks') + accepted).toBeLessThanOrEqual(count)
    }
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(new Set(seen).size).toBeGreaterThan(3)
    expect(sandbox.counts()).toMatchObject({ failed: 0, successful: count })
    expect((await daemon.metrics()).sum('failed_webhooks')).toBe(0)
  },
)
