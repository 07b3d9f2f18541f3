// What is only counted: in pieces of event time, so that it stays small however much there is.
import { describe, expect, test } from 'vitest'
import { createCensus, noCounts, type Census, type Counted } from '../../../src/reconcile/retry/census.ts'

const hour = 3600

function counted(localSecond: number, decision: Counted['decision'] = 'due'): Counted {
  return { decision, localSecond, eventAt: localSecond * 1000 }
}

function censusOf(...records: Counted[]): Census {
  const census = createCensus()
  const count = census.begin()
  for (const record of records) count.add(record)
  count.commit()
  return census
}

describe('a new count', () => {
  test('is seen only when it is whole', () => {
    const census = censusOf(counted(0), counted(1))
    const count = census.begin()
    count.add(counted(0, 'parked'))
    expect(census.counts()).toMatchObject({ due: 2, parked: 0 })
    count.commit()
    expect(census.counts()).toMatchObject({ due: 0, parked: 1 })
  })

  test('that is abandoned leaves no trace', () => {
    const census = censusOf(counted(0))
    const count = census.begin()
    count.add(counted(0))
    count.abandon()
    census.addEvicted(counted(0))
    expect(census.counts().due).toBe(2)
  })

  test('of a span replaces what was counted there, and nothing else', () => {
    const census = censusOf(counted(599), counted(600), counted(1799), counted(1800))
    const count = census.begin({ from: 600, to: 1750 })
    count.cover({ from: 600, to: 1750 })
    count.add(counted(1300, 'parked'))
    count.commit()
    expect(census.counts()).toMatchObject({ due: 2, parked: 1 })
    expect(census.oldestOpenAt()).toBe(599_000)
  })

  test.each([
    ['not yet listed: it will be listed', 50, 0],
    ['already listed', 150, 1],
    ['listed in an adjacent slice', 250, 1],
    ['on the edge that is not listed', 300, 0],
  ])('while it is made a record gives way, its slice %s', (_, localSecond, inNew) => {
    const census = createCensus()
    const count = census.begin()
    count.cover({ from: 100, to: 200 })
    count.cover({ from: 200, to: 300 })
    census.addEvicted(counted(localSecond))
    expect(census.counts().due).toBe(1)
    count.commit()
    expect(census.counts().due).toBe(inNew)
  })

  test.each([
    ['has been there: the newer one counts', { from: 6 * hour, to: 7 * hour }, 1],
    ['has not been there: it will see for itself', { from: 2 * hour, to: 3 * hour }, 2],
  ])('made during a longer one that %s', (_, covered, due) => {
    const census = createCensus()
    const full = census.begin()
    full.cover(covered)
    full.add(counted(6 * hour))
    full.add(counted(6 * hour))
    const fresh = census.begin({ from: 6 * hour, to: 7 * hour })
    fresh.cover({ from: 6 * hour, to: 7 * hour })
    fresh.add(counted(6 * hour))
    fresh.commit()
    expect(census.counts().due).toBe(1)
    full.commit()
    expect(census.counts().due).toBe(due)
  })

  test('keeps what was counted where it could not look', () => {
    const census = censusOf(counted(0), counted(600), counted(1200), counted(1800), counted(6000))
    const count = census.begin()
    for (const span of [
      { from: -100, to: 500 },
      { from: 500, to: 600 },
      { from: 1300, to: 2400 },
    ])
      count.cover(span)
    count.add(counted(1900, 'parked'))
    count.commit()
    // Of the ten minutes from 1200 on a part was listed: that counts.
    expect(census.counts()).toMatchObject({ due: 2, parked: 1 })
    expect(census.oldestOpenAt()).toBe(600_000)
    const part = census.begin({ from: 600, to: 1200 })
    part.cover({ from: 700, to: 800 })
    part.commit()
    expect(census.counts()).toMatchObject({ due: 1, parked: 1 })
  })

  test('begun before a longer one does not disturb it', () => {
    const census = createCensus()
    const fresh = census.begin({ from: 6 * hour, to: 7 * hour })
    const full = census.begin()
    full.cover({ from: 6 * hour, to: 7 * hour })
    full.add(counted(6 * hour))
    fresh.commit()
    full.commit()
    expect(census.counts().due).toBe(1)
  })
})

describe('what had no room', () => {
  test('the oldest is told, an hour of it at most; excluded records are not meant', () => {
    const census = censusOf(counted(0, 'excluded'), counted(5 * hour + 700), counted(9 * hour, 'parked'))
    expect(census.oldestLeftOut()).toEqual({ from: 5 * hour + 600, to: 6 * hour + 600 })
    expect(census.leftOut()).toBe(true)
  })

  test.each([
    ['nothing', []],
    ['only excluded records', [counted(0, 'excluded')]],
  ])('%s', (_, records) => {
    expect(censusOf(...records).oldestLeftOut()).toBeUndefined()
    expect(censusOf(...records).leftOut()).toBe(false)
  })

  test('before 1970 too', () => {
    expect(censusOf(counted(-1), counted(-600)).oldestLeftOut()).toEqual({ from: -600, to: 3000 })
  })

  test('before the window it is forgotten, in the ten minutes the window begins in it is not', () => {
    const census = censusOf(counted(0), counted(599), counted(600), counted(1200))
    census.forgetBefore(700)
    expect(census.counts().due).toBe(2)
    expect(census.oldestOpenAt()).toBe(600_000)
  })
})

describe('what leaves the window', () => {
  test('is told once: open and parked records, neither excluded nor awaited ones', () => {
    const decisions = ['due', 'parked', 'backing-off', 'held', 'excluded', 'awaiting'] as const
    const census = censusOf(...decisions.map((decision) => counted(10, decision)), counted(2 * hour))
    expect(census.forgetBefore(0)).toBe(0)
    expect(census.forgetBefore(600)).toBe(4)
    expect(census.forgetBefore(600)).toBe(0)
    expect(census.counts().due).toBe(1)
  })

  test('near its edge it is told second by second, and what is left goes on to be counted', () => {
    const census = createCensus()
    census.forgetBefore(10 * hour)
    for (let second = 10 * hour; second < 10 * hour + 600; second += 1) census.addEvicted(counted(second))
    expect(census.forgetBefore(10 * hour + 30)).toBe(30)
    expect(census.forgetBefore(10 * hour + 31)).toBe(1)
    expect(census.counts().due).toBe(569)
    expect(census.oldestOpenAt()).toBe((10 * hour + 31) * 1000)
    expect(census.oldestLeftOut()).toEqual({ from: 10 * hour, to: 11 * hour })
  })

  /** A full count of what is failed in `[from, to)`, one record each second; `during` comes when a part has been listed. */
  function recount(census: Census, from: number, to: number, during: (listed: number) => void = () => undefined): void {
    const count = census.begin()
    for (let part = from; part < to; part += 100) {
      const end = Math.min(to, part + 100)
      count.cover({ from: part, to: end })
      for (let second = part; second < end; second += 1) count.add(counted(second))
      during(end)
    }
    count.commit()
  }

  test('is not lost to the counts that come between: each begins where the window does by then', () => {
    const census = createCensus()
    const end = 10 * hour + 3000
    let told = 0
    for (let start = 10 * hour; start <= end; start += 30) {
      told += census.forgetBefore(start)
      recount(census, start, end)
    }
    expect(told).toBe(3000)
    expect(census.counts().due).toBe(0)
  })

  test.each([
    ['near the edge', 10 * hour],
    ['where it was counted long before it came to the edge', 0],
  ])('while a count of it is under way it is told once: %s', (_, knownFrom) => {
    const census = createCensus()
    census.forgetBefore(knownFrom)
    const [start, end] = [10 * hour, 10 * hour + 1200]
    recount(census, start, end)
    let told = census.forgetBefore(start)
    // The window moves by ten minutes when all of it has been listed.
    recount(census, start, end, (listed) => {
      if (listed === end) told += census.forgetBefore(start + 600)
    })
    expect(told).toBe(600)
    expect(census.counts().due).toBe(600)
    expect(census.forgetBefore(end)).toBe(600)
  })

  test('and is told by who has listed it last, even when that count is abandoned then', () => {
    const census = createCensus()
    census.forgetBefore(10 * hour)
    recount(census, 10 * hour, 10 * hour + 100)
    const count = census.begin()
    count.cover({ from: 10 * hour, to: 10 * hour + 50 })
    // Of the first fifty seconds, all but one were resolved meanwhile.
    count.add(counted(10 * hour + 7))
    expect(census.forgetBefore(10 * hour + 60)).toBe(1 + 10)
    count.abandon()
    expect(census.forgetBefore(10 * hour + 70)).toBe(10)
  })

  test('in the first count of all, what it has listed is known too', () => {
    const census = createCensus()
    census.forgetBefore(10 * hour)
    let told = 0
    recount(census, 10 * hour, 10 * hour + 300, (listed) => {
      if (listed === 10 * hour + 200) told = census.forgetBefore(10 * hour + 150)
    })
    expect(told).toBe(150)
    expect(census.counts().due).toBe(150)
  })

  test('a record that has given way while a count was under way is told once', () => {
    const census = createCensus()
    census.forgetBefore(10 * hour)
    const count = census.begin()
    count.cover({ from: 10 * hour, to: 11 * hour })
    census.addEvicted(counted(10 * hour + 5))
    expect(census.forgetBefore(10 * hour + 10)).toBe(1)
    count.commit()
    expect(census.counts().due).toBe(0)
  })

  test('when the time is set back, what was counted second by second and by ten minutes goes on together', () => {
    const census = createCensus()
    census.forgetBefore(20 * hour)
    census.addEvicted(counted(20 * hour))
    // What lies far from the edge is counted by ten minutes.
    census.forgetBefore(10 * hour)
    census.addEvicted(counted(20 * hour + 300))
    expect(census.counts().due).toBe(2)
    expect(census.forgetBefore(20 * hour + 1)).toBe(0)
    expect(census.forgetBefore(20 * hour + 600)).toBe(2)
  })

  test('costs little however much there is: seconds are kept for a few hours at most', () => {
    const census = createCensus()
    census.forgetBefore(0)
    const started = process.memoryUsage().heapUsed
    for (let second = 0; second < 400 * hour; second += 1) census.addEvicted(counted(second))
    expect(process.memoryUsage().heapUsed - started).toBeLessThan(100 * 1024 * 1024)
    expect(census.counts().due).toBe(400 * hour)
  })
})

describe('what is about to leave', () => {
  test('is told by decision, ten minutes at a time far from the edge', () => {
    const census = censusOf(counted(0), counted(599, 'parked'), counted(600, 'excluded'), counted(1200, 'backing-off'))
    expect(census.expiringBefore(0)).toEqual(noCounts())
    expect(census.expiringBefore(1)).toEqual({ ...noCounts(), due: 1, parked: 1 })
    expect(census.expiringBefore(600)).toEqual({ ...noCounts(), due: 1, parked: 1 })
    expect(census.expiringBefore(1201)).toEqual({ ...noCounts(), due: 1, parked: 1, excluded: 1, 'backing-off': 1 })
  })

  test('is told to the second near the edge', () => {
    const census = createCensus()
    census.forgetBefore(0)
    for (const second of [0, 10, 20]) census.addEvicted(counted(second))
    expect([0, 1, 10, 11, 21].map((second) => census.expiringBefore(second).due)).toEqual([0, 1, 1, 2, 3])
  })
})

describe('the oldest open event', () => {
  test.each([
    ['none', [], undefined],
    ['only parked and excluded', [counted(1, 'parked'), counted(2, 'excluded')], undefined],
    ['among others', [counted(1, 'parked'), counted(30), counted(20, 'backing-off')], 20_000],
  ])('%s', (_, records, oldest) => {
    expect(censusOf(...records).oldestOpenAt()).toBe(oldest)
  })

  test('is told of each subscription, by a count under way too', () => {
    const at = (localSecond: number, subscriptionId?: string): Counted => ({ ...counted(localSecond), subscriptionId })
    const census = censusOf(at(3000, 'a'), at(2000, 'a'), at(1000, 'b'), { ...at(10, 'a'), decision: 'parked' })
    expect(census.oldestOpenAt('a')).toBe(2_000_000)
    expect(census.oldestOpenAt('b')).toBe(1_000_000)
    expect(census.oldestOpenAt('c')).toBeUndefined()
    census.addEvicted(at(900, 'b'))
    expect(census.oldestOpenAt('b')).toBe(900_000)
    const count = census.begin()
    count.add(at(500, 'c'))
    expect([census.oldestOpenAt('c'), census.oldestOpenAt()]).toEqual([500_000, 900_000])
    count.abandon()
    expect(census.oldestOpenAt('c')).toBeUndefined()
    census.addEvicted(at(800))
    expect(census.oldestOpenAt('a')).toBe(800_000)
    census.forgetBefore(801)
    census.forgetBefore(1800)
    expect(census.oldestOpenAt('a')).toBe(2_000_000)
  })

  test('of ten thousand subscriptions is kept for a few in each ten minutes; the others count for all', () => {
    const census = createCensus()
    for (let number = 0; number < 10_000; number += 1) {
      census.addEvicted({ ...counted(number < 5000 ? 30 : 20), subscriptionId: String(number) })
    }
    expect(census.oldestOpenAt('0')).toBe(20_000)
    expect(census.oldestOpenAt('9999')).toBe(20_000)
  })

  test('of ten years costs no stack', () => {
    const census = createCensus()
    for (let index = 0; index < 500_000; index += 1) census.addEvicted(counted(index * 600))
    expect(census.oldestOpenAt()).toBe(0)
    expect(census.oldestLeftOut()?.from).toBe(0)
  })
})
