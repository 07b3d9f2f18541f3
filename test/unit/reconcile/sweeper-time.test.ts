// Days of ticks: the window moves on, clocks are changed, records leave, and what is told of it.
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/failure.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, defaultPolicy, entryOf, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord, idOf } from '../../support/fake-platform.ts'
import { reconcile, ticks } from '../../support/reconcile.ts'

function due(count: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - 3 * dayMs + index * 10 * minuteMs, ...fields }),
  )
}

describe('time goes on', () => {
  /** A failure a minute, each seen `failed` half a minute after its event; gives how long each waited for its retry. */
  async function waits(options: {
    zone: string
    startMs: number
    minutes: number
    latencyMs: number
  }): Promise<number[]> {
    await using world = reconcile({
      ...options,
      policy: { window: { ...defaultPolicy.window, lookbackMs: 2 * dayMs } },
    })
    const zone = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(options.zone).timeZoneId
    const toLocal = (ms: number): number =>
      ms + Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone).offsetNanoseconds / 1e6
    const events = new Map<string, number>()
    void world.start()
    for (let minute = 0; minute < options.minutes + 10; minute += 1) {
      for (const half of [0, 30_000]) {
        const now = Math.floor(world.platform.now())
        if (half === 30_000 && minute < options.minutes) {
          const record = failedRecord({ eventLocal: toLocal(now - 30_000), lastAttemptLocal: toLocal(now - 29_000) })
          events.set(record.id, now - 30_000)
          world.platform.add(record)
        }
        world.sweeper.tick(world.stop.signal)
        await world.clock.advance(30_000)
      }
    }
    expect(world.platform.retries).toHaveLength(options.minutes)
    return world.platform.retries.map(({ id, at }) => at - (events.get(id) ?? 0))
  }

  test.each([
    ['UTC', 'UTC', '2026-01-15T12:00:00Z'],
    ['the clock is put back in Berlin', 'Europe/Berlin', '2025-10-25T23:30:00Z'],
    ['the clock is put forward in Berlin', 'Europe/Berlin', '2026-03-28T23:30:00Z'],
    ['the clock is put back in New York', 'America/New_York', '2025-11-02T04:30:00Z'],
    ['the clock is put back by half an hour', 'Australia/Lord_Howe', '2026-04-04T13:30:00Z'],
  ])('%s: each failure is retried within minutes', async (_, zone, from) => {
    const startMs = Temporal.Instant.from(from).epochMilliseconds
    const seen = await waits({ zone, startMs, minutes: 240, latencyMs: 20 })
    expect(Math.max(...seen)).toBeLessThan(4 * minuteMs)
    // Never before it has settled, but for the hour that comes twice.
    if (zone === 'UTC') expect(Math.min(...seen)).toBeGreaterThanOrEqual(minuteMs)
  })

  test('what fails while a long sweep is under way is not lost between two of them', async () => {
    const seen = await waits({ zone: 'UTC', startMs: testNow, minutes: 120, latencyMs: 4000 })
    expect(Math.max(...seen)).toBeLessThan(6 * minuteMs)
  })

  test('nothing before notBefore is ever touched; it is counted as beyond the window', async () => {
    const notBefore = testNow - dayMs
    const [old, young] = [due(20, { eventLocal: notBefore - 1000 }), due(20, { eventLocal: notBefore })]
    await using world = reconcile({
      records: [...old, ...young],
      policy: { window: { ...defaultPolicy.window, notBefore } },
    })
    void world.start()
    await ticks(world, 30_000, hourMs)
    expect(world.platform.failedIds().toSorted()).toEqual(old.map(({ id }) => id).toSorted())
    expect(world.sweeper.beyondWindow()).toBe(20)
  })

  test('notBefore within a second keeps the earlier part of that second out', async () => {
    const notBefore = testNow - dayMs + 500
    const [old, young] = [failedRecord({ eventLocal: notBefore - 1 }), failedRecord({ eventLocal: notBefore })]
    await using world = reconcile({ records: [old, young], policy: { window: { ...defaultPolicy.window, notBefore } } })
    void world.start()
    await ticks(world, 30_000, 5 * minuteMs)
    expect(world.platform.failedIds()).toEqual([old.id])
  })

  test('what leaves the window failed is told once, what was retried and not seen since is not', async () => {
    const lookbackMs = 2 * hourMs
    const [failed, awaited] = [
      failedRecord({ eventLocal: testNow - lookbackMs + minuteMs }),
      failedRecord({ eventLocal: testNow - lookbackMs + minuteMs }),
    ]
    await using world = reconcile({
      records: [{ ...failed, attempts: 30 }, awaited],
      policy: { window: { ...defaultPolicy.window, lookbackMs } },
      // Listings that are never complete take nothing away.
      totals: 'double',
      onRetry: (_, platform, id) => {
        platform.set(id, { status: 'processing' })
        return accepted()
      },
    })
    void world.start()
    await world.sweep()
    await world.clock.advance(500)
    expect(entryOf(world.backlog, awaited).awaiting).toBe(true)
    await ticks(world, 30_000, 5 * minuteMs)
    expect(world.facts.filter(({ type }) => type === 'left-window')).toEqual([{ type: 'left-window', records: 1 }])
    expect(world.backlog.size()).toBe(0)
  })
})

describe('beyond the window', () => {
  const beyond = due(7, { eventLocal: testNow - 8 * dayMs })

  test.each([
    ['counted', {}, 7],
    ['not known without a total', { totals: 'none' }, 0],
    ['not believed when the row shows that the bound is ignored', { ignores: ['to'], order: 'event-desc' }, 0],
  ] as const)('%s', async (_, readings, count) => {
    await using world = reconcile({ ...readings, records: [...beyond, ...due(5)] })
    await world.sweep()
    expect(world.sweeper.beyondWindow()).toBe(count)
  })

  test('when it cannot be asked the sweep is not the worse for it', async () => {
    await using world = reconcile({
      records: [...beyond, ...due(5)],
      onList: ({ from, to }) => {
        if (from === undefined && to !== undefined) throw new PlatformFailure('server-error', 500, 'list')
      },
    })
    expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 5 })
  })
})

describe('what is told', () => {
  test('unreadable rows, rows that were not asked for, records early at the limit, and offsets', async () => {
    const row = { unreadable: true, id: idOf(999_999), field: 'status' } as const
    const early = failedRecord({ eventLocal: testNow - 5 * minuteMs, attempts: 30 })
    const retried = due(1)
    await using world = reconcile({
      records: [...retried, early, failedRecord({ eventLocal: testNow - dayMs, status: 'successful' })],
      ignores: ['status'],
      unreadable: ({ size }) => (size > 1 ? [row] : []),
      onRetry: () => accepted(),
    })
    void world.start()
    await world.sweep()
    await world.clock.advance(1000)
    world.platform.set(retried[0]?.id ?? '', { lastAttemptLocal: testNow - 2 * hourMs, attempts: 2 })
    await world.sweep()
    const told = (type: string): unknown[] => world.facts.filter((fact) => fact.type === type)
    expect(told('unreadable')[0]).toMatchObject({ rows: [row] })
    expect(told('unexpected')[0]).toMatchObject({ time: 0, status: 1 })
    expect(told('early-at-limit')).toHaveLength(1)
    expect(told('time-offset')).toHaveLength(1)
    expect(told('time-offset')[0]).toMatchObject({ offsets: [{ offsetMs: expect.closeTo(-2 * hourMs, -4) as number }] })
  })
})

describe('a record that is listed failed for ever', () => {
  test.each([
    ['gone', { result: 'gone', reason: 'not-found', sent: true }],
    ['already-resolved', { result: 'already-resolved', reason: 'conflict', sent: true, found: 'successful' }],
    ['rejected', { result: 'rejected', reason: 'bad-request', sent: true }],
    ['accepted', accepted()],
  ] as const)('after %s backs off instead of being PATCHed on every sweep', async (_, answer) => {
    await using world = reconcile({ records: due(1), onRetry: () => answer })
    void world.start()
    await ticks(world, 30_000, dayMs)
    // 1, 2, 4, ... 256 min, then 6 h, less the jitter: ten to fifteen in a day, of 2,880 sweeps.
    expect(world.platform.retries.length).toBeGreaterThan(8)
    expect(world.platform.retries.length).toBeLessThan(16)
  })
})

describe('a host clock that is wrong', () => {
  test.each([
    ['behind', -2 * hourMs],
    ['ahead', 2 * hourMs],
  ])('%s does not move the window: the first answer tells the time before anything is listed', async (_, wrongMs) => {
    let isKnown = false
    await using world = reconcile({
      records: [failedRecord({ eventLocal: testNow - 5 * minuteMs })],
      startMs: testNow + wrongMs,
      knowsTime: () => isKnown,
      onList: () => {
        if (!isKnown) world.clock.jump(-wrongMs)
        isKnown = true
      },
    })
    expect(await world.sweep()).toMatchObject({ listed: 1, result: 'complete' })
    expect(world.platform.lists[0]).toMatchObject({ size: 1 })
    expect(world.platform.lists[0]?.from).toBeUndefined()
  })

  test('a platform that never tells the time is asked for it once', async () => {
    await using world = reconcile({ knowsTime: () => false })
    for (let round = 0; round < 3; round += 1) await world.sweep()
    expect(world.platform.lists.filter(({ from, to }) => from === undefined && to === undefined)).toHaveLength(1)
  })
})
