// The pace that is permitted: bounded by the rate, by the receiver's limit and by slots; and how a circuit starts slowly.
import { expect, test } from 'vitest'
import { permittedPace, slowStartRounds, type PaceLimits } from '../../../src/cli/round/report.ts'

const limits: PaceLimits = { callsPerSecond: 20, retriesPerSecond: undefined, concurrency: 8, secondsPerCall: 0.1 }

test('the rate of calls bounds it: 5 % of the calls are checks', () => {
  expect(20_000 / permittedPace(limits)).toBeCloseTo(1050)
})

test('so does the limit of the receiver, and so do the slots', () => {
  expect(permittedPace({ ...limits, retriesPerSecond: 1 })).toBe(1)
  expect(permittedPace({ ...limits, callsPerSecond: 1e5, secondsPerCall: 8 })).toBe(1)
  expect(permittedPace({ ...limits, callsPerSecond: 1e5, secondsPerCall: 0 })).toBeCloseTo(1e5 / 1.05)
})

test('the slow start doubles: 10, 20, 40, 80 are 150 records in four rounds', () => {
  expect([10, 150, 151].map((records) => slowStartRounds(records, 10))).toEqual([1, 4, 5])
  expect(slowStartRounds(0, 10)).toBe(0)
})
