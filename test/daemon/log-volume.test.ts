// How much the whole daemon writes in a day at info, on a virtual clock: an idle one, and one on which the platform never answers.
import { expect, test } from 'vitest'
import { runDaemon } from '../../src/daemon.ts'
import { createLog } from '../../src/observe/log/log.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import { loadWith } from '../support/configuration.ts'
import { emptyPage } from '../support/daemon-scene.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const periodMs = 30_000
const dayMs = 86_400_000

interface Day {
  events: string[]
  requests: number
}

/** A day of the daemon; `answer` gives the status of each list call. */
async function day(answer: () => number): Promise<Day> {
  const clock = createVirtualClock()
  const events: string[] = []
  const stop = new AbortController()
  const { config } = loadWith({ env: { RECONCILER_LOG_LEVEL: 'info' } })
  let requests = 0
  const log = createLog({
    level: config.log.level,
    instance: 'test',
    clock,
    write: (line) => events.push((JSON.parse(line) as { event: string }).event),
  })
  const transport: Transport = ({ method }) => {
    requests += 1
    const isToken = method === 'POST'
    const token = { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'api' }
    const body = JSON.stringify(isToken ? token : emptyPage)
    return Promise.resolve({
      status: isToken ? 200 : answer(),
      headers: {},
      body,
      sentAt: clock.monotonic(),
      receivedAt: clock.monotonic(),
    })
  }
  async function tickOn(tick: () => void): Promise<void> {
    for (;;) {
      tick()
      await clock.sleep(periodMs, stop.signal)
    }
  }
  const listener = { port: 1, close: () => Promise.resolve() }
  const running = runDaemon({
    config,
    log,
    key: {
      current: () => ({ sign: () => Promise.resolve('assertion'), bits: 4096, fingerprint: 'none' }),
      reload: () => false,
      lastReload: () => undefined,
    },
    transport,
    clock,
    random: { next: () => 0.5, uuid: () => '00000000-0000-4000-8000-000000000000' },
    certificate: undefined,
    version: '1.2.3',
    nodeVersion: 'v26',
    schedule: {
      periodMs,
      nextAt: () => clock.now() + periodMs,
      isLate: () => false,
      start(tick) {
        tickOn(tick).catch(() => undefined)
        return Promise.resolve()
      },
      stop: () => Promise.resolve(),
    },
    stop: stop.signal,
    host: { startServer: () => Promise.resolve(listener), processMetrics: false, emit: () => undefined },
  })
  running.catch(() => undefined)
  await clock.advance(dayMs)
  stop.abort(new Error('SIGTERM'))
  await clock.run(running)
  return { events, requests }
}

test('an idle day is fewer than 200 lines: a sign of life every 15 minutes, and hardly anything else', async () => {
  const { events, requests } = await day(() => 200)
  expect(requests).toBeGreaterThan(2 * (dayMs / periodMs))
  expect(events.filter((event) => event === 'full_sweep_completed')).toHaveLength(97)
  expect(events.length).toBeLessThan(110)
})

test('a day on which the platform never answers is not much more', async () => {
  const { events } = await day(() => 503)
  expect(events).toContain('sweep_failed')
  expect(events.length).toBeLessThan(200)
})
