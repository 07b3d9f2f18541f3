// What a sweep over a hundred thousand failed records costs in list calls. test/e2e/sizes.e2e.ts has a million.
import { expect, test } from 'vitest'
import { sweepCases, sweepCost } from '../../support/sweep-costs.ts'

const total = 100_000

test.each(sweepCases(total))('a hundred thousand records $name', async ({ most, seconds }) => {
  const cost = await sweepCost(seconds())
  expect(cost).toMatchObject({ records: total, incompleteSlices: 0 })
  expect(cost.slices).toBeGreaterThan(0)
  expect(cost.calls).toBeLessThanOrEqual(most)
  // A slice holds ten thousand records, or a few seconds: no page number is ever higher.
  expect(cost.deepestPage).toBeLessThanOrEqual(1000)
})
