// The whole job under every pair of readings: what is ours is delivered once, what is not ours is never touched.
import { describe, expect, test } from 'vitest'
import { axes, only } from './axes.ts'
import { recoverAll, startPlay, type PartialCell } from './cell.ts'
import { pairwise, product } from './pairwise.ts'

/** Totals that say more than there is, or others on each page, leave a slice in doubt; then the sweep has to say so. */
const doubtful = new Set(['high', 'page'])

async function expectRecovered(cell: PartialCell): Promise<void> {
  await using play = await startPlay(cell)

  const { violations, missing, sweeps } = await recoverAll(play)

  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  const allowed = doubtful.has(cell.totals ?? '') ? ['complete', 'incomplete'] : ['complete']
  expect(allowed).toEqual(expect.arrayContaining(sweeps))
}

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
