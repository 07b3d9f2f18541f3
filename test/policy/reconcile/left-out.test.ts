// More failed records than the backlog holds: the healthy ones behind those of dead receivers are recovered without waiting
// for the next full sweep, with few list calls. In virtual time, at 20 calls a second.
import { expect, test } from 'vitest'
import { dayMs, minuteMs, testNow } from '../../support/backlog.ts'
import { createFailedPlatform, type FailedPlatform, type Population } from '../../support/failed-platform.ts'
import { reconcile } from '../../support/reconcile.ts'

const start = testNow - 6 * dayMs

function of(
  subscription: number,
  records: number,
  answer: Population['answer'],
  [from, to]: readonly [number, number] = [start, testNow - dayMs],
): Population {
  return { subscription, records, answer, from, to }
}

interface Run {
  minutes: number
  listsPerRecord: number
}

/** Until the records of healthy receivers are recovered. */
async function runOf(populations: Population[], options: { maxRecords: number; maxMinutes: number }): Promise<Run> {
  const made: { platform?: FailedPlatform } = {}
  await using world = reconcile({
    circuit: { enabled: true },
    maxRecords: options.maxRecords,
    maxPerSecond: 20,
    client: (parts) => (made.platform = createFailedPlatform(populations, parts)),
  })
  const { platform } = made
  if (platform === undefined) throw new Error('the parts were put together without their platform')
  const healthy = populations.reduce((sum, { answer, records }) => sum + (answer === 200 ? records : 0), 0)
  void world.start()
  const startedAt = world.clock.monotonic()
  while (platform.delivered() < healthy && world.clock.monotonic() - startedAt < options.maxMinutes * minuteMs) {
    world.sweeper.tick()
    await world.clock.advance(30_000)
  }
  expect(platform.delivered()).toBe(healthy)
  expect(world.backlog.size()).toBeLessThanOrEqual(options.maxRecords)
  return {
    minutes: (world.clock.monotonic() - startedAt) / minuteMs,
    listsPerRecord: platform.calls.list / healthy,
  }
}

test('500 healthy ones behind 5,000 dead ones, with room for 2,000', async () => {
  const newer: [number, number] = [testNow - 12 * 3_600_000, testNow - 2 * 3_600_000]
  const { minutes } = await runOf([of(1, 5000, 503), of(2, 500, 200, newer)], { maxRecords: 2000, maxMinutes: 10 })
  expect(minutes).toBeLessThan(3)
})

test('500 healthy ones behind 6,000 of the same subscription that the receiver refuses, with room for 2,000', async () => {
  const newer: [number, number] = [testNow - 12 * 3_600_000, testNow - 2 * 3_600_000]
  const { minutes } = await runOf([of(1, 6000, 422), of(1, 500, 200, newer)], { maxRecords: 2000, maxMinutes: 240 })
  expect(minutes).toBeLessThan(30)
})

test('1,000 of two healthy receivers among and behind 3,000 of three dead ones, with room for 500', async () => {
  const dead = [1, 2, 3].map((number) => of(number, 1000, 503))
  const { listsPerRecord, minutes } = await runOf([...dead, of(4, 500, 200), of(5, 500, 200)], {
    maxRecords: 500,
    maxMinutes: 60,
  })
  expect(minutes).toBeLessThan(2.5)
  expect(listsPerRecord).toBeLessThan(0.5)
})

test('2,000 of one healthy receiver, with room for 200', async () => {
  const { listsPerRecord, minutes } = await runOf([of(1, 2000, 200)], { maxRecords: 200, maxMinutes: 120 })
  expect(minutes).toBeLessThan(3)
  expect(listsPerRecord).toBeLessThan(0.15)
})
