// The delay of first checks follows the platform's deliveries.
import { expect, test } from 'vitest'
import { firstCheckMs, learnFirstCheck, nextCheckAt } from '../../../src/reconcile/confirm/evidence.ts'

/** Recovers so many records, `together` at a time; gives the delay then, and how many first checks came too early. */
function recover(initialMs: number, count: number, takesMs: number, together = 1): { delayMs: number; misses: number } {
  let [delayMs, misses] = [initialMs, 0]
  for (let from = 0; from < count; from += together) {
    const plannedMs = delayMs
    for (let index = from; index < from + together; index += 1) {
      let [missedMs, at] = [0, plannedMs]
      for (; at < takesMs; at = nextCheckAt(0, at)) missedMs = at
      if (missedMs > 0) misses += 1
      delayMs = learnFirstCheck(delayMs, { plannedMs, missedMs })
    }
  }
  return { delayMs, misses }
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
    const { delayMs, misses } = recover(firstCheckMs, 24_000, takesMs, together)
    expect(delayMs).toBeGreaterThanOrEqual(from)
    expect(delayMs).toBeLessThanOrEqual(to)
    expect(misses).toBeLessThanOrEqual(takesMs > 10_000 ? 24_000 : 2400)
  }
})

test('a record that was sent with another delay says nothing', () => {
  expect(recover(1000, 20, 10, 20).delayMs).toBe(950)
})
