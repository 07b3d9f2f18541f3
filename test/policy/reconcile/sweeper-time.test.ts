// Days of ticks: the window moves on, clocks are changed, records leave, and what is reported of it.
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord, idOf } from '../../support/fake-platform.ts'
import { reconcile, type Reconcile, type ReconcileOptions } from '../../support/reconcile.ts'

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
})

describe('what leaves the window', () => {
  const lookback = 2 * hourMs
  const policy = { window: { ...defaultPolicy.window, lookback } }

  function expired(world: Reconcile): number {
    return world.facts.reduce((sum, fact) => sum + (fact.type === 'expired' ? fact.records : 0), 0)
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
        if (options.latencyMs === 20) expect(expired(world)).toBe(left)
        await world.clock.advance(30_000)
      }
      expect(left).toBe(100)
      expect(expired(world)).toBe(100)
      expect(world.backlog.size()).toBe(0)
    },
  )
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
    expect(told('unexpected')[0]).toMatchObject({ wrongTime: 0, wrongStatus: 1 })
    expect(told('early-at-limit')).toHaveLength(1)
    expect(told('outcome')).toMatchObject([{ timeOffsetMs: expect.closeTo(-2 * hourMs, -4) as number }])
  })
})
