// Days of ticks: the window moves on, clocks are changed, records leave, and what is reported of it.
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, defaultPolicy, entryOf, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord, idOf } from '../../support/fake-platform.ts'
import { reconcile, ticks, type Reconcile, type ReconcileOptions } from '../../support/reconcile.ts'

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
      policy: { window: { ...defaultPolicy.window, lookback: 2 * dayMs } },
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
        world.sweeper.tick()
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

  test.each([
    ['full', hourMs],
    ['recent', 5 * minuteMs],
  ])('a %s sweep that took an hour or more is followed by another one soon', async (kind, restMs) => {
    let isSlow = true
    await using world = reconcile({
      latencyMs: 20,
      onList: async ({ size }) => {
        if (isSlow && size > 1) await world.clock.sleep(hourMs)
      },
    })
    await world.sweep()
    isSlow = false
    // The newest hour is listed first, and took an hour of the two.
    const endedMs = kind === 'full' ? 0 : hourMs
    const started = world.sweeps().length
    let waitedMs = 0
    for (
      ;
      world
        .sweeps()
        .slice(started)
        .every((one) => one.kind !== kind) && waitedMs < dayMs;
      waitedMs += 30_000
    ) {
      world.sweeper.tick()
      await world.clock.advance(30_000)
    }
    expect(waitedMs).toBeLessThanOrEqual(Math.max(0, restMs - endedMs) + 30_000)
  })

  test('the newest part begins where the last one ended, however long ago that is', async () => {
    await using world = reconcile({ latencyMs: 20 })
    await world.sweep()
    const seenTo = (testNow - minuteMs) / 1000
    await world.clock.advance(3 * hourMs)
    world.platform.lists.length = 0
    world.sweeper.tick()
    await world.swept()
    const [newest] = world.platform.lists
    expect(newest?.from).toBeLessThanOrEqual(seenTo)
    expect(newest?.from).toBeGreaterThan(seenTo - 620)
  })

  test('a newest part that could not be listed does not count as seen', async () => {
    let isDown = false
    await using world = reconcile({
      latencyMs: 20,
      onList: () => (isDown ? Promise.reject(new PlatformFailure('server-error', 500, 'list')) : undefined),
    })
    await world.sweep()
    const seenTo = (testNow - minuteMs) / 1000
    await world.clock.advance(3 * hourMs)
    isDown = true
    world.sweeper.tick()
    await world.swept()
    expect(world.sweeps().at(-1)).toMatchObject({ result: 'failed' })
    isDown = false
    await world.clock.advance(3 * hourMs)
    world.platform.lists.length = 0
    world.sweeper.tick()
    await world.swept()
    expect(world.platform.lists[0]?.from).toBeLessThanOrEqual(seenTo)
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
})

describe('what leaves the window', () => {
  const lookback = 2 * hourMs
  const policy = { window: { ...defaultPolicy.window, lookback } }

  function lapsed(world: Reconcile): number {
    return world.facts.reduce((sum, fact) => sum + (fact.type === 'lapsed' ? fact.records : 0), 0)
  }

  /** Records that are not retried any more; one leaves the window every 45 s. */
  function leaving(count: number): WebhookRecord[] {
    return Array.from({ length: count }, (_, index) =>
      failedRecord({ eventLocal: testNow - lookback + 60_000 + index * 45_000, attempts: 30 }),
    )
  }

  test.each([
    ['all are held', { maxRecords: 1000, latencyMs: 20 }],
    ['few are held, the others only counted', { maxRecords: 5, latencyMs: 20 }],
    ['sweeps are slow: it moves while they are under way', { maxRecords: 5, latencyMs: 20_000 }],
    ['sweeps are very slow', { maxRecords: 5, latencyMs: 200_000 }],
    ['sweeps are slow, of many slices', { maxRecords: 5, latencyMs: 7000, sliceRecords: 4 }],
    ['sweeps are slow, and some fail', { maxRecords: 5, latencyMs: 7000, sliceRecords: 4, fails: true }],
  ])(
    'is reported once, when %s',
    async (_, { fails = false, ...options }: Partial<ReconcileOptions> & { fails?: boolean }) => {
      let calls = 0
      await using world = reconcile({
        ...options,
        records: leaving(100),
        policy,
        onList: ({ size }) => {
          calls += 1
          if (fails && (size === 1 || calls % 50 > 40)) throw new PlatformFailure('server-error', 500, 'list')
        },
      })
      // The backlog is full before the first of them leaves.
      await world.sweep()
      let left = 0
      for (let round = 0; round < 200; round += 1) {
        world.sweeper.tick()
        const start = (testNow - lookback + round * 30_000) / 1000
        left = leaving(100).filter(({ eventLocal }) => eventLocal / 1000 < start).length
        // What is only counted by the second is reported by the second: no tick is late.
        if (options.latencyMs === 20) expect(lapsed(world)).toBe(left)
        await world.clock.advance(30_000)
      }
      expect(left).toBe(100)
      expect(lapsed(world)).toBe(100)
      expect(world.backlog.size()).toBe(0)
    },
  )

  test('of what was retried and not seen since nothing is reported: its outcome will be', async () => {
    const [failed, other] = [...leaving(1), ...leaving(1)]
    if (failed === undefined || other === undefined) throw new Error('no records')
    const awaited = { ...other, attempts: 1 }
    await using world = reconcile({
      records: [failed, awaited],
      policy,
      onRetry: (_, platform, id) => {
        platform.set(id, { status: 'processing' })
        return accepted()
      },
    })
    void world.start()
    await world.sweep()
    await world.clock.advance(500)
    expect(entryOf(world.backlog, awaited).awaiting).toBeTruthy()
    await ticks(world, 30_000, 5 * minuteMs)
    expect(lapsed(world)).toBe(1)
    expect(world.backlog.get(failed.id)).toBeUndefined()
  })

  test('of what is not ours nothing lapses', async () => {
    await using world = reconcile({
      records: leaving(20),
      policy: { ...policy, select: { ...defaultPolicy.select, modules: ['none'] } },
    })
    await ticks(world, 30_000, hourMs)
    expect(lapsed(world)).toBe(0)
  })

  test('a record that leaves while a slow sweep has yet to list it does not come back', async () => {
    let isSlow = false
    const [record] = leaving(1)
    if (record === undefined) throw new Error('no record')
    await using world = reconcile({
      records: [record],
      policy,
      latencyMs: 10,
      onList: async ({ to = 0 }) => {
        // The newest hour is listed first; it takes until the record has left.
        if (isSlow && to >= (testNow - hourMs) / 1000) await world.clock.sleep(5 * minuteMs)
        isSlow = false
      },
    })
    await world.sweep()
    expect(world.backlog.size()).toBe(1)
    await world.clock.advance(30_000)
    isSlow = true
    await ticks(world, 30_000, 4 * minuteMs)
    expect(lapsed(world)).toBe(1)
    await ticks(world, 10_000, 3 * minuteMs)
    expect(world.sweeps().filter(({ kind }) => kind === 'full').length).toBeGreaterThan(1)
    expect(world.platform.failedIds()).toEqual([record.id])
    expect(world.backlog.size()).toBe(0)
    expect(lapsed(world)).toBe(1)
  })
})

describe('what is reported', () => {
  test('unreadable rows, rows that were not asked for, records early at the limit, and offsets', async () => {
    const row = { unreadable: true, id: idOf(999_999), field: 'status' } as const
    const early = failedRecord({ eventLocal: testNow - 5 * minuteMs, attempts: 30 })
    const retried = due(1)
    await using world = reconcile({
      records: [...retried, early, failedRecord({ eventLocal: testNow - dayMs, status: 'successful' })],
      ignores: ['status'],
      unreadable: ({ size }) => (size > 1 ? [row] : []),
      onRetry: (record) => accepted(record && { ...record, status: 'processing' }),
    })
    void world.start()
    await world.sweep()
    // Between two checks.
    await world.clock.advance(1200)
    expect(world.facts.some(({ type }) => type === 'outcome')).toBe(false)
    world.platform.set(retried[0]?.id ?? '', { lastAttemptLocal: testNow - 2 * hourMs, attempts: 2 })
    await world.sweep()
    // The sweep shows the failure first; a check 2 s later makes it sure.
    await world.clock.advance(4000)
    const told = (type: string): unknown[] => world.facts.filter((fact) => fact.type === type)
    expect(told('unreadable')[0]).toMatchObject({ rows: [row] })
    expect(told('unexpected')[0]).toMatchObject({ time: 0, status: 1 })
    expect(told('early-at-limit')).toHaveLength(1)
    expect(told('outcome')).toMatchObject([{ timeOffsetMs: expect.closeTo(-2 * hourMs, -4) as number }])
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
    await ticks(world, 2 * minuteMs, dayMs)
    // 1, 2, 4, ... 256 min, then 6 h, less the jitter: ten to fifteen in a day, of 720 sweeps.
    expect(world.platform.retries.length).toBeGreaterThan(8)
    expect(world.platform.retries.length).toBeLessThan(16)
  })
})

describe('a host clock that is wrong', () => {
  test.each([
    ['behind', -2 * hourMs],
    ['ahead', 2 * hourMs],
  ])('%s does not move the window: the first answer gives the time before anything is listed', async (_, wrongMs) => {
    let isKnown = false
    await using world = reconcile({
      records: [
        failedRecord({ eventLocal: testNow - 7 * dayMs + minuteMs }),
        failedRecord({ eventLocal: testNow - 5 * minuteMs }),
      ],
      startMs: testNow + wrongMs,
      knowsTime: () => isKnown,
      onList: () => {
        if (!isKnown) world.clock.jump(-wrongMs)
        isKnown = true
      },
    })
    world.sweeper.tick()
    await world.swept()
    expect(world.sweeps().find(({ kind }) => kind === 'full')).toMatchObject({ listed: 2, result: 'complete' })
    expect(world.backlog.size()).toBe(2)
    expect(world.platform.lists[0]).toMatchObject({ size: 1 })
    expect(world.platform.lists[0]?.from).toBeUndefined()
  })

  test('a platform that never gives the time is asked for it once', async () => {
    await using world = reconcile({ knowsTime: () => false })
    for (let round = 0; round < 3; round += 1) await world.sweep()
    expect(world.platform.lists.filter(({ from, to }) => from === undefined && to === undefined)).toHaveLength(1)
  })
})
