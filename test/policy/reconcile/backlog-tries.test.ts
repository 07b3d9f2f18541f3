// What the backlog remembers of a PATCH, and what it makes of the platform's times.
import type { Listing } from '../../../src/reconcile/sweep/list-slice.ts'
import { describe, expect, test } from 'vitest'
import type { RetryAnswer, RetryResult } from '../../../src/platform/operations.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { noCounts } from '../../../src/reconcile/decide.ts'
import type { Decision } from '../../../src/reconcile/decide.ts'
import {
  begun,
  dayMs,
  decisionOf,
  defaultPolicy,
  due,
  entryOf,
  hourMs,
  learn,
  listingOf,
  looked,
  minuteMs,
  noted,
  patchedAt,
  testBacklog,
  testNow,
  testWindow,
  watchedBacklog,
  type TestBacklog,
} from '../../support/backlog.ts'
import { accepted } from '../../support/fake-platform.ts'

const now = testNow

describe('what a PATCH leaves behind', () => {
  /** The platform looked at the record, or may have: a try of ours. */
  const tries: [RetryResult, Decision][] = [
    ['accepted', 'awaiting'],
    ['already-resolved', 'backing-off'],
    ['gone', 'backing-off'],
    ['rejected', 'backing-off'],
  ]

  /** The platform refused the call, or the call never left: no try of ours. */
  const refusals: [string, RetryAnswer][] = [
    ['403', { result: 'unauthorized', reason: 'forbidden', sent: true }],
    ['401', { result: 'unauthorized', reason: 'unauthorized', sent: true }],
    ['429', { result: 'throttled', reason: 'throttled', sent: true }],
    ['5xx with a code', { result: 'platform-error', reason: 'server-error', sent: true }],
    ['a connection that could not be had', { result: 'unreachable', reason: 'connection', sent: true }],
    ['no token', { result: 'unauthorized', reason: 'unauthorized', sent: false }],
  ]

  test.each(tries)('%s: the record is %s, and our try is remembered', (result, decision) => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    expect(decisionOf(backlog, record)).toBe('due')
    noted(backlog, record, { result, reason: 'other', sent: true })
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, refusals: 0, triedAt: now })
    expect(decisionOf(backlog, record)).toBe(decision)
  })

  test.each(refusals)('%s: no try, but the record backs off from that moment', (_, answer) => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, answer)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 0, refusals: 1, triedAt: now, awaiting: undefined })
    expect(decisionOf(backlog, record)).toBe('backing-off')
  })

  /** Offers a record that the platform lists as failed for ever, for so many days. Returns when it was retried. */
  function retriedFor(days: number, answer: RetryAnswer, backlog: TestBacklog, record: WebhookRecord): number[] {
    const sentAt: number[] = []
    for (let at = now; at < now + days * dayMs; at += 10 * minuteMs) {
      learn(backlog, listingOf([record], { askedAt: at }), at)
      if (decisionOf(backlog, record, at) !== 'due') continue
      sentAt.push(at)
      noted(backlog, record, answer, at + 1, at)
    }
    return sentAt
  }

  const longWindow = { window: { ...defaultPolicy.window, lookback: 60 * dayMs } }

  test.each(['gone', 'already-resolved', 'rejected'] as const)(
    'listed failed for ever after %s: it backs off, and is parked at the limit in the end',
    (result) => {
      const backlog = testBacklog({ policy: longWindow })
      const record = due()
      const sentAt = retriedFor(20, { result, reason: 'other', sent: true }, backlog, record)
      expect(sentAt).toHaveLength(30)
      const gaps = sentAt.slice(1).map((at, index) => at - (sentAt[index] ?? 0))
      expect(Math.min(...gaps.slice(12))).toBeGreaterThanOrEqual(3 * hourMs)
      expect(decisionOf(backlog, record, now + 20 * dayMs)).toBe('parked')
    },
  )

  test.each(refusals)('%s, however often: it backs off up to six hours, and is never parked', (_, answer) => {
    const backlog = testBacklog({ policy: longWindow })
    const record = due()
    const sentAt = retriedFor(20, answer, backlog, record)
    expect(sentAt.length).toBeGreaterThan(50)
    const gaps = sentAt.slice(1).map((at, index) => at - (sentAt[index] ?? 0))
    // One of them is cut, to the last chance before the record leaves the window.
    const [, shortest] = gaps.slice(12).toSorted((a, b) => a - b)
    expect(shortest).toBeGreaterThanOrEqual(3 * hourMs)
    expect(decisionOf(backlog, record, now + 20 * dayMs + 6 * hourMs)).toBe('due')
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 1, tries: 0 })
  })

  test('a try ends the row of refusals, and a refusal does not undo the tries before it', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const throttled = { result: 'throttled', reason: 'throttled', sent: true } as const
    noted(backlog, record, throttled, 2000, now - 5 * hourMs)
    noted(backlog, record, throttled, 3000, now - 4 * hourMs)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 0, refusals: 2, triedAt: now - 4 * hourMs })
    noted(backlog, record, { result: 'rejected', reason: 'bad-request', sent: true }, 4000, now - 3 * hourMs)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, refusals: 0, triedAt: now - 3 * hourMs })
    noted(backlog, record, throttled, 5000, now)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, refusals: 1, triedAt: now })
  })

  test.each(['platform-error', 'unreachable'] as const)(
    '%s of a PATCH that may have been taken all the same: it is awaited, not retried',
    (result) => {
      const { backlog, outcomes } = watchedBacklog()
      const record = due()
      learn(backlog, listingOf([record]), now)
      noted(backlog, record, { result, reason: 'timeout', sent: true, lost: true })
      expect(decisionOf(backlog, record, now + dayMs)).toBe('awaiting')
      expect([...backlog.outcomes.pending()]).toEqual([entryOf(backlog, record)])
      expect(entryOf(backlog, record)).toMatchObject({ tries: 1, triedAt: now, awaiting: { lost: true } })
      expect(outcomes()).toEqual([])
    },
  )

  test('the answer’s record is taken in: successful leaves, all else is awaited, failed backs off after a look', () => {
    const { backlog, outcomes } = watchedBacklog()
    const [again, done, busy, odd] = [due(), due(), due(), due()]
    learn(backlog, listingOf([again, done, busy, odd]), now)
    const after = { attempts: 2, lastAttemptLocal: now }
    noted(backlog, again, accepted({ ...again, ...after }))
    noted(backlog, done, accepted({ ...done, ...after, status: 'successful' }))
    noted(backlog, busy, accepted({ ...busy, status: 'processing' }))
    noted(backlog, odd, accepted({ ...odd, status: 'other' }))
    expect(backlog.get(done.id)).toBeUndefined()
    for (const record of [again, busy, odd]) expect(decisionOf(backlog, record)).toBe('awaiting')
    expect(outcomes()).toEqual([[done.id, 'recovered']])
    expect([...backlog.outcomes.pending()].map(({ id }) => id)).toEqual([again.id, busy.id, odd.id])

    // Two seconds after the answer, which came 100 ms after the PATCH.
    looked(backlog, entryOf(backlog, again), { ...again, ...after }, 2100)
    expect(decisionOf(backlog, again)).toBe('backing-off')
    expect(entryOf(backlog, again)).toMatchObject({ attempts: 2, lastAttemptLocal: now })
    expect(outcomes()).toEqual([
      [done.id, 'recovered'],
      [again.id, 'failed-again'],
    ])
    expect([...backlog.outcomes.pending()].map(({ id }) => id)).toEqual([busy.id, odd.id])
  })

  test('an answer that shows the record as it was is no outcome, and no look', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted(record))
    expect(outcomes()).toEqual([])
    const { awaiting } = entryOf(backlog, record)
    expect(awaiting).toMatchObject({ checkAt: patchedAt + 500, failedSince: undefined })
  })

  test('nor is one that took ten seconds: the first look is due at once', () => {
    const { backlog } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    backlog.outcomes.note(entry, accepted({ ...record, status: 'processing' }), {
      answeredAt: now + 10_000,
      monotonic: patchedAt + 10_000,
    })
    expect(entry.awaiting).toMatchObject({ checkAt: patchedAt + 500 })
  })

  test.each([
    ['shows a new failure is looked at two seconds after it', { attempts: 2, lastAttemptLocal: now }, 62_000],
    ['shows the record as it was is no look: the first one is due at once', {}, 500],
  ])('an answer that took a minute and %s', (_, fields, lookAfterMs) => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    const at = { answeredAt: now + minuteMs, monotonic: patchedAt + minuteMs }
    backlog.outcomes.note(entry, accepted({ ...record, ...fields }), at)
    expect(outcomes()).toEqual([])
    expect(entry.awaiting).toMatchObject({ checkAt: patchedAt + lookAfterMs })
  })

  test('an answer to a retry that was not sent changes nothing', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    backlog.outcomes.note(entryOf(backlog, record), accepted({ ...record, status: 'successful' }), {
      answeredAt: now,
      monotonic: 2000,
    })
    expect(backlog.size()).toBe(1)
    expect(outcomes()).toEqual([])
  })
})

describe('a record that the platform called successful', () => {
  const resolved = { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' } as const

  /** Retried, and answered, while a slice is being listed. */
  function retried(options: Parameters<typeof testBacklog>[0] = {}): {
    backlog: TestBacklog
    record: WebhookRecord
    endListing: () => void
  } {
    const backlog = testBacklog(options)
    const record = due()
    learn(backlog, listingOf([record]), now)
    const endListing = backlog.beginListing()
    noted(backlog, record, resolved)
    return { backlog, record, endListing }
  }

  test('is out of the plan at once: not held, not counted, no newcomer by a listing that was asked for before', () => {
    const { backlog, endListing, record } = retried()
    expect(backlog.get(record.id)).toBeUndefined()
    expect([backlog.size(), [...backlog.entries()]]).toEqual([0, []])
    expect(backlog.summary(now + dayMs, () => undefined).counts).toEqual(noCounts())
    expect(learn(backlog, listingOf([record]), now + dayMs).changed).toEqual([])
    expect(backlog.leftOut.counts()).toEqual(noCounts())
    endListing()
    expect(backlog.forgetBefore(testWindow.to)).toBe(0)
  })

  test('backs off by our tries when a listing begun after the PATCH still shows it failed', () => {
    const { backlog, endListing, record } = retried()
    endListing()
    const learned = learn(backlog, listingOf([record], { askedAt: 2001 }), now + 1000)
    expect(learned.changed.map(({ id }) => id)).toEqual([record.id])
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, triedAt: now })
    expect(decisionOf(backlog, record, now + 1000)).toBe('backing-off')
    noted(backlog, record, resolved, 4000, now + hourMs)
    learn(backlog, listingOf([record], { askedAt: 4001 }), now + hourMs)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 2, triedAt: now + hourMs })
  })

  test.each([
    ['complete: it is forgotten, and a new one when it is failed once more', {}, 0],
    ['incomplete: it is remembered', { complete: false }, 1],
    ['of another span: it is remembered', { span: { from: testWindow.to - 100, to: testWindow.to } }, 1],
  ])('is not shown by a listing that is %s', (_, fields, tries) => {
    const { backlog, endListing, record } = retried()
    learn(backlog, listingOf([], fields), now)
    expect(backlog.size()).toBe(0)
    endListing()
    learn(backlog, listingOf([], { askedAt: 3000, ...fields }), now)
    learn(backlog, listingOf([record], { askedAt: 4000 }), now)
    expect(entryOf(backlog, record)).toMatchObject({ tries })
  })

  test('gives way to any newcomer', () => {
    const { backlog, endListing, record } = retried({ maxRecords: 2 })
    endListing()
    const [one, two] = [due(), due()]
    learn(backlog, listingOf([one, two], { askedAt: 3000, complete: false }), now)
    expect([...backlog.entries()].map(({ id }) => id)).toEqual([one.id, two.id])
    learn(backlog, listingOf([record], { askedAt: 4000, complete: false }), now)
    expect(backlog.size()).toBe(2)
    expect(backlog.leftOut.counts()).toMatchObject({ due: 1 })
  })

  test('is forgotten when it has left the window, and has not lapsed', () => {
    const { backlog, endListing, record } = retried()
    endListing()
    expect(backlog.forgetBefore(testWindow.to)).toBe(0)
    learn(backlog, listingOf([record], { askedAt: 4000 }), now)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 0 })
  })

  test.each(['processing', 'other', undefined] as const)('is another than one that it called %s', (found) => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'already-resolved', reason: 'conflict', sent: true, ...(found && { found }) })
    expect(decisionOf(backlog, record)).toBe('backing-off')
  })
})

describe('the last attempt', () => {
  // Berlin: 02:00 to 03:00 came twice on 2025-10-26, at 00:00 and at 01:00 UTC.
  const wall = Date.UTC(2025, 9, 26, 2, 30)
  const firstPass = Date.UTC(2025, 9, 26, 0, 30)
  const secondPass = Date.UTC(2025, 9, 26, 1, 30)

  test.each([
    ['long past: the later reading', secondPass + dayMs, secondPass],
    ['just past: the later reading', secondPass, secondPass],
    ['the later reading within a minute ahead', secondPass - minuteMs, secondPass],
    ['the later reading still to come', secondPass - minuteMs - 1, firstPass],
  ])('that is ambiguous, %s', (_, at, lastAt) => {
    const backlog = testBacklog({ zone: 'Europe/Berlin' })
    const record = due({ eventLocal: Date.UTC(2025, 9, 26, 0, 15), lastAttemptLocal: wall })
    learn(backlog, listingOf([record], { span: { from: 0, to: 2e9 } }), at)
    expect(entryOf(backlog, record).lastAt).toBe(lastAt)
  })

  test.each([
    ['missing', null],
    ['more than a minute ahead', now + minuteMs + 1],
    ['years ahead', now + 5000 * dayMs],
  ])('that is %s counts as the event time', (_, lastAttemptLocal) => {
    const backlog = testBacklog()
    const record = due({ lastAttemptLocal })
    learn(backlog, listingOf([record]), now)
    expect(entryOf(backlog, record).lastAt).toBe(now - dayMs)
    expect(decisionOf(backlog, record)).toBe('due')
  })

  test('that is a minute ahead is believed', () => {
    const backlog = testBacklog()
    const record = due({ lastAttemptLocal: now + minuteMs })
    learn(backlog, listingOf([record]), now)
    expect(entryOf(backlog, record).lastAt).toBe(now + minuteMs)
  })

  test('of ours that lies ahead, as the clock was put back, holds the record up until the next listing only', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'gone', reason: 'not-found', sent: true })
    const putBack = now - hourMs
    expect(decisionOf(backlog, record, putBack)).toBe('backing-off')
    learn(backlog, listingOf([record]), putBack)
    expect(decisionOf(backlog, record, putBack)).toBe('due')
    expect(entryOf(backlog, record).tries).toBe(1)
  })

  test('of an ambiguous event that has just failed does not make it wait an hour', () => {
    const backlog = testBacklog({ zone: 'Europe/Berlin' })
    const record = due({ eventLocal: wall, lastAttemptLocal: wall + 1000 })
    const at = firstPass + 5 * minuteMs
    learn(backlog, listingOf([record], { span: { from: 0, to: 2e9 } }), at)
    expect(entryOf(backlog, record).eventAt).toBe(firstPass)
    expect(decisionOf(backlog, record, at)).toBe('due')
  })
})

describe('the platform’s clock', () => {
  /** Retries a record at `now` with that answer, then checks it twice a minute later; gives what the answer and the checks say. */
  function offsets(
    zone: string,
    answer: (record: WebhookRecord) => RetryAnswer,
    shown: number | null,
  ): (number | undefined)[] {
    const world = watchedBacklog({ zone })
    const record = due()
    const span = { from: 0, to: 2e9 }
    learn(world.backlog, listingOf([record], { span }), now)
    noted(world.backlog, record, answer(record))
    const [answered] = world.offsets()
    const seen = { ...record, lastAttemptLocal: shown }
    // Two checks two seconds apart: then a failure is believed.
    for (const askedAt of [3000, 5000]) learn(world.backlog, listingOf([seen], { askedAt, span }), now + minuteMs)
    return [answered, world.offsets().slice(answered === undefined ? 0 : 1)[0]]
  }
  const answered = (): RetryAnswer => accepted()
  const before = due().lastAttemptLocal

  test.each([
    ['in between', now + 30_000, 0],
    ['at the PATCH, given to the second', now - 999, 0],
    ['at the look', now + minuteMs, 0],
    ['an hour early: the zone is wrong', now - hourMs, -hourMs],
    ['two hours late', now + 2 * hourMs, 2 * hourMs - minuteMs],
  ])('an attempt seen %s', (_, shown, offset) => {
    expect(offsets('UTC', answered, shown)).toEqual([undefined, offset])
  })

  test.each([
    ['unchanged', before],
    ['none', null],
  ])('a last attempt that is %s says nothing', (_, shown) => {
    expect(offsets('UTC', answered, shown)).toEqual([undefined, undefined])
  })

  test.each([
    ['a retry that was refused', () => ({ result: 'already-resolved', reason: 'conflict', sent: true }) as const],
    [
      'a retry whose answer was lost',
      () => ({ result: 'unreachable', reason: 'timeout', sent: true, lost: true }) as const,
    ],
    ['a retry that was never sent', () => ({ result: 'unauthorized', reason: 'unauthorized', sent: false }) as const],
  ])('%s: the attempt that is seen then is another’s', (_, answer) => {
    expect(offsets('UTC', answer, now - hourMs)).toEqual([undefined, undefined])
  })

  test.each([
    ['successful: at once', 'successful', [-hourMs, undefined]],
    ['failed: once that is sure', 'failed', [undefined, -hourMs]],
    ['processing: once it has failed', 'processing', [undefined, -hourMs]],
  ] as const)('the record of the answer, %s', (_, status, expected) => {
    const answer = (record: WebhookRecord): RetryAnswer =>
      accepted({ ...record, status, lastAttemptLocal: now - hourMs })
    expect(offsets('UTC', answer, now - hourMs)).toEqual(expected)
  })

  test('an attempt that is doubtful shows nothing yet', () => {
    const { backlog, offsets } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted())
    const seen = { ...record, attempts: 2, lastAttemptLocal: now - hourMs }
    for (const askedAt of [3000, 4999]) {
      learn(backlog, listingOf([seen], { askedAt }), now + 2000)
      expect(offsets()).toEqual([])
    }
    learn(backlog, listingOf([seen], { askedAt: 5000 }), now + 2000)
    expect(offsets()).toEqual([-hourMs])
  })

  test('of two readings of an ambiguous attempt the better one counts', () => {
    const { backlog, offsets } = watchedBacklog({ zone: 'Europe/Berlin' })
    const at = Date.UTC(2025, 9, 26, 0, 30)
    const record = due({ eventLocal: Date.UTC(2025, 9, 25, 12) })
    learn(backlog, listingOf([record], { span: { from: 0, to: 2e9 } }), at)
    noted(backlog, record, accepted({ ...record, status: 'processing' }), 2000, at)
    const seen = { ...record, lastAttemptLocal: Date.UTC(2025, 9, 26, 2, 31) }
    const listed = (askedAt: number): Listing => listingOf([seen], { askedAt, span: { from: 0, to: 2e9 } })
    learn(backlog, listed(4000), at + 5 * minuteMs)
    expect(offsets()).toEqual([])
    learn(backlog, listed(6000), at + 5 * minuteMs)
    expect(offsets()).toEqual([0])
  })

  test('records that were not retried say nothing', () => {
    const { backlog, offsets } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const later = listingOf([{ ...record, lastAttemptLocal: now - 5 * hourMs }], { askedAt: 2000 })
    learn(backlog, later, now)
    expect(offsets()).toEqual([])
  })
})
