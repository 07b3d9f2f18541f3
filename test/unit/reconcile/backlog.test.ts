// The backlog: what a listing may change, which records have a place when it is full, and the last attempt that counts. That
// its summary is the truth, also of what it only counted: test/simulation/promises/quiet.ts; in any case of ids: identity.ts.
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { learn as learnOutcome, newCircuit, type Circuit } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { overflowOf } from '../../../src/reconcile/retry/overflow.ts'
import { finish } from '../../../src/runtime/steps.ts'
import {
  begun,
  dayMs,
  defaultPolicy,
  due,
  entryOf,
  hourMs,
  learn,
  listingOf,
  minuteMs,
  noted,
  testNow,
} from '../../support/backlog.ts'
import { testBacklog } from '../../support/reconcile.ts'

const now = testNow
const utc = createTimeZone('UTC')

const kinds: Record<string, Partial<WebhookRecord>> = {
  due: {},
  tried: { attempts: 2 },
  backingOff: { lastAttemptLocal: now - 1000 },
  recent: {},
  exhausted: { attempts: 30 },
  expiring: { attempts: 2 },
}

function circuitOf(subscriptionId: string): Circuit {
  const failures = { open: 9, 'half-open': 9, failing: 2 }[subscriptionId] ?? 0
  const at = subscriptionId === 'half-open' ? -hourMs : -1
  const failed = { verdict: 'failed-again', now: at, response: 503 } as const
  return Array.from({ length: failures }, (_, sent) => ({ ...failed, sent, record: sent })).reduce<Circuit>(
    (circuit, outcome) => learnOutcome(circuit, outcome, defaultPolicy.circuit),
    newCircuit,
  )
}

/**
 * How many of each group have a place, as all of them come at once; of a group, the oldest. `a due 300`: a subscription,
 * what its records are, and how many. The circuits of `open` and `half-open` are so, and the
 * receiver of `failing` has failed twice.
 */
function placesOf(given: string, maxRecords: number): number[] {
  const groups = given.split(', ').map((group) => group.split(' '))
  const all = groups.map(([subscriptionId = '', kind = '', count]) =>
    Array.from({ length: Number(count) }, (_, index) => {
      const oldest = now - ({ recent: hourMs / 2, expiring: 7 * dayMs - hourMs }[kind] ?? dayMs)
      const record = due({ eventLocal: oldest + index * 1000, subscriptionId, ...kinds[kind] })
      const awaiting = kind === 'awaiting' ? ({} as FailedRecord['awaiting']) : undefined
      const entry = new FailedRecord(record, { zone: utc, now })
      entry.note({ awaiting })
      return entry
    }),
  )
  const subscriptions = { circuitOf, backoffsEndedMs: () => Infinity }
  const options = { policy: defaultPolicy, maxRecords, now, monotonic: 0, subscriptions }
  const left = new Set(finish(overflowOf(all.flat(), options)))
  for (const [index, group] of all.entries()) {
    // Jitter decides which of these can go out first.
    if (groups[index]?.[1] === 'backingOff') continue
    const kept = group.map((record) => !left.has(record))
    expect(kept).toEqual(kept.toSorted((a, b) => Number(b) - Number(a)))
  }
  return all.map((group) => group.filter((record) => !left.has(record)).length)
}

test.each<[string, string, number, number[]]>([
  ['there is room for all', 'a due 100, b exhausted 100', 200, [100, 100]],
  ['two share fairly', 'a due 300, b due 300', 200, [100, 100]],
  ['none gets more than it has, and no place stays free', 'a due 30, b due 300, c due 300', 231, [30, 101, 100]],
  ['of one subscription the newest hour has its own share', 'a due 300, a recent 300', 200, [100, 100]],
  ['fewer attempts go first', 'a tried 300, a due 150', 200, [50, 150]],
  ['but those that leave the window soon go before them', 'a expiring 300, a due 150', 200, [200, 0]],
  ['those that back off get only what is left', 'a backingOff 300, b due 150', 200, [50, 150]],
  ['and share it fairly', 'a backingOff 300, b backingOff 300', 200, [100, 100]],
  ['so do those of an open circuit', 'open due 300, b due 300', 200, [0, 200]],
  ['three of one that is half-open can go out now', 'half-open due 300, b due 300, open due 300', 200, [3, 197, 0]],
  ['which are its due ones, before those that back off', 'half-open backingOff 3, half-open recent 3', 3, [0, 3]],
  ['and what no other needs', 'open due 300, b due 150, c backingOff 300', 200, [27, 150, 23]],
  ['a failing receiver comes later by a share', 'failing due 300, b due 300', 200, [90, 110]],
  ['and last where there is no other place', 'failing due 3, b due 3, c due 3', 2, [0, 1, 1]],
  ['exhausted ones get only what is left', 'a exhausted 300, a backingOff 50, b due 100', 200, [50, 50, 100]],
  ['and nothing where there is none', 'a exhausted 300, b due 300', 200, [0, 200]],
  ['awaited ones stay in any case', 'a awaiting 120, b due 300', 200, [120, 80]],
  ['lanes that outnumber the places do not all lose', 'a due 3, b due 3, c due 3', 2, [1, 1, 0]],
])('places of a full backlog: %s', (_, groups, maxRecords, expected) => {
  expect(placesOf(groups, maxRecords)).toEqual(expected)
})

describe('learning from a listing', () => {
  test('only a complete listing drops a record that it does not show, and that no unreadable row may be', () => {
    const backlog = testBacklog()
    const record = due()
    const unreadable = (id: string | undefined) => [{ unreadable: true, id, field: 'status' } as const]
    learn(backlog, listingOf([record]), now)
    learn(backlog, listingOf([], { verdict: 'missed' }), now)
    for (const id of [undefined, record.id]) learn(backlog, listingOf([], { unreadable: unreadable(id) }), now)
    expect(backlog.size()).toBe(1)
    expect(learn(backlog, listingOf([], { unreadable: unreadable(due().id) }), now).leftWithoutRetry).toBe(1)
    expect(backlog.size()).toBe(0)
  })

  const [earlier, later] = [{ lastAttemptLocal: now - hourMs }, { lastAttemptLocal: now - 1 }]
  test.each<[string, Partial<WebhookRecord>, proven: number, isTaken: boolean]>([
    ['it as it was', {}, 0, true],
    ['another attempt', { attempts: 4 }, 2, true],
    ['a later one that is not counted', later, 2, true],
    ['an earlier one, of another clock', earlier, 0, true],
    ['one fewer: the list lags behind', { attempts: 2 }, 0, false],
    ['one fewer, and a later one', { attempts: 2, ...later }, 2, true],
  ])('a row that shows %s: so many tries are proven', (_, row, provenTries, isTaken) => {
    const record = due({ attempts: 3, lastAttemptLocal: now - minuteMs })
    const entry = new FailedRecord(record, { zone: utc, now })
    entry.note({ tries: 2 })
    entry.show({ ...record, ...row }, { zone: utc, now })
    const { attempts, lastAttemptLocal } = isTaken ? { ...record, ...row } : record
    expect(entry).toMatchObject({ provenTries, attempts, lastAttemptLocal })
  })

  /** [what, how it was seen as successful, the row, asked for so long after, held] */
  const seen = { attempts: 2, lastAttemptLocal: now + 50 }
  const second = 1000
  test.each<[string, 'shown' | 'refused', Partial<WebhookRecord>, number, boolean]>([
    ['asked for before', 'shown', { attempts: 9, lastAttemptLocal: now + minuteMs }, -1, false],
    ['as it was before', 'shown', {}, 120 * second, false],
    ['as it was before the clock was put back', 'shown', { lastAttemptLocal: now + minuteMs }, 120 * second, false],
    ['the attempt that was seen as successful', 'shown', seen, 120 * second, false],
    ['a later attempt', 'shown', { attempts: 3, lastAttemptLocal: now + minuteMs }, second, true],
    ['a later attempt that is not counted', 'shown', { attempts: 2, lastAttemptLocal: now + minuteMs }, second, true],
    ['a later attempt without a time', 'shown', { attempts: 3, lastAttemptLocal: null }, second, true],
    ['as it was before, longer than any lag', 'shown', {}, 301 * second, true],
    ['as it was before, refused', 'refused', {}, 120 * second, false],
    [
      'attempts of others before the refusal',
      'refused',
      { attempts: 5, lastAttemptLocal: now - second },
      second,
      false,
    ],
    ['an attempt after the refusal', 'refused', { attempts: 5, lastAttemptLocal: now + minuteMs }, second, true],
  ])('of a record that was seen as successful: %s', (_, how, row, laterMs, isHeld) => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const [result, reason] =
      how === 'shown' ? (['accepted', 'ok'] as const) : (['already-resolved', 'conflict'] as const)
    const how2 =
      how === 'shown'
        ? { record: { ...record, ...seen, status: 'successful' as const } }
        : { found: 'successful' as const }
    noted(backlog, record, { result, reason, ...how2 })
    expect(backlog.size()).toBe(0)
    learn(backlog, listingOf([{ ...record, ...row }], { askedAt: 2000 + laterMs }), now + 400_000)
    expect(backlog.size()).toBe(isHeld ? 1 : 0)
  })

  test('a retry that a limit refuses is not held up by earlier rejections of the platform', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    const refusals: unknown[] = []
    const note = (result: 'platform-error' | 'throttled', reason: 'server-error' | 'throttled'): void => {
      noted(backlog, record, { result, reason })
      refusals.push(backlog.get(record.id)?.refusals)
    }
    for (let times = 0; times < 5; times += 1) note('platform-error', 'server-error')
    note('throttled', 'throttled')
    note('throttled', 'throttled')
    expect(refusals).toEqual([1, 2, 3, 4, 5, 1, 1])
  })

  test('the summary counts what is held, however a record went', () => {
    const backlog = testBacklog()
    const [expires, released, absent, ...stay] = ['a', 'b', 'a', 'a', 'c'].map((subscriptionId, index) =>
      due({ subscriptionId, eventLocal: now - dayMs + index * minuteMs }),
    ) as [WebhookRecord, WebhookRecord, WebhookRecord, ...WebhookRecord[]]
    learn(backlog, listingOf([expires, released, absent, ...stay]), now)
    backlog.forgetBefore((now - dayMs) / 1000 + 1)
    backlog.release(entryOf(backlog, released))
    learn(backlog, listingOf(stay, { askedAt: 2000 }), now)
    // One of the two leaves the window within the warning.
    const later = now + 6 * dayMs - 6 * hourMs + 4 * minuteMs
    const { counts, expiring, missingOf } = finish(backlog.summary(() => ({ now: later })))
    expect([counts.due, expiring.due, [...missingOf]]).toEqual([
      2,
      1,
      [
        ['a', 1],
        ['c', 1],
      ],
    ])
  })

  test('a row that shows fewer attempts than were seen is stale', () => {
    const backlog = testBacklog()
    const record = due({ attempts: 3, lastAttemptLocal: now - hourMs })
    learn(backlog, listingOf([record]), now)
    learn(backlog, listingOf([{ ...record, attempts: 2, lastAttemptLocal: now - 2 * hourMs }]), now)
    expect(entryOf(backlog, record)).toMatchObject({ attempts: 3, lastAt: now - hourMs })
  })

  test.each([
    ['the platform called it successful', { found: 'successful' as const }, []],
    ['a complete listing did not show it', {}, [listingOf([])]],
    ['it gave way', {}, [listingOf([due()], { verdict: 'missed' })]],
  ])('tries are remembered when %s', (_, fields, listings) => {
    const backlog = testBacklog(1)
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'already-resolved', reason: 'conflict', ...fields })
    for (const listing of listings) learn(backlog, { ...listing, askedAt: 3000 }, now)
    expect(backlog.get(record.id)).toBeUndefined()
    expect(backlog.triedAt(record.id)).toBe(now)
    learn(backlog, listingOf([record], { askedAt: dayMs }), now + dayMs)
    expect(entryOf(backlog, record)).toMatchObject({ tries: 1, triedAt: now })
  })

  test('a record that left the window, and is not awaited, has returned when a list of the window shows it, once', () => {
    const backlog = testBacklog()
    const [awaited, ...records] = [due(), due(), due()] as const
    learn(backlog, listingOf([awaited, ...records]), now)
    begun(backlog, awaited)
    expect(backlog.forgetBefore(Infinity)).toEqual({ records: 2, again: 0 })
    expect(learn(backlog, listingOf(records, { askedAt: 2000 }), now).returned).toBe(2)
    expect(learn(backlog, listingOf(records, { askedAt: 3000 }), now).returned).toBe(0)
    expect(backlog.forgetBefore(Infinity)).toEqual({ records: 2, again: 2 })
  })

  test('it is busy when more than half of its places hold what is due or awaited', () => {
    const backlog = testBacklog(4)
    const records = [due(), due(), due({ attempts: 30 }), due()]
    learn(backlog, listingOf(records.slice(0, 3)), now)
    expect(backlog.isBusy(now)).toBe(false)
    learn(backlog, listingOf(records), now)
    for (const record of records.slice(0, 1)) begun(backlog, record)
    expect(backlog.isBusy(now)).toBe(true)
  })

  test('at least the last 50,000 dropped records that were tried are remembered', () => {
    const backlog = testBacklog(100_000)
    const records = Array.from({ length: 51_000 }, () => due())
    learn(backlog, listingOf(records), now)
    for (const record of records)
      noted(backlog, record, { result: 'already-resolved', reason: 'conflict', found: 'successful' })
    for (const untried of [[due()], []]) learn(backlog, listingOf(untried, { askedAt: 3000 }), now)
    expect(records.slice(999, 1001).map(({ id }) => backlog.triedAt(id))).toEqual([undefined, now])
  })

  test('a listing under way while an outcome comes neither drops its record nor shows it as it was', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'rejected', reason: 'bad-request' })
    const before = structuredClone(entryOf(backlog, record))
    learn(backlog, listingOf([{ ...record, attempts: 7 }]), now)
    learn(backlog, listingOf([]), now)
    expect(entryOf(backlog, record)).toEqual(before)
    learn(backlog, listingOf([{ ...record, attempts: 7 }], { askedAt: 2000 }), now)
    expect(entryOf(backlog, record).attempts).toBe(7)
  })

  test('a record that a job lists while a sweep lists its part stays, though it failed after its page was read', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, { ...listingOf([record], { askedAt: 2000 }), span: { from: 0, to: 0 }, verdict: 'missed' }, now)
    learn(backlog, listingOf([], { askedAt: 1000 }), now)
    expect(backlog.get(record.id)).toBeDefined()
    learn(backlog, listingOf([], { askedAt: 3000 }), now)
    expect(backlog.get(record.id)).toBeUndefined()
  })

  test('steps of a large listing let 500 records in', () => {
    const backlog = testBacklog(20_000)
    const sizes = [0]
    const steps = backlog.learn(listingOf(Array.from({ length: 10_000 }, () => due())), now)
    while (steps.next().done !== true) sizes.push(backlog.size())
    for (const [index, size] of sizes.slice(1).entries()) expect(size - (sizes[index] ?? 0)).toBeLessThanOrEqual(500)
    expect(backlog.size()).toBe(10_000)
  })

  test('what arrives between two steps of the eviction has not given way', () => {
    const backlog = testBacklog(500)
    const records = Array.from({ length: 2000 }, () => due())
    const steps = backlog.learn(listingOf(records), now)
    for (let size = 0; size <= backlog.size(); steps.next()) size = backlog.size()
    const held = records.filter(({ id }) => backlog.get(id) !== undefined)
    for (const record of held.filter((_, index) => index % 2 === 0))
      noted(backlog, record, { result: 'already-resolved', reason: 'conflict', found: 'successful' })
    expect([held.length, finish(steps).evicted, backlog.size()]).toEqual([1500, 750, 500])
  })

  test('what was evicted and is listed again no longer counts twice; only a full sweep shows that none is left', () => {
    const backlog = testBacklog(150)
    const sizes = (): number[] => [backlog.size(), backlog.evictions.known().records]
    const records = Array.from({ length: 250 }, () => due())
    const take = (some: WebhookRecord[]): unknown => learn(backlog, { ...listingOf(some), verdict: 'missed' }, now)
    take(records)
    expect(backlog.evictions.known().oldestOpenAt).toBe(now - dayMs)
    const again = records.filter(({ id }) => backlog.get(id) === undefined)
    for (const entry of [...backlog.entries()]) backlog.release(entry)
    take(again.slice(0, 30))
    expect(sizes()).toEqual([30, 70])
    take(Array.from({ length: 100 }, () => due()))
    expect(sizes()).toEqual([130, 1])
    backlog.evictions.begin()
    backlog.evictions.end()
    expect(sizes()).toEqual([130, 0])
  })
})

describe('the last attempt', () => {
  // Berlin: 02:00 to 03:00 came twice on 2025-10-26, at 00:00 and at 01:00 UTC.
  const wall = Date.UTC(2025, 9, 26, 2, 30)
  const [firstPass, secondPass] = [Date.UTC(2025, 9, 26, 0, 30), Date.UTC(2025, 9, 26, 1, 30)]

  test.each([
    ['the later reading when both are past', 'Europe/Berlin', wall, secondPass, secondPass],
    ['the later reading when that is a minute ahead', 'Europe/Berlin', wall, secondPass - minuteMs, secondPass],
    ['the earlier one when the later lies further ahead', 'Europe/Berlin', wall, secondPass - minuteMs - 1, firstPass],
    ['a minute ahead', 'UTC', now + minuteMs, now, now + minuteMs],
    ['the event time when it lies further ahead', 'UTC', now + minuteMs + 1, now, now - dayMs],
    ['the event time when it is missing', 'UTC', null, now, now - dayMs],
  ])('is %s', (_, zone, lastAttemptLocal, at, expected) => {
    const eventLocal = zone === 'UTC' ? now - dayMs : Date.UTC(2025, 9, 26, 0, 15)
    const record = due({ eventLocal, lastAttemptLocal })
    expect(new FailedRecord(record, { zone: createTimeZone(zone), now: at }).lastAt).toBe(expected)
  })

  test('is read once: when it is shown again an hour later, it is not the later reading', () => {
    const zone = createTimeZone('Europe/Berlin')
    const row = due({ eventLocal: Date.UTC(2025, 9, 26, 0, 15), lastAttemptLocal: wall })
    const record = new FailedRecord(row, { zone, now: firstPass })
    expect(record.show(row, { zone, now: secondPass + hourMs })).toBe(false)
    expect(record.lastAt).toBe(firstPass)
    record.show({ ...row, attempts: 2 }, { zone, now: secondPass })
    expect(record.lastAt).toBe(secondPass)
  })

  test('of ours that lies ahead, as the clock was put back, holds the record up until the next listing only', () => {
    const backlog = testBacklog()
    const record = due()
    learn(backlog, listingOf([record]), now)
    noted(backlog, record, { result: 'gone', reason: 'not-found' })
    const putBack = now - hourMs
    const decision = (): string => decide(entryOf(backlog, record), defaultPolicy, { now: putBack }).decision
    expect(decision()).toBe('backing-off')
    learn(backlog, listingOf([record], { askedAt: 2000 }), putBack)
    expect(decision()).toBe('due')
    expect(entryOf(backlog, record).tries).toBe(1)
  })
})
