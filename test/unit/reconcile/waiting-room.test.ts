// When a round of looks begins: company saves calls, but nobody waits for long.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Entry } from '../../../src/reconcile/entry.ts'
import { createWaitingRoom, type WaitingRoom } from '../../../src/reconcile/waiting-room.ts'
import { due, entryOf, learn, listingOf, testBacklog, testNow, ticketOf } from '../../support/backlog.ts'

/** Entries whose PATCH was sent at these times, each to be looked at so long afterwards. */
function awaitedAt(times: readonly { sentAt: number; lookAt: number }[]): Entry[] {
  const backlog = testBacklog({ maxRecords: 100_000 })
  const records = times.map(() => due())
  learn(backlog, listingOf(records), testNow)
  return records.map((record, index) => {
    const entry = entryOf(backlog, record)
    backlog.begin(entry, ticketOf(record), { sentAt: testNow, monotonic: times[index]?.sentAt ?? 0 })
    if (entry.awaiting !== undefined) entry.awaiting.lookAt = times[index]?.lookAt ?? 0
    return entry
  })
}

function roomWith(entries: readonly Entry[], waitsForOutcomes = false): WaitingRoom {
  const room = createWaitingRoom({ firstLookMs: 500, waitsForOutcomes: () => waitsForOutcomes })
  for (const entry of entries) room.add(entry)
  return room
}

/** The first moment at which a round begins, asked as it says it wants to be asked. */
function beginsAt(room: WaitingRoom, from: number): number {
  let now = from
  for (let asked = 0; asked < 10_000; asked += 1) {
    const wait = room.untilRound(now)
    if (wait === undefined) throw new Error('nobody waits')
    if (wait === 0) return now
    expect(wait).toBeGreaterThan(0)
    now += wait
  }
  throw new Error(`no round has begun up to ${now}`)
}

test('nobody waits in an empty room', () => {
  const room = roomWith([])
  expect(room.untilRound(1e9)).toBeUndefined()
  expect(room.take(1e9)).toEqual([])
})

test('who is not awaited is not let in', () => {
  const backlog = testBacklog()
  const record = due()
  learn(backlog, listingOf([record]), testNow)
  const room = roomWith([entryOf(backlog, record)])
  expect(room.untilRound(1e9)).toBeUndefined()
})

describe('a round begins', () => {
  test('at the time of a look when nobody else comes', () => {
    expect(beginsAt(roomWith(awaitedAt([{ sentAt: 0, lookAt: 500 }])), 0)).toBe(500)
  })

  test.each([
    { sentAt: 0, lookAt: 500, longest: 5500 },
    { sentAt: 0, lookAt: 4000, longest: 9000 },
    { sentAt: 0, lookAt: 60_000, longest: 65_000 },
  ])('a look $lookAt ms after the PATCH waits for company until $longest at the most', ({ longest, ...first }) => {
    const entries = awaitedAt([first, { sentAt: 0, lookAt: 1e8 }])
    const at = beginsAt(roomWith(entries), 0)
    expect(at).toBeGreaterThanOrEqual(first.lookAt)
    expect(at).toBeLessThanOrEqual(longest)
  })

  test('at once when many are due', () => {
    const entries = awaitedAt([
      ...Array.from({ length: 200 }, () => ({ sentAt: 0, lookAt: 500 })),
      { sentAt: 0, lookAt: 1e8 },
    ])
    expect(beginsAt(roomWith(entries), 0)).toBe(500)
  })

  test('after a tenth of a second while retries wait for outcomes', () => {
    const entries = awaitedAt([
      { sentAt: 0, lookAt: 64_000 },
      { sentAt: 0, lookAt: 65_000 },
    ])
    expect(beginsAt(roomWith(entries, true), 0)).toBe(64_100)
  })

  test('sooner when retries begin to wait for outcomes while the first has company to wait for', () => {
    const held = { waits: false }
    const room = createWaitingRoom({ firstLookMs: 500, waitsForOutcomes: () => held.waits })
    const entries = awaitedAt([
      { sentAt: 0, lookAt: 64_000 },
      { sentAt: 0, lookAt: 65_000 },
    ])
    for (const entry of entries) room.add(entry)
    const wait = room.untilRound(64_000) ?? 0
    held.waits = true
    expect(beginsAt(room, 64_000 + wait)).toBeLessThanOrEqual(64_200)
  })
})

test('one that was seen by the way is due later', () => {
  const [one] = awaitedAt([{ sentAt: 0, lookAt: 500 }])
  const room = roomWith(one === undefined ? [] : [one])
  if (one?.awaiting !== undefined) one.awaiting.lookAt = 2000
  expect(beginsAt(room, 0)).toBe(2000)
})

test('one whose outcome has become known is forgotten', () => {
  const [one] = awaitedAt([{ sentAt: 0, lookAt: 500 }])
  const room = roomWith(one === undefined ? [] : [one])
  if (one !== undefined) one.awaiting = undefined
  expect(room.untilRound(1000)).toBeUndefined()
  expect(room.take(1e9)).toEqual([])
})

test('ten thousand in one round at most, the rest in the next', () => {
  const room = roomWith(awaitedAt(Array.from({ length: 12_500 }, () => ({ sentAt: 0, lookAt: 500 }))))
  expect(room.untilRound(500)).toBe(0)
  expect(room.take(500)).toHaveLength(10_000)
  expect(room.untilRound(500)).toBe(0)
  expect(room.take(500)).toHaveLength(2500)
  expect(room.untilRound(500)).toBeUndefined()
})

test('nobody is lost or taken twice, and nobody before the time', () => {
  const times = fc.array(fc.record({ sentAt: fc.constant(0), lookAt: fc.integer({ min: 500, max: 100_000 }) }), {
    minLength: 1,
    maxLength: 120,
  })
  fc.assert(
    fc.property(times, fc.boolean(), (looks, waitsForOutcomes) => {
      const entries = awaitedAt(looks)
      const room = roomWith(entries, waitsForOutcomes)
      const taken: Entry[] = []
      for (let now = 0; room.untilRound(now) !== undefined;) {
        now = beginsAt(room, now)
        const round = room.take(now)
        for (const { awaiting } of round) {
          expect(awaiting?.lookAt).toBeLessThanOrEqual(now)
          expect(now - (awaiting?.lookAt ?? 0)).toBeLessThanOrEqual(5000)
        }
        taken.push(...round)
      }
      expect(taken).toHaveLength(entries.length)
      expect(new Set(taken)).toEqual(new Set(entries))
    }),
    { numRuns: 60 },
  )
})
