// How much the whole daemon writes at info in six hours, on a virtual clock: where nothing happens, and where the platform never answers.
import { expect, test } from 'vitest'
import { periodMs, startDaemon } from '../support/daemon.ts'

const spanMs = 6 * 3_600_000

/** Events of the lines at info and above; `status` is that of each list call. */
async function writtenAt(status: number): Promise<{ events: string[]; requests: number }> {
  const scene = startDaemon({
    gapMs: periodMs,
    instead: ({ method }) => (method === 'GET' && status !== 200 ? { status } : undefined),
  })
  // One tick at its end as well.
  await scene.goOn(spanMs / periodMs + 1, periodMs)
  await scene.end()
  const written = scene.lines.filter(({ level }) => level !== 'debug')
  return { events: written.map(({ event }) => event), requests: scene.requests.length }
}

test('an idle daemon writes a sign of life every 15 minutes, and hardly anything else', async () => {
  const { events, requests } = await writtenAt(200)
  // Some 10 a minute, as README says, and one of each sweep because not even a delivered record is listed.
  expect(requests / (spanMs / 60_000)).toBeCloseTo(12, 0)
  expect(events.filter((event) => event === 'full_sweep_completed')).toHaveLength(25)
  expect(events.length).toBeLessThan(35)
})

test('one whose platform never answers writes not much more', async () => {
  const { events } = await writtenAt(503)
  // At least one in 15 minutes says that it goes on.
  expect(events.filter((event) => event === 'sweep_failed').length).toBeGreaterThan(24)
  expect(events.length).toBeLessThan(60)
})
