// The whole job under every pair of readings: what is ours is delivered once, what is not ours is never touched.
import { describe, test } from 'vitest'
import { axes, only } from './axes.ts'
import { expectRecovered } from './expect-recovered.ts'
import { pairwise, product } from './pairwise.ts'

describe('every pair of readings', () => {
  test.each(pairwise(axes).map((cell, index) => [index, cell] as const))('%i: %j', async (_, cell) => {
    await expectRecovered(cell)
  })
})

describe('refusal x delivery x prefix', () => {
  test.each(product(only('refusal', 'delivery', 'prefix')))(
    'HTTP $refusal, $delivery, prefix $prefix',
    async (cell) => {
      await expectRecovered(cell)
    },
  )
})
