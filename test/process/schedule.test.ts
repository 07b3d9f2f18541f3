// The schedule of the daemon's process ticks in real time.
import { expect, test } from 'vitest'
import { sandboxEnv, startPlatform } from '../support/platform.ts'
import { startDaemon } from '../support/process.ts'

const everySecond = { RECONCILER_SCHEDULE_CRON: '* * * * * *' }
const atOnce = {
  RECONCILER_WINDOW_SETTLE: '0s',
  RECONCILER_RETRY_BACKOFF_INITIAL: '100ms',
  RECONCILER_RETRY_BACKOFF_MAX: '100ms',
}

test('what fails later is found by the next tick, and delivered', async () => {
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
