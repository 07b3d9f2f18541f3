// A gateway that drops parameters: either everything is recovered all the same, or the sweep says that it can't be; never anything else.
import { describe, expect, test } from 'vitest'
import type { Readings } from '../../sandbox/options.ts'
import { only } from './axes.ts'
import { recoverAll, startPlay } from './cell.ts'
import { product } from './pairwise.ts'

const times: [string, Readings['ignores']][] = [
  ['from', ['from']],
  ['to', ['to']],
  ['from and to', ['from', 'to']],
  ['from, to and status', ['from', 'to', 'status']],
]
const pages: [string, Readings['ignores']][] = [
  ['page number', ['page.number']],
  ['page number and size', ['page.number', 'page.size']],
]
const everything: [string, Readings['ignores']][] = [
  ['everything', ['from', 'to', 'status', 'eventId', 'page.number', 'page.size']],
]
const listings = product({ ...only('order'), totals: ['exact', 'absent'] })
/** The whole window is one slice. */
const small = { RECONCILER_SWEEP_SLICE_RECORDS: '5000' }
/** List calls of one sweep, no matter what is ignored: the population would do with some twenty. */
const mostCalls = 60

describe.each([...times, ...pages, ...everything])('%s, more than one slice holds', (_, ignores) => {
  test.each(listings)('$order, totals $totals', async (cell) => {
    await using play = await startPlay(cell, { readings: { ignores } })

    const { violations, missing, sweeps, rounds, listCalls } = await recoverAll(play)

    expect(violations).toEqual([])
    if (missing.length > 0) expect(sweeps).not.toContain('complete')
    expect(listCalls / rounds).toBeLessThan(mostCalls)
  })
})

describe.each(times)('%s, all in one slice', (_, ignores) => {
  test.each(listings)('everything is recovered: $order, totals $totals', async (cell) => {
    await using play = await startPlay(cell, { readings: { ignores }, env: small })

    const { violations, missing, sweeps } = await recoverAll(play)

    expect({ violations, missing }).toEqual({ violations: [], missing: [] })
    expect(new Set(sweeps)).toEqual(new Set(['complete']))
  })
})

test.each(times)('%s ignored on a large list: the sweep says what is wrong', async (_, ignores) => {
  await using play = await startPlay({}, { readings: { ignores } })

  const { sweeps, facts } = await recoverAll(play)

  expect(new Set(sweeps)).toEqual(new Set(['failed']))
  const told = facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure?.message] : []))
  expect(told[0]).toContain('the platform ignores eventDateTimeFrom/To')
})
