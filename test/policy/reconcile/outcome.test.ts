// The verdict of an outcome about the receiver.
import { expect, test } from 'vitest'
import type { ReceiverVerdict } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { verdictOf, type Outcome } from '../../../src/reconcile/confirm/evidence.ts'

test.each<[Outcome, number | null, ReceiverVerdict]>([
  ['recovered', 200, 'recovered'],
  ['recovered', null, 'recovered'],
  // The status may be that of an earlier attempt.
  ['recovered', 503, 'recovered'],
  ['recovered', 422, 'recovered'],
  ['unknown', null, 'unknown'],
  ['unknown', 503, 'unknown'],
  ['unknown', 422, 'unknown'],
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
  ['failed-again', 400, 'refused'],
  ['failed-again', 402, 'refused'],
  ['failed-again', 405, 'refused'],
  ['failed-again', 409, 'refused'],
  ['failed-again', 410, 'refused'],
  ['failed-again', 413, 'refused'],
  ['failed-again', 422, 'refused'],
  ['failed-again', 499, 'refused'],
])('%s, the receiver answered %j: %s', (outcome, status, verdict) => {
  expect(verdictOf(outcome, status)).toBe(verdict)
})
