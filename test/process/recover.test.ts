// What the daemon's process promises to those who watch it from outside: its schedule ticks, and a kill loses nothing.
import { test } from 'vitest'
import { createGate } from '../support/gate.ts'
import { sandboxEnv, seedDue, startPlatform } from '../support/platform.ts'
import { startDaemon } from '../support/process.ts'

const everySecond = { RECONCILER_SCHEDULE_CRON: '* * * * * *' }
const atOnce = {
  RECONCILER_WINDOW_SETTLE: '0s',
  RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
  RECONCILER_RETRY_BACKOFF_MULTIPLIER: '1',
}

test.concurrent('the schedule ticks: what fails later is found by the next tick, and delivered', async ({ expect }) => {
  await using sandbox = await startPlatform()
  await using daemon = await startDaemon({ ...(await sandboxEnv(sandbox)), ...everySecond, ...atOnce })
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
