// The rate limiter: never above its bound, shared by class, at the platform's own limit, paused as asked, and no grant is lost.
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { createLimitMeter, limitSchema, retryAfterOf } from '../../../sandbox/api/limits.ts'
import { createRateLimiter, type RateReport, type TrafficClass } from '../../../src/platform/rate-limiter.ts'
import { runScript } from '../../support/script.ts'
import { fieldsOf, givenOf, msOf, tally, type Commands } from '../../support/script-parts.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

interface WorldOptions {
  max?: number
  maxRetries?: number
  maxRetryAfterMs?: number
}

/** `max` and `maxRetries` a second; checks that are later than a call takes share as retries do. */
function world({ max = 10, maxRetries, maxRetryAfterMs }: WorldOptions = {}) {
  const clock = createVirtualClock()
  let [timers, lateMs] = [0, 0]
  const rate = createRateLimiter({
    clock: {
      ...clock,
      timer(ms, act) {
        timers += 1
        return clock.timer(ms, act)
      },
    },
    maxPerSecond: max,
    maxRetriesPerSecond: maxRetries,
    ...(maxRetryAfterMs !== undefined && { maxRetryAfterMs }),
    areChecksLate: (callMs) => lateMs > callMs,
  })
  const grants: string[] = []
  const asking = new Set<string>()

  async function ask(kind: TrafficClass, isAgain: boolean): Promise<void> {
    do {
      await rate.acquire(kind)
      grants.push(kind)
    } while (isAgain)
  }

  function times(count: string, act: () => unknown): number {
    return Array.from({ length: Number(count) }, act).filter(Boolean).length
  }

  const commands: Commands = {
    wait: (time = '') => clock.advance(msOf(time)),
    /** Waits for a grant, and looks at those after it alone. */
    until: async (kind = '') => {
      while (!grants.splice(0).includes(kind)) await clock.advance(1)
    },
    ask: (kind, count = '') => void times(count, () => void ask(kind as TrafficClass, false)),
    /** They ask again as soon as they are granted. */
    askers: (kind = '', count = '') => {
      asking.add(kind)
      times(count, () => void ask(kind as TrafficClass, true))
    },
    try: (kind, count = '') => times(count, () => rate.tryAcquire(kind as TrafficClass)),
    release: (kind, count = '') => void times(count, () => rate.release(kind as TrafficClass)),
    /** Grants since the last time. */
    granted: async () => {
      await clock.settle()
      return tally(grants.splice(0))
    },
    /** Percent of the grants since the last time: of one class, or of each. */
    parts: (wanted) => {
      const all = grants.splice(0)
      const percent = (kind: string): number =>
        Math.round((100 * all.filter((granted) => granted === kind).length) / all.length)
      return wanted === undefined ? [...asking].map((kind) => `${kind} ${percent(kind)}`).join(', ') : percent(wanted)
    },
    anew: () => void grants.splice(0),
    /** Those that ask, and get less than 2 % of the grants since the last time. */
    starved: () => {
      const all = grants.splice(0)
      return tally([...asking].filter((asked) => all.filter((kind) => kind === asked).length < all.length / 50))
    },
    say: (kind, ...words) => {
      const { after, age = '0ms', of = 'retry' } = fieldsOf(words)
      const retryAfterMs = after === undefined ? undefined : msOf(after)
      const sentAt = clock.monotonic() - msOf(age)
      rate.reportResponse({ kind: kind as RateReport['kind'], of: of as TrafficClass, retryAfterMs, sentAt })
    },
    limit: () => Math.round(10 * rate.limit()) / 10,
    pause: (kind = 'retry') => `${rate.pausedForMs(kind as TrafficClass) / 1000}s`,
    paused: (kind = 'retry') => `${rate.pausedMs(kind as TrafficClass) / 1000}s`,
    /** So late is the oldest check. */
    late: (time = '') => {
      lateMs = msOf(time)
    },
    timers: () => timers,
  }
  return { clock, rate, commands }
}

const cuts = Array<string>(40).fill('wait 1ms; say overloaded').join('; ')

const scripts: Record<string, string> = {
  'a call without a wait is granted while the bucket holds two, and what is given back comes once':
    'try retry 12 -> 9; release retry 2; try retry 9 -> 2',
  'and not past a call that waits, above the maximum of retries, or in a pause': `
    given maxRetries=1
    try retry 2 -> 1; try confirm 1 -> 1; release confirm 1; try retry 1 -> 0; ask retry 1; try list 1 -> 0
    wait 1100ms; granted -> retry 1; try list 1 -> 1
    say overloaded; wait 1ms; ${Array<string>(20).fill('say ok').join('; ')}; wait 2s; limit -> 10; say throttled after=60s age=3s
    wait 59s; try confirm 1 -> 0; ask confirm 1; granted -> none; wait 2s; granted -> confirm 1`,
  'what is given back goes to who waits, at once, and never fills the bucket over its brim':
    'given max=2 maxRetries=2; release retry 10; ask retry 20; granted -> retry 2; release retry 1; granted -> retry 1',
  'a burst of 429 cuts the rate once, a later one again: to less than half where nothing was granted': `
    given max=64
    wait 10ms; say throttled after=0s age=10ms; say throttled after=0s age=10ms; limit -> 28.8; pause -> 0s
    wait 0.001ms; say throttled after=0s age=0.0005ms; limit -> 12.9`,
  'to nine tenths of what was granted lately, where something was': `
    given max=20
    askers list 3; say throttled after=0s; wait 4s; say ok; say ok; say ok; say ok; say throttled after=0s; limit -> 0.9`,
  'measured over a second at least': `
    given max=20
    askers list 3; say throttled after=0s; wait 400ms; say ok; say ok; say throttled after=0s; limit -> 1.8`,
  'to what was granted before a pause and in it, where the pause is the longer part: a quota': `
    given max=20
    askers list 3; wait 5s; ${Array<string>(60).fill('say ok').join('; ')}; say throttled after=55s; limit -> 0.9`,
  'a platform that fails halves it, and never below one': `
    given max=20; say overloaded; limit -> 10; ${cuts}; limit -> 1`,
  'nor below a maximum that is lower': `
    given max=0.4; ${cuts}; limit -> 0.4`,
  'it grows by good answers and not by time, and not beyond its maximum': `
    given max=40
    say overloaded; wait 1h; limit -> 20; say ok; limit -> 21; ${Array<string>(19).fill('say ok').join('; ')}; limit -> 40
    say ok; limit -> 40`,
  'as fast after a lower limit that it has left behind': `
    given max=40
    say throttled after=0s; limit -> 18; wait 1ms; ${Array<string>(60).fill('say ok').join('; ')}; limit -> 40
    wait 1ms; say overloaded; wait 1ms; say ok; limit -> 21`,
  'a 200 changes nothing': 'say ok after=30s; limit -> 10; pause -> 0s',
  'Retry-After pauses up to its maximum, and a shorter one ends no longer one': `
    given maxRetryAfterMs=3600000
    say overloaded after=2.5s; limit -> 4.5; pause -> 2.5s; say throttled after=60s; say overloaded after=1s; pause -> 60s
    say throttled after=30min; pause -> 1800s; say throttled after=10h; pause -> 3600s`,
  'a platform that asks for no pause, or a short one, again and again, gets longer and longer ones': `
    say throttled after=0s; pause -> 0s; wait 1ms; say throttled after=0s; pause -> 1s; wait 2s; say throttled after=1s
    pause -> 2s; wait 3s; say throttled after=1s; pause -> 4s; wait 5s; say ok; say throttled after=1s; pause -> 1s`,
  'no burst is left after a cut, and none is saved up in a pause': `
    given max=40; say throttled after=0s; ask list 99; wait 5ms; granted -> none; wait 60ms; granted -> list 1
    say throttled after=60s; wait 60s; granted -> none; wait 5ms; granted -> list 1`,
  'a 429 without Retry-After pauses for a second, doubling to five minutes; a success starts it anew': `
    say throttled; say throttled age=1ms; pause -> 1s
    ${[2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((s) => `wait 301s; say throttled; pause -> ${s}s`).join('; ')}
    wait 301s; say ok; say throttled; pause -> 1s`,
  'all pauses are counted up to now; longer and shorter ones meanwhile count once': `
    say throttled after=60s; paused -> 0s; wait 20s; say throttled after=50s; say throttled after=1s; pause -> 50s
    wait 30s; paused -> 50s; wait 1h; paused -> 70s
    say throttled after=0s; say throttled after=2s; wait 10s; paused -> 72s`,
  'the third refusal of a list, after each of which a retry was served, cuts and pauses lists alone, until a retry is refused': `
    given max=20
    say overloaded of=list; wait 1ms; say ok; wait 1ms
    ${['throttled', 'overloaded after=1s'].map((kind) => `say ${kind} of=list; pause -> 1s; wait 2s; say ok; wait 1ms`).join('; ')}; limit -> 0.8
    say throttled of=list after=60s; limit -> 0.8; pause -> 0s; pause confirm -> 60s; paused list -> 4s
    ask retry 9; ask list 9; wait 2s; granted -> retry 2; wait 59s; granted -> list 1, retry 7
    say overloaded after=30s; pause list -> 30s; say throttled of=list after=90s; pause -> 90s`,
  'each class has its share':
    'given max=1; askers retry 20; askers list 20; askers confirm 20; wait 800s; parts -> retry 77, list 20, confirm 3',
  'one dispatcher gets as much':
    'given max=1000; askers retry 1; askers list 8; wait 0ms; anew; wait 800ms; parts list -> at most 25',
  'lists get what a receiver is spared':
    'given max=20 maxRetries=0.01; askers retry 1; askers list 4; wait 40s; parts list -> 100',
  // A class is not owed what it did not use while it rested.
  ...Object.fromEntries(
    [
      ['retry', 'list', 'confirm'],
      ['list', 'retry', 'confirm'],
      ['confirm', 'retry', 'list'],
    ].map(([late, one, other]) => [
      `a late ${late} starves none`,
      `given max=20
         askers ${one} 4; askers ${other} 4; wait 2min; starved -> none; askers ${late} 4; wait 10s; starved -> none`,
    ]),
  ),
  'retries that the receiver is spared are owed to nobody: late lists do not starve the checks': `
    given max=20 maxRetries=1
    askers retry 1; askers confirm 4; wait 2min; anew; until retry; askers list 4; wait 10s; parts list -> at most 88`,
  // What they used before, at a share of 3 %, is no debt: at one call a second it would be half a minute.
  ...Object.fromEntries(
    [1, 20].map((max) => [
      `checks that are later than a call takes get as much as retries, from that moment on, at ${max} a second`,
      `given max=${max}
         askers retry 8; askers confirm 8; wait ${100 / max}s; anew; late ${1001 / max}ms; wait ${10 / max}s; parts confirm -> 50
         late ${1000 / max}ms; wait ${100 / max}s; parts confirm -> at most 6`,
    ]),
  ),
  'a pause sets hardly a timer': 'say throttled after=5min; askers retry 3; wait 290s; timers -> at most 10',
  'nor does a slow rate': 'given max=1000 maxRetries=0.01; askers retry 3; wait 290s; timers -> at most 19',
  'nor full load, by grant': 'given max=20; askers retry 3; wait 290s; timers -> at most 17500',
}

test.each(Object.entries(scripts))('%s', async (_, script) => {
  const [given, steps] = givenOf(script, ['max', 'maxRetries', 'maxRetryAfterMs'])
  await runScript(steps, world(given).commands)
})

const afters = ['exact', 'absent', 1] as const

// Each two values meet, and each three without Retry-After.
test.each(
  [0.5, 1, 2, 3, 5, 10].flatMap((perSecond, first) =>
    [1, 4, 20].flatMap((burst, second) =>
      // A limit refuses at once what a slow backend takes seconds for.
      [20, 3000].map(
        (takenMs, third) => [perSecond, burst, afters[(first + second + third) % 3] ?? 'exact', takenMs] as const,
      ),
    ),
  ),
)(
  'a platform that takes %s a second, %s at once, Retry-After %s, within %s ms: after a minute nearly all of it is used',
  async (perSecond, burst, retryAfter, takenMs) => {
    const { clock, rate } = world({ max: 20 })
    const limit = limitSchema.parse({ kind: 'bucket', perSecond, burst, retryAfter })
    const meter = createLimitMeter(limit)
    let refused = 0
    async function call(): Promise<never> {
      for (;;) {
        await rate.acquire('retry')
        const sentAt = clock.monotonic()
        await clock.sleep(20)
        const waitMs = meter.take(clock.now())
        const seconds = waitMs === undefined ? undefined : retryAfterOf(limit, waitMs)
        await clock.sleep(waitMs === undefined ? takenMs : 20)
        refused += waitMs === undefined ? 0 : 1
        const retryAfterMs = seconds === undefined ? undefined : 1000 * Number(seconds)
        rate.reportResponse({ kind: waitMs === undefined ? 'ok' : 'throttled', of: 'retry', retryAfterMs, sentAt })
      }
    }
    for (let askers = 0; askers < 8 + 0.01 * takenMs; askers += 1) void call()
    await clock.advance(60_000)
    const before = meter.granted()
    refused = 0
    await clock.advance(600_000)
    expect((meter.granted() - before) / (600 * perSecond)).toBeGreaterThan(0.75)
    expect(refused / (600 * perSecond)).toBeLessThan(0.15)
  },
)

test.each([0.1, 1.5, 20, 333.3])('%s a second: a burst of one second, then as fast as it', async (max) => {
  const { clock, rate } = world({ max })
  let grants = 0
  for (let i = 0; i < max * 40; i += 1) void rate.acquire('list').then(() => (grants += 1))
  await clock.advance(30_000)
  const expected = Math.max(1, max) + max * 30
  expect(grants).toBeGreaterThan(expected * 0.93 - 1.5)
  expect(grants).toBeLessThanOrEqual(expected)
})

const reason = new Error('enough')

test('an aborted signal is refused, and who gives up while waiting takes nothing and leaves no timer', async () => {
  const { clock, rate } = world({ max: 1 })
  await expect(rate.acquire('retry', AbortSignal.abort(reason))).rejects.toBe(reason)
  rate.reportResponse({ kind: 'throttled', of: 'retry', retryAfterMs: 60_000, sentAt: clock.monotonic() })
  const cancel = new AbortController()
  const waiting = (['retry', 'list', 'confirm'] as const).map((kind) => rate.acquire(kind, cancel.signal))
  cancel.abort(reason)
  for (const wait of waiting) await expect(wait).rejects.toBe(reason)
  expect(clock.sleepers()).toBe(0)
  await clock.run(rate.acquire('list'), 60_010)
})

test('half of a queue gives up: the other half gets all, in its order', async () => {
  const { clock, rate } = world()
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
  expect(order).toEqual([...Array(10).keys(), ...Array.from({ length: 25 }, (_, i) => 11 + 2 * i)])
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('a grant that comes together with the abort is given back', async () => {
  const { clock, rate } = world({ max: 1 })
  await rate.acquire('retry')
  const cancel = new AbortController()
  const waiting = rate.acquire('retry', cancel.signal)
  waiting.catch(() => undefined)
  let isNextGranted = false
  void rate.acquire('retry').then(() => (isNextGranted = true))
  rate.release('retry')
  cancel.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await clock.settle()
  expect(isNextGranted).toBe(true)
})
