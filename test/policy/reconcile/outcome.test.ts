// What an outcome says of the receiver: that it refuses one record is no news of it.
import { expect, test } from 'vitest'
import type { ReceiverVerdict } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { verdictOf, type Outcome } from '../../../src/reconcile/confirm/evidence.ts'

test.each<[Outcome, number | null, ReceiverVerdict]>([
  ['recovered', 200, 'recovered'],
  ['recovered', null, 'recovered'],
  // The status may be that of an earlier attempt.
  ['recovered', 503, 'recovered'],
  ['recovered', 422, 'recovered'],
  ['unknown', null, 'neutral'],
  ['unknown', 503, 'neutral'],
  ['unknown', 422, 'neutral'],
  ['failed-again', null, 'failed-again'],
  ['failed-again', 500, 'failed-again'],
  ['failed-again', 503, 'failed-again'],
  ['failed-again', 599, 'failed-again'],
  // A redirect, or a success that did not count, would meet any record.
  ['failed-again', 302, 'failed-again'],
  ['failed-again', 200, 'failed-again'],
  ['failed-again', 399, 'failed-again'],
  ['failed-again', 0, 'failed-again'],
  ['failed-again', 401, 'failed-again'],
  ['failed-again', 403, 'failed-again'],
  ['failed-again', 404, 'failed-again'],
  ['failed-again', 408, 'failed-again'],
  ['failed-again', 425, 'failed-again'],
  ['failed-again', 429, 'failed-again'],
  ['failed-again', 400, 'neutral'],
  ['failed-again', 402, 'neutral'],
  ['failed-again', 405, 'neutral'],
  ['failed-again', 409, 'neutral'],
  ['failed-again', 410, 'neutral'],
  ['failed-again', 413, 'neutral'],
  ['failed-again', 422, 'neutral'],
  ['failed-again', 499, 'neutral'],
])('%s, the receiver answered %j: %s', (outcome, status, verdict) => {
  expect(verdictOf(outcome, status)).toBe(verdict)
})
