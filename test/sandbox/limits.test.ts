// Limits of the rate that the sandbox plays: a token bucket and a quota for each minute, and what a refusal says.
import { expect, test } from 'vitest'
import { createLimitMeter, limitSchema, retryAfterOf } from '../../sandbox/api/limits.ts'

test('a bucket: its burst at once, then its rate, and the exact time until the next call', () => {
  const limit = limitSchema.parse({ kind: 'bucket', perSecond: 2, burst: 2 })
  const meter = createLimitMeter(limit)
  expect([0, 0, 0, 250, 500, 9000, 9000, 9000].map((at) => meter.take(at))).toEqual([
    ...[undefined, undefined, 500, 250],
    ...[undefined, undefined, undefined, 500],
  ])
  expect(meter.granted()).toBe(5)
  expect([500, 1001].map((ms) => retryAfterOf(limit, ms))).toEqual(['1', '2'])
})

test('a quota: so many from its second of each minute on', () => {
  const limit = limitSchema.parse({ kind: 'quota', perMinute: 2, fromSecond: 12, retryAfter: 7 })
  const meter = createLimitMeter(limit)
  expect([11_000, 12_000, 13_000, 14_000, 71_999, 72_000].map((at) => meter.take(at))).toEqual([
    ...[undefined, undefined, undefined],
    ...[58_000, 1, undefined],
  ])
  expect(retryAfterOf(limit, 1)).toBe('7')
  expect(retryAfterOf({ ...limit, retryAfter: 'absent' }, 1)).toBeUndefined()
})
