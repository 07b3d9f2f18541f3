// The dispatcher: how many at once, never where it is being listed, and fair.
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { contains, type Span } from '../../../src/reconcile/window.ts'
import { dayMs, hourMs, learn, listingOf, minuteMs, testNow } from '../../support/backlog.ts'
import { due, holding, subscription, watching } from '../../support/dispatching.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import { reconcile } from '../../support/reconcile.ts'

describe('how many at once', () => {
  test.each([1, 2, 8, 64])('no more than %i, one of each record, all of them in the end', async (concurrency) => {
    const watch = watching(({ id }) => 50 + (id.charCodeAt(35) % 7) * 100)
    const records = due(300)
    await using world = holding(records, { concurrency, onRetry: watch.onRetry, latencyMs: 0 })
    watch.bind(world)
    void world.start()
    // Sweeps come by all the time and offer again what is under way.
    for (let round = 0; round < 5; round += 1) {
      await world.clock.advance(500)
      await world.sweep()
    }
    await world.clock.advance(10 * minuteMs)
    // Of one subscription the last slot stays free for another.
    expect(watch.most.all).toBe(Math.max(1, concurrency - 1))
    expect(watch.most.ofOneId).toBe(1)
    expect(world.platform.failedIds()).toEqual([])
    expect(world.platform.retries).toHaveLength(300)
    expect(world.dispatcher.inFlight()).toBe(0)
  })

  test('the last free slot is for a subscription that has none in flight', async () => {
    const slow = due(50, { subscriptionId: subscription(1) })
    const quick = failedRecord({ eventLocal: testNow - dayMs, subscriptionId: subscription(2) })
    const watch = watching(({ subscriptionId }) => (subscriptionId === subscription(1) ? hourMs : 10))
    await using world = holding(slow, { concurrency: 4, onRetry: watch.onRetry, latencyMs: 0 })
    watch.bind(world)
    void world.start()
    await world.clock.advance(minuteMs)
    expect(world.dispatcher.inFlight()).toBe(3)
    world.platform.add(quick)
    learn(world.backlog, listingOf([quick], { complete: false, askedAt: world.clock.monotonic() }), testNow)
    world.planner.changed()
    await world.clock.advance(1000)
    expect(world.platform.records.get(quick.id)?.status).toBe('successful')
    expect(watch.most.bySubscription.get(subscription(1))).toBe(3)
  })
})

describe('the fence', () => {
  test('no PATCH is in flight where a slice is being listed, however sweeps and retries meet', async () => {
    const open = new Set<Span>()
    const seen = { insideFence: 0, whileListing: 0, maxOpen: 0 }
    const check = (record: WebhookRecord | undefined): void => {
      const second = Math.floor((record?.eventLocal ?? 0) / 1000)
      if ([...open].some((span) => contains(span, second))) seen.insideFence += 1
      if (open.size > 0) seen.whileListing += 1
    }
    const records = due(1500, {}).map((record, index) => ({
      ...record,
      eventLocal: testNow - 2 * dayMs + index * 20_000,
    }))
    await using world = reconcile({
      records,
      sliceRecords: 50,
      maxPerSecond: 100,
      onRetry: async (record, platform) => {
        check(record)
        await world.clock.sleep(150)
        check(record)
        if (record !== undefined) platform.set(record.id, { status: 'successful' })
        return accepted()
      },
    })
    const fence = world.dispatcher.fence.bind(world.dispatcher)
    world.dispatcher.fence = async (span, signal) => {
      const release = await fence(span, signal)
      open.add(span)
      seen.maxOpen = Math.max(seen.maxOpen, open.size)
      return () => {
        open.delete(span)
        release()
      }
    }
    void world.start()
    for (let round = 0; round < 4; round += 1) await world.sweep()
    await world.clock.advance(minuteMs)
    await world.sweep()
    expect(seen).toEqual({ insideFence: 0, whileListing: expect.any(Number) as number, maxOpen: 1 })
    expect(seen.whileListing).toBeGreaterThan(10)
    expect(world.platform.failedIds()).toEqual([])
    expect(new Set(world.platform.retries.map(({ id }) => id)).size).toBe(world.platform.retries.length)
    expect(world.sweeps().every(({ result }) => result === 'complete')).toBe(true)
  })

  test('waits for what is in flight inside, not for what is outside', async () => {
    const [inside, outside] = [
      failedRecord({ eventLocal: testNow - dayMs }),
      failedRecord({ eventLocal: testNow - 2 * dayMs }),
    ]
    const takes = new Map([
      [inside.id, 500],
      [outside.id, 60_000],
    ])
    const watch = watching(({ id }) => takes.get(id) ?? 0)
    await using world = holding([inside, { ...outside, subscriptionId: subscription(2) }], {
      onRetry: watch.onRetry,
      latencyMs: 0,
    })
    watch.bind(world)
    void world.start()
    await world.clock.settle()
    expect(world.dispatcher.inFlight()).toBe(2)
    const second = Math.floor(inside.eventLocal / 1000)
    const release = await world.clock.run(
      world.dispatcher.fence({ from: second, to: second + 1 }, world.stop.signal),
      1000,
    )
    expect(world.dispatcher.inFlight()).toBe(1)
    release()
  })

  test('that is given up while it waits is taken down again', async () => {
    const [first, second] = due(2)
    const watch = watching(() => 1000)
    await using world = holding(
      [first, second].filter((one) => one !== undefined),
      {
        concurrency: 2,
        onRetry: watch.onRetry,
        latencyMs: 0,
      },
    )
    watch.bind(world)
    void world.start()
    await world.clock.settle()
    const sweep = new AbortController()
    const fencing = world.dispatcher.fence({ from: 0, to: 4e9 }, sweep.signal)
    fencing.catch(() => undefined)
    sweep.abort(new Error('the sweep was given up'))
    await world.clock.advance(1000)
    await expect(fencing).rejects.toThrow('given up')
    await world.clock.advance(5000)
    expect(world.platform.failedIds()).toEqual([])
  })
})

describe('what goes out', () => {
  test('is decided when it goes: a record that is seen resolved while it waits for the rate is left alone', async () => {
    const records = due(40)
    await using world = holding(records, { maxPerSecond: 1 })
    void world.start()
    await world.clock.advance(100)
    const rest = records.slice(0, 5)
    const later = listingOf(rest, { askedAt: world.clock.monotonic() + 1 })
    learn(world.backlog, later, testNow)
    await world.clock.advance(10 * minuteMs)
    const retried = new Set(world.platform.retries.map(({ id }) => id))
    expect([...retried].every((id) => rest.some((record) => record.id === id))).toBe(true)
  })

  test('ten records that always answer 500 do not keep the others from being retried', async () => {
    const poison = due(10)
    const others = due(200)
    const ids = new Set(poison.map(({ id }) => id))
    await using world = holding([...poison, ...others], {
      onRetry: (record, platform, id) => {
        if (ids.has(id)) return { result: 'platform-error', reason: 'server-error', sent: true }
        platform.set(id, { status: 'successful' })
        return accepted(record === undefined ? undefined : { ...record, status: 'successful' })
      },
    })
    void world.start()
    await world.clock.advance(20_000)
    expect(world.platform.failedIds().toSorted()).toEqual([...ids].toSorted())
    let timers = 0
    const timer = world.clock.timer.bind(world.clock)
    world.clock.timer = (ms, act) => {
      timers += 1
      return timer(ms, act)
    }
    await world.clock.advance(hourMs)
    // The loop does not turn again and again for places that are freed by time.
    expect(timers).toBeLessThan(2000)
    // Each on its own backoff: 1, 2, 4, 8, 16, 32 min, less the jitter.
    expect(world.platform.retries.length - others.length).toBeLessThanOrEqual(10 * 8)
    expect(world.breaker.trouble()).toBeUndefined()
  })
})
