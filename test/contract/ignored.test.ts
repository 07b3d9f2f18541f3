// A gateway that drops parameters: either everything is recovered all the same, or the sweep says that it can't be; never anything else.
import { sweepNumbers } from '../../src/reconcile/policy.ts'
import { describe, expect, test } from 'vitest'
import type { Readings } from '../../sandbox/options.ts'
import { only } from './axes.ts'
import { recoverAll, startPlay } from './cell.ts'
import { product } from './pairwise.ts'

const times: Readings['ignores'][] = [['from'], ['to'], ['from', 'to'], ['from', 'to', 'status']]
const others: Readings['ignores'][] = [
  ['page.number'],
  ['page.number', 'page.size'],
  ['from', 'to', 'status', 'eventId', 'page.number', 'page.size'],
]
const listings = product({ ...only('order'), totals: ['exact', 'absent'] })
/** List calls of one sweep, no matter what is ignored: the population would do with some twenty. */
const mostCalls = 60

const named = (some: readonly Readings['ignores'][]): { ignores: Readings['ignores'] }[] =>
  some.map((ignores) => ({ ignores }))

describe.each(named([...times, ...others]))('$ignores, more than one slice holds', ({ ignores }) => {
  test.each(listings)('$order, totals $totals', async (cell) => {
    await using play = await startPlay(cell, { readings: { ignores } })
    const { facts, listCalls, missing, rounds, sweeps, violations } = await recoverAll(play)
    expect(violations).toEqual([])
    if (missing.length > 0) expect(sweeps).not.toContain('complete')
    expect(listCalls / rounds).toBeLessThan(mostCalls)
    if (!times.includes(ignores) || cell.totals !== 'exact') return
    expect(new Set(sweeps)).toEqual(new Set(['failed']))
    const told = facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure?.message] : []))
    expect(told[0]).toContain('the platform ignores eventDateTimeFrom/To')
  })
})

describe.each(named(times))('$ignores, all in one slice', ({ ignores }) => {
  test.each(listings)('everything is recovered: $order, totals $totals', async (cell) => {
    await using play = await startPlay(cell, { readings: { ignores }, policy: { sweep: sweepNumbers } })
    const { missing, sweeps, violations } = await recoverAll(play)
    expect({ violations, missing }).toEqual({ violations: [], missing: [] })
    expect(new Set(sweeps)).toEqual(new Set(['complete']))
  })
})
