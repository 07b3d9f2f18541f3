// Looks that fail, and looks that are cut off: nothing is lost, no host is hammered. @see docs/architecture.md "Outcomes"
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { TokenError } from '../../../src/platform/auth/token-answer.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { hourMs, learn, listingOf, minuteMs, secondMs } from '../../support/backlog.ts'
import {
  atOnce,
  expectRecovered,
  expectTruth,
  isConfirm,
  never,
  others,
  records,
  startLooking,
} from '../../support/confirming.ts'
import { after, holdingUnder, outcomesOf, under, type SkyCall } from '../../support/sky.ts'

describe('failures', () => {
  const failure = (status: number): PlatformFailure => {
    const reasons = { 401: 'unauthorized', 403: 'forbidden', 429: 'throttled' } as const
    return new PlatformFailure(reasons[status as keyof typeof reasons] ?? 'server-error', status, 'list')
  }

  /** Without a token nothing is sent, and the backoff stays within 10 s, less the jitter. */
  const unsentCalls = 90

  test.each([
    { name: '5xx', count: 500, error: () => failure(500) },
    { name: '401', count: 500, error: () => failure(401) },
    { name: '403', count: 500, error: () => failure(403) },
    { name: '429', count: 500, error: () => failure(429) },
    {
      name: 'no token',
      count: 500,
      error: () => new TokenError('no token', { kind: 'transient', reason: 'connection' }),
    },
    { name: '5xx, one record', count: 1, error: () => failure(500) },
    { name: '401, one record', count: 1, error: () => failure(401) },
    {
      name: 'no token, two records far apart',
      count: 2,
      error: () => new TokenError('no token', { kind: 'rejected', reason: 'unauthorized' }),
      maxCalls: 2 * unsentCalls,
    },
  ])(
    'on every look for ten minutes: $name: it backs off, loses nothing and goes on',
    async ({ count, error, maxCalls = 90 }) => {
      const broken = { is: true }
      const due = records(count, count === 2 ? hourMs : 5 * secondMs)
      await using world = holdingUnder(
        {
          records: due,
          deliver: after(100),
          before: ({ kind }) => {
            if (broken.is && kind === 'confirm') throw error()
          },
        },
        atOnce,
      )
      void world.start()
      await world.clock.advance(10 * minuteMs)
      expect(outcomesOf(world)).toEqual({})
      expect(world.sky.counts().confirm).toBeGreaterThan(3)
      expect(world.sky.counts().confirm).toBeLessThanOrEqual(maxCalls)
      broken.is = false
      await world.clock.advance(10 * minuteMs)
      expect(outcomesOf(world)).toEqual({ recovered: count })
      expectTruth(world)
    },
  )

  test('on the listing of spans alone: each is looked up', async () => {
    const due = records(200, 5 * secondMs)
    const calls = await expectRecovered(
      {
        records: due,
        deliver: after(100),
        before: ({ kind, query }) => {
          if (kind === 'confirm' && query?.eventId === undefined) throw failure(500)
        },
      },
      5 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(250)
  })

  test('once on a listing of thousands: it does not cost a look-up for each of them', async () => {
    async function callsWithFailureOn(failing: number): Promise<number> {
      let failed = false
      const before = ({ kind, query }: SkyCall): void => {
        if (kind !== 'confirm' || query?.page !== failing || failed) return
        failed = true
        throw failure(500)
      }
      const calls = await expectRecovered(
        { records: records(2000, 100), deliver: after(30_000), before },
        10 * minuteMs,
      )
      expect(failed).toBe(failing >= 0)
      return calls
    }
    const without = await callsWithFailureOn(-1)
    expect(await callsWithFailureOn(15)).toBeLessThanOrEqual(without + 100)
  })

  test('on the look-ups of one event: the others are not held up, and it is not asked for all the time', async () => {
    const due = records(10, hourMs)
    const bad = due[4]
    const isBad = ({ kind, query }: SkyCall): boolean => kind === 'confirm' && query?.eventId === bad?.eventId
    const broken = { is: true }
    await using world = holdingUnder(
      {
        records: due,
        delivered: others(40_000, secondMs),
        deliver: after(100),
        before: (call) => {
          if (broken.is && isBad(call)) throw failure(500)
        },
      },
      atOnce,
    )
    void world.start()
    await world.clock.advance(15 * secondMs)
    expect(outcomesOf(world)).toEqual({ recovered: 9 })
    await world.clock.advance(2 * hourMs)
    expect(world.sky.calls.filter(isBad).length).toBeLessThanOrEqual(45)
    expect(outcomesOf(world)).toEqual({ recovered: 9 })
    broken.is = false
    await world.clock.advance(10 * minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: 10 })
  })

  test('on the look-ups of one event for long: records that are retried later are not held up by it', async () => {
    const due = records(41, 20 * minuteMs)
    const bad = due.at(-1)
    const late = due.slice(0, -1)
    const before = ({ kind, query }: SkyCall): void => {
      if (kind === 'confirm' && query?.eventId === bad?.eventId) throw failure(500)
    }
    await using world = under(
      { records: due, delivered: others(60_000, secondMs), deliver: after(100), before },
      atOnce,
    )
    void world.start()
    const send = (one: WebhookRecord): void => {
      const listing = listingOf([one], { askedAt: world.clock.monotonic(), complete: false })
      learn(world.backlog, listing, world.clock.now())
      world.planner.changed()
    }
    if (bad !== undefined) send(bad)
    await world.clock.advance(10 * minuteMs)
    for (const [index, one] of late.entries()) {
      send(one)
      await world.clock.advance(15 * secondMs)
      expect([index, outcomesOf(world)]).toEqual([index, { recovered: index + 1 }])
    }
  })

  test('a bug ends it at once', async () => {
    await using world = holdingUnder({
      records: records(1, 0),
      before: ({ kind }) => {
        if (kind === 'confirm') throw new TypeError('a bug')
      },
    })
    const ended = startLooking(world)
    await world.clock.advance(minuteMs)
    expect(await ended).toBeInstanceOf(TypeError)
  })
})

describe('stopping', () => {
  test('in the midst of a round leaves nothing behind', async () => {
    const world = holdingUnder({ records: records(500, minuteMs), deliver: never, latencyMs: 400 }, atOnce)
    const ended = startLooking(world)
    while (!world.sky.calls.some(isConfirm)) await world.clock.advance(50)
    await world.clock.advance(100)
    const reason = new Error('stopped by the test')
    world.stop.abort(reason)
    world.kill.abort(reason)
    await world.clock.settle()
    expect(await ended).toBe(reason)
    await world[Symbol.asyncDispose]()
    expect(world.clock.sleepers()).toBe(0)
    expect(outcomesOf(world)).toEqual({})
  })
})
