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
  lists: number
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
    lists: platform.calls.list,
  }
}

const newer: [number, number] = [testNow - 12 * 3_600_000, testNow - 2 * 3_600_000]
const many = (from: number, count: number, records: number, answer: Population['answer']): Population[] =>
  Array.from({ length: count }, (_, index) => of(from + index, records, answer))

interface Case {
  name: string
  populations: Population[]
  maxRecords: number
  minutes: number
  lists: number
}

/** Lists: 10 % above what was measured. */
const cases: Case[] = [
  {
    name: '500 behind 5,000 of a dead receiver',
    populations: [of(1, 5000, 503), of(2, 500, 200, newer)],
    maxRecords: 2000,
    minutes: 0.5,
    lists: 65,
  },
  {
    name: '500 behind 6,000 of their subscription that the receiver refuses',
    populations: [of(1, 6000, 422), of(1, 500, 200, newer)],
    maxRecords: 2000,
    minutes: 7,
    lists: 610,
  },
  {
    name: '1,000 of two receivers among and behind 3,000 of three dead ones',
    populations: [...many(1, 3, 1000, 503), ...many(4, 2, 500, 200)],
    maxRecords: 500,
    minutes: 1,
    lists: 103,
  },
  {
    name: '1,000 of ten receivers among 10,000 of 200 dead ones',
    populations: [...many(1, 200, 50, 503), ...many(300, 10, 100, 200)],
    maxRecords: 500,
    minutes: 3.5,
    lists: 555,
  },
  { name: '2,000 of one receiver', populations: [of(1, 2000, 200)], maxRecords: 200, minutes: 2, lists: 190 },
]

test.each(cases)('$name, with $maxRecords places: in $minutes min, by $lists list calls', async (one) => {
  const run = await runOf(one.populations, { maxRecords: one.maxRecords, maxMinutes: 240 })
  expect(run.minutes).toBeLessThanOrEqual(one.minutes)
  expect(run.lists).toBeLessThanOrEqual(one.lists)
})
