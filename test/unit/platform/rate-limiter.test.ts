// The rate limiter: never above its bound, shared by class, cut once per burst, paused as asked, and no grant is lost.
import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/runtime/clock.ts'
import {
  createRateLimiter,
  type RateLimiter,
  type RateLimiterOptions,
  type RateReport,
  type TrafficClass,
} from '../../../src/platform/rate-limiter.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

interface World {
  clock: VirtualClock
  rate: RateLimiter
  /** Monotonic times of the grants that were used. */
  grants: { kind: TrafficClass; at: number }[]
  /** Grants by class since the last call of `forget`. */
  count(kind: TrafficClass): number
  forget(): void
  /** Timers set so far. */
  timers(): number
  ask(kind: TrafficClass, signal?: AbortSignal): Promise<void>
  /** Asks for so many, and forgets who gets none before the test ends. */
  askMany(kind: TrafficClass, count: number): void
  /** So many ask again as soon as they are granted; the answer takes `answerMs`. */
  keepAsking(kind: TrafficClass, askers: number, answerMs?: number): AbortController
  say(kind: RateReport['kind'], retryAfterMs?: number, sentAt?: number): void
}

const kinds = ['retry', 'list', 'confirm'] as const

function world(maxPerSecond: number, options: Omit<Partial<RateLimiterOptions>, 'clock'> = {}): World {
  const clock = createVirtualClock()
  let timers = 0
  const counting: Clock = {
    ...clock,
    timer(ms, act) {
      timers += 1
      return clock.timer(ms, act)
    },
  }
  const rate = createRateLimiter({ clock: counting, maxPerSecond, ...options })
  const grants: World['grants'] = []
  let forgotten = 0

  async function ask(kind: TrafficClass, signal?: AbortSignal): Promise<void> {
    await rate.acquire(kind, signal)
    grants.push({ kind, at: clock.monotonic() })
  }

  async function askOnAndOn(kind: TrafficClass, answerMs: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await ask(kind, signal)
      if (answerMs > 0) await clock.sleep(answerMs, signal)
    }
  }

  return {
    clock,
    rate,
    grants,
    count: (kind) => grants.slice(forgotten).filter((grant) => grant.kind === kind).length,
    forget() {
      forgotten = grants.length
    },
    timers: () => timers,
    ask,
    askMany(kind, count) {
      for (let i = 0; i < count; i += 1) void ask(kind)
    },
    keepAsking(kind, askers, answerMs = 0) {
      const end = new AbortController()
      for (let i = 0; i < askers; i += 1) askOnAndOn(kind, answerMs, end.signal).catch(() => undefined)
      return end
    },
    say(kind, retryAfterMs, sentAt = clock.monotonic()) {
      rate.reportResponse({ kind, retryAfterMs, sentAt })
    },
  }
}

/** The most by which any span holds more grants than `perSecond` and the burst allow; at most 0 when all is well. */
function excess(grants: World['grants'], perSecond: number): number {
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
  test.each([0.1, 1.5, 20, 333.3])('%s a second: a burst of one second, then as fast as it', async (max) => {
    const { clock, grants, askMany } = world(max)
    const seconds = max > 100 ? 5 : 30
    askMany('list', Math.ceil(max * (seconds + 5)) + 5)
    await clock.advance(seconds * 1000)
    expect(excess(grants, max)).toBeLessThanOrEqual(1e-6)
    const expected = Math.max(1, max) + max * seconds
    expect(grants.length).toBeGreaterThan(expected * 0.93 - 1.5)
    expect(grants.length).toBeLessThanOrEqual(expected)
  })

  const steps = fc.array(
    fc.record({
      do: fc.constantFrom('ask', 'ask', 'ask', 'pass', 'pass', 'cancel', 'give back', 'ok', 'throttled', 'overloaded'),
      kind: fc.constantFrom(...kinds),
      count: fc.integer({ min: 1, max: 12 }),
      ms: fc.integer({ min: 1, max: 1_500 }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 5_000 }), { nil: undefined }),
    }),
    { minLength: 1, maxLength: 40 },
  )
  const max = fc.constantFrom(0.7, 1, 3, 20, 50.5)
  const retries = fc.option(fc.constantFrom(0.5, 2, 10), { nil: undefined })

  test('whatever is asked, cancelled, given back and answered, no span holds more', async () => {
    await fc.assert(
      fc.asyncProperty(steps, max, retries, async (played, maxPerSecond, maxRetriesPerSecond) => {
        const { clock, rate, grants, ask, say } = world(maxPerSecond, { maxRetriesPerSecond })
        let cancel = new AbortController()
        for (const { do: what, kind, count, ms, retryAfterMs } of played) {
          if (what === 'ask') {
            for (let i = 0; i < count; i += 1) ask(kind, cancel.signal).catch(() => undefined)
          } else if (what === 'pass') await clock.advance(ms)
          else if (what === 'cancel') {
            cancel.abort()
            cancel = new AbortController()
          } else if (what === 'give back') {
            await clock.settle()
            const last = grants.findLastIndex((grant) => grant.kind === kind)
            // Only what has been granted just now can be given back unused.
            if (last >= 0 && grants[last]?.at === clock.monotonic()) {
              grants.splice(last, 1)
              rate.release(kind)
            }
          } else say(what, retryAfterMs, clock.monotonic() - ms)
        }
        cancel.abort()
        await clock.settle()
        expect(excess(grants, maxPerSecond)).toBeLessThanOrEqual(1e-6)
        const retryGrants = grants.filter(({ kind }) => kind === 'retry')
        if (maxRetriesPerSecond !== undefined)
          expect(excess(retryGrants, maxRetriesPerSecond)).toBeLessThanOrEqual(1e-6)
        expect(rate.limit()).toBeLessThanOrEqual(maxPerSecond)
        expect(rate.limit()).toBeGreaterThanOrEqual(Math.min(1, maxPerSecond))
        expect(clock.sleepers()).toBe(0)
      }),
      { numRuns: 150 },
    )
  })
})

describe('a call without a wait', () => {
  test('is granted while the bucket holds two and nothing waits, and counts like any other', () => {
    const { rate } = world(10)
    expect(Array.from({ length: 12 }, () => rate.tryAcquire('retry')).filter(Boolean)).toHaveLength(9)
  })

  test('is not granted past a call that waits, above the maximum of retries, nor in a pause', async () => {
    const { ask, clock, rate, say } = world(10, { maxRetriesPerSecond: 1 })
    expect([rate.tryAcquire('retry'), rate.tryAcquire('retry'), rate.tryAcquire('confirm')]).toEqual([
      true,
      false,
      true,
    ])
    rate.release('confirm')
    expect(rate.tryAcquire('retry')).toBe(false)
    void ask('retry')
    await clock.settle()
    expect(rate.tryAcquire('list')).toBe(false)
    await clock.advance(1100)
    expect(rate.tryAcquire('list')).toBe(true)
    say('throttled', 60_000)
    await clock.advance(59_000)
    expect(rate.tryAcquire('confirm')).toBe(false)
    await clock.advance(2000)
    expect(rate.tryAcquire('confirm')).toBe(true)
  })
})

describe('giving back and giving up', () => {
  const reason = new Error('enough')

  test('what is given back goes to who waits, at once, and never fills the bucket over its brim', async () => {
    const { clock, rate, grants, askMany } = world(2, { maxRetriesPerSecond: 2 })
    for (let i = 0; i < 10; i += 1) rate.release('retry')
    askMany('retry', 20)
    await clock.settle()
    expect(grants).toHaveLength(2)
    rate.release('retry')
    await clock.settle()
    expect(grants).toHaveLength(3)
  })

  test('an aborted signal is refused, and who gives up while waiting takes nothing and leaves no timer', async () => {
    const { clock, rate, grants, ask, say } = world(1)
    await expect(rate.acquire('retry', AbortSignal.abort(reason))).rejects.toBe(reason)
    say('throttled', 60_000)
    const cancel = new AbortController()
    const waiting = kinds.map((kind) => ask(kind, cancel.signal))
    cancel.abort(reason)
    for (const wait of waiting) await expect(wait).rejects.toBe(reason)
    expect(clock.sleepers()).toBe(0)
    await clock.run(ask('list'), 60_010)
    expect(grants).toHaveLength(1)
  })

  test('half of a queue gives up: the other half gets all, in its order', async () => {
    const { clock, rate } = world(10)
    const cancel = new AbortController()
    const { signal } = new AbortController()
    const order: number[] = []
    for (let i = 0; i < 60; i += 1) {
      rate.acquire('list', i % 2 === 0 ? cancel.signal : signal).then(
        () => order.push(i),
        () => undefined,
      )
    }
    await clock.settle()
    cancel.abort()
    await clock.advance(2_600)
    expect(order.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(order.slice(10)).toEqual(Array.from({ length: 25 }, (_, i) => 11 + 2 * i))
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('a grant that comes together with the abort is given back', async () => {
    const { clock, rate, grants, ask } = world(1)
    await ask('retry')
    const cancel = new AbortController()
    const waiting = ask('retry', cancel.signal)
    waiting.catch(() => undefined)
    const next = ask('retry')
    rate.release('retry')
    cancel.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await clock.settle()
    expect(grants).toHaveLength(2)
    await next
  })
})

describe('answers', () => {
  type Step = number | [kind: RateReport['kind'], retryAfterMs?: number, ageMs?: number]
  const burst = (kind: RateReport['kind'], ageMs: number): Step[] => Array<Step>(50).fill([kind, 0, ageMs])
  const cuts: Step[] = Array.from({ length: 40 }, (): Step[] => [0.01, ['overloaded']]).flat()

  /** Milliseconds that pass, and answers with their Retry-After and the age of their request. */
  test.each<[string, max: number, Step[], limit: number, pausedMs: number]>([
    ['a burst of 429 halves the rate once', 64, [10, ...burst('throttled', 10)], 32, 0],
    ['a later burst halves it again', 64, [...burst('throttled', 0), 0.001, ...burst('throttled', 0.0005)], 16, 0],
    ['it is never cut below one', 20, cuts, 1, 0],
    ['nor is a maximum that is lower', 0.4, cuts, 0.4, 0],
    ['it recovers by 5 % of the maximum a second', 40, [['overloaded'], 2_000], 24, 0],
    ['not beyond the maximum', 40, [['overloaded'], 12_000], 40, 0],
    ['not in a pause', 40, [['throttled', 60_000], 60_000], 20, 0],
    ['a 200 changes nothing', 10, [['ok', 30_000]], 10, 0],
    ['Retry-After pauses', 10, [['overloaded', 2_500]], 5, 2_500],
    ['for five minutes at most', 10, [['throttled', 86_400_000]], 5, 300_000],
    ['also for ever', 10, [['throttled', Infinity]], 5, 300_000],
    [
      'a shorter pause does not end a longer one',
      10,
      [
        ['throttled', 60_000],
        ['overloaded', 1_000],
      ],
      5,
      60_000,
    ],
  ])('%s', async (_, max, steps, limit, pausedMs) => {
    const { clock, rate, say } = world(max)
    for (const step of steps) {
      if (typeof step === 'number') await clock.advance(step)
      else say(step[0], step[1], clock.monotonic() - (step[2] ?? 0))
    }
    expect(rate.limit()).toBeCloseTo(limit, 1)
    expect(rate.pausedForMs()).toBe(pausedMs)
  })

  test.each([0, 60_000])('a burst of the halved rate is left, after a pause of %i ms', async (pauseMs) => {
    const { clock, grants, askMany, say } = world(40)
    say('throttled', pauseMs)
    askMany('list', 200)
    await clock.advance(pauseMs + 5)
    expect(grants).toHaveLength(20)
  })

  test('a 429 without Retry-After pauses for a second, doubling to five minutes; a success starts it anew', async () => {
    const { clock, rate, say } = world(10)
    const pauses: number[] = []
    for (let i = 0; i < 11; i += 1) {
      const sentAt = clock.monotonic()
      await clock.advance(20)
      // Many 429 of one burst, and a success that was under way before them.
      for (let burst = 0; burst < 5; burst += 1) say('throttled', undefined, sentAt)
      say('ok', undefined, sentAt)
      pauses.push(rate.pausedForMs())
      await clock.advance(rate.pausedForMs() + 1)
    }
    expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1000))
    say('ok')
    say('throttled')
    expect(rate.pausedForMs()).toBe(1_000)
  })

  test('all pauses are counted up to now; longer and shorter ones meanwhile count once', async () => {
    const { clock, rate, say } = world(10)
    say('throttled', 60_000)
    expect(rate.pausedMs()).toBe(0)
    await clock.advance(20_000)
    say('throttled', 50_000)
    say('throttled', 1_000)
    expect(rate.pausedForMs()).toBe(50_000)
    await clock.advance(30_000)
    expect(rate.pausedMs()).toBe(50_000)
    await clock.advance(3_600_000)
    expect(rate.pausedMs()).toBe(70_000)
    say('throttled', 0)
    say('throttled', 2_000)
    await clock.advance(10_000)
    expect(rate.pausedMs()).toBe(72_000)
  })
})

describe('shares', () => {
  type Askers = Partial<Record<TrafficClass, number>>
  /** Grants of a class, as a part of all. */
  type Parts = Partial<Record<TrafficClass, [min: number, max: number]>>
  const shares: Parts = { retry: [0.75, 0.79], list: [0.18, 0.22], confirm: [0.025, 0.035] }
  const some: [number, number] = [0.02, 1]

  test.each<[string, max: number, maxRetries: number | undefined, first: Askers, late: Askers, Parts]>([
    ['all wait', 1, undefined, { retry: 20, list: 20, confirm: 20 }, {}, shares],
    ['one dispatcher', 1000, undefined, { retry: 1, list: 8 }, {}, { list: [0.15, 0.25] }],
    ['a spared receiver', 20, 0.01, { retry: 1, list: 4 }, {}, { list: [0.99, 1] }],
    // A class is not owed what it did not use while it rested.
    ['late retries', 20, undefined, { list: 4, confirm: 4 }, { retry: 4 }, { list: some, confirm: some }],
    ['late lists', 20, undefined, { retry: 4, confirm: 4 }, { list: 4 }, { retry: some, confirm: some }],
    ['late checks', 20, undefined, { retry: 4, list: 4 }, { confirm: 4 }, { retry: some, list: some }],
  ])('%s, at %s a second', async (_, max, maxRetriesPerSecond, first, late, parts) => {
    const isLate = Object.keys(late).length > 0
    const { clock, count, forget, keepAsking } = world(max, { maxRetriesPerSecond })
    for (const kind of kinds) keepAsking(kind, first[kind] ?? 0)
    // What the first burst was spent on does not count: then no call had to wait.
    await clock.advance(isLate ? 120_000 : 0)
    forget()
    for (const kind of kinds) keepAsking(kind, late[kind] ?? 0)
    const seconds = isLate ? 10 : 800 / max
    await clock.advance(seconds * 1000)
    const all = count('retry') + count('list') + count('confirm')
    expect(all).toBeGreaterThan(max * seconds * 0.95)
    for (const [kind, [least, most]] of Object.entries(parts)) {
      const part = count(kind as TrafficClass) / all
      expect(part, kind).toBeGreaterThanOrEqual(least)
      expect(part, kind).toBeLessThanOrEqual(most)
    }
  })

  // What they used before, at a share of 3 %, is no debt: at one call a second it would be half a minute.
  test.each([1, 20])(
    'of checks that are late are those of retries, from that moment on, at %i a second',
    async (max) => {
      let isLate = false
      const { clock, count, forget, keepAsking } = world(max, { areChecksLate: () => isLate })
      keepAsking('retry', 8)
      keepAsking('confirm', 8)
      await clock.advance((100 / max) * 1000)
      isLate = true
      forget()
      await clock.advance((10 / max) * 1000)
      expect(count('confirm')).toBeGreaterThanOrEqual(4)
      expect(count('retry')).toBeGreaterThanOrEqual(4)
      isLate = false
      forget()
      await clock.advance((100 / max) * 1000)
      expect(count('confirm')).toBeLessThanOrEqual(6)
    },
  )

  test('of retries that the receiver is spared are owed to nobody: a late list does not starve the checks', async () => {
    const { clock, count, forget, keepAsking } = world(20, { maxRetriesPerSecond: 1 })
    keepAsking('retry', 1)
    keepAsking('confirm', 4)
    await clock.advance(120_000)
    forget()
    while (count('retry') === 0) await clock.advance(1)
    forget()
    keepAsking('list', 4)
    await clock.advance(10_000)
    expect(count('confirm')).toBeGreaterThanOrEqual(15)
  })
})

describe('no hot loop', () => {
  test.each([
    ['in a pause of five minutes', 20, undefined, 300_000],
    ['at one retry in a hundred seconds', 1000, 0.01, 0],
    ['under full load', 20, undefined, 0],
  ])('%s: hardly a timer a grant', async (_, max, maxRetriesPerSecond, pauseMs) => {
    const { clock, grants, say, timers, keepAsking } = world(max, { maxRetriesPerSecond })
    if (pauseMs > 0) say('throttled', pauseMs)
    keepAsking('retry', 3)
    await clock.advance(290_000)
    expect(timers()).toBeLessThanOrEqual(3 * grants.length + 10)
  })
})
