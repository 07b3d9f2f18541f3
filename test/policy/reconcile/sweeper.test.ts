// Ticks: what is swept when, what waits, and how the sweeper comes through a platform that fails.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import { reconcile, ticks, type Reconcile } from '../../support/reconcile.ts'

const trouble = (reason: PlatformFailure['reason']): PlatformFailure => new PlatformFailure(reason, undefined, 'list')

function due(count: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - 3 * dayMs + index * 10 * minuteMs, ...fields }),
  )
}

/** After the sweep that a start begins with, and its rest: as if it had been running for long. */
async function runningFor(world: Reconcile, ms: number): Promise<number> {
  await world.sweep()
  await world.clock.advance(ms)
  world.facts.length = 0
  world.platform.lists.length = 0
  return world.platform.now()
}

function isRecent({ from, to }: ListQuery): boolean {
  return from !== undefined && to !== undefined && to - from < 2 * 3600
}

describe('when', () => {
  test('a full sweep rests for twenty times its duration, a recent one for twenty times its own', async () => {
    // One call a second: the newest hour takes 1 s, the rest, what lies beyond and what is stuck another 3 s.
    await using world = reconcile({ latencyMs: 1000 })
    const origin = await runningFor(world, hourMs)
    await ticks(world, 1000, 190_000)
    const ended = world.sweeps().map(({ kind, seconds }) => `${kind} ${seconds}`)
    const round = ['full 4', 'recent 1', 'recent 1', 'recent 1']
    expect(ended).toEqual([...round, ...round, ...round].slice(0, 10))
    const newest = world.platform.lists.filter(isRecent).map(({ at }) => Math.round((at - origin) / 1000))
    expect(newest).toEqual([0, 21, 42, 63, 84, 105, 126, 147, 168, 189])
  })

  test('one at a time: a recent sweep comes between two slices of a full one, once its rest is over', async () => {
    await using world = reconcile({ records: due(400), sliceRecords: 10, latencyMs: 2000, pages: 1 })
    await runningFor(world, hourMs)
    await ticks(world, 1000, 3 * minuteMs)
    const at = world.platform.lists.map((query) => query.at)
    for (const [index, startedAt] of at.slice(1).entries())
      expect(startedAt - (at[index] ?? 0)).toBeGreaterThanOrEqual(2000)
    // The newest hour takes 2 s and rests for 40; the full sweep takes longer than that.
    const [first, ...later] = world.sweeps()
    expect(first).toMatchObject({ kind: 'recent', seconds: 2 })
    expect(later.find(({ kind }) => kind === 'full')?.seconds).toBeGreaterThan(60)
    // One listing of the newest hour has other slices before and after it.
    const slices = world.platform.lists.filter(({ from, status }) => status === 'failed' && from !== undefined)
    const areNewest = slices.map(({ at, to = 0 }) => at - 1000 * to < 3 * minuteMs)
    const between = areNewest.indexOf(true, areNewest.indexOf(false))
    expect(between).toBeGreaterThan(0)
    expect(areNewest.slice(between)).toContain(false)
  })
})

describe('while a Retry-After is to pass', () => {
  function pause({ clock, rate }: Reconcile, ms: number): void {
    rate.reportResponse({ kind: 'throttled', retryAfterMs: ms, sentAt: clock.monotonic() })
  }

  test('a tick starts nothing; the next one after it starts what is due', async () => {
    await using world = reconcile({ latencyMs: 20 })
    await runningFor(world, hourMs)
    pause(world, 90_000)
    await ticks(world, 30_000, 90_000)
    expect(world.platform.lists).toEqual([])
    await ticks(world, 30_000, 30_000)
    expect(world.sweeps().map(({ kind }) => kind)).toEqual(['full'])
  })

  test('a sweep that had to wait does not rest for it, but says how long it took', async () => {
    let isThrottled = false
    await using world = reconcile({
      latencyMs: 1000,
      onList: async () => {
        if (!isThrottled) return
        isThrottled = false
        pause(world, 60_000)
        await world.clock.sleep(60_000)
      },
    })
    const origin = await runningFor(world, hourMs)
    isThrottled = true
    await ticks(world, 1000, 170_000)
    expect(world.sweeps()[0]).toMatchObject({ kind: 'full', seconds: 64 })
    const full = world.platform.lists.filter(({ from = 0, status }) => {
      return status === 'failed' && from > 0 && from < (testNow - 2 * dayMs) / 1000
    })
    // Four seconds of work, and twenty times as long a rest; the newest hour comes a second before.
    expect(full.map(({ at }) => Math.round((at - origin) / 1000))).toEqual([61, 64 + 80 + 1])
    const recent = world.platform.lists.filter(isRecent).map(({ at }) => Math.round((at - origin) / 1000))
    expect(recent.slice(0, 3)).toEqual([0, 61 + 20, 61 + 41])
  })
})

describe('a failing platform', () => {
  test('sweeps back off to five minutes for any schedule, and come back at once when one works', async () => {
    let failing = true
    await using world = reconcile({
      onList: () => {
        if (failing) throw trouble('server-error')
      },
    })
    await ticks(world, 1000, hourMs)
    const failed = world.sweeps()
    expect(failed.every(({ result }) => result === 'failed')).toBe(true)
    // 1 s doubling to 5 min, less the jitter.
    expect(failed.length).toBeLessThan(12 + hourMs / (0.75 * 300_000))
    expect(failed.length).toBeGreaterThan(18)

    failing = false
    await ticks(world, 1000, 5 * minuteMs)
    const before = world.sweeps().length
    await ticks(world, 30_000, 5 * minuteMs)
    const after = world.sweeps().slice(before)
    expect(after.every(({ result }) => result === 'complete')).toBe(true)
    expect(after.filter(({ kind }) => kind === 'full').length).toBeGreaterThanOrEqual(9)
  })

  test('when going on with what had no room fails, the full sweep’s rest is not cut short, and nothing is forgotten', async () => {
    let failing = false
    await using world = reconcile({
      records: due(290),
      maxRecords: 100,
      latencyMs: 1000,
      onList: () => {
        if (failing) throw trouble('server-error')
      },
      onRetry: (record, platform, id) => {
        platform.set(id, { status: 'successful' })
        return accepted(record === undefined ? undefined : { ...record, status: 'successful' })
      },
    })
    world.sweeper.tick()
    await world.swept()
    expect(world.sweeps()[0]?.seconds).toBe(5)
    failing = true
    void world.start()
    await ticks(world, 1000, 40_000)
    expect(world.backlog.size()).toBe(0)
    const full = world.sweeps().filter(({ kind, continued }) => kind === 'full' && !continued)
    expect(full).toHaveLength(1)
    const tries = world.sweeps().filter(({ continued }) => continued)
    expect(tries.length).toBeGreaterThan(2)
    expect(tries.length).toBeLessThan(10)
    expect(world.backlog.leftOut.counts().due).toBe(190)
    failing = false
    await ticks(world, 1000, 10 * minuteMs)
    expect(world.platform.failedIds()).toEqual([])
  })
})
