// When all open records will have arrived: never before it can be, and no number where it would be a guess.
import { describe, expect, test } from 'vitest'
import { noCounts } from '../../../src/reconcile/decide.ts'
import { drainOf } from '../../../src/reconcile/drain.ts'
import { gateNames } from '../../../src/reconcile/retry/gates.ts'
import { refusing } from '../../support/incident.ts'
import { aStatusState, shut } from '../../support/status.ts'

const now = 1_000_000

interface Open {
  pending?: number
  backingOff?: number
  lastDueAt?: number
  recoveredPerMinute?: number
}

function estimate({ backingOff = 0, lastDueAt, pending = 0, recoveredPerMinute = 0 }: Open): number | undefined {
  const failed = { ...noCounts(), due: pending, 'backing-off': backingOff }
  const pace = { recoveredPerMinute, failedShare: 0, isSteady: true }
  const drain = drainOf(aStatusState({ failed, lastDueAt, pace, now }))
  return drain.doneAt && drain.doneAt - now
}

const hour = 3_600_000

test.each<[string, Open, number | undefined]>([
  ['at the present pace', { pending: 600, recoveredPerMinute: 600 }, 60_000],
  ['with those that back off', { pending: 500, backingOff: 100, lastDueAt: now + 10, recoveredPerMinute: 600 }, 60_000],
  ['not before the last backoff', { pending: 6, backingOff: 1, lastDueAt: now + hour, recoveredPerMinute: 999 }, hour],
  ['backoffs alone', { backingOff: 3, lastDueAt: now + 5000, recoveredPerMinute: 999 }, 5000],
  ['backoffs alone, without a pace', { backingOff: 3, lastDueAt: now + 5000 }, undefined],
  ['no estimate while nothing arrives', { pending: 1 }, undefined],
  ['none without a pace', { pending: 1, recoveredPerMinute: NaN }, undefined],
])('%s', (_, changes, expected) => {
  expect(estimate(changes)).toBe(expected)
})

describe('the daemon', () => {
  const failed = { due: 1, blocked: 2, 'backing-off': 3, awaiting: 4, exhausted: 1000, excluded: 1000 }
  const none = { due: 0, blocked: 0, 'backing-off': 0, awaiting: 0, exhausted: 1, excluded: 0 }
  const state = aStatusState({
    failed,
    lastDueAt: 0,
    pace: { recoveredPerMinute: 120, failedShare: 0, isSteady: true },
  })
  const msOf = (changes: Parameters<typeof aStatusState>[0]): number | undefined => {
    const drain = drainOf({ ...state, ...changes })
    return drain.doneAt && drain.doneAt - state.now
  }

  test('counts what is open, not what is exhausted or excluded; backoffs are on the platform’s clock', () => {
    expect([msOf({}), msOf({ failed: none })]).toEqual([5000, 0])
    expect(msOf({ lastDueAt: state.now + 60_000, skewMs: { auth: 0, api: 20_000 } })).toBe(40_000)
    expect(msOf({ throttledForMs: 60_000 })).toBe(65_000)
    const limitedBy = (lastDueAt: number): string => drainOf({ ...state, lastDueAt }).limitedBy
    expect([limitedBy(state.now + 5000), limitedBy(state.now + 5001)]).toEqual(['pace', 'backoff'])
  })

  test('has no estimate while a gate stops all retries for an unknown time; nothing left is done all the same', () => {
    const isKnown = gateNames.filter((gate) => msOf(shut(gate)) !== undefined)
    expect(isKnown).toEqual(['subscription-paused', 'throttled', 'circuit', 'subscription-throttled', 'limit'])
    expect(msOf({ ...shut('paused'), failed: none })).toBe(0)
  })

  test.each<[string, Parameters<typeof aStatusState>[0], string]>([
    ['while records wait for a circuit', { endless: { ...refusing(1), circuit: 1 } }, 'circuit'],
    ['while some are refused again and again', { endless: refusing(1) }, 'refused'],
    [
      'for a few at a pace that varies',
      {
        failed: { ...none, due: 1 },
        lastDueAt: undefined,
        pace: { recoveredPerMinute: 999, failedShare: 0, isSteady: false },
      },
      'pace',
    ],
    ['while more is awaited than arrives in a minute', { failed: { ...failed, awaiting: 121 } }, 'outcomes'],
    ['where outcomes alone are left', { failed: { ...none, awaiting: 4 } }, 'outcomes'],
    ['in a wrong zone', { timeOffsetMs: -3_600_000 }, 'zone'],
  ])('has none %s', (_, changes, limitedBy) => {
    expect(drainOf({ ...state, ...changes })).toEqual({ doneAt: undefined, limitedBy })
  })
})
