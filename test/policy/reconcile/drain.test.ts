// When it will be done: never before it can be, and no number where it would be a guess.
import { describe, expect, test } from 'vitest'
import { estimateDrain, type DrainState } from '../../../src/observe/drain.ts'

const now = 1_000_000

function estimate(changes: Partial<DrainState>): number | undefined {
  const at = estimateDrain({
    pending: 0,
    backingOff: 0,
    lastDueAt: undefined,
    recoveredPerMs: 0,
    isHeld: false,
    now,
    ...changes,
  })
  return at === undefined ? undefined : at - now
}

test('nothing left is done now, also while all is held', () => {
  expect(estimate({})).toBe(0)
  expect(estimate({ isHeld: true })).toBe(0)
})

test('what is left at the present pace', () => {
  expect(estimate({ pending: 600, recoveredPerMs: 0.01 })).toBe(60_000)
  expect(estimate({ pending: 500, backingOff: 100, lastDueAt: now + 10, recoveredPerMs: 0.01 })).toBe(60_000)
})

test('not before the last backoff has ended', () => {
  expect(estimate({ pending: 6, backingOff: 1, lastDueAt: now + 3_600_000, recoveredPerMs: 1 })).toBe(3_600_000)
  expect(estimate({ backingOff: 3, lastDueAt: now + 5000 })).toBe(5000)
})

describe('nobody can tell', () => {
  test.each<[string, Partial<DrainState>]>([
    ['while nothing arrives', { pending: 1 }],
    ['while nothing may be retried', { pending: 1, recoveredPerMs: 1, isHeld: true }],
    ['when backoffs are not known', { backingOff: 1, recoveredPerMs: 1 }],
    ['without a pace', { pending: 1, recoveredPerMs: NaN }],
  ])('%s', (_, changes) => {
    expect(estimate(changes)).toBeUndefined()
  })
})
