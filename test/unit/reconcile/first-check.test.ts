// The delay of first checks follows the platform's deliveries.
import { expect, test } from 'vitest'
import { createFirstCheck, type FirstCheck } from '../../../src/reconcile/confirm/first-check.ts'
import { firstCheckMs, nextCheckAt } from '../../../src/reconcile/confirm/evidence.ts'

/** Recovers so many records, `together` at a time; gives how many first checks came too early. */
function recover(firstCheck: FirstCheck, count: number, takesMs: number, together = 1): number {
  let misses = 0
  for (let from = 0; from < count; from += together) {
    const plannedMs = firstCheck.delayMs()
    for (let index = from; index < from + together; index += 1) {
      let [missedMs, at] = [0, plannedMs]
      for (; at < takesMs; at = nextCheckAt(0, at)) missedMs = at
      if (missedMs > 0) misses += 1
      firstCheck.note({ plannedMs, missedMs })
    }
  }
  return misses
}

test.each([
  { takesMs: 10, from: 50, to: 50 },
  { takesMs: 300, from: 285, to: 600 },
  { takesMs: 2000, from: 1900, to: 4000 },
  { takesMs: 5000, from: 4750, to: 10_000 },
  { takesMs: 60_000, from: 10_000, to: 10_000 },
])('deliveries of $takesMs ms: it settles between $from and $to ms, and few checks come too early', (row) => {
  const { from, takesMs, to } = row
  for (const together of [1, 100]) {
    const firstCheck = createFirstCheck(firstCheckMs)
    const misses = recover(firstCheck, 24_000, takesMs, together)
    expect(firstCheck.delayMs()).toBeGreaterThanOrEqual(from)
    expect(firstCheck.delayMs()).toBeLessThanOrEqual(to)
    expect(misses).toBeLessThanOrEqual(takesMs > 10_000 ? 24_000 : 2400)
  }
})

test('a record that was sent with another delay says nothing', () => {
  const firstCheck = createFirstCheck(1000)
  recover(firstCheck, 20, 10, 20)
  expect(firstCheck.delayMs()).toBe(950)
})
