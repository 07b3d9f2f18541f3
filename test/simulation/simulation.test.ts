// The whole daemon in virtual time: 300 scenarios (SIMULATION_SEEDS changes that), each another mixture of habits, troubles and ends, and none violates what must hold.
import { describe, expect, test } from 'vitest'
import { createCensus } from './census.ts'
import { generate } from './generate.ts'
import { simulate, type Simulated } from './simulate.ts'

const seeds = Number(process.env['SIMULATION_SEEDS'] ?? 300)
const seedsPerTest = 20
const chunks = Array.from({ length: seeds / seedsPerTest }, (_, index) => 1 + index * seedsPerTest)

const census = createCensus()
/** What came of each seed so far. */
const results = new Map<number, Simulated>()

async function resultOf(seed: number): Promise<Simulated> {
  const known = results.get(seed)
  if (known !== undefined) return known
  const scenario = generate(seed)
  const result = await simulate(scenario)
  census.add(scenario, result)
  results.set(seed, result)
  return result
}

describe('nothing that must hold is violated', () => {
  test.each(chunks)('from seed %i on', async (first) => {
    for (let seed = first; seed < first + seedsPerTest; seed += 1) {
      const { last, violation } = await resultOf(seed)
      const told = violation === undefined ? '' : `${violation.invariant}: ${violation.what}\n${last.join('\n')}`
      expect(told, `npm run simulate -- --seed ${seed} --verbose`).toBe('')
    }
  })
})

/** Some come in few seeds. */
const enoughSeeds = 300

test.runIf(seeds >= enoughSeeds)('each fault was drawn, and each promise could have been broken', () => {
  expect(census.missing()).toEqual([])
})

test('the scenarios really are full of trouble, and all that can be recovered is', async () => {
  const totals = { calls: 0, deliveries: 0, recovered: 0, processes: 0 }
  for (let seed = 1; seed <= seedsPerTest; seed += 1) {
    const { calls, deliveries, processes, recovered } = await resultOf(seed)
    totals.calls += calls
    totals.deliveries += deliveries
    totals.recovered += recovered
    totals.processes += processes
  }
  expect(totals.calls).toBeGreaterThan(2000)
  expect(totals.recovered).toBeGreaterThan(500)
  expect(totals.deliveries).toBeGreaterThan(totals.recovered)
  expect(totals.processes).toBeGreaterThan(1.5 * seedsPerTest)
})

test.each([2, 7, 11])('seed %i always happens in the same way, to the last event', async (seed) => {
  const first = await resultOf(seed)
  expect(await simulate(generate(seed))).toEqual(first)
  expect(first.digest).toMatch(/^[0-9a-f]{64}$/)
  const other = await resultOf(seed + 1)
  expect(other.digest).not.toBe(first.digest)
})
