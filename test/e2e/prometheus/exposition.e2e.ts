// What a running daemon serves at /metrics, in promtool's eyes.
import { expect, test } from 'vitest'
import { sandboxEnv, seedDue, startPlatform } from '../../support/platform.ts'
import { get, startDaemon } from '../../support/process.ts'
import { promtool } from './promtool.ts'

test('passes promtool check metrics, before anything has happened and after a recovery', async () => {
  await using sandbox = await startPlatform()
  seedDue(sandbox, 5)
  await using daemon = await startDaemon(await sandboxEnv(sandbox))
  const first = await get(`${daemon.url}/metrics`)
  expect(promtool(['check', 'metrics'], first.body)).toEqual({ code: 0, output: '' })
  await expect.poll(async () => (await daemon.metrics()).sum('outcomes_total', { outcome: 'recovered' })).toBe(5)
  const later = await get(`${daemon.url}/metrics`)
  expect(promtool(['check', 'metrics'], later.body)).toEqual({ code: 0, output: '' })

  // As many lines are counted as there are.
  await expect
    .poll(async () => {
      const counted = (await daemon.metrics()).sum('log_messages_total', { level: 'info' })
      return counted > 0 ? counted - daemon.log().filter(({ level }) => level === 'info').length : NaN
    })
    .toBe(0)
})
