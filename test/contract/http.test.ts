// A sample of the cells over real HTTP: the in-process transport hides nothing that a socket would show.
import { describe, test } from 'vitest'
import { startHttpStage } from '../support/stage.ts'
import { axes, only } from './axes.ts'
import { expectRecovered } from './expect-recovered.ts'
import { pairwise, product } from './pairwise.ts'

const sampled = 20

function sampleOf<T>(cells: readonly T[], count: number): T[] {
  return Array.from({ length: count }, (_, index) => cells[Math.floor((index * cells.length) / count)]).filter(
    (cell) => cell !== undefined,
  )
}

// Each has a sandbox of its own and mostly waits, in real time.
describe.concurrent('cells over HTTP', () => {
  test.each(sampleOf(pairwise(axes), sampled).map((cell, index) => [index, cell] as const))(
    'every pair of readings, %i: %j',
    async (_, cell) => {
      await expectRecovered(cell, startHttpStage)
    },
  )

  test.each(product(only('delivery')))('delivery: $delivery', async (cell) => {
    await expectRecovered(cell, startHttpStage)
  })
})
