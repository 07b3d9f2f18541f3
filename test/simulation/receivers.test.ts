// Receivers that are neither up nor down: what they take arrives soon. In virtual time.
import { describe, expect, test } from 'vitest'
import { drawOf, minuteMs } from './draw.ts'
import { generate } from './generate.ts'
import type { Scenario } from './scenario.ts'
import { simulate } from './simulate.ts'
import { halfWell, poisoned } from './variants.ts'

/** Several habits. In none do the first nine deliveries all fail by chance, which happens in 4 of 100 where 30 % are taken. */
const seeds = [10_001, 10_002]

function calm(seed: number): Scenario {
  const { habits, ...scenario } = generate(seed)
  return {
    ...scenario,
    // A list that lags behind, large rows, and the platform's own retries, change the pace by themselves.
    habits: { ...habits, queue: [0, 200], deliveryTime: [5, 100], lagMs: 0, ownRetriesAfterRetry: 0, rowBytes: 500 },
    calmAt: 0,
    subscriptions: [0],
    receivers: [{ outages: [], flaky: 0 }],
    faults: [],
    revocations: [],
    others: [],
    jumps: [],
    platformJumps: [],
    keys: { file: [], registered: [] },
    pauses: [],
    jobs: [],
  }
}

interface Course {
  opened: number
  /** When nine of ten, and all, had arrived; ms since the start. */
  mostAt: number
  allAt: number
}

async function courseOf(scenario: Scenario): Promise<Course> {
  const arrivals: number[] = []
  let opened = 0
  const { recovered, violation } = await simulate(scenario, {
    tell: (line) => {
      if (/ record \w+ successful /.test(line)) arrivals.push(Number.parseFloat(line) * 1000)
      if (/ circuit \w+ open$/.test(line)) opened += 1
    },
  })
  expect(violation?.what).toBeUndefined()
  expect(recovered).toBe(arrivals.length)
  return { opened, mostAt: arrivals[Math.floor(0.9 * arrivals.length)] ?? Infinity, allAt: arrivals.at(-1) ?? Infinity }
}

/** More places than records. */
const unlimited = { RECONCILER_CIRCUIT_INITIAL_LIMIT: '1000' }

describe('a receiver that takes a part of the deliveries at random', () => {
  test.each([
    [0.3, 10_001],
    [0.5, 10_002],
    [0.7, 10_001],
  ])('%d of them: its circuit stays closed, and its pace is kept', async (taken, seed) => {
    const scenario = halfWell(drawOf(seed), calm(seed), 1 - taken)
    const { mostAt, opened } = await courseOf(scenario)
    expect(opened).toBe(0)
    const { mostAt: withoutCircuits } = await courseOf({ ...scenario, env: { ...scenario.env, ...unlimited } })
    expect(withoutCircuits / mostAt).toBeGreaterThan(0.8)
  })
})

test.each(seeds)('seed %i: healthy records arrive soon behind refused ones of their subscription', async (seed) => {
  const { allAt } = await courseOf(poisoned(drawOf(seed), calm(seed)))
  expect(allAt).toBeLessThan(15 * minuteMs)
})
