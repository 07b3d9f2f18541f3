// The delay between two retries: known values, bounds, and the same result in every process.
import { describe, expect, test } from 'vitest'
import { backoffDelayMs, jitterOf, jitterSeed } from '../../../src/reconcile/backoff.ts'
import type { BackoffPolicy } from '../../../src/reconcile/policy.ts'

const minute = 60_000
const policy: BackoffPolicy = { initial: minute, max: 6 * 60 * minute }
const id = '3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f'
const seed = jitterSeed(id)

describe('the hash', () => {
  // A change of these values moves the due time of every record at the next deployment.
  test.each([
    [1, 0.33591487375088036],
    [2, 0.7308167330920696],
    [30, 0.7339269241783768],
  ])('of attempt %i is fixed', (attempt, value) => {
    expect(jitterOf(jitterSeed(id), attempt)).toBe(value)
  })

  test('is in [0, 1) and spreads evenly over the attempts of one record and over the records of one attempt', () => {
    const seeds = Array.from({ length: 5000 }, (_, index) =>
      jitterSeed(`00000000-0000-4000-8000-${String(index).padStart(12, '0')}`),
    )
    for (const hashes of [
      seeds.map((_, index) => jitterOf(jitterSeed(id), index)),
      seeds.map((seed) => jitterOf(seed, 1)),
    ]) {
      const tenths = new Array<number>(10).fill(0)
      for (const hash of hashes) {
        expect(hash).toBeGreaterThanOrEqual(0)
        expect(hash).toBeLessThan(1)
        tenths[Math.floor(hash * 10)] = (tenths[Math.floor(hash * 10)] ?? 0) + 1
      }
      for (const count of tenths) expect(Math.abs(count - 500)).toBeLessThan(120)
    }
  })
})

describe('the delay', () => {
  test.each([
    [1, 1],
    [2, 2],
    [3, 4],
    [9, 256],
    [10, 360],
    [30, 360],
    [10_000, 360],
    [Number.MAX_SAFE_INTEGER, 360],
  ])('after %i attempts lies within half of %i min', (n, minutes) => {
    const delay = backoffDelayMs(seed, n, policy)
    expect(delay).toBeLessThanOrEqual(minutes * minute)
    expect(delay).toBeGreaterThan((minutes * minute) / 2)
  })

  test('ids that differ by case only are the same record', () => {
    expect(backoffDelayMs(jitterSeed(id.toUpperCase()), 3, policy)).toBe(backoffDelayMs(seed, 3, policy))
  })

  test('it is never above the maximum, also where that is smaller than the first; less than one attempt is one', () => {
    expect(backoffDelayMs(seed, 1, { ...policy, max: 100 })).toBeLessThanOrEqual(100)
    for (const none of [0, -1000]) expect(backoffDelayMs(seed, none, policy)).toBe(backoffDelayMs(seed, 1, policy))
  })
})
