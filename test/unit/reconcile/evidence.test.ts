// When the checks of a retry are, and the verdict about the receiver. What a check is evidence of: outcomes.test.ts.
import { expect, test } from 'vitest'
import { nextCheckAt, verdictOf, type Outcome } from '../../../src/reconcile/confirm/evidence.ts'
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

const recovered = [null, 200, 422, 503].map((status) => ['recovered', status, 'recovered'] as const)
const unknown = [null, 422, 503].map((status) => ['unknown', status, 'unknown'] as const)
const failing = [null, 0, 200, 302, 399, 401, 402, 403, 404, 405, 408, 410, 425, 429, 499, 500, 503, 599]
const refusing = [400, 409, 413, 422]

test.each<readonly [Outcome, number | null, ReceiverVerdict]>([
  ...recovered,
  ...unknown,
  ...failing.map((status) => ['failed-again', status, 'failed-again'] as const),
  ...refusing.map((status) => ['failed-again', status, 'refused'] as const),
])('the verdict about the receiver: %s, the receiver answered %j: %s', (outcome, status, verdict) => {
  expect(verdictOf(outcome, status)).toBe(verdict)
})
