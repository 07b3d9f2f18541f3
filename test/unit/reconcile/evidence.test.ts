// What one check is evidence of, given what was listed before the retry; when the next check is; the verdict about the receiver.
import { expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import {
  evidenceOf,
  nextCheckAt,
  verdictOf,
  type Evidence,
  type Outcome,
} from '../../../src/reconcile/confirm/evidence.ts'
import type { ReceiverVerdict } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'

const [t0, t1] = [testNow - hourMs, testNow + 20]
const patchedAt = 1900

type Shown = Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>
const failed = (attempts: number, lastAttemptLocal: number | null): Shown => ({
  status: 'failed',
  attempts,
  lastAttemptLocal,
})
const processing = (attempts: number, at: number | null): Shown => ({ ...failed(attempts, at), status: 'processing' })
const successful = (attempts: number, at: number | null): Shown => ({ ...failed(attempts, at), status: 'successful' })

/** One check; `failedSince` is when a new attempt was first shown as failed. */
function evidence(listed: Shown, failedSince: number | undefined, shown: Shown, askedAt: number): Evidence {
  const isSince = (last: number, toleranceMs: number): boolean => last >= testNow - toleranceMs
  const rules = { policy: defaultPolicy.outcome, doubtMs: 2000, isSince }
  return evidenceOf({ before: listed, failedSince, lostAt: undefined, sentAt: patchedAt }, shown, askedAt, rules)
}

const listed = failed(1, t0)
const longAfter = patchedAt + minuteMs
const soonAfter = patchedAt + 500

/** [what it is, as listed, since when a failure was seen, as seen, asked for at, evidence] */
const cases: [string, Shown, number | undefined, Shown, number, Evidence][] = [
  ['successful', listed, undefined, successful(1, t0), soonAfter, 'recovered'],
  ['successful, after a doubt', listed, patchedAt, successful(2, t1), longAfter, 'recovered'],
  ['processing', listed, undefined, processing(2, t1), soonAfter, 'processing'],
  ['processing, after a doubt', listed, patchedAt, processing(2, t1), longAfter, 'processing'],
  ['failed as it was', listed, undefined, listed, longAfter, 'unchanged'],
  ['failed as it was, by a server that lags', listed, patchedAt, listed, longAfter, 'unchanged'],
  ['fewer attempts, an earlier time', failed(7, t0), undefined, failed(1, t0 - 1), longAfter, 'unchanged'],
  ['none shown, before or after', failed(1, null), undefined, failed(1, null), longAfter, 'unchanged'],
  [
    'an attempt of others, which the list before the PATCH did not show',
    listed,
    undefined,
    failed(2, testNow - 2001),
    longAfter,
    'unchanged',
  ],
  ['the same, long after', listed, undefined, failed(2, testNow - 2001), patchedAt + 2 * minuteMs, 'doubtful'],
  [
    'the same, if it is not counted',
    listed,
    undefined,
    failed(1, testNow - 2001),
    patchedAt + 2 * minuteMs,
    'unchanged',
  ],
  [
    'the same, over a minute before the PATCH',
    listed,
    undefined,
    failed(2, testNow - 60_001),
    patchedAt + hourMs,
    'unchanged',
  ],
  ['none shown any more', listed, undefined, failed(1, null), longAfter, 'unchanged'],
]

test.each(cases)('what a check shows: %s', (_, before, failedSince, shown, askedAt, expected) => {
  expect(evidence(before, failedSince, shown, askedAt)).toBe(expected)
})

test.each<[string, Shown, Shown]>([
  ['count and time', listed, failed(2, t1)],
  ['no word of times', failed(1, null), failed(2, null)],
  ['only the time is kept up', listed, failed(1, t1)],
  ['only the count is kept up', listed, failed(2, t0)],
  ['the count began anew, the time is later', failed(7, t0), failed(1, t1)],
  ['no attempt was shown before', failed(0, null), failed(0, t1)],
  ['none shown, but one more counted', listed, failed(2, null)],
])(
  'a new attempt that is shown as failed: %s: one check is not enough, however late it comes; one two seconds later is',
  (_, before, shown) => {
    for (const askedAt of [patchedAt - 1, soonAfter, longAfter]) {
      expect(evidence(before, undefined, shown, askedAt)).toBe('doubtful')
    }
    for (const since of [patchedAt, soonAfter, longAfter]) {
      for (const askedAt of [since - 1, since, since + 1999]) {
        expect(evidence(before, since, shown, askedAt)).toBe('doubtful')
      }
      expect(evidence(before, since, shown, since + 2000)).toBe('failed-again')
    }
  },
)

const { outcome: policy } = defaultPolicy

test('when to check: each on its time: 0.5, 1, 2, 4 ... seconds after the PATCH, at last every five minutes', () => {
  const at = [nextCheckAt(0, 0, policy)]
  while ((at.at(-1) ?? Infinity) < hourMs) at.push(nextCheckAt(0, at.at(-1) ?? 0, policy))
  const seconds = at.map((ms) => ms / 1000)
  expect(seconds.slice(0, 11)).toEqual([0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
  expect(seconds.slice(11, 14)).toEqual([812, 1112, 1412])
  expect(seconds).toHaveLength(22)
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
