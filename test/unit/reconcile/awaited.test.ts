// What is evidence of an outcome, by every reading of the platform, and when to look next or no more.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RetryAnswer } from '../../../src/platform/client.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { evidenceOf, isGivenUp, nextLookAt, seemsNotTaken, type Evidence } from '../../../src/reconcile/awaited.ts'
import {
  awaitedOf,
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
  testNow,
  watchedBacklog,
  type WatchedBacklog,
} from '../../support/backlog.ts'
import { accepted } from '../../support/fake-platform.ts'

const { outcome: policy } = defaultPolicy
const [t0, t1, t2] = [testNow - hourMs, testNow + 20, testNow + 3000]

type Shown = Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>
const failed = (attempts: number, lastAttemptLocal: number | null): Shown => ({
  status: 'failed',
  attempts,
  lastAttemptLocal,
})
const processing = (attempts: number, at: number | null): Shown => ({ ...failed(attempts, at), status: 'processing' })

describe('what a look tells', () => {
  const listed = failed(1, t0)
  const longAfter = patchedAt + minuteMs
  const soonAfter = patchedAt + 500

  /** [what it is, as listed, as answered, as seen, asked for at, evidence] */
  const cases: [string, Shown, Shown | undefined, Shown, number, Evidence][] = [
    ['successful', listed, undefined, { ...listed, status: 'successful' }, soonAfter, 'recovered'],
    ['successful, by the same numbers', listed, listed, { ...listed, status: 'successful' }, soonAfter, 'recovered'],
    ['processing', listed, undefined, processing(2, t1), soonAfter, 'processing'],
    ['a status that nobody knows', listed, undefined, { ...failed(2, t1), status: 'other' }, longAfter, 'unchanged'],
    ['failed as it was', listed, undefined, listed, longAfter, 'unchanged'],
    ['failed as it was, and as answered', listed, listed, listed, longAfter, 'unchanged'],

    [
      'counted at the end: more attempts and later',
      listed,
      processing(1, t0),
      failed(2, t1),
      soonAfter,
      'failed-again',
    ],
    ['counted at the end, no word of times', failed(1, null), undefined, failed(2, null), soonAfter, 'failed-again'],
    ['only the time is kept up', listed, processing(1, t0), failed(1, t1), soonAfter, 'failed-again'],
    ['only the count is kept up', listed, processing(1, t0), failed(2, t0), soonAfter, 'failed-again'],
    ['the count began anew, the time is later', failed(7, t0), undefined, failed(1, t1), soonAfter, 'failed-again'],
    ['more attempts, an earlier time', listed, undefined, failed(2, t0 - 1), soonAfter, 'failed-again'],
    ['fewer attempts, an earlier time', failed(7, t0), undefined, failed(1, t0 - 1), longAfter, 'unchanged'],
    ['no attempt was shown before', failed(0, null), undefined, failed(0, t1), soonAfter, 'failed-again'],
    ['none is shown any more', listed, undefined, failed(1, null), longAfter, 'unchanged'],
    ['none is shown, but one more counted', listed, undefined, failed(2, null), soonAfter, 'failed-again'],

    ['counted at the beginning, and over', listed, processing(2, t1), failed(2, t1), longAfter, 'failed-again'],
    ['the same, perhaps by a server that lags', listed, processing(2, t1), failed(2, t1), soonAfter, 'unchanged'],
    ['just before it counts', listed, processing(2, t1), failed(2, t1), patchedAt + 1999, 'unchanged'],
    ['from then on', listed, processing(2, t1), failed(2, t1), patchedAt + 2000, 'failed-again'],
    [
      'counted at the beginning, stamped at the end',
      listed,
      processing(2, t1),
      failed(2, t2),
      soonAfter,
      'failed-again',
    ],
    ['counted at both ends', listed, processing(2, t1), failed(3, t2), soonAfter, 'failed-again'],
    ['a server that lags far behind', listed, processing(2, t1), listed, longAfter, 'unchanged'],
    [
      'somebody else just before us, a server that lags',
      listed,
      processing(3, t1),
      failed(2, t1 - 9),
      soonAfter,
      'unchanged',
    ],
  ]

  test.each(cases)('%s', (_, before, answered, shown, askedAt, evidence) => {
    expect(evidenceOf({ listed: before, answered, answeredAt: patchedAt }, shown, askedAt)).toBe(evidence)
  })

  test('what was shown before the PATCH is never evidence, whatever it was', () => {
    const shown = fc.record({
      status: fc.constantFrom('failed' as const, 'other' as const),
      attempts: fc.nat(40),
      lastAttemptLocal: fc.option(fc.integer({ min: t0, max: t1 })),
    })
    const answers = fc.option(shown, { nil: undefined })
    fc.assert(
      fc.property(shown, answers, fc.nat(hourMs), (before, answered, after) => {
        expect(evidenceOf({ listed: before, answered, answeredAt: 0 }, before, after)).toBe('unchanged')
      }),
    )
  })
})

/** A backlog with one record, whose PATCH was sent and got this answer. */
function patched(answer: (record: WebhookRecord) => RetryAnswer): WatchedBacklog & { record: WebhookRecord } {
  const world = watchedBacklog()
  const record = due({ lastAttemptLocal: t0 })
  learn(world.backlog, listingOf([record]), testNow)
  noted(world.backlog, record, answer(record))
  return { ...world, record }
}

describe('a server that lags, after an answer that took long', () => {
  test('is not believed at once: the two seconds count from the answer', () => {
    // Listed with one attempt, then somebody else's second one failed, then ours: it is answered after ten seconds.
    const world = watchedBacklog()
    const record = due({ lastAttemptLocal: t0 })
    learn(world.backlog, listingOf([record]), testNow)
    const entry = entryOf(world.backlog, record)
    world.backlog.begin(entry, awaitedOf(record).ticket, { sentAt: testNow, monotonic: patchedAt })
    const answer = accepted({ ...record, ...processing(2, t1) })
    world.backlog.note(entry, answer, { answeredAt: testNow + 10_000, monotonic: patchedAt + 10_000 })
    looked(world.backlog, entry, { ...record, ...failed(2, t1) }, 10_100)
    expect(world.outcomes()).toEqual([])
  })
})

describe('a page that was asked for before the PATCH', () => {
  test('is no look at it: the attempt that it shows is somebody else’s', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    looked(backlog, entryOf(backlog, record), { ...record, ...failed(2, t0 + minuteMs) }, -1)
    expect(outcomes()).toEqual([])
  })
})

/** How a platform shows a retry from its beginning to its end. */
interface Reading {
  /** What a record shows while it is being delivered. */
  meanwhile: 'processing' | 'failed'
  counts: 'start' | 'end'
  stamps: 'start' | 'end'
}

const readings: Reading[] = (['processing', 'failed'] as const).flatMap((meanwhile) =>
  (['start', 'end'] as const).flatMap((counts) =>
    (['start', 'end'] as const).map((stamps) => ({ meanwhile, counts, stamps })),
  ),
)

/** One that stays failed and counts or stamps at once looks like one that has failed at once: no look can tell. */
const isTellable = ({ meanwhile, counts, stamps }: Reading): boolean =>
  meanwhile === 'processing' || (counts === 'end' && stamps === 'end')

describe.each(readings.filter(isTellable))(
  'meanwhile $meanwhile, counted at the $counts, stamped at the $stamps',
  (by) => {
    const delivery = fc.record({
      takesMs: fc.integer({ min: 1, max: 10 * minuteMs }),
      arrives: fc.boolean(),
      answersAfterMs: fc.constantFrom(20, 500, 5000),
      answersRecord: fc.boolean(),
      lost: fc.boolean(),
    })

    test('looks find the outcome that it had, not before it had it, and soon after', () => {
      fc.assert(
        fc.property(delivery, ({ takesMs, arrives, answersAfterMs, answersRecord, lost }) => {
          const { backlog, settled } = watchedBacklog()
          const record = due({ lastAttemptLocal: t0 })
          learn(backlog, listingOf([record]), testNow)

          function shownAt(afterMs: number): WebhookRecord {
            const isOver = afterMs >= takesMs
            const attempts = by.counts === 'start' || isOver ? 2 : 1
            const lastAttemptLocal = by.stamps === 'start' ? testNow : isOver ? testNow + takesMs : t0
            const status = !isOver ? by.meanwhile : arrives ? 'successful' : 'failed'
            return { ...record, status, attempts, lastAttemptLocal }
          }

          const entry = entryOf(backlog, record)
          backlog.begin(entry, awaitedOf(record).ticket, { sentAt: testNow, monotonic: patchedAt })
          const answer: RetryAnswer = lost
            ? { result: 'unreachable', reason: 'timeout', sent: true, lost: true }
            : accepted(answersRecord ? shownAt(answersAfterMs) : undefined)
          const at = { answeredAt: testNow + answersAfterMs, monotonic: patchedAt + answersAfterMs }
          backlog.note(entry, answer, at)

          let looks = 0
          let seenMs: number = answersAfterMs
          // A platform that changes nothing while it delivers: a lost retry is given up before a slow one is over.
          while (entry.awaiting !== undefined) {
            looks += 1
            seenMs = Math.max(answersAfterMs, entry.awaiting.lookAt - patchedAt)
            looked(backlog, entry, shownAt(seenMs), seenMs)
            expect(looks).toBeLessThan(30)
          }
          const isGivenUpEarly = lost && by.meanwhile === 'failed' && seenMs < takesMs
          const outcome = isGivenUpEarly ? 'unknown' : arrives ? 'recovered' : 'failed-again'
          expect(settled.map((one) => one.outcome)).toEqual([outcome])
          if (isGivenUpEarly) expect(seenMs).toBeGreaterThanOrEqual(policy.lostAfterMs)
          else expect(seenMs).toBeGreaterThanOrEqual(Math.min(takesMs, answersAfterMs))
          // A look comes at most as long after the end as it took until then, and numbers that may be old wait for two seconds.
          expect(seenMs).toBeLessThanOrEqual(Math.max(2 * takesMs, 4000, 2 * answersAfterMs))
        }),
      )
    })
  },
)

describe('a retry whose answer was lost', () => {
  const lost = (): RetryAnswer => ({ result: 'unreachable', reason: 'timeout', sent: true, lost: true })

  test('that every look shows as it was is given up after two minutes, and backs off', () => {
    const { backlog, outcomes, record } = patched(lost)
    const entry = entryOf(backlog, record)
    looked(backlog, entry, record, policy.lostAfterMs - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, record, policy.lostAfterMs)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
    expect(decisionOf(backlog, record, testNow + 2 * minuteMs)).not.toBe('awaiting')
    expect(entry).toMatchObject({ tries: 1, letsPass: true })
    expect(backlog.awaited().size).toBe(0)
  })

  test.each([
    ['is not shown', undefined],
    ['is being delivered', 'processing'],
  ] as const)('that %s may still arrive: it is awaited as long as any other', (_, status) => {
    const { backlog, outcomes, record } = patched(lost)
    const entry = entryOf(backlog, record)
    const shown = status && { ...record, status }
    looked(backlog, entry, shown, policy.giveUpAfterMs - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, shown, policy.giveUpAfterMs)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
  })

  test('is told as not taken once looks show it unchanged, and is awaited on: it may have been slow', () => {
    const { backlog, notTaken, outcomes, record } = patched(lost)
    const entry = entryOf(backlog, record)
    looked(backlog, entry, record, 4 * policy.firstLookMs - 1)
    looked(backlog, entry, undefined, 4 * policy.firstLookMs)
    looked(backlog, entry, { ...record, status: 'processing' }, 4 * policy.firstLookMs)
    expect(notTaken).toEqual([])
    looked(backlog, entry, record, 4 * policy.firstLookMs)
    expect(notTaken).toEqual([entry.awaiting])
    expect(outcomes()).toEqual([])
    looked(backlog, entry, { ...record, status: 'successful' }, minuteMs)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
  })

  test('tells nothing of the platform’s clock: the attempt that is seen may be anybody’s', () => {
    const { backlog, record } = patched(lost)
    const seen = { ...record, attempts: 2, lastAttemptLocal: testNow - 2 * hourMs + 1 }
    expect(looked(backlog, entryOf(backlog, record), seen, 4000)).toBeUndefined()
  })
})

describe('an accepted retry', () => {
  test('that looks show unchanged is awaited for an hour, and never told as not taken', () => {
    const { backlog, notTaken, outcomes, record } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    looked(backlog, entry, record, policy.giveUpAfterMs - 1)
    expect(outcomes()).toEqual([])
    expect(notTaken).toEqual([])
    looked(backlog, entry, record, policy.giveUpAfterMs)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
  })

  test('whose outcome is seen by the very look that would have given it up has that outcome', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    looked(backlog, entryOf(backlog, record), { ...record, status: 'successful' }, 10 * hourMs)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
  })

  test('has one outcome: later looks and listings don’t tell it again', () => {
    const { backlog, outcomes, record, settled } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    const seen = { ...record, attempts: 2, lastAttemptLocal: t1, responseStatusCode: 500 }
    looked(backlog, entry, seen, 1000)
    looked(backlog, entry, { ...seen, status: 'successful' }, 2000)
    learn(backlog, listingOf([{ ...seen, attempts: 3 }], { askedAt: 9000 }), testNow)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(settled).toMatchObject([{ seenAt: testNow + 1050, monotonic: patchedAt + 1050, awaited: { lost: false } }])
  })

  test('that was counted when it began has failed again once no server can lag any more', () => {
    const { backlog, outcomes, record } = patched((one) => accepted({ ...one, ...processing(2, t1) }))
    const entry = entryOf(backlog, record)
    const seen = { ...record, ...failed(2, t1) }
    looked(backlog, entry, seen, 1999)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, seen, 2000)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
  })

  test('that failed again is not made younger by a listing that was asked for before the look', () => {
    const { backlog, record } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    looked(backlog, entry, { ...record, attempts: 2, lastAttemptLocal: t1 }, 5000)
    for (const afterMs of [200, 5000]) learn(backlog, listingOf([record], { askedAt: patchedAt + afterMs }), testNow)
    expect(entry).toMatchObject({ attempts: 2, lastAttemptLocal: t1 })
    learn(backlog, listingOf([], { askedAt: patchedAt + 5000 }), testNow)
    expect(backlog.size()).toBe(1)
  })

  test('that is told shows its outcome already', () => {
    const { backlog, record, settled } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    looked(backlog, entry, { ...record, attempts: 2, lastAttemptLocal: t1, responseStatusCode: 422 }, 1000)
    expect(settled[0]?.entry).toBe(entry)
    expect(entry).toMatchObject({ attempts: 2, responseStatusCode: 422, awaiting: undefined })
  })
})

describe('two records of one event', () => {
  test('are followed each by its own id', () => {
    const { backlog, outcomes } = watchedBacklog()
    const one = due({ lastAttemptLocal: t0 })
    const other = due({ lastAttemptLocal: t0, eventId: one.eventId, eventLocal: one.eventLocal })
    learn(backlog, listingOf([one, other]), testNow)
    for (const record of [one, other]) noted(backlog, record, accepted())
    looked(backlog, entryOf(backlog, one), { ...one, status: 'successful' }, 500)
    expect(outcomes()).toEqual([[one.id, 'recovered']])
    expect(decisionOf(backlog, other)).toBe('awaiting')
    looked(backlog, entryOf(backlog, other), { ...other, attempts: 2, lastAttemptLocal: t1 }, 500)
    expect(outcomes()).toEqual([
      [one.id, 'recovered'],
      [other.id, 'failed-again'],
    ])
  })
})

describe('when to look', () => {
  test('each on its time: 0.5, 1, 2, 4 ... seconds after the PATCH, at last every five minutes', () => {
    const at = [nextLookAt(0, 0, policy)]
    while ((at.at(-1) ?? Infinity) < hourMs) at.push(nextLookAt(0, at.at(-1) ?? 0, policy))
    const seconds = at.map((ms) => ms / 1000)
    expect(seconds.slice(0, 11)).toEqual([0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    expect(seconds.slice(11, 14)).toEqual([812, 1112, 1412])
    expect(seconds).toHaveLength(22)
  })

  test('whenever one is made, the next is later, at most five minutes away, and no sooner than half the time gone by', () => {
    fc.assert(
      fc.property(
        fc.nat(1e6),
        fc.nat(2 * hourMs),
        fc.integer({ min: 100, max: 30_000 }),
        (sentAt, gone, firstLookMs) => {
          const next = nextLookAt(sentAt, sentAt + gone, { ...policy, firstLookMs })
          const wait = next - (sentAt + gone)
          expect(next).toBeGreaterThanOrEqual(sentAt + firstLookMs)
          expect(wait).toBeGreaterThan(0)
          expect(wait).toBeLessThanOrEqual(300_000)
          if (gone >= firstLookMs) expect(wait).toBeGreaterThanOrEqual(Math.min(300_000, firstLookMs, gone / 2))
        },
      ),
    )
  })

  test.each([
    ['not known to be lost', { lost: false }, 'unchanged', hourMs, false],
    ['lost, unchanged', { lost: true }, 'unchanged', 2000, true],
    ['lost, unchanged, too early', { lost: true }, 'unchanged', 1999, false],
    ['lost, not shown', { lost: true }, undefined, 2000, false],
    ['lost, being delivered', { lost: true }, 'processing', 2000, false],
  ] as const)('seems not taken: %s', (_, fields, evidence, afterMs, notTaken) => {
    const awaited = awaitedOf({ id: '', subscriptionId: '' }, fields)
    expect(seemsNotTaken(awaited, evidence, patchedAt + afterMs, policy)).toBe(notTaken)
  })

  test.each([
    ['accepted, unchanged', { lost: false }, 'unchanged', policy.lostAfterMs, false],
    ['accepted, after an hour', { lost: false }, 'processing', hourMs, true],
    ['lost, unchanged', { lost: true }, 'unchanged', policy.lostAfterMs, true],
    ['lost, not shown', { lost: true }, undefined, policy.lostAfterMs, false],
  ] as const)('given up: %s', (_, fields, evidence, afterMs, givenUp) => {
    const awaited = awaitedOf({ id: '', subscriptionId: '' }, fields)
    expect(isGivenUp(awaited, evidence, patchedAt + afterMs, policy)).toBe(givenUp)
    expect(isGivenUp(awaited, evidence, patchedAt + Math.min(afterMs, policy.lostAfterMs) - 1, policy)).toBe(false)
  })
})
