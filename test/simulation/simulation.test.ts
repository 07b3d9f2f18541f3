// The whole daemon in virtual time: 12 scenarios, each another mixture of habits, troubles and ends, and none violates what must hold.
// `npm run simulate` plays more of them, and checks what was drawn and exercised.
import { expect, test } from 'vitest'
import { generate } from './generate.ts'
import { simulate, type Simulated } from './simulate.ts'

const seeds = 12
const perTest = 4
const chunks = Array.from({ length: Math.ceil(seeds / perTest) }, (_, index) => 1 + index * perTest)

/** What came of each seed so far: it is played once. */
const results = new Map<number, Simulated>()

async function resultOf(seed: number): Promise<Simulated> {
  const result = results.get(seed) ?? (await simulate(generate(seed)))
  results.set(seed, result)
  return result
}

test.each(chunks)('nothing that must hold is violated, from seed %i on', async (from) => {
  for (let seed = from; seed <= Math.min(seeds, from + perTest - 1); seed += 1) {
    const { last, violation } = await resultOf(seed)
    const told = violation === undefined ? '' : `${violation.invariant}: ${violation.what}\n${last.join('\n')}`
    expect(told, `npm run simulate -- --seed ${seed} --verbose`).toBe('')
  }
})

test('the scenarios really are full of trouble, and all that can be recovered is', async () => {
  const results = await Promise.all(Array.from({ length: seeds }, (_, at) => resultOf(at + 1)))
  const sum = (of: 'calls' | 'deliveries' | 'processes' | 'recovered'): number =>
    results.reduce((total, result) => total + result[of], 0)
  expect(sum('calls')).toBeGreaterThan(2000)
  expect(sum('recovered')).toBeGreaterThan(500)
  expect(sum('deliveries')).toBeGreaterThan(sum('recovered'))
  expect(sum('processes')).toBeGreaterThan(results.length)
})

test.each([2, 7])('seed %i always happens in the same way, to the last event', async (seed) => {
  const first = await resultOf(seed)
  expect(await simulate(generate(seed))).toEqual(first)
  expect(first.digest).toMatch(/^[0-9a-f]{64}$/)
  const other = await resultOf(seed + 1)
  expect(other.digest).not.toBe(first.digest)
})
