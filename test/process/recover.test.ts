// What the daemon promises to those who watch it from outside: ticks find what fails later, limits hold, a kill loses nothing.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { createGate } from '../support/gate.ts'
import { seedDue, startPlatform } from '../support/platform.ts'
import { startLocalDaemon, type LocalDaemon } from '../support/local-daemon.ts'
import { sandboxEnv } from '../support/reconciler.ts'
import { startDaemon } from '../support/process.ts'

const hourMs = 3_600_000
const everySecond = { RECONCILER_SCHEDULE_CRON: '* * * * * *' }
const atOnce = {
  ...everySecond,
  RECONCILER_WINDOW_SETTLE: '0s',
  RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
  RECONCILER_RETRY_BACKOFF_MULTIPLIER: '1',
}

/** Ids of the records that were retried, in order. */
function retried(daemon: LocalDaemon): string[] {
  return daemon.log().flatMap(({ event, webhookId }) => (event === 'retry_answered' ? [String(webhookId)] : []))
}

test.concurrent('the schedule ticks: what fails later is found by the next tick, and delivered', async ({ expect }) => {
  await using sandbox = await startPlatform()
  await using daemon = await startLocalDaemon({ ...(await sandboxEnv(sandbox)), ...atOnce })
  await daemon.said('full_sweep_completed')
  sandbox.receiver.fail({ status: 503 })
  const ids = Array.from({ length: 3 }, () => sandbox.emit())
  await sandbox.idle()
  expect(sandbox.counts().failed).toBe(3)
  sandbox.receiver.heal()
  await Promise.all(ids.map((webhookId) => daemon.said('retry_answered', { webhookId, result: 'accepted' })))
  await expect.poll(() => sandbox.counts()).toMatchObject({ failed: 0, successful: 3 })
  expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 3, repeated: 0 })
})

describe.concurrent('selection', () => {
  const mine = '11111111-2222-4333-8444-555555555555'
  const other = '99999999-2222-4333-8444-555555555555'
  const types = [
    'outgoing-transfer-completed',
    'outgoing-transfer-released',
    'incoming-transfer-completed',
    'account-activated',
  ]

  test.for([
    ['event types', { RECONCILER_SELECT_EVENT_TYPES: 'account-activated, incoming-transfer-completed' }, 4],
    ['modules', { RECONCILER_SELECT_MODULES: 'outgoing-transfers' }, 4],
    ['subscriptions', { RECONCILER_SELECT_SUBSCRIPTION_IDS: mine.toUpperCase() }, 4],
    ['all of them', { RECONCILER_SELECT_MODULES: 'accounts', RECONCILER_SELECT_SUBSCRIPTION_IDS: mine }, 1],
    ['something that there is none of', { RECONCILER_SELECT_EVENT_TYPES: 'account-closed' }, 0],
  ] as const)('by %s', async ([_name, select, selected], { expect }) => {
    await using sandbox = await startPlatform()
    const eventInstant = systemClock.now() - 50 * hourMs
    const records = [mine, other].flatMap((subscriptionId) => types.map((eventType) => ({ subscriptionId, eventType })))
    const ids = records.map((record) => sandbox.addWebhook({ ...record, eventInstant }))
    await using daemon = await startLocalDaemon({ ...(await sandboxEnv(sandbox)), ...select })
    await daemon.said('full_sweep_completed')
    await expect.poll(() => sandbox.counts().successful).toBe(selected)

    const delivered = ids.flatMap((id, index) => (sandbox.record(id)?.status === 'successful' ? [records[index]] : []))
    const metrics = await daemon.metrics()
    expect(metrics.sum('failed_webhooks', { decision: 'excluded' })).toBe(8 - selected)
    expect(metrics.sum('failed_webhooks')).toBe(8 - selected)
    expect(sandbox.stats.retries.accepted).toBe(selected)
    for (const record of delivered) {
      if ('RECONCILER_SELECT_SUBSCRIPTION_IDS' in select) expect(record?.subscriptionId).toBe(mine)
      if ('RECONCILER_SELECT_EVENT_TYPES' in select)
        expect(select.RECONCILER_SELECT_EVENT_TYPES).toContain(record?.eventType)
      if ('RECONCILER_SELECT_MODULES' in select) expect(record?.eventType).toMatch(/^(outgoing|account)/)
    }
  })

  test('window.notBefore: nothing older is ever touched', async () => {
    await using sandbox = await startPlatform()
    const now = systemClock.now()
    const boundary = Math.floor((now - 50 * hourMs) / 1000) * 1000
    const at = (offsetMs: number): string => sandbox.addWebhook({ eventInstant: boundary + offsetMs })
    const [older, younger] = [[-hourMs, -1000, -1].map(at), [0, 1000, hourMs].map(at)]
    await using daemon = await startLocalDaemon({
      ...(await sandboxEnv(sandbox)),
      RECONCILER_WINDOW_NOT_BEFORE: new Date(boundary).toISOString(),
    })
    await daemon.said('full_sweep_completed')
    await Promise.all(younger.map((webhookId) => daemon.said('retry_answered', { webhookId, result: 'accepted' })))

    expect(older.map((id) => sandbox.record(id)?.status)).toEqual(['failed', 'failed', 'failed'])
    expect(new Set(retried(daemon))).toEqual(new Set(younger))
    expect((await daemon.metrics()).sum('failed_webhooks', { decision: 'due' })).toBe(0)
  })
})

test.concurrent(
  'killed in mid-recovery and started again: nothing is lost, and nothing delivered twice',
  async ({ expect }) => {
    const gate = createGate()
    await using sandbox = await startPlatform({ clock: gate.clock, faults: [gate.hold('retry', { skip: 40 })] })
    const ids = seedDue(sandbox, 120)
    const env = {
      ...(await sandboxEnv(sandbox)),
      ...everySecond,
      RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000',
      RECONCILER_RETRY_CONCURRENCY: '9',
    }
    await using first = await startDaemon(env)
    await gate.arrived(8)
    first.kill('SIGKILL')
    expect((await first.ended()).signal).toBe('SIGKILL')
    expect(sandbox.counts()).toMatchObject({ successful: 40, failed: 80 })

    // What was in flight arrives at the platform late: when the next process has sent the same retries.
    await using second = await startDaemon(env)
    await gate.arrived(16)
    gate.open()
    await expect.poll(() => sandbox.counts()).toEqual({ processing: 0, successful: 120, failed: 0 })
    await expect.poll(async () => (await second.metrics()).sum('retries_in_flight')).toBe(0)

    expect(ids.map((id) => sandbox.acceptedRetries(id))).toEqual(ids.map(() => 1))
    expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 120, repeated: 0 })
    const metrics = await second.metrics()
    const resolved = metrics.sum('retries_total', { result: 'already-resolved' })
    expect(metrics.sum('retries_total', { result: 'accepted' }) + resolved).toBe(80)
    // What was resolved already stays counted until the next full sweep, which rests for longer on a busy machine.
    const open = async (): Promise<number> => (await second.metrics()).sum('failed_webhooks')
    await expect.poll(open).toBe(0)
    expect(second.log().filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
    second.kill('SIGTERM')
    expect((await second.ended()).code).toBe(0)
  },
)

test.concurrent(
  'killed while outcomes are awaited, and started again: nothing is lost, and nothing delivered twice',
  async ({ expect }) => {
    // Of the deliveries, 12 arrive; the others are under way until the gate opens.
    const gate = createGate(12)
    await using sandbox = await startPlatform({ clock: gate.clock, delivery: gate.heldDelivery })
    const ids = seedDue(sandbox, 40)
    const env = { ...(await sandboxEnv(sandbox)), ...everySecond }
    await using first = await startDaemon(env)
    await gate.arrived(22)
    await expect.poll(async () => (await first.metrics()).sum('awaiting_webhooks')).toBeGreaterThanOrEqual(10)
    first.kill('SIGKILL')
    expect((await first.ended()).signal).toBe('SIGKILL')
    expect(sandbox.counts().processing).toBeGreaterThanOrEqual(10)

    await using second = await startDaemon(env)
    await second.said('full_sweep_completed')
    gate.open()
    await expect.poll(() => sandbox.counts()).toEqual({ processing: 0, successful: 40, failed: 0 })
    const open = async (): Promise<number> => {
      const metrics = await second.metrics()
      return metrics.sum('failed_webhooks') + metrics.sum('awaiting_webhooks')
    }
    await expect.poll(open).toBe(0)
    expect(ids.map((id) => sandbox.acceptedRetries(id))).toEqual(ids.map(() => 1))
    expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 40, repeated: 0 })
    second.kill('SIGTERM')
    expect((await second.ended()).code).toBe(0)
  },
)

test.concurrent(
  'with a health address of the receiver: nothing is sent while it is down, and all as soon as it is up',
  async ({ expect }) => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 50 } })
    seedDue(sandbox, 40)
    sandbox.receiver.down()
    await using daemon = await startLocalDaemon({
      ...(await sandboxEnv(sandbox)),
      ...everySecond,
      RECONCILER_RECEIVER_HEALTH_URL: sandbox.receiverHealthUrl,
      RECONCILER_RECEIVER_INTERVAL: '200ms',
    })
    const { receiverHealth } = await daemon.said('daemon_started')
    expect(receiverHealth).toBe(sandbox.receiverHealthUrl)
    await daemon.said('receiver_down', { level: 'warn' })
    const blocked = async (): Promise<number> =>
      (await daemon.metrics()).sum('failed_webhooks', { decision: 'blocked' })
    await expect.poll(blocked).toBe(40)
    expect((await daemon.metrics()).sum('receiver_up')).toBe(0)
    expect(sandbox.stats.requests.retry).toEqual({})
    expect(sandbox.receiver.counts().received).toBe(0)

    sandbox.receiver.up()
    await daemon.said('receiver_up', { level: 'info' })
    const recovered = async (): Promise<number> =>
      (await daemon.metrics()).sum('outcomes_total', { outcome: 'recovered' })
    await expect.poll(recovered).toBe(40)
    expect((await daemon.metrics()).sum('receiver_up')).toBe(1)
    // No attempt was burned, and no circuit has opened.
    expect(sandbox.stats.deliveries).toMatchObject({ succeeded: 40, failed: 0 })
    expect(daemon.log().filter(({ event }) => event.startsWith('circuit'))).toEqual([])
    expect((await daemon.stop()).code).toBe(0)
  },
)

test.concurrent(
  'a receiver that is down, seen by its outcomes alone: five to nine deliveries, a pause, and a slow start when it is up',
  async ({ expect }) => {
    await using sandbox = await startPlatform({ delivery: { mode: 'async', delayMs: 50 } })
    seedDue(sandbox, 60)
    sandbox.receiver.down()
    await using daemon = await startLocalDaemon({
      ...(await sandboxEnv(sandbox)),
      ...everySecond,
      RECONCILER_OUTCOME_FIRST_CHECK: '100ms',
      RECONCILER_CIRCUIT_COOLDOWN: '500ms',
      RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
      RECONCILER_RETRY_BACKOFF_MULTIPLIER: '1',
    })
    await daemon.said('circuit_opened')
    const { received } = sandbox.receiver.counts()
    expect(received).toBeGreaterThanOrEqual(5)
    expect(received).toBeLessThanOrEqual(9 * Object.keys(sandbox.countBy('subscriptionId')).length)
    expect((await daemon.metrics()).sum('circuits', { state: 'open' })).toBeGreaterThanOrEqual(1)
    sandbox.receiver.up()
    await daemon.said('circuit_closed')
    await expect.poll(() => sandbox.counts()).toEqual({ processing: 0, successful: 60, failed: 0 })
    const metrics = async (outcome: string): Promise<number> =>
      (await daemon.metrics()).sum('outcomes_total', { outcome })
    await expect.poll(() => metrics('recovered')).toBe(60)
    // Each delivery is accounted for; one that was under way when the circuit opened may have failed after it.
    const failedAgain = await metrics('failed-again')
    expect(failedAgain).toBeGreaterThanOrEqual(5)
    expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 60, repeated: 0, received: 60 + failedAgain })
    expect((await daemon.stop()).code).toBe(0)
  },
)
