// The backlog: what a listing may change, what a PATCH is remembered for, who gives way, and what the clocks tell.
import { describe, expect, test } from 'vitest'
import type { RetryAnswer, RetryResult } from '../../../src/platform/client.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import type { Backlog, Noted } from '../../../src/reconcile/backlog.ts'
import { decide, type Decision } from '../../../src/reconcile/decide.ts'
import {
  dayMs,
  defaultPolicy,
  entryOf,
  hourMs,
  learn,
  listingOf,
  minuteMs,
  testBacklog,
  testNow,
  testWindow,
} from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'

const now = testNow

/** A record that is due. */
function due(fields: Partial<WebhookRecord> = {}): WebhookRecord {
  return failedRecord({ eventLocal: now - dayMs, ...fields })
}

function decisionOf(backlog: Backlog, record: WebhookRecord, at = now): Decision {
  return decide(entryOf(backlog, record), defaultPolicy, { now: at, held: false }).decision
}

function noted(backlog: Backlog, record: WebhookRecord, answer: RetryAnswer, monotonic = 2000, sentAt = now): Noted {
  return backlog.note(entryOf(backlog, record), answer, { sentAt, answeredAt: sentAt + 100, monotonic })
}

describe('learning from a listing', () => {
  test('new records enter, known ones are updated, what a complete listing no longer shows leaves', () => {
    const backlog = testBacklog()
    const [stays, leaves, comes] = [due(), due(), due()]
    const first = learn(backlog, listingOf([stays, leaves]), now)
    expect(first.changed.map(({ id }) => id)).toEqual([stays.id, leaves.id])

    const again = { ...stays, attempts: 7, lastAttemptLocal: now - minuteMs, responseStatusCode: 404 }
    const second = learn(backlog, listingOf([again, comes], { askedAt: 2000 }), now)

    expect(second.removed.map(({ id }) => id)).toEqual([leaves.id])
    expect(new Set(second.changed.map(({ id }) => id))).toEqual(new Set([stays.id, comes.id]))
    expect(entryOf(backlog, stays)).toMatchObject({ attempts: 7, lastAt: now - minuteMs, responseStatusCode: 404 })
    expect(backlog.size()).toBe(2)
  })

  test('the case of an id does not make another record of it', () => {
    const backlog = testBacklog()
    const record = due({ id: 'abcdef00-0000-4000-8000-00000000000a' })
    learn(backlog, listingOf([record]), now)
    learn(backlog, listingOf([{ ...record, id: record.id.toUpperCase() }], { askedAt: 2000 }), now)
    expect(backlog.size()).toBe(1)
    expect(backlog.get(record.id.toUpperCase())).toBe(backlog.get(record.id))
  })

  test.each([
    ['an incomplete listing', { complete: false }],
    ['a listing of another span', { span: { from: testWindow.to - 100, to: testWindow.to } }],
    ['a listing asked for before the last look', { askedAt: 1000 }],
    ['a listing asked for earlier still', { askedAt: 500 }],
  ])('%s takes nothing away', (_, fields) => {
    const backlog = testBacklog()
    learn(backlog, listingOf([due()]), now)
    expect(learn(backlog, listingOf([], { askedAt: 2000, ...fields }), now).removed).toEqual([])
    expect(backlog.size()).toBe(1)
  })

  test('the span that a listing owns is half open', () => {
    const backlog = testBacklog()
    const second = Math.floor((now - dayMs) / 1000)
    const records = [-1, 0, 59, 60].map((offset) => due({ eventLocal: (second + offset) * 1000 + 999 }))
    learn(backlog, listingOf(records), now)
    const { removed } = learn(backlog, listingOf([], { askedAt: 2000, span: { from: second, to: second + 60 } }), now)
    expect(removed.map(({ localSecond }) => localSecond - second)).toEqual([0, 59])
  })

  test('a listing asked for before a PATCH changes nothing of what came after it', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted(), 2000)

    const stale = { ...record, attempts: 1 }
    for (const askedAt of [1500, 2000]) {
      learn(backlog, listingOf([stale], { askedAt }), now)
      expect(decisionOf(backlog, record)).toBe('awaiting')
      learn(backlog, listingOf([], { askedAt }), now)
      expect(decisionOf(backlog, record)).toBe('awaiting')
    }
    learn(backlog, listingOf([{ ...record, attempts: 2, lastAttemptLocal: now }], { askedAt: 2001 }), now + 500)
    expect(decisionOf(backlog, record)).toBe('backing-off')
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 2, awaiting: false })
  })

  test('an awaited record that a later complete listing does not show is forgotten', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted())
    learn(backlog, listingOf([], { askedAt: 3000 }), now)
    expect(backlog.size()).toBe(0)
  })

  test('records that are not selected are counted, not kept, and not counted again at every look', () => {
    const backlog = testBacklog({ policy: { select: { ...defaultPolicy.select, modules: ['accounts'] } } })
    const records = [due(), due({ module: 'other' }), due({ module: '' })]
    for (let look = 1; look <= 5; look += 1) {
      learn(backlog, listingOf(records, { askedAt: look * 1000 }), now)
      expect(backlog.size()).toBe(1)
      expect(backlog.summary(now, false).counts).toMatchObject({ due: 1, excluded: 2 })
    }
  })

  test.each([
    ['younger than ten minutes', 9, 1],
    ['older', 11, 0],
  ])('a record at the limit whose event is %s', (_, minutes, early) => {
    const backlog = testBacklog()
    const record = due({ eventLocal: now - minutes * minuteMs, attempts: 30 })
    expect(learn(backlog, listingOf([record]), now).earlyAtLimit).toBe(early)
    // Told once for each record.
    expect(learn(backlog, listingOf([record], { askedAt: 2000 }), now).earlyAtLimit).toBe(0)
  })

  test('what has left the window is dropped', () => {
    const backlog = testBacklog()
    const records = [due({ eventLocal: now - 2 * dayMs }), due({ eventLocal: now - hourMs })]
    learn(backlog, listingOf(records), now)
    const gone = backlog.forgetBefore((now - dayMs) / 1000)
    expect(gone.map(({ id }) => id)).toEqual([records[0]?.id])
    expect(backlog.size()).toBe(1)
  })
})

describe('what a PATCH leaves behind', () => {
  const results: [RetryResult, Decision][] = [
    ['accepted', 'awaiting'],
    ['already-resolved', 'backing-off'],
    ['gone', 'backing-off'],
    ['rejected', 'backing-off'],
    ['throttled', 'backing-off'],
    ['unauthorized', 'backing-off'],
    ['platform-error', 'backing-off'],
    ['unreachable', 'backing-off'],
  ]

  test.each(results)('%s: the record is %s, and our try is remembered', (result, decision) => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    expect(decisionOf(backlog, record)).toBe('due')
    noted(backlog, record, { result, reason: 'other', sent: true })
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, triedAt: now })
    expect(decisionOf(backlog, record)).toBe(decision)
  })

  test('a retry that was never sent is no attempt', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'unauthorized', reason: 'unauthorized', sent: false })
    expect(entryOf(backlog, record)).toMatchObject({ tries: 0, triedAt: 0 })
    expect(decisionOf(backlog, record)).toBe('due')
  })

  test.each(['gone', 'already-resolved', 'rejected', 'platform-error', 'unreachable'] as const)(
    'listed failed for ever after %s: it backs off, and is parked at the limit in the end',
    (result) => {
      const backlog = testBacklog({ policy: { window: { ...defaultPolicy.window, lookbackMs: 60 * dayMs } } })
      const record = due()
      const sentAt: number[] = []
      for (let at = now; at < now + 20 * dayMs; at += 10 * minuteMs) {
        learn(backlog, listingOf([record], { askedAt: at }), at)
        if (decisionOf(backlog, record, at) !== 'due') continue
        sentAt.push(at)
        noted(backlog, record, { result, reason: 'other', sent: true }, at + 1, at)
      }
      expect(sentAt).toHaveLength(30)
      const gaps = sentAt.slice(1).map((at, index) => at - (sentAt[index] ?? 0))
      expect(Math.min(...gaps.slice(12))).toBeGreaterThanOrEqual(3 * hourMs)
      expect(decisionOf(backlog, record, now + 20 * dayMs)).toBe('parked')
    },
  )

  test('the answer’s record is taken in: failed again backs off, successful leaves, processing is awaited', () => {
    const backlog = testBacklog()
    const [again, done, busy, odd] = [due(), due(), due(), due()]
    learn(backlog, listingOf([again, done, busy, odd]), now)
    const after = { attempts: 2, lastAttemptLocal: now }
    expect(noted(backlog, again, accepted({ ...again, ...after })).resolved).toBe(false)
    expect(noted(backlog, done, accepted({ ...done, ...after, status: 'successful' })).resolved).toBe(true)
    noted(backlog, busy, accepted({ ...busy, status: 'processing' }))
    noted(backlog, odd, accepted({ ...odd, status: 'other' }))
    expect(decisionOf(backlog, again)).toBe('backing-off')
    expect(entryOf(backlog, again).attempts).toBe(2)
    expect(backlog.get(done.id)).toBeUndefined()
    expect(decisionOf(backlog, busy)).toBe('awaiting')
    expect(decisionOf(backlog, odd)).toBe('awaiting')
  })

  test('an answer that comes when the record has been dropped and has come anew does not take the new one away', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const old = entryOf(backlog, record)
    learn(backlog, listingOf([], { askedAt: 2000 }), now)
    learn(backlog, listingOf([record], { askedAt: 3000 }), now)
    backlog.note(old, accepted({ ...record, status: 'successful' }), { sentAt: now, answeredAt: now, monotonic: 4000 })
    expect(backlog.size()).toBe(1)
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
  /** Retries a record at `now` with that answer, then looks at it a minute later; gives what both tell. */
  function offsets(
    zone: string,
    answer: (record: WebhookRecord) => RetryAnswer,
    shown: number | null,
  ): (number | undefined)[] {
    const backlog = testBacklog({ zone })
    const record = due()
    learn(backlog, listingOf([record], { span: { from: 0, to: 2e9 } }), now)
    const { offset } = noted(backlog, record, answer(record))
    const seen = { ...record, lastAttemptLocal: shown }
    const learned = learn(backlog, listingOf([seen], { askedAt: 3000, span: { from: 0, to: 2e9 } }), now + minuteMs)
    return [offset?.offsetMs, learned.offsets[0]?.offsetMs]
  }
  const answered = (): RetryAnswer => accepted()
  const before = due().lastAttemptLocal

  test.each([
    ['in between', now + 30_000, 0],
    ['at the PATCH, told to the second', now - 999, 0],
    ['at the look', now + minuteMs, 0],
    ['an hour early: the zone is wrong', now - hourMs, -hourMs],
    ['two hours late', now + 2 * hourMs, 2 * hourMs - minuteMs],
  ])('an attempt seen %s', (_, shown, offset) => {
    expect(offsets('UTC', answered, shown)).toEqual([undefined, offset])
  })

  test.each([
    ['unchanged', before],
    ['none', null],
  ])('a last attempt that is %s tells nothing', (_, shown) => {
    expect(offsets('UTC', answered, shown)).toEqual([undefined, undefined])
  })

  test.each([
    ['a retry that was refused', () => ({ result: 'already-resolved', reason: 'conflict', sent: true }) as const],
    ['a retry that was never sent', () => ({ result: 'unauthorized', reason: 'unauthorized', sent: false }) as const],
  ])('%s: the attempt that is seen then is somebody else’s', (_, answer) => {
    expect(offsets('UTC', answer, now - hourMs)).toEqual([undefined, undefined])
  })

  test.each([
    ['failed', -hourMs],
    ['processing', undefined],
  ] as const)('the record of the answer, %s', (status, offset) => {
    const answer = (record: WebhookRecord): RetryAnswer =>
      accepted({ ...record, status, lastAttemptLocal: now - hourMs })
    expect(offsets('UTC', answer, now - hourMs)[0]).toBe(offset)
  })

  test('of two readings of an ambiguous attempt the better one counts', () => {
    const backlog = testBacklog({ zone: 'Europe/Berlin' })
    const at = Date.UTC(2025, 9, 26, 0, 30)
    const record = due({ eventLocal: Date.UTC(2025, 9, 25, 12) })
    learn(backlog, listingOf([record], { span: { from: 0, to: 2e9 } }), at)
    noted(backlog, record, accepted(), 2000, at)
    const seen = { ...record, lastAttemptLocal: Date.UTC(2025, 9, 26, 2, 31) }
    const later = listingOf([seen], { askedAt: 3000, span: { from: 0, to: 2e9 } })
    expect(learn(backlog, later, at + 5 * minuteMs).offsets).toEqual([{ offsetMs: 0 }])
  })

  test('records that nobody retried tell nothing', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const later = listingOf([{ ...record, lastAttemptLocal: now - 5 * hourMs }], { askedAt: 2000 })
    expect(learn(backlog, later, now).offsets).toEqual([])
  })
})

describe('when there is no room', () => {
  const kinds = {
    parked: (age: number) => due({ eventLocal: now - age, attempts: 30 }),
    backingOff: (age: number) => due({ eventLocal: now - age, lastAttemptLocal: now - 1000 }),
    due: (age: number) => due({ eventLocal: now - age }),
  }

  /** Fills a backlog of one with `first`, then lists `second` too; gives who is held then. */
  function whoStays(first: WebhookRecord, second: WebhookRecord): string {
    const backlog = testBacklog({ maxRecords: 1 })
    learn(backlog, listingOf([first], { complete: false }), now)
    learn(backlog, listingOf([second], { askedAt: 2000, complete: false }), now)
    expect(backlog.size()).toBe(1)
    return backlog.get(second.id) === undefined ? 'first' : 'second'
  }

  test.each([
    ['due before parked', kinds.parked(dayMs), kinds.due(dayMs), 'second'],
    ['due before backing off', kinds.backingOff(dayMs), kinds.due(dayMs), 'second'],
    ['fresh before old', kinds.due(dayMs), kinds.due(10 * minuteMs), 'second'],
    ['old not before fresh', kinds.due(10 * minuteMs), kinds.due(dayMs), 'first'],
    ['parked not before due', kinds.due(dayMs), kinds.parked(dayMs), 'first'],
    [
      'a fresh one that backs off not before an old one that is due',
      kinds.due(dayMs),
      kinds.backingOff(minuteMs),
      'first',
    ],
    ['of equals the one that is there', kinds.due(dayMs), kinds.due(2 * dayMs), 'first'],
  ])('%s', (_, first, second, stays) => {
    expect(whoStays(first, second)).toBe(stays)
  })

  test('an awaited record stays', () => {
    const backlog = testBacklog({ maxRecords: 1 })
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted())
    learn(backlog, listingOf([kinds.due(10 * minuteMs)], { askedAt: 1500, complete: false }), now)
    expect(decisionOf(backlog, record)).toBe('awaiting')
    expect(backlog.size()).toBe(1)
  })

  test('of many newcomers the oldest due ones enter, and just as many give way, newest first', () => {
    const backlog = testBacklog({ maxRecords: 10 })
    const there = Array.from({ length: 10 }, (_, index) => kinds.backingOff((index + 1) * dayMs * 0.5))
    learn(backlog, listingOf(there, { complete: false }), now)
    const come = Array.from({ length: 4 }, (_, index) => kinds.due((index + 1) * dayMs))
    const { removed, changed } = learn(backlog, listingOf(come, { askedAt: 2000, complete: false }), now)
    expect(removed.map(({ id }) => id)).toEqual(there.slice(0, 4).map(({ id }) => id))
    expect(changed).toHaveLength(4)
    expect(backlog.size()).toBe(10)
    expect(backlog.summary(now, false).counts).toMatchObject({ due: 4, 'backing-off': 10 })
  })

  test('those that we have tried give way last: else a record listed for ever would be PATCHed on every sweep', () => {
    const backlog = testBacklog({ maxRecords: 2 })
    const [poison, rests] = [due({ eventLocal: now - hourMs * 2 }), kinds.backingOff(3 * dayMs)]
    learn(backlog, listingOf([poison, rests]), now)
    noted(backlog, poison, { result: 'gone', reason: 'not-found', sent: true })
    learn(backlog, listingOf([kinds.due(dayMs)], { askedAt: 3000, complete: false }), now)
    expect(decisionOf(backlog, poison)).toBe('backing-off')
    expect(backlog.get(rests.id)).toBeUndefined()
  })

  test('what is told as changed is held', () => {
    const backlog = testBacklog({ maxRecords: 1 })
    const [rests, fresh] = [kinds.backingOff(dayMs), kinds.due(10 * minuteMs)]
    learn(backlog, listingOf([rests]), now)
    const { changed } = learn(backlog, listingOf([rests, fresh], { askedAt: 2000 }), now)
    expect(changed.map(({ id }) => id)).toEqual([fresh.id])
  })
})

describe('the summary', () => {
  test('tells held instead of due in trouble, and the oldest event that is neither parked nor excluded', () => {
    const backlog = testBacklog({ policy: { select: { ...defaultPolicy.select, modules: ['accounts'] } } })
    expect(backlog.summary(now, false).oldestOpenAt).toBeUndefined()
    const records = [
      due({ eventLocal: now - 6 * dayMs, attempts: 30 }),
      due({ eventLocal: now - 5 * dayMs, module: 'other' }),
      due({ eventLocal: now - 4 * dayMs }),
      due({ eventLocal: now - 3 * dayMs }),
    ]
    learn(backlog, listingOf(records), now)
    expect(backlog.summary(now, false)).toEqual({
      counts: { due: 2, parked: 1, excluded: 1, 'backing-off': 0, held: 0, awaiting: 0 },
      oldestOpenAt: now - 4 * dayMs,
    })
    expect(backlog.summary(now, true).counts).toMatchObject({ due: 0, held: 2 })
  })

  test('knows the oldest open event also when there was no room for it', () => {
    const backlog = testBacklog({ maxRecords: 1 })
    learn(backlog, listingOf([due({ eventLocal: now - hourMs / 2 })]), now)
    learn(backlog, listingOf([due({ eventLocal: now - 4 * dayMs })], { askedAt: 2000, complete: false }), now)
    expect(backlog.summary(now, false).oldestOpenAt).toBe(now - 4 * dayMs)
  })
})
