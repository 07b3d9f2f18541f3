// The rate by itself: never above its bound, halved once per burst, back slowly, paused as asked, and no grant is lost.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createRateLimiter,
  type RateLimiter,
  type TrafficClass,
  type RateReport,
} from '../../../src/platform/rate-limiter.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

const maxPause = 300_000

interface Setup {
  clock: VirtualClock
  rate: RateLimiter
  /** Monotonic times of the grants that were used. */
  grants: { kind: TrafficClass; at: number }[]
  /** Asks; a grant is noted. */
  ask(kind: TrafficClass, signal?: AbortSignal): Promise<void>
  /** Asks for so many, and forgets who gets none before the test ends. */
  askMany(kind: TrafficClass, count: number): void
  say(kind: RateReport['kind'], retryAfterMs?: number, sentAt?: number): void
}

function setUp(maxPerSecond: number, maxRetriesPerSecond?: number): Setup {
  const clock = createVirtualClock()
  const rate = createRateLimiter({ clock, maxPerSecond, maxRetriesPerSecond })
  const grants: Setup['grants'] = []
  const ask = async (kind: TrafficClass, signal?: AbortSignal): Promise<void> => {
    await rate.acquire(kind, signal)
    grants.push({ kind, at: clock.monotonic() })
  }
  return {
    clock,
    rate,
    grants,
    ask,
    askMany(kind, count) {
      for (let i = 0; i < count; i += 1) void ask(kind)
    },
    say(kind, retryAfterMs, sentAt = clock.monotonic()) {
      rate.reportResponse({ kind, retryAfterMs, sentAt })
    },
  }
}

/** The most by which any span holds more grants than `perSecond` and the burst allow; at most 0 when all is well. */
function excess(grants: Setup['grants'], perSecond: number): number {
  const burst = Math.max(1, perSecond)
  let worst = -Infinity
  let least = Infinity
  for (const [index, { at }] of grants.entries()) {
    const ahead = index - (at / 1000) * perSecond
    least = Math.min(least, ahead)
    worst = Math.max(worst, ahead - least + 1 - burst)
  }
  return worst
}

describe('the bound', () => {
  test.each([0.1, 0.5, 1, 1.5, 20, 333.3, 1000])(
    '%s a second: a burst of one second, then as fast as it',
    async (max) => {
      const { clock, grants, askMany } = setUp(max)
      const seconds = max > 100 ? 5 : 30
      askMany('list', Math.ceil(max * (seconds + 5)) + 5)
      await clock.advance(seconds * 1000)
      expect(excess(grants, max)).toBeLessThanOrEqual(1e-6)
      const expected = Math.max(1, max) + max * seconds
      expect(grants.length).toBeGreaterThan(expected * 0.93 - 1.5)
      expect(grants.length).toBeLessThanOrEqual(expected)
    },
  )

  test('after a rest of an hour the burst is still of one second', async () => {
    const { clock, grants, askMany } = setUp(5)
    await clock.advance(3_600_000)
    askMany('list', 100)
    await clock.settle()
    expect(grants).toHaveLength(5)
  })

  test('no matter what is asked, cancelled, given back and answered, no span holds more', async () => {
    const kind = fc.constantFrom<TrafficClass>('retry', 'list', 'confirm')
    const step = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ do: fc.constant('ask' as const), kind, count: fc.integer({ min: 1, max: 12 }) }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('give back' as const), kind }) },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant('answer' as const),
          answer: fc.constantFrom<RateReport['kind']>('ok', 'throttled', 'overloaded'),
          retryAfterMs: fc.option(fc.integer({ min: 0, max: 5_000 }), { nil: undefined }),
          age: fc.integer({ min: 0, max: 2_000 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 1_500 }) }) },
    )
    const bounds = fc.record({
      max: fc.constantFrom(0.7, 1, 3, 20, 50.5),
      retries: fc.option(fc.constantFrom(0.5, 2, 10), { nil: undefined }),
    })
    await fc.assert(
      fc.asyncProperty(bounds, fc.array(step, { minLength: 1, maxLength: 40 }), async ({ max, retries }, steps) => {
        const { clock, rate, grants, ask, say } = setUp(max, retries)
        let cancel = new AbortController()
        for (const action of steps) {
          if (action.do === 'ask') {
            for (let i = 0; i < action.count; i += 1) ask(action.kind, cancel.signal).catch(() => undefined)
          } else if (action.do === 'cancel') {
            cancel.abort()
            cancel = new AbortController()
          } else if (action.do === 'give back') {
            await clock.settle()
            const last = grants.findLastIndex((grant) => grant.kind === action.kind)
            // Only what has been granted just now can be given back unused.
            if (last >= 0 && grants[last]?.at === clock.monotonic()) {
              grants.splice(last, 1)
              rate.release(action.kind)
            }
          } else if (action.do === 'answer') {
            say(action.answer, action.retryAfterMs, clock.monotonic() - action.age)
          } else await clock.advance(action.ms)
        }
        cancel.abort()
        await clock.settle()
        expect(excess(grants, max)).toBeLessThanOrEqual(1e-6)
        const retryGrants = grants.filter((grant) => grant.kind === 'retry')
        if (retries !== undefined) expect(excess(retryGrants, retries)).toBeLessThanOrEqual(1e-6)
        expect(rate.limit()).toBeLessThanOrEqual(max)
        expect(rate.limit()).toBeGreaterThanOrEqual(Math.min(1, max))
        expect(clock.sleepers()).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})

describe('a call without a wait', () => {
  test('is granted while the bucket holds two and nothing waits, and counts like any other', () => {
    const { rate } = setUp(10)
    expect(Array.from({ length: 12 }, () => rate.tryAcquire('retry')).filter(Boolean)).toHaveLength(9)
  })

  test('is not granted past a call that waits, of any class', async () => {
    const { ask, clock, rate } = setUp(10, 1)
    await ask('retry')
    void ask('retry')
    await clock.settle()
    expect(rate.tryAcquire('list')).toBe(false)
    await clock.advance(1100)
    expect(rate.tryAcquire('list')).toBe(true)
  })

  test('is not granted in a pause, nor above the maximum of retries', async () => {
    const { clock, rate, say } = setUp(10, 1)
    expect([rate.tryAcquire('retry'), rate.tryAcquire('retry'), rate.tryAcquire('confirm')]).toEqual([
      true,
      false,
      true,
    ])
    say('throttled', 60_000)
    await clock.advance(59_000)
    expect(rate.tryAcquire('confirm')).toBe(false)
    await clock.advance(2000)
    expect(rate.tryAcquire('confirm')).toBe(true)
  })
})

describe('giving back and giving up', () => {
  test('what is given back goes to who waits, at once', async () => {
    const { clock, rate, grants, askMany } = setUp(2)
    askMany('list', 3)
    await clock.settle()
    expect(grants).toHaveLength(2)
    rate.release('list')
    await clock.settle()
    expect(grants).toHaveLength(3)
  })

  test('giving back in rest does not fill the bucket over its brim', async () => {
    const { clock, rate, grants, askMany } = setUp(2, 2)
    for (let i = 0; i < 10; i += 1) rate.release('retry')
    askMany('retry', 20)
    await clock.settle()
    expect(grants).toHaveLength(2)
  })

  test('an aborted signal is refused, and takes nothing', async () => {
    const { clock, rate, grants, askMany } = setUp(1)
    const reason = new Error('enough')
    await expect(rate.acquire('retry', AbortSignal.abort(reason))).rejects.toBe(reason)
    askMany('retry', 1)
    await clock.settle()
    expect(grants).toHaveLength(1)
  })

  test('who gives up while waiting takes nothing and leaves no timer', async () => {
    const { clock, grants, ask, say } = setUp(1)
    say('throttled', 60_000)
    const reason = new Error('enough')
    const cancel = new AbortController()
    const waiting = ['retry', 'list', 'confirm'].map((kind) => ask(kind as TrafficClass, cancel.signal))
    cancel.abort(reason)
    for (const wait of waiting) await expect(wait).rejects.toBe(reason)
    expect(clock.sleepers()).toBe(0)
    const next = ask('list')
    await clock.run(next, 60_010)
    expect(grants).toHaveLength(1)
  })

  test('half of a queue gives up: the other half gets all, in its order', async () => {
    const { clock, rate, grants } = setUp(10)
    const cancel = new AbortController()
    const order: number[] = []
    for (let i = 0; i < 60; i += 1) {
      rate.acquire('list', i % 2 === 0 ? cancel.signal : undefined).then(
        () => order.push(i),
        () => undefined,
      )
    }
    await clock.settle()
    cancel.abort()
    await clock.advance(2_600)
    expect(order.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(order.slice(10)).toEqual(Array.from({ length: 25 }, (_, i) => 11 + 2 * i))
    expect(grants).toEqual([])
  })

  test('a grant that comes together with the abort is given back', async () => {
    const { clock, rate, grants, ask } = setUp(1)
    await ask('retry')
    const cancel = new AbortController()
    const waiting = ask('retry', cancel.signal)
    waiting.catch(() => undefined)
    const next = ask('retry')
    rate.release('retry')
    cancel.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await clock.settle()
    expect(grants).toHaveLength(2)
    await next
  })
})

describe('answers', () => {
  test.each(['throttled', 'overloaded'] as const)('a burst of %s halves the rate once', async (kind) => {
    const { clock, rate, say } = setUp(64)
    const sentAt = clock.monotonic()
    await clock.advance(10)
    for (let i = 0; i < 50; i += 1) say(kind, 0, sentAt)
    expect(rate.limit()).toBe(32)
    await clock.advance(0.001)
    for (let i = 0; i < 50; i += 1) say(kind, 0, clock.monotonic() - 0.0005)
    expect(rate.limit()).toBeCloseTo(16, 1)
  })

  test.each([
    [20, 1],
    [1, 1],
    [0.4, 0.4],
  ])('of %s it is never cut below %s', async (max, lowest) => {
    const { clock, rate, say } = setUp(max)
    for (let i = 0; i < 40; i += 1) {
      await clock.advance(0.01)
      say('overloaded', undefined, clock.monotonic())
    }
    expect(rate.limit()).toBeCloseTo(lowest, 1)
  })

  test('it comes back by 5 % of the maximum a second, not beyond it', async () => {
    const { clock, rate, say } = setUp(40)
    say('overloaded')
    const seen: number[] = []
    for (let second = 0; second <= 12; second += 2) {
      seen.push(Math.round(rate.limit() * 100) / 100)
      await clock.advance(2_000)
    }
    expect(seen).toEqual([20, 24, 28, 32, 36, 40, 40])
  })

  test('a pause teaches nothing: the rate comes back only after it', async () => {
    const { clock, rate, say } = setUp(40)
    say('throttled', 60_000)
    await clock.advance(60_000)
    expect(rate.limit()).toBe(20)
    await clock.advance(5_000)
    expect(rate.limit()).toBe(30)
  })

  test('after a pause it goes on with a burst of the halved rate', async () => {
    const { clock, grants, askMany, say } = setUp(40)
    say('throttled', 60_000)
    askMany('list', 200)
    await clock.advance(60_005)
    expect(grants).toHaveLength(20)
  })

  test('503 without Retry-After does not pause, 200 changes nothing', async () => {
    const { clock, rate, grants, askMany, say } = setUp(10)
    say('ok', 30_000)
    expect(rate.limit()).toBe(10)
    say('overloaded')
    expect(rate.pausedForMs()).toBe(0)
    askMany('list', 1)
    await clock.settle()
    expect(grants).toHaveLength(1)
  })

  test.each([
    ['its time', 2_500, 2_500],
    ['five minutes at most', 86_400_000, maxPause],
    ['five minutes even for ever', Infinity, maxPause],
    ['not at all for 0', 0, 0],
  ])('Retry-After pauses everybody for %s', async (_, retryAfterMs, paused) => {
    const { clock, rate, grants, askMany, say } = setUp(10)
    say('throttled', retryAfterMs)
    expect(rate.pausedForMs()).toBe(paused)
    for (const kind of ['retry', 'list', 'confirm'] as const) askMany(kind, 1)
    await clock.advance(Math.max(0, paused - 1))
    expect(grants).toHaveLength(paused === 0 ? 3 : 0)
    await clock.advance(10)
    expect(grants).toHaveLength(3)
  })

  test('a shorter Retry-After does not end a longer pause', () => {
    const { rate, say } = setUp(10)
    say('throttled', 60_000)
    say('overloaded', 1_000)
    expect(rate.pausedForMs()).toBe(60_000)
  })

  test('429 without it: one second, doubling, five minutes at most; a success starts it anew', async () => {
    const { clock, rate, say } = setUp(10)
    const pauses: number[] = []
    for (let i = 0; i < 11; i += 1) {
      say('throttled')
      pauses.push(rate.pausedForMs())
      await clock.advance(rate.pausedForMs() + 1)
    }
    expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1000))
    say('ok')
    say('throttled')
    expect(rate.pausedForMs()).toBe(1_000)
  })

  test('it says how long it has been paused in all, up to now', async () => {
    const { clock, rate, say } = setUp(10)
    expect(rate.pausedMs()).toBe(0)
    say('throttled', 60_000)
    expect(rate.pausedMs()).toBe(0)
    await clock.advance(20_000)
    expect(rate.pausedMs()).toBe(20_000)
    // Longer and shorter pauses that begin meanwhile count once.
    say('throttled', 50_000)
    say('throttled', 1_000)
    await clock.advance(30_000)
    expect(rate.pausedMs()).toBe(50_000)
    await clock.advance(3_600_000)
    expect(rate.pausedMs()).toBe(70_000)
    say('throttled', 0)
    say('throttled', 2_000)
    await clock.advance(10_000)
    expect(rate.pausedMs()).toBe(72_000)
  })

  test('many 429 of one burst pause once, not doubled', async () => {
    const { clock, rate, say } = setUp(10)
    const sentAt = clock.monotonic()
    await clock.advance(50)
    for (let i = 0; i < 20; i += 1) say('throttled', undefined, sentAt)
    expect(rate.pausedForMs()).toBe(1_000)
  })

  test('a success that was under way before the 429 does not take the doubling back', async () => {
    const { clock, rate, say } = setUp(10)
    const pauses: number[] = []
    for (let i = 0; i < 4; i += 1) {
      const sentAt = clock.monotonic()
      await clock.advance(20)
      say('throttled', undefined, sentAt)
      say('ok', undefined, sentAt)
      pauses.push(rate.pausedForMs())
      await clock.advance(rate.pausedForMs() + 1)
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000])
  })

  test('a cut takes what the bucket held above the new rate', async () => {
    const { clock, grants, askMany, say } = setUp(40)
    say('overloaded')
    askMany('list', 40)
    await clock.settle()
    expect(grants).toHaveLength(20)
  })

  test('a cut while they wait makes them wait longer, its end is not slept through', async () => {
    const { clock, grants, askMany, say } = setUp(2)
    askMany('list', 4)
    await clock.settle()
    say('throttled', 10_000)
    await clock.advance(9_000)
    expect(grants).toHaveLength(2)
    await clock.advance(1_500)
    expect(grants.length).toBeGreaterThan(2)
  })
})
