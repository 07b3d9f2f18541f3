// The report of `once`: its exit code under everything that can have happened, and its words.
import { describe, expect, test } from 'vitest'
import { asText, emptyTally, judge, stoppedSweep, tallyRetry, type OnceReport } from '../../../src/cli/once-report.ts'
import { retryResults } from '../../../src/platform/operations.ts'
import { noCounts } from '../../../src/reconcile/decide.ts'

type Body = Omit<OnceReport, 'exitCode'>

const { outcomes, retries } = emptyTally()
const good: Body = {
  schemaVersion: 1,
  instance: 'test',
  platform: 'platform.test',
  dryRun: false,
  startedAt: '2026-01-15T12:00:00.000Z',
  seconds: 1.5,
  sweep: { result: 'complete', listed: 30, slices: 2, incompleteSlices: 0, skippedSlices: 0 },
  failed: { ...noCounts(), due: 30 },
  leftOut: false,
  retries: { ...retries, accepted: 25, 'already-resolved': 5 },
  outcomes: { ...outcomes, recovered: 25 },
  held: 0,
  awaiting: 0,
  cutOff: 0,
  stoppedBy: null,
}
const none = { rejected: false, refused: 0 }

describe('exit code', () => {
  const incomplete = { ...good.sweep, result: 'incomplete' } as const
  const failed = { ...good.sweep, result: 'failed' } as const
  test.each<[string, Partial<Body>, Partial<typeof none>, number]>([
    ['all recovered, or resolved by somebody else', {}, {}, 0],
    ['nothing to do', { retries, outcomes, failed: noCounts() }, {}, 0],
    ['a dry run that has seen due records', { dryRun: true, retries, outcomes }, {}, 0],
    ['an answer lost, and the record recovered', { retries: { ...good.retries, unreachable: 1 } }, {}, 0],
    ['refused', {}, { refused: 1 }, 1],
    ['failed again', { outcomes: { ...good.outcomes, 'failed-again': 1 } }, {}, 1],
    ['unknown', { outcomes: { ...good.outcomes, unknown: 1 } }, {}, 1],
    ['held by an order of its entity', { held: 1 }, {}, 1],
    ['open circuit', { held: 1, stoppedBy: 'circuit' }, {}, 1],
    ['receiver down', { held: 1, stoppedBy: 'receiver' }, {}, 1],
    ['not awaited', { awaiting: 1 }, {}, 1],
    ['cut off', { cutOff: 1 }, {}, 1],
    ['a signal, though all was done', { stoppedBy: 'signal' }, {}, 1],
    ['no room for all', { leftOut: true }, {}, 1],
    ['a sweep that is incomplete', { sweep: incomplete }, {}, 1],
    ['permission refused', { stoppedBy: 'unauthorized', held: 3 }, {}, 4],
    ['token refused, so nothing was listed', { sweep: failed }, { rejected: true }, 4],
    ['the platform is away', { stoppedBy: 'platform', awaiting: 3 }, {}, 69],
    ['nothing could be listed', { sweep: failed }, {}, 69],
  ])('%s', (_, changes, particulars, code) => {
    expect(judge({ ...good, ...changes }, { ...none, ...particulars })).toBe(code)
  })

  test.each(retryResults)('%s: a refusal or not, and never one when the answer was lost', (result) => {
    const tally = emptyTally()
    tallyRetry(tally, { result, lost: true })
    expect(tally).toMatchObject({ refused: 0, retries: { [result]: 1 } })
    tallyRetry(tally, { result })
    expect(tally.refused).toBe(['accepted', 'already-resolved'].includes(result) ? 0 : 1)
  })
})

describe('in words', () => {
  const told = (changes: Partial<Body>, retriesEnabled = true): string[] =>
    asText({ ...good, ...changes, exitCode: 0 }, retriesEnabled)
      .trimEnd()
      .split('\n')

  test('all is well: four lines', () => {
    expect(told({})).toEqual([
      'test at platform.test: one full sweep in 1.5 s, complete',
      'failed records in the window: 30 due',
      'retries: 25 accepted, 5 already-resolved',
      'outcomes: 25 recovered',
    ])
  })

  test('everything that is left has its line, with what to do', () => {
    const left = { held: 12, awaiting: 3, cutOff: 2, leftOut: true, stoppedBy: 'circuit' } as const
    const lines = told({ ...left, outcomes: { recovered: 1, 'failed-again': 10, unknown: 4 } })
    expect(lines).toContain('outcomes: 1 recovered, 10 failed-again, 4 unknown')
    expect(lines).toContain('due, and not retried: 12')
    expect(lines).toContain('outcomes not awaited: 3; the next run sees what became of them')
    expect(lines).toContainEqual(expect.stringMatching(/^cut off: 2; /))
    expect(lines).toContainEqual(expect.stringContaining('backlog.maxRecords'))
    expect(lines.at(-1)).toMatch(/^stopped early by: circuit \(.*put the receiver right, then run again\)$/)
  })

  test.each(['unauthorized', 'platform', 'receiver', 'circuit', 'signal'] as const)(
    '%s says what to do',
    (stoppedBy) => {
      expect(told({ stoppedBy }).at(-1)).toMatch(new RegExp(`^stopped early by: ${stoppedBy} \\(.{10,}\\)$`))
    },
  )

  test('a sweep that failed says where, and why', () => {
    const sweep = { ...good.sweep, result: 'failed', failure: { stage: 'list', reason: 'timeout' } } as const
    expect(told({ sweep })[0]).toMatch(/failed \(list: timeout\)$/)
  })

  test('nothing was touched: no retries, no outcomes', () => {
    expect(told({ dryRun: true })).toHaveLength(3)
    expect(told({ dryRun: true }).at(-1)).toBe('dry run: nothing was touched')
    expect(told({}, false).at(-1)).toBe('retry.enabled is false: nothing was touched')
  })
})

test('a sweep that was stopped has listed what is known so far', () => {
  expect(stoppedSweep({ ...noCounts(), due: 3, parked: 4 })).toMatchObject({ result: 'incomplete', listed: 7 })
})
