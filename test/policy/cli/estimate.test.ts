// How long a recovery is said to take: bounded by the rate, by the receiver's bound, by slots, and by the slow start.
import { expect, test } from 'vitest'
import { estimateSeconds, type PaceOfRetries } from '../../../src/cli/round/estimate.ts'

const pace: PaceOfRetries = {
  callsPerSecond: 20,
  retriesPerSecond: undefined,
  concurrency: 8,
  secondsPerCall: 0.1,
  initialLimit: 10,
  secondsPerOutcome: 0.5,
}

test('nothing takes no time', () => {
  expect(estimateSeconds(0, pace)).toBe(0)
})

test('the rate of calls bounds it: 5 % of the calls are looks', () => {
  expect(estimateSeconds(20_000, pace)).toBeGreaterThan(1050)
  expect(estimateSeconds(20_000, pace)).toBeLessThan(1057)
})

test('so does the bound of the receiver, and so do the slots', () => {
  expect(estimateSeconds(1000, { ...pace, retriesPerSecond: 1 })).toBeGreaterThan(1000)
  expect(estimateSeconds(1000, { ...pace, callsPerSecond: 1e5, secondsPerCall: 8 })).toBeGreaterThan(1000)
  expect(estimateSeconds(1000, { ...pace, callsPerSecond: 1e5, secondsPerCall: 0 })).toBeLessThan(5)
})

test('the slow start doubles: 10, 20, 40, 80 are 150 records in four rounds', () => {
  const fast = { ...pace, callsPerSecond: 1e9, secondsPerCall: 0, secondsPerOutcome: 1 }
  expect(Math.round(estimateSeconds(10, fast))).toBe(1)
  expect(Math.round(estimateSeconds(150, fast))).toBe(4)
  expect(Math.round(estimateSeconds(151, fast))).toBe(5)
  expect(Math.round(estimateSeconds(151, { ...fast, initialLimit: undefined }))).toBe(1)
})
