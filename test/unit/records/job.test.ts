// The parts of a retry job: what the platform's response to its PATCH makes of a record, and what is said of the listing.
import { expect, test } from 'vitest'
import type { RetryResponse } from '../../../src/platform/operations.ts'
import type { RetryEvent } from '../../../src/reconcile/retry/dispatcher.ts'
import { detailOf, standingAfter } from '../../../src/records/job.ts'

const eventOf = (answer: object): RetryEvent => ({ response: { ...answer } as RetryResponse }) as RetryEvent

test.each<[answer: object, standing: string | undefined]>([
  [{ result: 'throttled' }, undefined],
  [{ result: 'accepted' }, 'awaiting'],
  [{ result: 'platform-error', lost: true }, 'awaiting'],
  [{ result: 'platform-error' }, 'refused'],
  [{ result: 'already-resolved', found: 'successful' }, 'resolved'],
  [{ result: 'already-resolved', found: 'processing' }, 'underway'],
  [{ result: 'already-resolved' }, 'absent'],
])('after %j it is %s', (answer, standing) => {
  expect(standingAfter(eventOf(answer))).toBe(standing)
})

test.each<[answer: object, detail: string]>([
  [{ reason: 'timeout' }, 'timeout'],
  [{ reason: 'server-error', status: 503 }, 'HTTP 503'],
  [{ reason: 'conflict', status: 409, problem: 'svc.busy: wait' }, 'HTTP 409: svc.busy: wait'],
])('%j reads %s', (answer, detail) => {
  expect(detailOf(eventOf(answer))).toBe(detail)
})
