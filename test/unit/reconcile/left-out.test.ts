// More failed records than the backlog holds: the healthy ones behind those of dead receivers are recovered without waiting
// for the next full sweep, with few list calls. At 20 calls a second.
import { expect, test } from 'vitest'
import { createLeftOut, type LeftOutRow } from '../../../src/reconcile/retry/left-out.ts'
import { dayMs, testNow } from '../../support/backlog.ts'
import type { ReconcileOptions } from '../../support/reconcile.ts'
import { play } from '../../support/script.ts'

const each = (count: number, step: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => step(index)).join('; ')
/** The receiver refuses what is older than a day. */
const refusesOld: ReconcileOptions['deliver'] = ({ eventLocal }) => ({
  afterMs: 0,
  code: eventLocal < testNow - dayMs ? 422 : 200,
})

const dead = (count: number, fields: string): string =>
  each(count, (index) => `deliver dead${index} 503; stored ${fields.replace('#', `dead${index}`)}`)
const up = (fields: string): string => each(2, (index) => `stored ${fields.replace('#', `up${index}`)}`)

/** List calls are 10 % above what was measured. */
test.each<[string, number, string, ReconcileOptions?]>([
  [
    '500 behind 5,000 of a dead receiver',
    2000,
    `${dead(1, '5000 # age=6d apart=86s')}; stored 500 a age=12h apart=72s
     start; ticks 30s 30s; recovered -> 500; lists -> at most 65`,
  ],
  [
    '100 behind 1,200 of their subscription that the receiver refuses',
    400,
    `stored 1200 a age=6d apart=6min; stored 100 a age=12h apart=6min
     start; ticks 30s 90s; recovered -> 100; lists -> at most 121`,
    { deliver: refusesOld },
  ],
  [
    '1,000 of two receivers among and behind 3,000 of three dead ones',
    500,
    `${dead(3, '1000 # age=6d apart=430s')}; ${up('500 # age=6d apart=860s')}
     start; ticks 30s 1min; recovered -> 1000; lists -> at most 103`,
  ],
  [
    '200 of two receivers among 2,000 of 40 dead ones',
    100,
    `${dead(40, '50 # age=6d apart=2h')}; ${up('100 # age=6d apart=1h')}
     start; ticks 30s 1min; recovered -> 200; lists -> at most 200`,
  ],
  [
    '2,000 of one receiver',
    200,
    `stored 2000 a age=6d apart=216s
     start; ticks 30s 2min; recovered -> 2000; lists -> at most 190`,
  ],
])('%s, with %i places: at once, by few list calls', async (_, maxRecords, script, options) => {
  await play(script, { latencyMs: 50, maxPerSecond: 20, maxRecords, ...options })
})

test('a row is counted once, in whatever order the slices are listed', () => {
  const leftOut = createLeftOut()
  const row = (eventSecond: number): LeftOutRow => ({ subscriptionId: 'a', decision: 'due', eventSecond })
  leftOut.listed({ from: 0, to: 10 }, [row(5)])
  leftOut.listed({ from: 20, to: 30 }, [row(25)])
  leftOut.listed({ from: 10, to: 20 }, [row(15)])
  expect(leftOut.counts().due).toBe(3)
  leftOut.listed({ from: 0, to: 30 }, [row(5), row(15), row(25)])
  expect(leftOut.counts().due).toBe(3)
})
