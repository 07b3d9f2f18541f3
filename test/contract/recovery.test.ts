// The whole job under every pair of readings: what is ours is delivered once, what is not ours is never touched.
import { describe, expect, test } from 'vitest'
import { axes } from './axes.ts'
import { recoverAll, startPlay } from './cell.ts'
import { pairwise } from './pairwise.ts'

const cells = pairwise(axes)

describe('every pair of readings', () => {
  test.each(cells.map((cell, index) => [index, cell] as const))('%i: %j', async (_, cell) => {
    await using play = await startPlay(cell)

    const { violations, sweeps } = await recoverAll(play)

    expect(violations).toEqual([])
    if (cell.totals !== 'high') expect(sweeps).not.toContain('incomplete')
    expect(sweeps).not.toContain('failed')
  })
})
