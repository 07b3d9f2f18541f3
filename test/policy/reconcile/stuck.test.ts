// Records that are processing for too long: which ones count, and that looking for them does no harm.
import { describe, expect, test } from 'vitest'
import type { ListQuery } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { countStuck } from '../../../src/reconcile/sweep/other-counts.ts'
import {
  dayMs,
  defaultPolicy,
  entryOf,
  hourMs,
  learn,
  listingOf,
  minuteMs,
  secondMs,
  testBacklog,
  testNow,
} from '../../support/backlog.ts'
import {
  createFakePlatform,
  failedRecord,
  type FakePlatform,
  type FakePlatformOptions,
} from '../../support/fake-platform.ts'
import { reconcile } from '../../support/reconcile.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

function processing(fields: Partial<WebhookRecord> = {}): WebhookRecord {
  const eventLocal = fields.eventLocal ?? testNow - hourMs
  return failedRecord({ status: 'processing', lastAttemptLocal: eventLocal, ...fields, eventLocal })
}

function many(count: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    processing({ eventLocal: testNow - dayMs + index * 1000, ...fields }),
  )
}

interface Setup {
  platform: FakePlatform
  backlog: ReturnType<typeof testBacklog>
  look(): Promise<number>
}

function setUp(options: FakePlatformOptions & { zone?: string; notBefore?: number } = {}): Setup {
  const platform = createFakePlatform({ clock: createVirtualClock(testNow), ...options })
  const backlog = testBacklog()
  const { signal } = new AbortController()
  return {
    platform,
    backlog,
    look: () =>
      countStuck(
        {
          client: platform,
          monotonic: () => 0,
          window: { ...defaultPolicy.window, notBefore: options.notBefore },
          zone: createTimeZone(options.zone ?? 'UTC'),
          stuckAfterMs: 15 * minuteMs,
          concurrency: 4,
          triedAt: (id) => backlog.get(id)?.triedAt,
        },
        signal,
      ),
  }
}

describe('since when', () => {
  test.each([
    ['its last attempt', { lastAttemptLocal: testNow - 15 * minuteMs - 1 }, 1],
    ['its last attempt, just not yet', { lastAttemptLocal: testNow - 15 * minuteMs }, 0],
    ['its event, when it has no attempt', { lastAttemptLocal: null }, 1],
    ['its event, when the attempt is shown to be in the future', { lastAttemptLocal: testNow + hourMs }, 1],
    ['an attempt a moment ahead of the clock', { lastAttemptLocal: testNow + 30 * secondMs }, 0],
    ['an event long ago and an attempt just now', { eventLocal: testNow - 6 * dayMs, lastAttemptLocal: testNow }, 0],
    ['an event too young for it', { eventLocal: testNow - 14 * minuteMs, lastAttemptLocal: null }, 0],
    ['an event just old enough', { eventLocal: testNow - 16 * minuteMs, lastAttemptLocal: null }, 1],
    ['an event before the window', { eventLocal: testNow - 7 * dayMs - 2000 }, 0],
    ['an event in the second before the window, which is asked for', { eventLocal: testNow - 7 * dayMs - 500 }, 0],
    ['an event in the first second of the window', { eventLocal: testNow - 7 * dayMs }, 1],
  ] as const)('%s', async (_, fields, count) => {
    expect(await setUp({ records: [processing(fields)] }).look()).toBe(count)
  })

  test.each([
    ['just now', 0, 0],
    ['long ago', -16 * minuteMs, 1],
  ])('our own PATCH %s', async (_, triedAgoMs, count) => {
    const record = processing({ eventLocal: testNow - dayMs })
    const { backlog, look } = setUp({ records: [record] })
    learn(backlog, listingOf([{ ...record, status: 'failed' }]), testNow)
    entryOf(backlog, record).triedAt = testNow + triedAgoMs
    expect(await look()).toBe(count)
  })
})

describe('beside a full sweep', () => {
  const isStuckLook = ({ status }: ListQuery): boolean => status === 'processing'

  test('it is looked for once, never by a recent sweep', async () => {
    await using world = reconcile({ records: many(7), latencyMs: 1000 })
    expect(world.sweeper.stuckProcessing()).toBe(0)
    await world.sweep()
    expect(world.sweeper.stuckProcessing()).toBe(7)
    await world.clock.advance(30_000)
    world.sweeper.tick()
    await world.swept()
    expect(world.sweeps().map(({ kind }) => kind)).toEqual(['full', 'recent'])
    expect(world.platform.lists.filter(isStuckLook)).toHaveLength(1)
  })

  test('when it cannot be listed the sweep is not the worse for it, and the last number stands', async () => {
    let isDown = false
    await using world = reconcile({
      records: [...many(7), failedRecord({ eventLocal: testNow - dayMs })],
      onList: (query) => {
        if (isDown && isStuckLook(query)) throw new PlatformFailure('timeout', undefined, 'list')
      },
    })
    await world.sweep()
    isDown = true
    expect(await world.sweep()).toMatchObject({ result: 'complete', listed: 1 })
    expect(world.sweeper.stuckProcessing()).toBe(7)
  })
})
