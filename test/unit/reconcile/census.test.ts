// What is only counted: in pieces of event time, so that it stays small however much there is.
import { describe, expect, test } from 'vitest'
import { createCensus, type Census, type Counted } from '../../../src/reconcile/census.ts'

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

describe('the oldest open event', () => {
  test.each([
    ['none', [], undefined],
    ['only parked and excluded', [counted(1, 'parked'), counted(2, 'excluded')], undefined],
    ['among others', [counted(1, 'parked'), counted(30), counted(20, 'backing-off')], 20_000],
  ])('%s', (_, records, oldest) => {
    expect(censusOf(...records).oldestOpenAt()).toBe(oldest)
  })

  test('of ten years costs no stack', () => {
    const census = createCensus()
    for (let index = 0; index < 500_000; index += 1) census.addEvicted(counted(index * 600))
    expect(census.oldestOpenAt()).toBe(0)
    expect(census.oldestLeftOut()?.from).toBe(0)
  })
})
