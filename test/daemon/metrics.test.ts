// Metrics that come of several parts, as a whole daemon on a virtual clock shows them.
import { expect, test } from 'vitest'
import { emptyPage, startDaemon, type RunningDaemon } from '../support/daemon.ts'

const seconds = (scene: RunningDaemon): number => scene.clock.now() / 1000

test('the rest after a slow sweep is no stall', async () => {
  const lists: { answer: () => void }[] = []
  await using scene = startDaemon({
    instead: ({ method }) => {
      if (method !== 'GET') return undefined
      const { promise, resolve } = Promise.withResolvers<{ body: unknown }>()
      lists.push({
        answer: () => {
          resolve({ body: emptyPage })
        },
      })
      return promise
    },
  })
  // Each list takes five minutes: twenty times as long would be a rest of more than an hour.
  const startedAt = seconds(scene)
  for (let i = 0; i < 7; i += 1) {
    await scene.clock.advance(300_000)
    for (const list of lists.splice(0)) list.answer()
  }
  await scene.clock.settle()
  const due = (): Promise<number> => scene.metric('progress_due_timestamp_seconds')
  const last = await scene.metric('last_complete_sweep_timestamp_seconds')
  expect(last).toBeGreaterThan(startedAt)
  // The schedule says that its next tick is an hour after the last progress: sooner than the rest ends.
  expect(await due()).toBe(last + 3600 + 60)
  await scene.clock.advance(3_600_000)
  scene.tick()
  await scene.clock.settle()
  // An hour is the longest rest.
  expect(lists).toHaveLength(1)
  scene.stop()
  for (const list of lists.splice(0)) list.answer()
})

test('log lines by level as far as they are written', async () => {
  await using scene = startDaemon({ env: { RECONCILER_LOG_LEVEL: 'info' } })
  await scene.clock.advance(1000)
  expect(await scene.metric('log_messages_total', { level: 'info' })).toBeGreaterThanOrEqual(1)
  expect(await scene.metric('log_messages_total', { level: 'debug' })).toBe(0)
})
