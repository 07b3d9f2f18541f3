// Who gets how much of the rate: shares while all wait, all of it for one that waits alone, no class starved, and no hot loop.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/runtime/clock.ts'
import { createRateLimiter, type RateLimiter, type TrafficClass } from '../../../src/platform/rate-limiter.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

type Counts = Record<TrafficClass, number>

interface Load {
  clock: VirtualClock
  rate: RateLimiter
  granted: Counts
  /** Timers set so far. */
  timers(): number
  /** So many ask again as soon as they are granted; the answer takes `answerMs` of virtual time. */
  keepAsking(kind: TrafficClass, askers: number, answerMs?: number): AbortController
}

function setUp(maxPerSecond: number, maxRetriesPerSecond?: number, areChecksLate?: () => boolean): Load {
  const clock = createVirtualClock()
  let timers = 0
  const counting: Clock = {
    ...clock,
    timer(ms, act) {
      timers += 1
      return clock.timer(ms, act)
    },
  }
  const rate = createRateLimiter({
    clock: counting,
    maxPerSecond,
    maxRetriesPerSecond,
    ...(areChecksLate && { areChecksLate }),
  })
  const granted: Counts = { retry: 0, list: 0, confirm: 0 }

  async function askOnAndOn(kind: TrafficClass, answerMs: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await rate.acquire(kind, signal)
      granted[kind] += 1
      if (answerMs > 0) await clock.sleep(answerMs, signal)
    }
  }

  return {
    clock,
    rate,
    granted,
    timers: () => timers,
    keepAsking(kind, askers, answerMs = 0) {
      const end = new AbortController()
      for (let i = 0; i < askers; i += 1) askOnAndOn(kind, answerMs, end.signal).catch(() => undefined)
      return end
    },
  }
}

function shares(granted: Counts): Counts {
  const all = granted.retry + granted.list + granted.confirm
  return { retry: granted.retry / all, list: granted.list / all, confirm: granted.confirm / all }
}

describe('checks that are late', () => {
  // What they used before, at a share of 3 %, is no debt: at one call a second it would be half a minute.
  test.each([1, 20])('get as much as retries, from that moment on, at %i calls a second', async (maxPerSecond) => {
    let late = false
    const load = setUp(maxPerSecond, undefined, () => late)
    load.keepAsking('retry', 8)
    load.keepAsking('confirm', 8)
    await load.clock.advance((100 / maxPerSecond) * 1000)
    const before = { ...load.granted }
    late = true
    await load.clock.advance((10 / maxPerSecond) * 1000)
    expect(load.granted.confirm - before.confirm).toBeGreaterThanOrEqual(4)
    expect(load.granted.retry - before.retry).toBeGreaterThanOrEqual(4)
    late = false
    const until = { ...load.granted }
    await load.clock.advance((100 / maxPerSecond) * 1000)
    expect(load.granted.confirm - until.confirm).toBeLessThanOrEqual(6)
  })
})

describe('while all wait', () => {
  test.each([
    [1, 800],
    [20, 40],
    [100, 8],
    [1000, 2],
  ])('at %s a second retries get 77 %, sweeps 20 %, confirmations 3 %', async (max, seconds) => {
    const { clock, granted, keepAsking } = setUp(max)
    for (const kind of ['retry', 'list', 'confirm'] as const) keepAsking(kind, 20)
    await clock.settle()
    // What the first burst was spent on does not count: then no call had to wait.
    Object.assign(granted, { retry: 0, list: 0, confirm: 0 })
    await clock.advance(seconds * 1000)
    const { retry, list, confirm } = shares(granted)
    expect(retry).toBeCloseTo(0.77, 1.7)
    expect(list).toBeCloseTo(0.2, 1.7)
    expect(confirm).toBeCloseTo(0.03, 2)
    expect(granted.retry + granted.list + granted.confirm).toBeGreaterThan(max * seconds * 0.95)
  })

  test.each([
    [20, 40],
    [100, 8],
    [1000, 2],
  ])('at %s a second the same with one dispatcher that asks for one retry after the other', async (max, seconds) => {
    const { clock, granted, keepAsking } = setUp(max)
    keepAsking('retry', 1)
    keepAsking('list', 8)
    await clock.settle()
    Object.assign(granted, { retry: 0, list: 0 })
    await clock.advance(seconds * 1000)
    expect(shares(granted).list).toBeGreaterThan(0.15)
    expect(shares(granted).list).toBeLessThan(0.25)
    expect(granted.retry + granted.list).toBeGreaterThan(max * seconds * 0.95)
  })
})

describe('what one does not use', () => {
  test.each(['retry', 'list', 'confirm'] as const)('goes to %s when it waits alone', async (kind) => {
    const { clock, granted, keepAsking } = setUp(50)
    keepAsking(kind, 4)
    await clock.advance(20_000)
    expect(granted[kind]).toBeGreaterThan(50 * 20 * 0.97)
  })

  test('goes to sweeps when the receiver is spared', async () => {
    const { clock, granted, keepAsking } = setUp(20, 2)
    keepAsking('retry', 1)
    keepAsking('list', 4)
    await clock.advance(60_000)
    expect(granted.retry).toBeGreaterThan(115)
    expect(granted.retry).toBeLessThanOrEqual(122)
    expect(granted.list).toBeGreaterThan(18 * 60 * 0.95)
  })

  test('a retry that waits for its own bound does not hold the others up', async () => {
    const { clock, granted, rate, keepAsking } = setUp(100, 0.01)
    await rate.acquire('retry')
    keepAsking('retry', 3)
    const list = rate.acquire('list')
    await clock.run(list, 20)
    expect(granted.retry).toBe(0)
  })
})

describe('after a rest', () => {
  test.each(['retry', 'list', 'confirm'] as const)('%s is not owed what it did not use', async (late) => {
    const { clock, granted, keepAsking } = setUp(20)
    const others = (['retry', 'list', 'confirm'] as const).filter((kind) => kind !== late)
    for (const kind of others) keepAsking(kind, 4)
    await clock.advance(120_000)
    const before = { ...granted }
    keepAsking(late, 4)
    await clock.advance(10_000)
    for (const kind of others) expect(granted[kind] - before[kind], kind).toBeGreaterThanOrEqual(4)
  })

  test('nor while the receiver is spared: a sweep that comes back does not starve the confirmations', async () => {
    const { clock, granted, keepAsking } = setUp(20, 1)
    keepAsking('retry', 1)
    keepAsking('confirm', 4)
    await clock.advance(120_000)
    for (const { retry } = { ...granted }; granted.retry === retry;) await clock.advance(1)
    const before = granted.confirm
    keepAsking('list', 4)
    await clock.advance(10_000)
    expect(granted.confirm - before).toBeGreaterThanOrEqual(15)
  })
})

describe('no class starves', () => {
  test('whichever calls wait, with any answers, each class gets something', async () => {
    const load = fc.record({
      askers: fc.record({
        retry: fc.integer({ min: 1, max: 10 }),
        list: fc.integer({ min: 1, max: 10 }),
        confirm: fc.integer({ min: 1, max: 10 }),
      }),
      answerMs: fc.integer({ min: 0, max: 300 }),
      max: fc.constantFrom(2, 20),
      retries: fc.option(fc.constantFrom(0.5, 5), { nil: undefined }),
      throttledEachMs: fc.integer({ min: 20_000, max: 60_000 }),
    })
    await fc.assert(
      fc.asyncProperty(load, async ({ askers, answerMs, max, retries, throttledEachMs }) => {
        const { clock, granted, rate, keepAsking } = setUp(max, retries)
        const ends = (['retry', 'list', 'confirm'] as const).map((kind) => keepAsking(kind, askers[kind], answerMs))
        for (let minute = 0; minute < 4; minute += 1) {
          await clock.advance(throttledEachMs)
          rate.reportResponse({ kind: 'throttled', retryAfterMs: undefined, sentAt: clock.monotonic() })
        }
        await clock.advance(60_000)
        for (const kind of ['retry', 'list', 'confirm'] as const) expect(granted[kind], kind).toBeGreaterThan(0)
        for (const end of ends) end.abort()
        await clock.settle()
        expect(clock.sleepers()).toBe(0)
      }),
      { numRuns: 25 },
    )
  })
})

describe('no hot loop', () => {
  test.each([
    ['in a pause of five minutes', 20, undefined, 300_000],
    ['at one call in ten seconds', 0.1, undefined, undefined],
    ['at one retry in a hundred seconds', 1000, 0.01, undefined],
  ])('%s: hardly a timer a grant', async (_, max, retries, pauseMs) => {
    const { clock, granted, rate, timers, keepAsking } = setUp(max, retries)
    if (pauseMs !== undefined)
      rate.reportResponse({ kind: 'throttled', retryAfterMs: pauseMs, sentAt: clock.monotonic() })
    keepAsking('retry', 3)
    await clock.advance(290_000)
    expect(timers()).toBeLessThanOrEqual(3 * granted.retry + 10)
  })

  test('under full load the timers are in proportion to the grants', async () => {
    const { clock, granted, timers, keepAsking } = setUp(200)
    for (const kind of ['retry', 'list', 'confirm'] as const) keepAsking(kind, 3, 5)
    await clock.advance(5000)
    expect(timers()).toBeLessThan(4 * (granted.retry + granted.list + granted.confirm))
  })

  test('without a waiting call nothing sleeps', async () => {
    const { clock, rate } = setUp(5)
    for (let i = 0; i < 5; i += 1) await rate.acquire('list')
    rate.reportResponse({ kind: 'throttled', retryAfterMs: 5_000, sentAt: clock.monotonic() })
    expect(clock.sleepers()).toBe(0)
  })
})
