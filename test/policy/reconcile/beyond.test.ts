// What lies beyond the window, and what is said when the daemon was down or blind while records left it.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/client.ts'
import { PlatformFailure } from '../../../src/platform/failure.ts'
import { createZone } from '../../../src/platform/local-time.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { createBeyond, type AwayFact } from '../../../src/reconcile/sweep/beyond.ts'
import { dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { reconcile, ticks, type Reconcile } from '../../support/reconcile.ts'

const start = testNow - 7 * dayMs

function failed(count: number, eventLocal: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, () => failedRecord({ eventLocal, ...fields }))
}

const lately = failed(3, start - 2 * hourMs)
const longAgo = failed(4, start - 2 * dayMs)

function away(world: Reconcile): AwayFact[] {
  return world.facts.flatMap((fact) => (fact.type === 'away' ? [fact] : []))
}

function looksBeyond({ lists }: Reconcile['platform']): ListQuery[] {
  return lists.filter(({ to = Infinity }) => to < start / 1000 + 60)
}

function trouble(): PlatformFailure {
  return new PlatformFailure('server-error', 500, 'list')
}

describe('how many', () => {
  const inside = failed(5, testNow - dayMs)

  test.each([
    ['counted', {}, 4],
    ['not known without a total', { totals: 'none' }, 0],
    ['not believed when the row shows that the bound is ignored', { ignores: ['to'], order: 'event-desc' }, 0],
    ['not believed when there are rows but the total is none', { totals: 'zero' }, 0],
  ] as const)('%s', async (_, readings, count) => {
    await using world = reconcile({ ...readings, records: [...longAgo, ...inside] })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(count)
  })

  test('not believed when there is a total but no row', async () => {
    await using world = reconcile({ records: inside, totals: 'all' })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(0)
    expect(away(world)).toEqual([])
  })

  test('not believed when the row shows that the status is ignored', async () => {
    await using world = reconcile({
      records: failed(9, start - hourMs, { status: 'successful' }),
      ignores: ['status'],
    })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(0)
    expect(away(world)).toEqual([])
  })

  test('not believed when more rows are shown than there are said to be', async () => {
    const pages = [
      { rows: 1, total: 4 },
      { rows: 1, total: 4 },
      { rows: 3, total: 2 },
      { rows: 1, total: 0 },
    ]
    const record = failedRecord({ eventLocal: start - hourMs })
    const beyond = createBeyond({
      client: {
        list: () => {
          const { rows, total } = pages.shift() ?? { rows: 0, total: 0 }
          const records = Array.from({ length: rows }, () => record)
          return Promise.resolve({ records, rows, total, unreadable: [], size: undefined })
        },
      },
      window: defaultPolicy.window,
      zone: createZone('UTC'),
      report: () => undefined,
    })
    const told: number[] = []
    while (pages.length > 0) {
      await beyond.look({ from: start / 1000, to: testNow / 1000 }, new AbortController().signal)
      told.push(beyond.records())
    }
    expect(told).toEqual([4, 4, 4])
  })

  test('when it cannot be asked the sweep is not the worse for it, and the last number stands', async () => {
    let isDown = false
    await using world = reconcile({
      records: [...longAgo, ...inside],
      onList: ({ from, to }) => {
        if (isDown && from === undefined && to !== undefined) throw trouble()
      },
    })
    await world.sweep()
    isDown = true
    expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 5 })
    expect(world.sweeper.beyondWindow()).toBe(4)
  })
})

describe('the first full sweep of a process', () => {
  test('tells what has lapsed in the last day, once, and asks for it once', async () => {
    await using world = reconcile({ records: [...lately, ...longAgo] })
    await world.sweep()
    expect(away(world)).toEqual([{ type: 'away', beyond: 7, meanwhile: 3, blindForMs: undefined }])
    await world.sweep()
    expect(away(world)).toHaveLength(1)
    expect(looksBeyond(world.platform)).toHaveLength(2 + 1)
    expect(looksBeyond(world.platform).every(({ size, status }) => size === 1 && status === 'failed')).toBe(true)
  })

  test('tells that there are some, also when none is of the last day', async () => {
    await using world = reconcile({ records: longAgo })
    await world.sweep()
    expect(away(world)).toEqual([{ type: 'away', beyond: 4, meanwhile: 0, blindForMs: undefined }])
  })

  test('says nothing when there is nothing, and does not ask twice', async () => {
    await using world = reconcile({ records: failed(5, testNow - dayMs) })
    await world.sweep()
    expect(away(world)).toEqual([])
    expect(looksBeyond(world.platform)).toHaveLength(1)
  })

  test.each([
    ['the row of the day lies outside it', { ignores: ['from'] }],
    ['there are no totals', { totals: 'none' }],
    ['a total has no row', { totals: 'huge' }],
  ] as const)('says nothing when %s', async (_, readings) => {
    await using world = reconcile({ ...readings, records: longAgo })
    await world.sweep()
    await world.sweep()
    expect(away(world)).toEqual([])
  })

  test('does not believe that more have lapsed in a day than ever', async () => {
    await using world = reconcile({
      records: [...lately, ...longAgo],
      onList: ({ from, to = Infinity }, platform) => {
        if (from !== undefined && to < start / 1000) platform.add(...failed(5, start - hourMs))
      },
    })
    await world.sweep()
    expect(away(world)).toEqual([])
  })

  test('that could not ask for the day leaves it to the next', async () => {
    let isDown = true
    await using world = reconcile({
      records: [...lately, ...longAgo],
      onList: ({ from, to = Infinity }) => {
        if (isDown && from !== undefined && to < start / 1000) throw trouble()
      },
    })
    await world.sweep()
    expect(away(world)).toEqual([])
    expect(world.sweeper.beyondWindow()).toBe(7)
    isDown = false
    await world.sweep()
    expect(away(world)).toEqual([{ type: 'away', beyond: 7, meanwhile: 3, blindForMs: undefined }])
  })

  test('that comes only hours after the start, as the platform was down, is the first all the same', async () => {
    let isDown = true
    await using world = reconcile({
      records: lately,
      onList: () => {
        if (isDown) throw trouble()
      },
    })
    await ticks(world, 30_000, 3 * hourMs)
    expect(away(world)).toEqual([])
    isDown = false
    await ticks(world, 30_000, 10 * minuteMs)
    expect(away(world)).toEqual([{ type: 'away', beyond: 3, meanwhile: 3, blindForMs: undefined }])
  })

  test('that told nothing leaves that to the next, which can’t tell since when, however long it took to come', async () => {
    let isDown = true
    let isMute = true
    await using world = reconcile({
      records: lately,
      onList: ({ from, to }) => {
        if (isDown || (isMute && from === undefined && to !== undefined)) throw trouble()
      },
    })
    isDown = false
    await world.sweep()
    isDown = true
    await ticks(world, 30_000, hourMs)
    isDown = isMute = false
    await ticks(world, 30_000, 10 * minuteMs)
    expect(away(world)).toEqual([{ type: 'away', beyond: 3, meanwhile: 3, blindForMs: undefined }])
  })

  test('what lies before notBefore was never ours to lose', async () => {
    const notBefore = testNow - dayMs
    await using world = reconcile({
      records: failed(6, notBefore - hourMs),
      policy: { window: { ...defaultPolicy.window, notBefore } },
    })
    await world.sweep()
    expect(away(world)).toEqual([{ type: 'away', beyond: 6, meanwhile: 0, blindForMs: undefined }])
    expect(world.platform.lists.filter(({ from = 0, to = Infinity }) => to < from)).toEqual([])
  })

  test('when the window has moved on from notBefore for a while, what lies between them has lapsed', async () => {
    const notBefore = start - hourMs
    await using world = reconcile({
      records: [...failed(6, notBefore - minuteMs), ...failed(2, notBefore + minuteMs)],
      policy: { window: { ...defaultPolicy.window, notBefore } },
    })
    await world.sweep()
    expect(away(world)).toEqual([{ type: 'away', beyond: 8, meanwhile: 2, blindForMs: undefined }])
  })
})

describe('after a blind time', () => {
  /** Parked records, one leaving the window every ten minutes. */
  const leaving = Array.from({ length: 100 }, (_, index) =>
    failedRecord({ eventLocal: start + (index * 10 + 5) * minuteMs, attempts: 30 }),
  )

  interface Outage {
    world: Reconcile
    isDown: boolean
    /** Whether a list call fails while it is down. Default: each does. */
    hits: (query: ListQuery) => boolean
  }

  function outage(latencyMs = 20): Outage {
    const state = { isDown: false, hits: (): boolean => true }
    const world = reconcile({
      records: [...leaving, ...longAgo],
      latencyMs,
      onList: (query) => {
        if (own.isDown && own.hits(query)) throw trouble()
      },
    })
    const own: Outage = { ...state, world }
    return own
  }

  test('it is told how many left the window meanwhile, and how long nobody looked', async () => {
    const own = outage()
    await using world = own.world
    await ticks(world, 30_000, 10 * minuteMs)
    expect(away(world)).toHaveLength(1)
    own.isDown = true
    await ticks(world, 30_000, 3 * hourMs)
    own.isDown = false
    await ticks(world, 30_000, 20 * minuteMs)
    const [, told, ...more] = away(world)
    expect(more).toEqual([])
    expect(told).toMatchObject({ beyond: 4 + 19, meanwhile: 18 })
    expect(told?.blindForMs).toBeGreaterThan(3 * hourMs)
    expect(told?.blindForMs).toBeLessThan(3 * hourMs + 6 * minuteMs)
  })

  test('nothing is told when nothing left meanwhile, or when it was short', async () => {
    const own = outage()
    await using world = own.world
    await ticks(world, 30_000, 13.5 * minuteMs)
    for (let round = 0; round < 5; round += 1) {
      own.isDown = true
      await ticks(world, 1000, 3 * minuteMs)
      own.isDown = false
      await ticks(world, 1000, 7 * minuteMs)
    }
    expect(world.sweeper.beyondWindow()).toBeGreaterThan(4 + 5)
    expect(away(world)).toHaveLength(1)
  })

  test('a sweep that rests for long is not blind', async () => {
    // A full sweep of some minutes rests for more than an hour.
    const { world: owned } = outage(minuteMs)
    await using world = owned
    await ticks(world, 30_000, 8 * hourMs)
    expect(world.sweeps().filter(({ kind }) => kind === 'full').length).toBeGreaterThan(3)
    expect(world.sweeper.beyondWindow()).toBeGreaterThan(4 + 30)
    expect(away(world)).toHaveLength(1)
  })

  test('nor is one that goes on for long where there had been no room', async () => {
    const due = Array.from({ length: 400 }, (_, index) =>
      failedRecord({ eventLocal: start + 2 * dayMs + index * 10 * minuteMs }),
    )
    let isSlow = true
    await using world = reconcile({
      records: [...leaving, ...due],
      maxRecords: 200,
      latencyMs: 1000,
      onList: async ({ from = 0, to = Infinity }) => {
        // The first hour that is listed anew takes an hour.
        const isAnew = to - from < 7200 && to < (testNow - dayMs) / 1000 && from > start / 1000
        if (isAnew && isSlow) {
          isSlow = false
          await world.clock.sleep(hourMs)
        }
      },
    })
    void world.start()
    await ticks(world, 30_000, 2 * hourMs)
    const reports = world.sweeps().filter(({ kind }) => kind === 'full')
    expect(reports.slice(0, 2).map(({ continued, seconds }) => [continued, seconds > 3600])).toEqual([
      [false, false],
      [true, true],
    ])
    expect(reports.length).toBeGreaterThan(10)
    expect(world.sweeper.beyondWindow()).toBeGreaterThan(6)
    expect(away(world)).toEqual([])
  })

  test('when the first sweep after it cannot ask, the next one tells it', async () => {
    const own = outage()
    await using world = own.world
    await ticks(world, 30_000, 10 * minuteMs)
    own.isDown = true
    await ticks(world, 30_000, 2 * hourMs)
    own.hits = ({ from, to }) => from === undefined && to !== undefined
    await ticks(world, 30_000, 10 * minuteMs)
    expect(world.sweeps().at(-1)).toMatchObject({ kind: 'full', result: 'complete' })
    expect(away(world)).toHaveLength(1)
    own.isDown = false
    await ticks(world, 30_000, 5 * minuteMs)
    const [, told, ...more] = away(world)
    expect(more).toEqual([])
    expect(told?.meanwhile).toBeGreaterThanOrEqual(12)
    expect(told?.blindForMs).toBeGreaterThan(2 * hourMs)
  })

  test('fresh looks that work do not make a full sweep that fails see', async () => {
    const own = outage()
    await using world = own.world
    await ticks(world, 30_000, 10 * minuteMs)
    own.hits = ({ from = Infinity }) => from < (testNow - 2 * hourMs) / 1000
    own.isDown = true
    await ticks(world, 30_000, hourMs)
    own.isDown = false
    await ticks(world, 30_000, 10 * minuteMs)
    expect(away(world)).toHaveLength(2)
  })
})
