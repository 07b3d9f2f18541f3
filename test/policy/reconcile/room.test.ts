// Who stays in the backlog when there is no room for all: the ranks, and the order in which they go and come.
import { describe, expect, test } from 'vitest'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { firstToGo, inOrderOfEntry, rankOf, type Rank, type RankOptions } from '../../../src/reconcile/retry/room.ts'
import { awaitedOf, dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'

const now = testNow
const shut = 'aaaaaaaa-0000-4000-8000-00000000000f'

function entry(ageMs: number, fields: Partial<FailedRecord> = {}): FailedRecord {
  const record = failedRecord({ eventLocal: now - ageMs })
  return { ...createFailedRecord(record, { zone: createTimeZone('UTC'), now, askedAt: 0 }), ...fields }
}

function by(policy: Partial<Policy> = {}): RankOptions {
  return { policy: { ...defaultPolicy, ...policy }, isShut: (subscriptionId) => subscriptionId === shut }
}

const fresh = hourMs - 1
const old = hourMs
const expiring = 7 * dayMs - 6 * hourMs + 1
const resting = { lastAt: now - 1000 }
const awaiting = awaitedOf({ id: '', subscriptionId: '' })

describe('the rank', () => {
  test.each<[string, FailedRecord, Rank]>([
    ['awaited', entry(old, { awaiting }), 4],
    [
      'in flight, at the limit, resting, its circuit open',
      entry(old, { awaiting, attempts: 30, subscriptionId: shut, ...resting }),
      4,
    ],
    ['expiring', entry(expiring), 3],
    ['not expiring yet', entry(expiring - 1), 1],
    ['fresh', entry(fresh), 2],
    ['old', entry(old), 1],
    ['parked', entry(old, { attempts: 30 }), 0],
    ['parked and expiring', entry(expiring, { attempts: 30 }), 0],
    ['backing off', entry(old, resting), 0],
    ['backing off and expiring', entry(expiring, resting), 0],
    ['its circuit open, and expiring', entry(expiring, { subscriptionId: shut }), 0],
    ['its circuit open, and fresh', entry(fresh, { subscriptionId: shut }), 0],
  ])('%s', (_, one, rank) => {
    expect(rankOf(one, by(), now)).toBe(rank)
  })

  test.each<[string, FailedRecord, Rank]>([
    ['awaited', entry(old, { awaiting }), 4],
    ['parked', entry(old, { attempts: 30 }), 0],
    ['backing off', entry(old, resting), 1],
    ['its circuit open', entry(old, { subscriptionId: shut }), 1],
    ['fresh', entry(fresh), 1],
    ['expiring', entry(expiring), 1],
  ])('where events go in their order: %s', (_, one, rank) => {
    expect(rankOf(one, by({ orderPerEntity: true }), now)).toBe(rank)
  })
})

describe('who gives way', () => {
  const ids = (entries: readonly FailedRecord[]): string[] => entries.map(({ id }) => id)
  const newcomers = (count: number): FailedRecord[] => Array.from({ length: count }, () => entry(old))
  const tried = { tries: 1, triedAt: now - 1000 }
  const [parkedTried, parkedOld, parkedNew, aged, agedMore, young, leaves, awaited] = [
    entry(2 * hourMs, { attempts: 30, ...tried }),
    entry(3 * dayMs, { attempts: 30 }),
    entry(dayMs, { attempts: 30 }),
    entry(old),
    entry(2 * dayMs),
    entry(10 * minuteMs),
    entry(expiring),
    entry(old, { awaiting }),
  ]
  const all = [awaited, leaves, agedMore, parkedTried, young, parkedOld, aged, parkedNew]

  test('the lowest rank first, in it the untried, of these the newest; never what is awaited', () => {
    const order = firstToGo(all, by(), { wanted: newcomers(99), below: 4, now })
    expect(ids(order)).toEqual(ids([parkedNew, parkedOld, parkedTried, aged, agedMore, young, leaves]))
  })

  test.each<[Rank, FailedRecord[]]>([
    [0, []],
    [1, [parkedNew, parkedOld, parkedTried]],
    [2, [parkedNew, parkedOld, parkedTried, aged, agedMore]],
    [3, [parkedNew, parkedOld, parkedTried, aged, agedMore, young]],
  ])('for a newcomer of rank %i only lower ones', (below, expected) => {
    expect(ids(firstToGo(all, by(), { wanted: newcomers(99), below, now }))).toEqual(ids(expected))
  })

  test('no more than are asked for', () => {
    expect(ids(firstToGo(all, by(), { wanted: newcomers(2), below: 3, now }))).toEqual(ids([parkedNew, parkedOld]))
    expect(firstToGo(all, by(), { wanted: newcomers(0), below: 3, now })).toEqual([])
  })

  describe('where events go in their order', () => {
    const inOrder = by({ orderPerEntity: true })
    const aged = (days: number, fields: Partial<FailedRecord> = {}): FailedRecord => entry(days * dayMs, fields)
    const [one, two, four] = [aged(1), aged(2), aged(4)]
    const [parked, retried, flying] = [aged(6, { attempts: 30 }), aged(1, tried), aged(1, { awaiting })]

    test.each<[string, FailedRecord[], FailedRecord[], FailedRecord[]]>([
      ['newer ones of the same rank too, the newest first', [four, one, two], [aged(5), aged(5)], [one, two]],
      ['but no older ones', [four, two], [aged(5), aged(3), aged(1.5)], [two]],
      ['nor one of the same time', [two], [aged(2)], []],
      ['the newest for the oldest, and so on until they meet', [one, two, four], [aged(3), aged(1.5)], [one]],
      ['parked ones before them, however old', [one, parked], [aged(0.5)], [parked]],
      ['what was tried gives way like any other', [retried, two], [aged(3)], [retried]],
      ['never what is awaited', [flying], [aged(5)], []],
    ])('%s', (_, held, wanted, expected) => {
      expect(ids(firstToGo(held, inOrder, { wanted, below: 1, now }))).toEqual(ids(expected))
    })

    test('not for a parked newcomer, however old', () => {
      expect(firstToGo([one, two], inOrder, { wanted: [aged(6)], below: 0, now })).toEqual([])
    })
  })

  test('newcomers come in by rank, the oldest event first', () => {
    const order = inOrderOfEntry([parkedNew, young, aged, leaves, agedMore, parkedOld], by(), now)
    expect(ids(order.map((one) => one.entry))).toEqual(ids([leaves, young, agedMore, aged, parkedOld, parkedNew]))
  })
})
