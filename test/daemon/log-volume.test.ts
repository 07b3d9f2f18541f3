// How much the whole daemon writes in a day at info, on a virtual clock: an idle one, and one on which the platform never answers.
import { expect, test } from 'vitest'
import { periodMs, startDaemon } from '../support/daemon.ts'

const dayMs = 86_400_000

/** Events of a day's lines at info and above; `status` is that of each list call. */
async function day(status: number): Promise<{ events: string[]; requests: number }> {
  const scene = startDaemon({
    gapMs: periodMs,
    instead: ({ method }) => (method === 'GET' && status !== 200 ? { status } : undefined),
  })
  for (let at = 0; at < dayMs; at += periodMs) {
    await scene.clock.advance(periodMs)
    scene.tick()
  }
  await scene.clock.settle()
  await scene.end()
  const written = scene.lines.filter(({ level }) => level !== 'debug')
  return { events: written.map(({ event }) => event), requests: scene.requests.length }
}

test('an idle day is fewer than 200 lines: a sign of life every 15 minutes, and hardly anything else', async () => {
  const { events, requests } = await day(200)
  // Some 10 a minute, as README says.
  expect(requests / (dayMs / 60_000)).toBeCloseTo(10, 0)
  expect(events.filter((event) => event === 'full_sweep_completed')).toHaveLength(97)
  expect(events.length).toBeLessThan(110)
})

test('a day on which the platform never answers is not much more', async () => {
  const { events } = await day(503)
  // At least one in 15 minutes says that it goes on.
  expect(events.filter((event) => event === 'sweep_failed').length).toBeGreaterThan(96)
  expect(events.length).toBeLessThan(200)
})
