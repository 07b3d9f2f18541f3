// What is learned of the server's clock: exact where it can be, slow to accept what is odd, quick to follow what is true.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createServerClock, type ServerClock } from '../../../src/platform/server-clock.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

interface World {
  clock: VirtualClock
  server: ServerClock
  /** Lets time pass, then learns from an exchange in which the server's clock is `ahead` ms of the host's as it was at first. */
  hear(ahead: number, exchange?: Exchange): Promise<number>
  /** How far the server is ahead of the host's first clock, as learned. */
  learned(): number
}

interface Exchange {
  /** Time before the exchange, and its two ways, in ms. */
  rest?: number
  before?: number
  after?: number
  headers?: Record<string, string>
}

function world(): World {
  const clock = createVirtualClock()
  const offset = clock.now() - clock.monotonic()
  const first = (): number => clock.monotonic() + offset
  const server = createServerClock(clock)
  return {
    clock,
    server,
    async hear(ahead, { rest = 1000, before = 20, after = 20, headers } = {}) {
      await clock.advance(rest)
      const sentAt = clock.monotonic()
      await clock.advance(before)
      const date = new Date(first() + ahead).toUTCString()
      await clock.advance(after)
      return server.learn({ headers: headers ?? { date }, sentAt, receivedAt: clock.monotonic() }).movedMs
    },
    learned: () => server.now() - first(),
  }
}

/** How exactly one answer shows the time, in ms: to half of the second that is cut off, and of its way. */
const second = 520

test('before an answer the server has the time at which the host started, up to 5 s earlier', async () => {
  const { clock, server } = world()
  await clock.advance(60_000)
  const now = clock.now()
  // The host's clock is set: that shows, and moves nothing.
  clock.jump(3_600_000)
  expect(server.isKnown()).toBe(false)
  expect(server.now()).toBe(now)
  expect(server.earliestNow()).toBe(now - 5000)
  expect(server.aheadOfHostMs()).toBe(-3_600_000)
})

describe('one answer', () => {
  test('gives the interval of the design: the cut-off second plus the way there and back', async () => {
    const { clock, hear, server } = world()
    const date = new Date(clock.now() + 5000).toUTCString()
    await hear(0, { rest: 0, before: 80, after: 0, headers: { date } })
    expect(server.earliestNow()).toBe(Date.parse(date))
    expect(server.now()).toBe(Date.parse(date) + (1000 + 80) / 2)
    expect(server.isKnown()).toBe(true)
  })

  test.each([
    ['missing', {}],
    ['a word', { date: 'yesterday' }],
    ['beyond the year 9999: HTTP writes four digits', { date: 'Sat, 13 Sep 275760 00:00:00 GMT' }],
    ['from a cache', { date: 'Thu, 15 Jan 2026 12:00:00 GMT', age: '3600' }],
  ])('with a Date that is %s says nothing', async (_, headers) => {
    const { hear, server } = world()
    expect(await hear(0, { headers })).toBe(0)
    expect(server.isKnown()).toBe(false)
  })
})

describe('many answers', () => {
  /** How far ahead each says that the server is; what is learned in the end, and by how much the last one moved it. */
  test.each([
    ['the first, with the host’s time', [0], 0, 0],
    ['the first, a little behind', [-40], -40, 0],
    ['the first, years ahead', [86_400_000 * 365], 86_400_000 * 365, 86_400_000 * 365],
    ['one that agrees', [700, 700], 700, 0],
    ['a small change', [0, 30_000], 30_000, 30_000],
    ['a jump', [0, 63_000], 0, 0],
    ['a jump, twice', [0, 63_000, 63_000], 0, 0],
    ['a jump, three times', [0, 63_000, 63_000, 63_000], 63_000, 63_000],
    ['a jump back, three times', [0, -3_600_000, -3_600_000, -3_600_000], -3_600_000, 3_600_000],
    ['a jump that another answer denies', [0, 600_000, 600_000, 0, 600_000, 600_000], 0, 0],
    ['a jump to another time with each', Array.from({ length: 50 }, (_, i) => 100_000 * i), 0, 0],
  ])('%s', async (_, aheads, expected, expectedMove) => {
    const { hear, learned, server } = world()
    let moved = NaN
    for (const ahead of aheads) moved = await hear(ahead)
    expect(Math.abs(learned() - expected)).toBeLessThanOrEqual(second)
    expect(Math.abs(server.aheadOfHostMs() - expected)).toBeLessThanOrEqual(second)
    expect(Math.abs(moved - expectedMove)).toBeLessThanOrEqual(2 * second)
  })

  test('are intersected: answers at different parts of the second make it exact', async () => {
    const { hear, learned, server } = world()
    for (let answers = 0; answers < 10; answers += 1) await hear(777, { rest: 2_090 })
    expect(Math.abs(learned() - 777)).toBeLessThan(100)
    expect(server.now() - server.earliestNow()).toBeLessThan(100)
  })

  test('a jump that the host’s own clock shows too is accepted at once: the process was suspended', async () => {
    const { clock, hear, learned } = world()
    await hear(0)
    clock.jump(3_600_000)
    await hear(3_600_000)
    expect(Math.abs(learned() - 3_600_000)).toBeLessThanOrEqual(second)
    // One that it does not show still needs three answers.
    await hear(7_200_000)
    expect(Math.abs(learned() - 3_600_000)).toBeLessThanOrEqual(second)
  })

  test('a host clock that is set moves nothing, and shows', async () => {
    const { clock, hear, learned, server } = world()
    await hear(200)
    clock.jump(3_600_000)
    await hear(200)
    expect(Math.abs(learned() - 200)).toBeLessThanOrEqual(second)
    expect(Math.abs(server.aheadOfHostMs() - (200 - 3_600_000))).toBeLessThanOrEqual(second)
  })

  test('a cache that hides its Age and repeats one Date is not accepted over a minute', async () => {
    const { clock, hear, learned } = world()
    await hear(0)
    const headers = { date: new Date(clock.now() - 600_000).toUTCString() }
    for (let answers = 0; answers < 20; answers += 1) await hear(0, { rest: 5_000, headers })
    expect(Math.abs(learned())).toBeLessThanOrEqual(second)
  })
})

test('the earliest time is never later than that of a server whose clock drifts, and the estimate never far from it', async () => {
  const way = fc.integer({ min: 0, max: 30_000 })
  const exchange = fc.record({ rest: fc.integer({ min: 0, max: 900_000 }), before: way, after: way })
  const scenario = fc.record({
    base: fc.integer({ min: -1e8, max: 1e8 }),
    ppm: fc.integer({ min: -100, max: 100 }),
    exchanges: fc.array(exchange, { minLength: 1, maxLength: 8 }),
  })
  await fc.assert(
    fc.asyncProperty(scenario, async ({ base, ppm, exchanges }) => {
      const { clock, hear, server } = world()
      const start = clock.monotonic()
      const offset = clock.now() - start
      const ahead = (): number => base + ((clock.monotonic() - start) * ppm) / 1e6
      const truth = (): number => clock.monotonic() + offset + ahead()
      for (const { rest, ...ways } of exchanges) {
        await clock.advance(rest)
        await hear(ahead(), { rest: 0, ...ways })
        expect(server.earliestNow()).toBeLessThanOrEqual(truth())
        expect(Math.abs(server.now() - truth())).toBeLessThanOrEqual(30_500 + 100)
      }
      await clock.advance(600_000)
      expect(server.earliestNow()).toBeLessThanOrEqual(truth())
    }),
    { numRuns: 60 },
  )
})
