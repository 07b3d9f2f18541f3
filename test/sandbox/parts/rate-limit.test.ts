// The platform's rate limit: a burst, then evenly.
import { expect, test } from 'vitest'
import { createRateGate } from '../../../sandbox/api/rate-limit.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

test('lets a second of calls pass at once, then one each time the bucket has refilled', async () => {
  const clock = createVirtualClock()
  const gate = createRateGate(clock)
  const limit = { requestsPerSecond: 4, retryAfter: 'seconds' } as const
  expect(Array.from({ length: 5 }, () => gate(limit))).toEqual([undefined, undefined, undefined, undefined, 0.25])
  await clock.advance(250)
  expect(gate(limit)).toBeUndefined()
  expect(gate(limit)).toBe(0.25)
  await clock.advance(60_000)
  expect(Array.from({ length: 5 }, () => gate(limit)).filter((wait) => wait === undefined)).toHaveLength(4)
})

test('a burst of its own may be smaller', () => {
  const gate = createRateGate(createVirtualClock())
  const limit = { requestsPerSecond: 100, burst: 1, retryAfter: 'absent' } as const
  expect(gate(limit)).toBeUndefined()
  expect(gate(limit)).toBeCloseTo(0.01)
})
