// The whole daemon through a bad day: with any trouble of the platform it stays up, answers its probes, counts what it sees, and goes on.
import { describe, expect, test } from 'vitest'
import type { FaultRule } from '../../sandbox/api/faults.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from '../support/platform.ts'
import { startDaemon, type RunningDaemon } from '../support/daemon.ts'
import { createVirtualClock, type VirtualClock } from '../support/virtual-clock.ts'

const env = {
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: '300ms',
  RECONCILER_RETRY_BACKOFF_INITIAL: '10s',
  RECONCILER_RETRY_BACKOFF_MAX: '20s',
}
const hour = 3_600_000

interface Day extends AsyncDisposable {
  clock: VirtualClock
  sandbox: Sandbox
  daemon: RunningDaemon
  /** Ticks in a time that goes on, until it is so. */
  until(isSo: () => boolean | Promise<boolean>): Promise<void>
}

async function begin(): Promise<Day> {
  const clock = createVirtualClock()
  await using starting = new AsyncDisposableStack()
  const sandbox = starting.use(await startPlatform({ inProcess: true, clock }))
  const now = clock.now()
  sandbox.seed({ count: 60, from: now - 20 * hour, to: now - 2 * hour, attempts: 1 })
  const daemon = starting.use(await startDaemon(sandbox, { clock, env }))
  const running = starting.move()
  return {
    clock,
    sandbox,
    daemon,
    async until(isSo) {
      for (let turn = 0; !(await isSo()); turn += 1) {
        if (turn === 200) throw new Error(`not so after ${turn} ticks`)
        daemon.tick()
        await clock.advance(20_000)
      }
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** The value of a series such as `retries_total{result="gone"}`. */
async function metric(daemon: RunningDaemon, series: string): Promise<number> {
  const { body } = await daemon.get('/metrics')
  const line = body.split('\n').find((text) => text.startsWith(`webhook_reconciler_${series} `))
  return Number(line?.split(' ').at(-1))
}

const troubles: [string, FaultRule[], string][] = [
  [
    'the assertion is refused',
    [{ operation: 'token', fault: { kind: 'refuse-token' } }],
    'access_token_refreshes_total{result="rejected"}',
  ],
  [
    'a portal answers for the identity host',
    [{ operation: 'token', fault: { kind: 'status', status: 200, body: 'html' } }],
    'platform_requests_total{operation="token",reason="invalid-body"}',
  ],
  [
    'the list answers nothing',
    [{ operation: 'list', fault: { kind: 'hang' } }],
    'platform_requests_total{operation="list",reason="timeout"}',
  ],
  [
    'the list is in HTML',
    [{ operation: 'list', fault: { kind: 'status', status: 502, body: 'html' } }],
    'sweeps_total{kind="full",result="failed"}',
  ],
  [
    'the list has no data',
    [{ operation: 'list', fault: { kind: 'status', status: 200, body: { text: '{}' } } }],
    'platform_requests_total{operation="list",reason="invalid-body"}',
  ],
  [
    'retries are forbidden',
    [{ operation: 'retry', fault: { kind: 'status', status: 403 } }],
    'retries_total{result="unauthorized"}',
  ],
  [
    'retries are gone',
    [{ operation: 'retry', fault: { kind: 'status', status: 404, body: 'html' } }],
    'retries_total{result="gone"}',
  ],
  [
    'answers to retries are lost',
    [{ operation: 'retry', fault: { kind: 'reset', when: 'after' } }],
    'retries_total{result="unreachable"}',
  ],
  [
    'the platform throttles',
    [{ operation: 'api', fault: { kind: 'throttle', retryAfter: { seconds: 5 } } }],
    'platform_requests_total{operation="list",reason="throttled"}',
  ],
  [
    'everything is reset',
    [{ operation: 'any', fault: { kind: 'reset', when: 'before' } }],
    'platform_requests_total{operation="token",reason="connection"}',
  ],
]

describe('from the start', () => {
  test.each(troubles)('%s: counted, alive, and all is recovered afterwards', async (_, faults, series) => {
    await using day = await begin()
    const { daemon, sandbox } = day
    sandbox.faults.set(...faults)

    await day.until(async () => (await metric(daemon, series)) > 0)
    expect(await daemon.get('/livez')).toEqual({ status: 200, body: 'ok\n' })

    sandbox.faults.set()
    await day.until(() => sandbox.counts().successful === 60)
    expect(sandbox.counts()).toMatchObject({ successful: 60, failed: 0 })
    await day.until(async () => (await daemon.get('/readyz')).status === 200)
    expect(await daemon.get('/readyz')).toEqual({ status: 200, body: 'ok\n' })
    expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 60, repeated: 0 })
    await daemon.stop()
  })
})

test('not ready before a token and a page were seen, no matter what else was answered', async () => {
  await using day = await begin()
  const { daemon, sandbox } = day
  sandbox.faults.set({ operation: 'list', fault: { kind: 'status', status: 200, body: { text: '{"data":{}}' } } })
  const unreadable = 'platform_requests_total{operation="list",reason="invalid-body"}'
  await day.until(async () => (await metric(daemon, unreadable)) > 0)
  expect(await daemon.get('/readyz')).toEqual({ status: 503, body: 'no list page of the platform yet\n' })
})

test('one trouble after the other, in one life', async () => {
  await using day = await begin()
  const { clock, daemon, sandbox } = day
  for (const [, faults] of troubles) {
    sandbox.addWebhook({ eventInstant: clock.now() - 2 * hour })
    sandbox.faults.set(...faults)
    for (let turn = 0; turn < 3; turn += 1) {
      daemon.tick()
      await clock.advance(5000)
      await clock.run(sandbox.idle())
    }
    expect((await daemon.get('/livez')).status).toBe(200)
  }
  sandbox.faults.set()
  await day.until(() => sandbox.counts().failed === 0)
  expect(sandbox.receiver.counts().repeated).toBe(0)
  await daemon.stop()
})
