// More failed records than the backlog holds: the healthy ones behind those of dead receivers are recovered without waiting
// for the next full sweep, with few list calls. At 20 calls a second.
import { test } from 'vitest'
import { dayMs, testNow } from '../../support/backlog.ts'
import type { ReconcileOptions } from '../../support/reconcile.ts'
import { play } from '../../support/script.ts'

const newer = 'age=12h apart=72s'
const each = (count: number, step: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => step(index)).join('; ')
/** The receiver refuses what is older than a day. */
const refusesOld: ReconcileOptions['deliver'] = ({ eventLocal }) => ({
  afterMs: 0,
  code: eventLocal < testNow - dayMs ? 422 : 200,
})

interface Case extends ReconcileOptions {
  name: string
  given: string
  /** Until the records of healthy receivers are recovered; list calls are 10 % above what was measured. */
  until: string
  recovered: number
  lists: number
}

test.each<Case>([
  {
    name: '500 behind 5,000 of a dead receiver',
    given: `deliver dead 503; stored 5000 dead age=6d apart=86s; stored 500 a ${newer}`,
    maxRecords: 2000,
    until: '30s',
    recovered: 500,
    lists: 65,
  },
  {
    name: '100 behind 1,200 of their subscription that the receiver refuses',
    given: `stored 1200 a age=6d apart=6min; stored 100 a age=12h apart=6min`,
    deliver: refusesOld,
    maxRecords: 400,
    until: '90s',
    recovered: 100,
    lists: 121,
  },
  {
    name: '1,000 of two receivers among and behind 3,000 of three dead ones',
    given: `${each(3, (index) => `deliver dead${index} 503; stored 1000 dead${index} age=6d apart=430s`)}
            ${each(2, (index) => `stored 500 up${index} age=6d apart=860s`)}`,
    maxRecords: 500,
    until: '1min',
    recovered: 1000,
    lists: 103,
  },
  {
    name: '200 of two receivers among 2,000 of 40 dead ones',
    given: `${each(40, (index) => `deliver dead${index} 503; stored 50 dead${index} age=6d apart=2h`)}
            ${each(2, (index) => `stored 100 up${index} age=6d apart=1h`)}`,
    maxRecords: 100,
    until: '1min',
    recovered: 200,
    lists: 200,
  },
  {
    name: '2,000 of one receiver',
    given: 'stored 2000 a age=6d apart=216s',
    maxRecords: 200,
    until: '2min',
    recovered: 2000,
    lists: 190,
  },
])(
  '$name, with $maxRecords places: in $until, by few list calls',
  async ({ given, lists, recovered, until, ...options }) => {
    await play(`${given}; start; ticks 30s ${until}; recovered -> ${recovered}; lists -> at most ${lists}`, {
      latencyMs: 50,
      maxPerSecond: 20,
      ...options,
    })
  },
)
