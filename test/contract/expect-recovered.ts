// The verdict on a cell that must recover everything.
import { expect } from 'vitest'
import { startStage } from '../support/stage.ts'
import { recoverAll, startPlay, type PartialCell } from './cell.ts'

/** Totals that say more than there is, or others on each page, leave a slice in doubt; then the sweep has to say so. */
const doubtful = new Set(['high', 'page'])

export async function expectRecovered(cell: PartialCell, start = startStage): Promise<void> {
  await using play = await startPlay(cell, {}, start)

  const { violations, missing, sweeps } = await recoverAll(play)

  expect({ violations, missing }).toEqual({ violations: [], missing: [] })
  const allowed = doubtful.has(cell.totals ?? '') ? ['complete', 'incomplete'] : ['complete']
  expect(allowed).toEqual(expect.arrayContaining(sweeps))
}
