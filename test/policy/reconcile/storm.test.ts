// Hundreds of records are due and the platform refuses, fails or is misrouted: how many PATCHes go out, and that all goes on afterwards.
import { expect, test } from 'vitest'
import type { RetryAnswer } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import { dayMs, hourMs, learn, listingOf, minuteMs, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import { reconcile } from '../../support/reconcile.ts'

const records = Array.from({ length: 300 }, (_, index) =>
  failedRecord({ eventLocal: testNow - 3 * dayMs + index * 600_000 }),
)

interface Storm {
  patch: RetryAnswer
  /** What the list rejects with meanwhile; undefined when it works. */
  list: Error | undefined
  /** PATCHes in ten minutes at most. */
  most: number
  /** List calls in ten minutes at most: 1 s doubling to 5 min makes ten or eleven questions. */
  mostLists?: number
}

const failure = (reason: PlatformFailure['reason']): PlatformFailure => new PlatformFailure(reason, undefined, 'list')
const refused = (reason: 'unauthorized' | 'forbidden'): RetryAnswer => ({ result: 'unauthorized', reason, sent: true })
const serverError: RetryAnswer = { result: 'platform-error', reason: 'server-error', sent: true }
const unreachable: RetryAnswer = { result: 'unreachable', reason: 'connection', sent: true }
const misrouted: RetryAnswer = { result: 'gone', reason: 'not-found', sent: true }
const noToken: RetryAnswer = { result: 'unauthorized', reason: 'unauthorized', sent: false }

// Seven in flight (the eighth slot is for another subscription), two more until three have failed, and what a pause allows.
const storms: [string, Storm][] = [
  ['401 of everything', { patch: refused('unauthorized'), list: failure('unauthorized'), most: 7 }],
  ['403 of everything', { patch: refused('forbidden'), list: failure('forbidden'), most: 7 }],
  // Without a token nothing is sent: the backoff stays within 10 s, less the jitter.
  [
    'no token',
    {
      patch: noToken,
      list: new TokenError('no token', { kind: 'rejected', reason: 'bad-request' }),
      most: 7,
      mostLists: 90,
    },
  ],
  ['403 of the PATCH, while the list is allowed', { patch: refused('forbidden'), list: undefined, most: 7 + 12 }],
  ['5xx of everything', { patch: serverError, list: failure('server-error'), most: 7 + 2 }],
  ['no answer to anything', { patch: unreachable, list: failure('timeout'), most: 7 + 2 }],
  // The outcome of each of the nine is looked for as well, each time twice as late.
  [
    '5xx of everything, which may have been taken',
    { patch: { ...serverError, lost: true }, list: failure('server-error'), most: 7 + 2, mostLists: 14 + 9 * 9 },
  ],
  [
    'no answer in time to anything',
    {
      patch: { result: 'unreachable', reason: 'timeout', sent: true, lost: true },
      list: failure('timeout'),
      most: 7 + 2,
      mostLists: 14 + 9 * 9,
    },
  ],
  ['404 of everything: a misrouted gateway', { patch: misrouted, list: failure('not-found'), most: 7 + 2 }],
]

test.each(storms)('%s', async (_, { patch, list, most, mostLists = 14 }) => {
  let storming = true
  await using world = reconcile({
    records,
    latencyMs: 50,
    maxPerSecond: 100,
    onList: () => {
      if (storming && list !== undefined) throw list
    },
    onRetry: (record, platform, id) => {
      if (storming) return patch
      platform.set(id, { status: 'successful' })
      return accepted(record === undefined ? undefined : { ...record, status: 'successful' })
    },
  })
  learn(world.backlog, listingOf(records, { askedAt: 0 }), testNow)
  world.planner.changed()
  void world.start()
  await world.clock.advance(10 * minuteMs)
  expect(world.platform.retries.length).toBeLessThanOrEqual(most)
  expect(world.platform.retries.length).toBeGreaterThan(0)
  expect(world.platform.lists.length).toBeLessThanOrEqual(mostLists)
  expect(world.breaker.trouble()).toBeDefined()

  storming = false
  await world.clock.advance(5 * minuteMs)
  expect(world.breaker.trouble()).toBeUndefined()
  await world.clock.advance(hourMs)
  expect(world.platform.failedIds()).toEqual([])
})

test.each([
  ['5xx of every PATCH', serverError],
  ['404 of every PATCH', misrouted],
])('%s while the list works: the records are the trouble, each goes on with its own backoff', async (_, patch) => {
  await using world = reconcile({ records, latencyMs: 50, maxPerSecond: 100, onRetry: () => patch })
  learn(world.backlog, listingOf(records, { askedAt: 0 }), testNow)
  world.planner.changed()
  void world.start()
  await world.clock.advance(10 * minuteMs)
  const tries = [...world.backlog.entries()].map((entry) => entry.tries)
  // At 0, then 1, 2 and 4 min apart, less the jitter.
  expect(Math.max(...tries)).toBeLessThanOrEqual(5)
  // One list for each three that fail in a row.
  expect(world.platform.lists.length).toBeLessThanOrEqual(world.platform.retries.length / 3)
})
