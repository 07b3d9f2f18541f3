// What is only counted: by the hour, so that it stays small however much there is.
import { describe, expect, test } from 'vitest'
import { createCensus, type Census, type Counted } from '../../../src/reconcile/census.ts'

const hour = 3600

function counted(localSecond: number, decision: Counted['decision'] = 'due'): Counted {
  return { decision, localSecond, eventAt: localSecond * 1000 }
}

function censusOf(...records: Counted[]): Census {
  const census = createCensus()
  for (const record of records) census.addListed(record)
  return census
}

describe('two counts', () => {
  test('the new one is seen only when it is whole', () => {
    const census = censusOf(counted(0), counted(1))
    census.begin()
    census.addListed(counted(0, 'parked'))
    expect(census.counts()).toMatchObject({ due: 2, parked: 0 })
    census.commit()
    expect(census.counts()).toMatchObject({ due: 0, parked: 1 })
  })

  test('an abandoned one leaves no trace', () => {
    const census = censusOf(counted(0))
    census.begin()
    census.addListed(counted(0))
    census.abandon()
    census.addListed(counted(0))
    expect(census.counts().due).toBe(2)
  })

  test('a commit without a new count changes nothing', () => {
    const census = censusOf(counted(0))
    census.commit()
    expect(census.counts().due).toBe(1)
  })

  test.each([
    ['not yet listed: it will be listed', 50, 0],
    ['already listed', 150, 1],
    ['listed in an adjacent slice', 250, 1],
    ['on the edge that is not listed', 300, 0],
  ])('a record that gives way during a sweep, its slice %s', (_, localSecond, inNew) => {
    const census = createCensus()
    census.begin()
    census.cover({ from: 100, to: 200 })
    census.cover({ from: 200, to: 300 })
    census.addEvicted(counted(localSecond))
    expect(census.counts().due).toBe(1)
    census.commit()
    expect(census.counts().due).toBe(inNew)
  })
})

describe('hours', () => {
  test('the oldest with records that had no room is taken out of the count, excluded ones and all', () => {
    const census = censusOf(counted(0, 'excluded'), counted(5 * hour, 'excluded'), counted(5 * hour + 1), counted(9 * hour))
    expect(census.takeOldest()?.span).toEqual({ from: 5 * hour, to: 6 * hour })
    expect(census.counts()).toMatchObject({ due: 1, excluded: 1 })
    expect(census.leftOut()).toBe(true)
    expect(census.takeOldest()?.span.from).toBe(9 * hour)
    expect(census.takeOldest()).toBeUndefined()
    expect(census.leftOut()).toBe(false)
    expect(census.counts().excluded).toBe(1)
  })

  test('one that could not be listed is put back as it was', () => {
    const census = censusOf(counted(0), counted(1, 'parked'))
    const taken = census.takeOldest()
    census.addListed(counted(0))
    taken?.putBack()
    expect(census.counts()).toMatchObject({ due: 1, parked: 1 })
  })

  test('before the window they are forgotten, the one the window begins in is not', () => {
    const census = censusOf(counted(0), counted(hour), counted(2 * hour - 1), counted(2 * hour))
    census.forgetBefore(hour + 1800)
    expect(census.counts().due).toBe(3)
    expect(census.oldestOpenAt()).toBe(hour * 1000)
  })

  test('before 1970 they are hours too', () => {
    const census = censusOf(counted(-1), counted(-hour))
    expect(census.takeOldest()?.span).toEqual({ from: -hour, to: 0 })
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

  test('of a hundred thousand hours costs no stack', () => {
    const census = createCensus()
    for (let index = 0; index < 150_000; index += 1) census.addListed(counted(index * hour))
    expect(census.oldestOpenAt()).toBe(0)
    expect(census.takeOldest()?.span.from).toBe(0)
  })
})
