// A gateway that drops parameters, or a platform that reads From and To in another zone than that of its rows: either everything is recovered all the same, or the sweep says that it can't be; never anything else.
import { sweepNumbers } from '../../src/reconcile/policy.ts'
import { expect, test } from 'vitest'
import type { Readings } from '../../sandbox/options.ts'
import { only, type Aspect } from './axes.ts'
import { recoverAll } from './cell.ts'
import { beginPlay } from './population.ts'
import { pairwise } from './pairwise.ts'

const times: Readings['ignores'][] = [['from'], ['to'], ['from', 'to'], ['from', 'to', 'status']]
const others: Readings['ignores'][] = [
  ['page.number'],
  ['page.number', 'page.size'],
  ['from', 'to', 'status', 'eventId', 'page.number', 'page.size'],
]
/** List calls of one sweep, no matter what is ignored: the population would do with some twenty. */
const mostCalls = 60

/** With every pair of order and totals, and of either with what is ignored. */
const cellsOf = (some: readonly Readings['ignores'][]) =>
  pairwise({ ...only('order'), totals: ['exact', 'absent'], ignored: some.map((names) => names.join()) })

/** The cell of `cellsOf`, of which no axis is what is ignored. */
const play = ({ ignored, ...cell }: ReturnType<typeof cellsOf>[number], more: Aspect = {}) =>
  beginPlay(cell, { ...more, readings: { ignores: ignored.split(',') as Readings['ignores'] } })

test.each(cellsOf([...times, ...others]))(
  'more than one slice holds: $ignored, $order, totals $totals',
  async (cell) => {
    await using playing = await play(cell)
    const { facts, missing, sweeps, violations } = await recoverAll(playing)
    expect(violations).toEqual([])
    if (missing.length > 0) expect(sweeps).not.toContain('complete')
    const listCalls = facts.filter((fact) => fact.type === 'platform-request' && fact.operation === 'list').length
    expect(listCalls / sweeps.length).toBeLessThan(mostCalls)
    if (!times.some((names) => names.join() === cell.ignored) || cell.totals !== 'exact') return
    expect(new Set(sweeps)).toEqual(new Set(['failed']))
    const told = facts.flatMap((fact) => (fact.type === 'sweep' ? [fact.report.failure?.message] : []))
    expect(told[0]).toContain('the platform ignores eventDateTimeFrom/To')
  },
)

test.each(cellsOf(times))(
  'all in one slice, everything is recovered: $ignored, $order, totals $totals',
  async (cell) => {
    await using playing = await play(cell, { policy: { sweep: sweepNumbers } })
    const { missing, sweeps, violations } = await recoverAll(playing)
    expect({ violations, missing }).toEqual({ violations: [], missing: [] })
    expect(new Set(sweeps)).toEqual(new Set(['complete']))
  },
)

test.each([...[-5, 1, 5].map((hours) => ({ boundsLaterSeconds: hours * 3600 })), { statusHides: true }])(
  'no sweep is complete with %j: bounds of another zone, or a status that hides',
  async (readings) => {
    await using playing = await beginPlay({}, { readings })
    const { missing, sweeps, violations } = await recoverAll(playing)
    expect(violations).toEqual([])
    expect(missing).not.toEqual([])
    expect(sweeps).not.toContain('complete')
  },
)
