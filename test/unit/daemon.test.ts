// The daemon whose ticks stay away: node-cron goes by the host's clock, and somebody may set that back.
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { runDaemon } from '../../src/daemon.ts'
import type { Log } from '../../src/log.ts'
import type { HttpResponse, Transport } from '../../src/platform/http.ts'
import type { KeySource } from '../../src/platform/private-key.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const quiet = (): void => undefined
const log: Log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
const key: KeySource = {
  current: () => ({ sign: () => Promise.resolve('assertion'), bits: 4096, fingerprint: 'none' }),
  refresh: () => Promise.resolve(false),
}
const periodMs = 30_000

test('a schedule that falls silent is not waited for longer than two periods', async () => {
  const clock = createVirtualClock()
  const { config } = loadConfig({
    env: {
      RECONCILER_PLATFORM_BASE_URL: 'https://platform.example',
      RECONCILER_AUTH_ISSUER_URL: 'https://identity.example',
      RECONCILER_AUTH_CLIENT_ID: 'client',
      RECONCILER_AUTH_PRIVATE_KEY_FILE: 'unused',
      RECONCILER_SERVER_HOST: '127.0.0.1',
      RECONCILER_SERVER_PORT: '0',
    },
    hostName: 'test',
    readFile: () => '',
  })
  const listedAt: number[] = []
  const transport: Transport = ({ method }) => {
    const body =
      method === 'POST'
        ? { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' }
        : { data: { webhooks: [] }, metadata: { page: { size: 100, number: 0, totalElements: 0, totalPages: 0 } } }
    if (method === 'GET') listedAt.push(clock.monotonic())
    const now = clock.now()
    const answer: HttpResponse = { status: 200, headers: {}, body: JSON.stringify(body), sentAt: now, receivedAt: now }
    return Promise.resolve(answer)
  }
  const stop = new AbortController()
  const running = runDaemon({
    config,
    log,
    key,
    transport,
    clock,
    random: { next: () => 0.5, uuid: () => '00000000-0000-4000-8000-000000000000' },
    certificate: undefined,
    version: '0.0.0',
    nodeVersion: 'v26',
    // It ticks at the start, and then never again, as when the host's clock is set back by an hour.
    schedule: {
      periodMs,
      nextAt: () => clock.now() + 3_600_000,
      start: (tick) => {
        tick()
        return Promise.resolve()
      },
      stop: () => Promise.resolve(),
    },
    stop: stop.signal,
  })
  await expect.poll(() => listedAt.length).toBeGreaterThan(0)
  const begun = clock.monotonic()

  await clock.advance(10 * 60_000)

  const sweeps = listedAt.filter((at, index) => at > begun && at - (listedAt[index - 1] ?? 0) >= periodMs)
  expect(sweeps.length).toBeGreaterThanOrEqual(5)
  expect(sweeps.length).toBeLessThanOrEqual(20)
  stop.abort(new Error('SIGTERM'))
  await clock.run(running)
})
