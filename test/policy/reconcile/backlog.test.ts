// The backlog: what a listing may change, who gives way, and what the summary says.
import type { Gate } from '../../../src/reconcile/retry/gates.ts'
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
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
  testBacklog,
  testNow,
  testWindow,
  watchedBacklog,
} from '../../support/backlog.ts'
import { accepted } from '../../support/fake-platform.ts'

const now = testNow
const notHeld = (): undefined => undefined

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

  test('a listing under way while a PATCH goes out changes nothing of what came after it', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const endListing = backlog.beginListing()
    noted(backlog, record, accepted(), 2000)
    const before = structuredClone(entryOf(backlog, record))

    const stale = { ...record, attempts: 2, lastAttemptLocal: now - hourMs }
    learn(backlog, listingOf([stale]), now)
    learn(backlog, listingOf([]), now)
    expect(entryOf(backlog, record)).toEqual(before)
    endListing()
    const failed = { ...record, attempts: 2, lastAttemptLocal: now }
    for (const askedAt of [2001, 4000]) {
      learn(backlog, listingOf([failed], { askedAt }), now + 500)
      expect(decisionOf(backlog, record)).toBe('awaiting')
    }
    learn(backlog, listingOf([failed], { askedAt: 4001 }), now + 2500)
    expect(decisionOf(backlog, record)).toBe('backing-off')
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 2, awaiting: undefined })
  })

  test('an awaited record stays although complete listings do not show it: that it is absent is no outcome', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted())
    for (const hours of [0, 1, 100]) {
      const { removed } = learn(backlog, listingOf([], { askedAt: 3000 + hours * hourMs }), now + hours * hourMs)
      expect(removed).toEqual([])
      expect(decisionOf(backlog, record)).toBe('awaiting')
    }
    expect(outcomes()).toEqual([])
  })

  test('where no listing is ever complete, an accepted record is given up by its looks, not by the listings', () => {
    const { backlog, outcomes } = watchedBacklog()
    const [record, untouched] = [due(), due()]
    learn(backlog, listingOf([record, untouched]), now)
    noted(backlog, record, accepted())
    learn(backlog, listingOf([], { askedAt: 2000 + dayMs, complete: false }), now)
    expect(decisionOf(backlog, record)).toBe('awaiting')
    looked(backlog, entryOf(backlog, record), undefined, hourMs - 1)
    expect(outcomes()).toEqual([])
    looked(backlog, entryOf(backlog, record), undefined, hourMs)
    expect(outcomes()).toEqual([[record.id, 'unknown']])
    expect(decisionOf(backlog, record)).toBe('backing-off')
    expect(backlog.get(untouched.id)).toBeDefined()
  })

  test('a listing that shows an awaited record failed again is a look like any other', () => {
    const { backlog, offsets, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, accepted({ ...record, status: 'processing' }))
    const shown = { ...record, attempts: 2, lastAttemptLocal: now + 200, responseStatusCode: 500 }
    learn(backlog, listingOf([shown], { askedAt: 3000 }), now + 1000)
    expect(outcomes()).toEqual([])
    learn(backlog, listingOf([shown], { askedAt: 5000 }), now + 3000)
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(offsets()).toEqual([0])
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 2, responseStatusCode: 500, awaiting: undefined })
  })

  test('a record that recovered does not come back by a listing that was asked for before; by a later one it does', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due({ id: 'ABCDEF00-0000-4000-8000-00000000000A' })
    learn(backlog, listingOf([record]), now)
    const endListing = backlog.beginListing()
    noted(backlog, record, accepted({ ...record, status: 'successful' }), 2000)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
    const other = { ...record, id: record.id.toLowerCase() }
    expect(learn(backlog, listingOf([other]), now).changed).toEqual([])
    expect(backlog.summary(now, notHeld).counts.due).toBe(0)
    endListing()
    learn(backlog, listingOf([other]), now)
    expect(backlog.size()).toBe(1)
  })

  test('records that are not selected are counted, not kept, and not counted again at every look', () => {
    const backlog = testBacklog({ policy: { select: { ...defaultPolicy.select, modules: ['accounts'] } } })
    const records = [due(), due({ module: 'other' }), due({ module: '' })]
    for (let look = 1; look <= 5; look += 1) {
      learn(backlog, listingOf(records, { askedAt: look * 1000 }), now)
      expect(backlog.size()).toBe(1)
      expect(backlog.summary(now, notHeld).counts).toMatchObject({ due: 1, excluded: 2 })
    }
  })

  test.each([
    ['younger than ten minutes', 9, 1],
    ['older', 11, 0],
  ])('a record at the limit whose event is %s', (_, minutes, early) => {
    const backlog = testBacklog()
    const record = due({ eventLocal: now - minutes * minuteMs, attempts: 30 })
    expect(learn(backlog, listingOf([record]), now).earlyAtLimit).toBe(early)
    // Reported once for each record.
    expect(learn(backlog, listingOf([record], { askedAt: 2000 }), now).earlyAtLimit).toBe(0)
  })

  test('what has left the window is dropped, and reported', () => {
    const backlog = testBacklog()
    const records = [due({ eventLocal: now - 2 * dayMs }), due({ eventLocal: now - hourMs })]
    learn(backlog, listingOf(records), now)
    expect(backlog.forgetBefore((now - dayMs) / 1000)).toBe(1)
    expect(backlog.size()).toBe(1)
  })

  test.each([
    ['in flight', false],
    ['awaited', true],
  ])('but not while it is %s: once its outcome is known', (_, isAnswered) => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due({ eventLocal: now - 2 * dayMs })
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    const answer = accepted({ ...record, status: 'processing' })
    if (isAnswered) backlog.outcomes.note(entry, answer, { answeredAt: now, monotonic: 2000 })
    expect(backlog.forgetBefore(now / 1000)).toBe(0)
    expect(backlog.get(record.id)).toBe(entry)
    if (!isAnswered) backlog.outcomes.note(entry, answer, { answeredAt: now, monotonic: 2000 })
    for (const afterMs of [4000, 6050]) {
      looked(backlog, entry, { ...record, attempts: 2, lastAttemptLocal: now }, afterMs)
    }
    expect(outcomes()).toEqual([[record.id, 'failed-again']])
    expect(backlog.forgetBefore(now / 1000)).toBe(1)
  })
})

describe('a record in flight', () => {
  const done = { answeredAt: now + 10_000, monotonic: 12_000 }

  test('is neither dropped, nor changed, nor decided otherwise, no matter what is listed and seen meanwhile', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    learn(backlog, listingOf([], { askedAt: 5000 }), now + 3000)
    learn(backlog, listingOf([{ ...record, attempts: 5, lastAttemptLocal: now }], { askedAt: 6000 }), now + 4000)
    looked(backlog, entry, { ...record, status: 'successful' }, 5000)
    looked(backlog, entry, undefined, 2 * hourMs)
    expect(outcomes()).toEqual([])
    expect(entryOf(backlog, record)).toBe(entry)
    expect(entry.attempts).toBe(1)
    expect(decisionOf(backlog, record)).toBe('awaiting')
    // Looks begin with the answer.
    expect(backlog.outcomes.pending().size).toBe(0)
    backlog.outcomes.note(entry, accepted({ ...record, status: 'successful' }), done)
    expect(outcomes()).toEqual([[record.id, 'recovered']])
  })

  test('whose answer comes late is not changed by a listing that was asked for before the answer', () => {
    const { backlog, outcomes } = watchedBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    backlog.beginListing()
    backlog.outcomes.note(entry, accepted(), done)
    const before = structuredClone(entry)
    learn(backlog, listingOf([{ ...record, attempts: 2 }], { askedAt: 11_999 }), now + 20_000)
    expect(outcomes()).toEqual([])
    expect(entry).toEqual(before)
  })
})

describe('when there is no room', () => {
  const [a, b] = ['aaaaaaaa-0000-4000-8000-00000000000a', 'aaaaaaaa-0000-4000-8000-00000000000b']
  const kinds = {
    parked: (age: number, subscriptionId = a) => due({ eventLocal: now - age, attempts: 30, subscriptionId }),
    backingOff: (age: number, subscriptionId = a) =>
      due({ eventLocal: now - age, lastAttemptLocal: now - 1000, subscriptionId }),
    due: (age: number, subscriptionId = a) => due({ eventLocal: now - age, subscriptionId }),
  }
  const days = (count: number): number[] => Array.from({ length: count }, (_, index) => (index + 2) * dayMs * 0.2)

  /** Fills a backlog of as many as `first`, then lists `newcomer` too; gives those of the first that gave way, by index. */
  function givesWay(first: WebhookRecord[], newcomer: WebhookRecord): number[] {
    const backlog = testBacklog({ maxRecords: first.length })
    learn(backlog, listingOf(first, { complete: false }), now)
    expect(backlog.size()).toBe(first.length)
    const { leftOut, removed } = learn(backlog, listingOf([newcomer], { complete: false }), now)
    expect(backlog.size()).toBe(first.length)
    expect(leftOut).toHaveLength(removed.length === 0 ? 1 : 0)
    return removed.map(({ id }) => first.findIndex((one) => one.id === id))
  }

  test('a record of the subscription with the most places gives way: parked, then backing off, then the latest event', () => {
    const six = days(6)
    const full = six.map((age) => kinds.due(age))
    expect(givesWay(full, kinds.due(9 * hourMs, b))).toEqual([0])
    const resting = full.map((one, index) => (index === 3 ? kinds.backingOff(six[index] ?? 0) : one))
    expect(givesWay(resting, kinds.due(9 * hourMs, b))).toEqual([3])
    const parked = resting.map((one, index) => (index === 5 ? kinds.parked(six[5] ?? 0) : one))
    expect(givesWay(parked, kinds.due(9 * hourMs, b))).toEqual([5])
  })

  test.each([
    [
      'whose subscription holds as many',
      days(6).map((age, index) => kinds.due(age, index % 2 === 0 ? a : b)),
      kinds.due(dayMs, b),
    ],
    ['of the same subscription', days(6).map((age) => kinds.due(age)), kinds.due(6 * dayMs)],
    ['that is parked', days(6).map((age) => kinds.due(age)), kinds.parked(dayMs, b)],
  ])('a newcomer %s is left out', (_, first, newcomer) => {
    expect(givesWay(first, newcomer)).toEqual([])
  })

  test('subscriptions that outnumber the places do not change sides with each listing', () => {
    const subscriptions = Array.from({ length: 5 }, (_, index) => `aaaaaaaa-0000-4000-8000-00000000000${index}`)
    const all = subscriptions.flatMap((id) => days(4).map((age) => kinds.due(age, id)))
    const backlog = testBacklog({ maxRecords: 3 })
    learn(backlog, listingOf(all), now)
    const kept = [...backlog.entries()]
    for (let again = 0; again < 5; again += 1) expect(learn(backlog, listingOf(all), now).removed).toEqual([])
    expect([...backlog.entries()]).toEqual(kept)
  })

  test('of two that hold one place each a record that backs off gives way to one that is due', () => {
    expect(
      givesWay(
        [kinds.backingOff(dayMs), kinds.due(dayMs, 'aaaaaaaa-0000-4000-8000-00000000000c')],
        kinds.due(2 * dayMs, b),
      ),
    ).toEqual([0])
  })

  test('a record that gives way to a newcomer of its own slice is counted', () => {
    const backlog = testBacklog({ maxRecords: 2 })
    const held = [kinds.due(2 * dayMs), kinds.due(3 * dayMs)]
    learn(backlog, listingOf(held), now)
    const { removed } = learn(backlog, listingOf([...held, kinds.due(4 * dayMs, b)]), now)
    expect(removed.map(({ id }) => id)).toEqual([held[0]?.id])
    expect(backlog.summary(now, notHeld).counts.due).toBe(3)
  })

  test('of its own subscription one that can only go out later gives way', () => {
    expect(givesWay([kinds.due(2 * dayMs), kinds.parked(3 * dayMs)], kinds.due(dayMs))).toEqual([1])
  })

  test('neither the newest hour nor older records take more than nine tenths', () => {
    const recent = Array.from({ length: 20 }, (_, index) => kinds.due((index + 1) * minuteMs))
    const old = Array.from({ length: 20 }, (_, index) => kinds.due(dayMs + index * minuteMs))
    for (const [first, second] of [
      [recent, old],
      [old, recent],
    ] as const) {
      const backlog = testBacklog({ maxRecords: 10 })
      learn(backlog, listingOf([...first], { complete: false }), now)
      expect(backlog.size()).toBe(9)
      learn(backlog, listingOf([...second], { complete: false }), now)
      expect(backlog.size()).toBe(10)
    }
  })

  test.each([
    ['in flight', false],
    ['awaited', true],
  ])('a record that is %s stays, in any case', (_, isAnswered) => {
    const backlog = testBacklog({ maxRecords: 1 })
    const record = due({ attempts: 29 })
    learn(backlog, listingOf([record]), now)
    const entry = begun(backlog, record)
    if (isAnswered) backlog.outcomes.note(entry, accepted(), { answeredAt: now, monotonic: 2000 })
    const newcomers = [kinds.due(10 * minuteMs), kinds.due(7 * dayMs - hourMs), kinds.due(dayMs, b)]
    learn(backlog, listingOf(newcomers, { complete: false }), now)
    expect(entryOf(backlog, record)).toBe(entry)
    expect(backlog.size()).toBe(1)
    expect(backlog.summary(now, notHeld).counts).toMatchObject({ awaiting: 1, due: 3 })
  })

  test('those whose tries only we know give way last: else a record listed for ever would be PATCHed on every sweep', () => {
    const backlog = testBacklog({ maxRecords: 2 })
    const [poison, rests] = [due({ eventLocal: now - hourMs * 2, attempts: 0 }), kinds.backingOff(3 * dayMs)]
    learn(backlog, listingOf([poison, rests]), now)
    noted(backlog, poison, { result: 'gone', reason: 'not-found', sent: true })
    learn(backlog, listingOf([kinds.due(dayMs)], { complete: false }), now)
    expect(decisionOf(backlog, poison)).toBe('backing-off')
    expect(backlog.get(rests.id)).toBeUndefined()
  })

  test('what is reported as changed is held', () => {
    const backlog = testBacklog({ maxRecords: 1 })
    const [rests, other] = [kinds.backingOff(dayMs), kinds.due(10 * minuteMs)]
    learn(backlog, listingOf([rests]), now)
    const { changed } = learn(backlog, listingOf([rests, other]), now)
    expect(changed.map(({ id }) => id)).toEqual([other.id])
  })
})

describe('the summary', () => {
  test('says held instead of due in trouble, and the oldest event that is neither parked nor excluded', () => {
    const backlog = testBacklog({ policy: { select: { ...defaultPolicy.select, modules: ['accounts'] } } })
    expect(backlog.summary(now, notHeld).oldestOpenAt).toBeUndefined()
    const records = [
      due({ eventLocal: now - 6 * dayMs, attempts: 30 }),
      due({ eventLocal: now - 5 * dayMs, module: 'other' }),
      due({ eventLocal: now - 4 * dayMs }),
      due({ eventLocal: now - 3 * dayMs }),
    ]
    learn(backlog, listingOf(records), now)
    expect(backlog.summary(now, notHeld)).toEqual({
      counts: { due: 2, parked: 1, excluded: 1, 'backing-off': 0, held: 0, awaiting: 0 },
      expiring: { due: 0, parked: 0, excluded: 0, 'backing-off': 0, held: 0, awaiting: 0 },
      oldestOpenAt: now - 4 * dayMs,
    })
    expect(backlog.summary(now, () => 'paused').counts).toMatchObject({ due: 0, held: 2 })
  })

  test('knows the oldest open event also when there was no room for it', () => {
    const backlog = testBacklog({ maxRecords: 1 })
    learn(backlog, listingOf([due({ eventLocal: now - hourMs / 2 })]), now)
    learn(backlog, listingOf([due({ eventLocal: now - 4 * dayMs })], { askedAt: 2000, complete: false }), now)
    expect(backlog.summary(now, notHeld).oldestOpenAt).toBe(now - 4 * dayMs)
  })
  test('asks for each subscription whether it is held', () => {
    const backlog = testBacklog()
    const [shut, open] = ['aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000002']
    const records = [shut, shut, open].map((subscriptionId) => due({ subscriptionId }))
    learn(backlog, listingOf(records), now)
    const gateOf = (subscriptionId: string): Gate | undefined => (subscriptionId === shut ? 'circuit' : undefined)
    expect(backlog.summary(now, gateOf).counts).toMatchObject({ due: 1, held: 2 })
  })

  test('says what is expiring of all that may be lost: parked and held ones too, but not awaited ones', () => {
    const backlog = testBacklog()
    const edge = now - 7 * dayMs + 6 * hourMs
    const ages = { inside: edge - 1000, outside: edge }
    const [parked, awaited, waits] = [
      due({ eventLocal: ages.inside, attempts: 30 }),
      due({ eventLocal: ages.inside }),
      due({ eventLocal: ages.inside }),
    ]
    learn(backlog, listingOf([parked, awaited, waits, due({ eventLocal: ages.outside })]), now)
    noted(backlog, awaited, accepted())
    expect(backlog.summary(now, () => 'paused').expiring).toMatchObject({ parked: 1, held: 1, awaiting: 0, due: 0 })
    expect(backlog.summary(now, notHeld).expiring).toMatchObject({ parked: 1, due: 1, awaiting: 0, held: 0 })
  })
})
