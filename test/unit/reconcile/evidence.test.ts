// When the checks of a retry are, and the verdict about the receiver. What a check is evidence of: outcomes.test.ts.
import { expect, test } from 'vitest'
import {
  firstCheckMs,
  learnFirstCheck,
  nextCheckAt,
  verdictOf,
  type Outcome,
} from '../../../src/reconcile/confirm/evidence.ts'
import type { ReceiverVerdict } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { hourMs } from '../../support/backlog.ts'

test('when to check: each on its time: 0.5, 1, 2, 4 ... seconds after the PATCH, at last every five minutes', () => {
  const at = [nextCheckAt(0, 0)]
  while ((at.at(-1) ?? Infinity) < hourMs) at.push(nextCheckAt(0, at.at(-1) ?? 0))
  const seconds = at.map((ms) => ms / 1000)
  expect(seconds.slice(0, 11)).toEqual([0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
  expect(seconds.slice(11, 14)).toEqual([812, 1112, 1412])
  expect(seconds).toHaveLength(22)
})

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

const recovered = [null, 200, 422, 503].map((status) => ['recovered', status, 'recovered'] as const)
const unknown = [null, 422, 503].map((status) => ['unknown', status, 'unknown'] as const)
const failing = [null, 0, 200, 302, 399, 401, 403, 404, 408, 425, 429, 500, 503, 599]
const refusing = [400, 402, 405, 409, 410, 413, 422, 499]

test.each<readonly [Outcome, number | null, ReceiverVerdict]>([
  ...recovered,
  ...unknown,
  ...failing.map((status) => ['failed-again', status, 'failed-again'] as const),
  ...refusing.map((status) => ['failed-again', status, 'refused'] as const),
])('the verdict about the receiver: %s, the receiver answered %j: %s', (outcome, status, verdict) => {
  expect(verdictOf(outcome, status)).toBe(verdict)
})
