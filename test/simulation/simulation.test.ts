// The whole daemon in virtual time: 300 scenarios, each another mixture of habits, troubles and ends, and none violates what must hold.
// This file plays the first quarter of them, simulation-2 to -4 the others. `npm run simulate` checks what was drawn and exercised.
import { expect, test } from 'vitest'
import { generate } from './generate.ts'
import { resultOf, testQuarter } from './seeds.ts'
import { simulate } from './simulate.ts'

testQuarter(1)

test('the scenarios really are full of trouble, and all that can be recovered is', async () => {
  const totals = { calls: 0, deliveries: 0, recovered: 0, processes: 0 }
  const seeds = 20
  for (let seed = 1; seed <= seeds; seed += 1) {
    const { calls, deliveries, processes, recovered } = await resultOf(seed)
    totals.calls += calls
    totals.deliveries += deliveries
    totals.recovered += recovered
    totals.processes += processes
  }
  expect(totals.calls).toBeGreaterThan(2000)
  expect(totals.recovered).toBeGreaterThan(500)
  expect(totals.deliveries).toBeGreaterThan(totals.recovered)
  expect(totals.processes).toBeGreaterThan(1.5 * seeds)
})

test.each([2, 7, 11])('seed %i always happens in the same way, to the last event', async (seed) => {
  const first = await resultOf(seed)
  expect(await simulate(generate(seed))).toEqual(first)
  expect(first.digest).toMatch(/^[0-9a-f]{64}$/)
  const other = await resultOf(seed + 1)
  expect(other.digest).not.toBe(first.digest)
})
