// The seeds of the simulation's tests, in quarters: a thread plays only one of them. SIMULATION_SEEDS changes how many there are.
import { describe, expect, test } from 'vitest'
import { generate } from './generate.ts'
import { simulate, type Simulated } from './simulate.ts'

const seeds = Number(process.env['SIMULATION_SEEDS'] ?? 300)
const perTest = 5
const perQuarter = Math.ceil(seeds / 4)

/** What came of each seed so far. */
const results = new Map<number, Simulated>()

/** What comes of this seed; it is played once in each thread. */
export async function resultOf(seed: number): Promise<Simulated> {
  const result = results.get(seed) ?? (await simulate(generate(seed)))
  results.set(seed, result)
  return result
}

/** Tests one quarter of the seeds: 1 to 4. */
export function testQuarter(quarter: 1 | 2 | 3 | 4): void {
  const [first, end] = [1 + (quarter - 1) * perQuarter, 1 + Math.min(seeds, quarter * perQuarter)]
  const chunks = Array.from({ length: Math.ceil((end - first) / perTest) }, (_, index) => first + index * perTest)

  describe('nothing that must hold is violated', () => {
    test.each(chunks)('from seed %i on', async (from) => {
      for (let seed = from; seed < Math.min(end, from + perTest); seed += 1) {
        const { last, violation } = await resultOf(seed)
        const told = violation === undefined ? '' : `${violation.invariant}: ${violation.what}\n${last.join('\n')}`
        expect(told, `npm run simulate -- --seed ${seed} --verbose`).toBe('')
      }
    })
  })
}
