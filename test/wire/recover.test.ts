// The main job over real HTTP: failed records of the window are found, retried and delivered, each exactly once.
import { expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { startPlatform } from '../support/platform.ts'
import { startReconciler } from '../support/reconciler.ts'

const hour = 3_600_000

test('everything that is due is delivered once, exhausted and resolved records are left alone', async () => {
  await using sandbox = await startPlatform()
  const now = systemClock.now()
  sandbox.seed({ count: 450, from: now - 100 * hour, to: now - 12 * hour, subscriptions: 2 })
  sandbox.seed({ count: 30, from: now - 100 * hour, to: now - 12 * hour, attempts: 30 })
  sandbox.seed({ count: 20, from: now - 100 * hour, to: now - 12 * hour, failed: 0 })
  await using daemon = await startReconciler(sandbox)

  const { sweep, retries } = await daemon.round()

  expect(sweep).toMatchObject({ result: 'complete', listed: 480 })
  expect(retries).toEqual({ accepted: 450 })
  expect(sandbox.counts()).toMatchObject({ failed: 30, successful: 470 })
  expect(sandbox.receiver.counts()).toMatchObject({ webhooks: 450, repeated: 0 })
  expect(sandbox.retriedMoreThanOnce()).toEqual([])
  expect(sandbox.stats.tokens.issued).toBe(1)
})
