// Looks at a retry by every reading of the platform: which outcome they find, and when to look no more.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RetryAnswer } from '../../../src/platform/operations.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { doubtMsOf, lostAfterMsOf } from '../../../src/reconcile/confirm/evidence.ts'
import {
  awaitedOf,
  begun,
  dayMs,
  decisionOf,
  defaultPolicy,
  due,
  entryOf,
  hourMs,
  learn,
  listingOf,
  lookMs,
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
const [doubtMs, lostAfterMs] = [doubtMsOf(policy), lostAfterMsOf(policy)]
const [t0, t1] = [testNow - hourMs, testNow + 20]

type Shown = Pick<WebhookRecord, 'status' | 'attempts' | 'lastAttemptLocal'>
const failed = (attempts: number, lastAttemptLocal: number | null): Shown => ({
  status: 'failed',
  attempts,
  lastAttemptLocal,
})

const lost = (): RetryAnswer => ({ result: 'unreachable', reason: 'timeout', sent: true, lost: true })

/** The answer of a platform that has begun to deliver, and says so. */
const delivers = (record: WebhookRecord): RetryAnswer => accepted({ ...record, status: 'processing' })

/** A backlog with one record, whose PATCH was sent and got this answer. */
function patched(
  answer: (record: WebhookRecord) => RetryAnswer,
  options: Parameters<typeof watchedBacklog>[0] = {},
): WatchedBacklog & { record: WebhookRecord } {
  const world = watchedBacklog(options)
  const record = due({ lastAttemptLocal: t0 })
  learn(world.backlog, listingOf([record]), testNow)
  noted(world.backlog, record, answer(record))
  return { ...world, record }
}

describe('a page that was asked for before the PATCH', () => {
  test('is no look at it: the attempt that it shows is another’s', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    looked(backlog, entryOf(backlog, record), { ...record, ...failed(2, t0 + minuteMs) }, -1)
    expect(outcomes()).toEqual([])
  })

  test.each<[string, Partial<WebhookRecord> | undefined]>([
    ['as successful: it has failed since, or there was nothing to retry', { status: 'successful', attempts: 2 }],
    ['as failed once more', failed(2, t0 + minuteMs)],
    ['as it was', {}],
    ['not at all', undefined],
  ])('%s: nothing comes of it, and the next look is not put off', (_, fields) => {
    const { backlog, freed, outcomes, record } = patched(() => lost())
    const entry = entryOf(backlog, record)
    const before = structuredClone(entry)
    looked(backlog, entry, fields && { ...record, ...fields }, -1)
    expect(entry).toEqual(before)
    expect(outcomes()).toEqual([])
    expect(freed).toEqual([])
  })

  test('one that was asked for in the moment of the PATCH counts', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    looked(backlog, entryOf(backlog, record), { ...record, status: 'successful' }, 0)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
  })
})

describe('a platform that counts an attempt when it begins, and shows the record as failed until it has ended', () => {
  const begun = (record: WebhookRecord): WebhookRecord => ({ ...record, ...failed(2, t1) })

  /** Looks whenever one is due, until the outcome is known; gives when that was, in ms after the PATCH. */
  function follow(
    { backlog, record }: ReturnType<typeof patched>,
    endsMs: number,
    status: 'successful' | 'failed',
  ): number {
    const entry = entryOf(backlog, record)
    let atMs = 0
    for (let looks = 0; entry.awaiting !== undefined; looks += 1) {
      expect(looks).toBeLessThan(10)
      atMs = entry.awaiting.checkAt - patchedAt
      looked(backlog, entry, atMs < endsMs ? begun(record) : { ...begun(record), status }, atMs)
    }
    return atMs
  }

  // The answer comes 100 ms after the PATCH, the first look after 500 takes 50; two seconds after one of these answers it is sure.
  test.each<[string, (record: WebhookRecord) => RetryAnswer, number]>([
    ['and says so in its answer', (record) => accepted(begun(record)), 2100],
    ['and shows the record as it was in its answer', (record) => accepted(record), 2550],
    ['and says nothing in its answer', () => accepted(), 2550],
    ['and whose answer was lost', () => lost(), 2550],
  ])(
    '%s: a delivery of a second and a half is recovered, and one that fails has failed again two seconds later',
    (_, answer, sureMs) => {
      const well = patched(answer)
      expect(follow(well, 1600, 'successful')).toBe(sureMs)
      expect(well.outcomes()).toEqual([[well.record.id, 'recovered']])

      const ill = patched(answer)
      expect(follow(ill, 1600, 'failed')).toBe(sureMs)
      expect(ill.outcomes()).toEqual([[ill.record.id, 'failed-again']])
    },
  )

  test('no matter what is seen of it before two seconds are over is no outcome', () => {
    const { backlog, outcomes, record } = patched((one) => accepted(begun(one)))
    const entry = entryOf(backlog, record)
    for (const afterMs of [100, 500, 1000, 2099]) {
      looked(backlog, entry, begun(record), afterMs)
      expect(outcomes()).toEqual([])
      expect(entry).toMatchObject({ attempts: 1, awaiting: { checkAt: patchedAt + 2100 } })
    }
  })

  test('a listing that shows it meanwhile is a look like any other: no outcome, and the next look two seconds later', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    const { awaiting } = learn(backlog, listingOf([begun(record)], { askedAt: patchedAt + 600 }), testNow + 600)
    expect(outcomes()).toEqual([])
    expect(awaiting.map((one) => one.record)).toEqual([entryOf(backlog, record)])
    expect(entryOf(backlog, record).awaiting).toMatchObject({ checkAt: patchedAt + 2600 })
  })

  test('a look that does not show it neither ends the doubt nor confirms it', () => {
    const { backlog, outcomes, record } = patched((one) => accepted(begun(one)))
    const entry = entryOf(backlog, record)
    looked(backlog, entry, undefined, 1000)
    expect(entry.awaiting).toMatchObject({ checkAt: patchedAt + 2100 })
    looked(backlog, entry, undefined, 2100)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, begun(record), 2200)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
  })

  test('what servers show in turns, as it was and failed again, is an outcome once two looks agree', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    for (const [afterMs, shown] of [
      [500, begun(record)],
      [2500, record],
    ] as const) {
      looked(backlog, entry, shown, afterMs)
      expect(outcomes()).toEqual([])
    }
    looked(backlog, entry, begun(record), 4000)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
  })

  test('one that goes on to retry by itself between two looks has failed again all the same', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    const shown = (attempts: number): WebhookRecord => ({ ...record, ...failed(attempts, t1 + attempts * 1000) })
    looked(backlog, entry, shown(2), 500)
    looked(backlog, entry, { ...shown(3), status: 'processing' }, 1000)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, shown(4), 2550)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(entry).toMatchObject({ attempts: 4 })
  })
})

describe('a platform that answers when it has delivered', () => {
  test('and failed: that is no outcome yet, and one look at two seconds makes it sure', () => {
    const { backlog, outcomes, record } = patched((one) => accepted({ ...one, ...failed(2, t1) }))
    const entry = entryOf(backlog, record)
    expect(outcomes()).toEqual([])
    expect(decisionOf(backlog, record)).toBe('awaiting')
    expect(entry).toMatchObject({ attempts: 1, awaiting: { checkAt: patchedAt + 2100 } })
    looked(backlog, entry, { ...record, ...failed(2, t1), responseStatusCode: 500 }, 2100)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(entry).toMatchObject({ attempts: 2, responseStatusCode: 500, awaiting: undefined })
  })

  test('and it arrived: that is the outcome at once', () => {
    const { backlog, record, settled } = patched((one) => accepted({ ...one, ...failed(2, t1), status: 'successful' }))
    expect(settled).toMatchObject([{ outcome: 'recovered', sinceRetryMs: 100, sinceEventMs: dayMs + 100 }])
    expect(backlog.get(record.id)).toBeUndefined()
    expect(backlog.outcomes.pending().size).toBe(0)
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

/** One that stays failed and counts or stamps at once looks as if it had failed at once: it is doubted for two seconds. */
const isTellable = ({ meanwhile, counts, stamps }: Reading): boolean =>
  meanwhile === 'processing' || (counts === 'end' && stamps === 'end')

describe.each(readings)('meanwhile $meanwhile, counted at the $counts, stamped at the $stamps', (by) => {
  const delivery = fc.record({
    takesMs: fc.integer({ min: 1, max: isTellable(by) ? 10 * minuteMs : doubtMs }),
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
        backlog.outcomes.begin(entry, awaitedOf(record).ticket, { sentAt: testNow, monotonic: patchedAt })
        const answer: RetryAnswer = lost
          ? { result: 'unreachable', reason: 'timeout', sent: true, lost: true }
          : accepted(answersRecord ? shownAt(answersAfterMs) : undefined)
        const at = { answeredAt: testNow + answersAfterMs, monotonic: patchedAt + answersAfterMs }
        backlog.outcomes.note(entry, answer, at)

        let looks = 0
        let seenMs: number = answersAfterMs
        // A platform that changes nothing while it delivers: a lost retry is given up before a slow one is over.
        while (entry.awaiting !== undefined) {
          looks += 1
          seenMs = Math.max(answersAfterMs, entry.awaiting.checkAt - patchedAt)
          looked(backlog, entry, shownAt(seenMs), seenMs)
          expect(looks).toBeLessThan(30)
        }
        const isGivenUpEarly = lost && by.meanwhile === 'failed' && seenMs < takesMs
        const outcome = isGivenUpEarly ? 'unknown' : arrives ? 'recovered' : 'failed-again'
        expect(settled.map((one) => one.outcome)).toEqual([outcome])
        if (isGivenUpEarly) expect(seenMs).toBeGreaterThanOrEqual(lostAfterMs)
        else expect(seenMs).toBeGreaterThanOrEqual(takesMs)
        // A look comes at most as long after the end as it took until then; what is doubtful takes two seconds more from its answer.
        expect(seenMs).toBeLessThanOrEqual(Math.max(2 * takesMs, 4000, 2 * answersAfterMs) + lookMs + doubtMs)
      }),
    )
  })
})

describe('a retry whose answer shows that the platform’s clock was set', () => {
  test.each([hourMs, -hourMs])('by %i ms: its backoff begins when it was sent, by the clock as it is now', (moved) => {
    const { backlog } = watchedBacklog()
    const record = due({ lastAttemptLocal: t0 })
    learn(backlog, listingOf([record]), testNow)
    const entry = begun(backlog, record)
    const refused = { result: 'throttled', reason: 'throttled', sent: true } as const
    backlog.outcomes.note(entry, refused, { answeredAt: testNow + 100 + moved, monotonic: patchedAt + 100 })
    expect(entry.triedAt).toBe(testNow + moved)
    expect(decisionOf(backlog, record, testNow + moved + 1000)).toBe('backing-off')
  })
})

describe('a retry whose answer was lost', () => {
  test('that every look shows as it was is given up after two minutes, and backs off', () => {
    const { backlog, outcomes, record } = patched(lost)
    const entry = entryOf(backlog, record)
    looked(backlog, entry, record, lostAfterMs - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, record, lostAfterMs)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
    expect(decisionOf(backlog, record, testNow + 2 * minuteMs)).not.toBe('awaiting')
    expect(entry).toMatchObject({ tries: 1 })
    expect(backlog.outcomes.pending().size).toBe(0)
  })

  test.each([
    ['is not shown', undefined],
    ['is being delivered', 'processing'],
  ] as const)('that %s may still arrive: it is awaited as long as any other', (_, status) => {
    const { backlog, outcomes, record } = patched(lost)
    const entry = entryOf(backlog, record)
    const shown = status && { ...record, status }
    looked(backlog, entry, shown, policy.giveUpAfter - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, shown, policy.giveUpAfter)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
  })

  test('says nothing of the platform’s clock: the attempt that is seen may be anybody’s', () => {
    const { backlog, offsets, outcomes, record } = patched(lost)
    const seen = { ...record, attempts: 2, lastAttemptLocal: testNow - 2 * hourMs + 1 }
    for (const afterMs of [2000, 4050]) looked(backlog, entryOf(backlog, record), seen, afterMs)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(offsets()).toEqual([])
  })
})

describe('an accepted retry', () => {
  test('that looks show unchanged is awaited for an hour; its place is free after the first look beyond two minutes', () => {
    const { backlog, freed, outcomes, record } = patched(() => accepted())
    const entry = entryOf(backlog, record)
    looked(backlog, entry, record, lostAfterMs - 1)
    expect(freed).toEqual([])
    looked(backlog, entry, undefined, lostAfterMs)
    expect(freed).toEqual([entry.awaiting?.ticket])
    looked(backlog, entry, record, policy.giveUpAfter - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entry, record, policy.giveUpAfter)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
  })

  test('that is given up by a check which shows a late attempt backs off from that attempt', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    const lastAttemptLocal = testNow + policy.giveUpAfter - minuteMs
    looked(backlog, entryOf(backlog, record), { ...record, ...failed(3, lastAttemptLocal) }, policy.giveUpAfter)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 3, lastAt: lastAttemptLocal })
    expect(decisionOf(backlog, record, testNow + policy.giveUpAfter)).toBe('backing-off')
  })

  test('whose outcome is seen by the very look that would have given it up has that outcome', () => {
    const { backlog, outcomes, record } = patched(() => accepted())
    looked(backlog, entryOf(backlog, record), { ...record, status: 'successful' }, 10 * hourMs)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
  })

  test('has one outcome: later looks and listings don’t say it again', () => {
    const { backlog, outcomes, record, settled } = patched(delivers)
    const entry = entryOf(backlog, record)
    const seen = { ...record, attempts: 2, lastAttemptLocal: t1, responseStatusCode: 500 }
    looked(backlog, entry, seen, 1000)
    looked(backlog, entry, seen, 3050)
    looked(backlog, entry, { ...seen, status: 'successful' }, 4000)
    learn(backlog, listingOf([{ ...seen, attempts: 3 }], { askedAt: 9000 }), testNow)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(settled).toMatchObject([{ sinceRetryMs: 3100, sinceEventMs: dayMs + 3100 }])
  })

  test('that failed again is not made older by a listing that was under way', () => {
    const { backlog, record } = patched(delivers)
    const entry = entryOf(backlog, record)
    backlog.beginListing()
    for (const afterMs of [2500, 5000])
      looked(backlog, entry, { ...record, attempts: 2, lastAttemptLocal: t1 }, afterMs)
    expect(entry.awaiting).toBeUndefined()
    learn(backlog, listingOf([record]), testNow)
    expect(entry).toMatchObject({ attempts: 2, lastAttemptLocal: t1 })
    learn(backlog, listingOf([], { askedAt: patchedAt + 5000 }), testNow)
    expect(backlog.size()).toBe(1)
  })

  test('is judged at the moment of its outcome, not when the page that shows it was asked for', () => {
    const judgedAt: number[] = []
    const { backlog, record } = patched(delivers, {
      monotonic: () => patchedAt + 9000,
      settle: (_ticket, _verdict, now) => judgedAt.push(now),
    })
    const seen = { ...record, attempts: 2, lastAttemptLocal: t1 }
    for (const afterMs of [1000, 3050]) looked(backlog, entryOf(backlog, record), seen, afterMs)
    expect(judgedAt).toEqual([patchedAt + 9000])
  })

  test('shows its outcome already when that is reported', () => {
    const { backlog, record, settled } = patched(delivers)
    const entry = entryOf(backlog, record)
    const seen = { ...record, attempts: 2, lastAttemptLocal: t1, responseStatusCode: 422 }
    for (const afterMs of [1000, 3050]) looked(backlog, entry, seen, afterMs)
    expect(settled).toMatchObject([{ id: record.id, attempt: 2, responseStatusCode: 422 }])
    expect(entry).toMatchObject({ attempts: 2, responseStatusCode: 422, awaiting: undefined })
  })
})

describe('a last attempt that is later than the one that was listed, and older than our PATCH', () => {
  test.each([
    ['by more than two seconds', testNow - 2001, { attempts: 1 }, []],
    ['by two seconds', testNow - 2000, { attempts: 1 }, ['failed-again']],
    ['and one more attempt', testNow - 2001, { attempts: 2 }, ['failed-again']],
  ])('%s', (_, lastAttemptLocal, fields, expected) => {
    const { backlog, settled } = watchedBacklog({ knowsTime: () => true })
    const record = due({ lastAttemptLocal: t0 })
    learn(backlog, listingOf([record]), testNow)
    noted(backlog, record, accepted())
    const shown = { ...record, ...fields, lastAttemptLocal }
    for (const afterMs of [500, 2550]) looked(backlog, entryOf(backlog, record), shown, afterMs)
    expect(settled.map(({ outcome }) => outcome)).toEqual(expected)
  })
})

describe('two records of one event', () => {
  test('are followed each by its own id', () => {
    const { backlog, outcomes } = watchedBacklog()
    const one = due({ lastAttemptLocal: t0 })
    const other = due({ lastAttemptLocal: t0, eventId: one.eventId, eventLocal: one.eventLocal })
    learn(backlog, listingOf([one, other]), testNow)
    for (const record of [one, other]) noted(backlog, record, delivers(record))
    looked(backlog, entryOf(backlog, one), { ...one, status: 'successful' }, 500)
    expect(outcomes()).toEqual([[one.id, 'recovered']])
    expect(decisionOf(backlog, other)).toBe('awaiting')
    const seen = { ...other, attempts: 2, lastAttemptLocal: t1 }
    for (const afterMs of [500, 2550]) looked(backlog, entryOf(backlog, other), seen, afterMs)
    expect(outcomes()).toEqual([
      [one.id, 'recovered'],
      [other.id, 'failed-again'],
    ])
  })
})
