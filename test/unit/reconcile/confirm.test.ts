// Whether retries arrived: when it is looked, what counts as evidence, and what a platform may do to a look. @see design section 11
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/failure.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { TokenError } from '../../../src/platform/token-error.ts'
import { dayMs, hourMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { subscription } from '../../support/dispatching.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import type { ReconcileOptions } from '../../support/reconcile.ts'
import { after, holdingUnder, outcomesOf, since, type SkyCall, type SkyOptions, type World } from '../../support/sky.ts'

/** Everything goes out at once: these tests are about looks, not about the allowance. */
const atOnce: ReconcileOptions = { circuit: { enabled: false } }

const never = (): undefined => undefined
const isConfirm = ({ kind }: SkyCall): boolean => kind === 'confirm'

/** Records that are due, one every `everyMs`, the first of them a day old. */
function records(count: number, everyMs: number, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - dayMs + index * everyMs, ...fields }),
  )
}

/** Events of others, one every `everyMs`, from before the first of ours on. */
function others(count: number, everyMs: number): number[] {
  return Array.from({ length: count }, (_, index) => testNow - dayMs - minuteMs + index * everyMs)
}

/** Every `recovered` that was told is true. */
function expectTruth(world: World): void {
  for (const fact of world.facts) {
    if (fact.type === 'outcome' && fact.outcome === 'recovered') {
      expect(world.sky.shown(fact.id).status).toBe('successful')
    }
  }
}

/** Retries them, and expects all of them to be seen as recovered within a time. Gives the calls of confirming. */
async function expectRecovered(
  options: SkyOptions,
  withinMs: number,
  more: ReconcileOptions = atOnce,
): Promise<number> {
  await using world = holdingUnder(options, more)
  void world.start()
  await world.clock.advance(withinMs)
  expectTruth(world)
  expect(outcomesOf(world)).toEqual({ recovered: options.records.length })
  expect(world.backlog.awaited().size).toBe(0)
  return world.sky.counts().confirm
}

describe('when it looks', () => {
  test('0.5, 1, 2, 4 ... s after the PATCH, at most five minutes apart, until it gives up by a look after an hour', async () => {
    const [one] = records(1, 0)
    const id = one?.id ?? ''
    await using world = holdingUnder({ records: one === undefined ? [] : [one], deliver: never })
    void world.start()
    await world.clock.advance(3 * hourMs)
    const looks = since(world, id, isConfirm)
    const doubling = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256].map((seconds) => seconds * secondMs)
    for (const [index, at] of doubling.entries()) expect(Math.abs((looks[index] ?? 0) - at)).toBeLessThan(50)
    const gaps = looks.map((at, index) => at - (looks[index - 1] ?? 0))
    expect(Math.max(...gaps)).toBeLessThanOrEqual(5 * minuteMs)
    const last = looks.at(-1) ?? 0
    expect(last).toBeGreaterThanOrEqual(hourMs)
    expect(last).toBeLessThan(hourMs + 5 * minuteMs + secondMs)
    expect(looks.at(-2)).toBeLessThan(hourMs)
    expect(outcomesOf(world)).toEqual({ unknown: 1 })
  })

  test.each([1, 7, 30, 99])('%i slow ones sent together: none waits much longer than its time', async (count) => {
    const due = records(count, minuteMs)
    await using world = holdingUnder({ records: due, deliver: after(10_000) }, atOnce)
    void world.start()
    await world.clock.advance(minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: count })
    const seen = world.sky.calls.filter(isConfirm).map(({ at }) => at - (world.sky.calls[0]?.at ?? 0))
    // Delivered at 10 s, looked at at 16 s; up to 5 s more to have company.
    expect(Math.max(...seen)).toBeLessThan(22_000)
  })

  test('a lonely record costs one call for each look, by its event', async () => {
    const due = records(1, 0)
    await using world = holdingUnder({ records: due, delivered: others(5000, secondMs), deliver: after(3000) })
    void world.start()
    await world.clock.advance(minuteMs)
    const looks = world.sky.calls.filter(isConfirm)
    expect(looks).toHaveLength(4)
    expect(new Set(looks.map(({ query }) => query?.eventId))).toEqual(new Set([due[0]?.eventId]))
  })

  test('looks use the share of confirmations, and sweeps their own', async () => {
    await using world = holdingUnder({ records: records(300, secondMs), deliver: after(1000) }, atOnce)
    void world.start()
    await world.clock.advance(200)
    await world.sweep()
    await world.clock.advance(minuteMs)
    const lists = world.sky.calls.filter(({ kind }) => kind !== 'retry')
    expect(lists.filter(({ kind }) => kind === 'list').every(({ query }) => query?.status !== undefined)).toBe(true)
    expect(lists.filter(isConfirm).every(({ query }) => query?.status === undefined)).toBe(true)
    expect(lists.some(isConfirm)).toBe(true)
  })

  test('a record that another one shows by the way needs no look of its own', async () => {
    // Two hundred in two minutes, all of them shown by two pages.
    const calls = await expectRecovered({ records: records(200, 600), deliver: after(100) }, minuteMs)
    expect(calls).toBeLessThanOrEqual(6)
  })
})

describe('what is evidence', () => {
  test('never that it is not there', async () => {
    const due = records(120, secondMs)
    await using world = holdingUnder({ records: due, deliver: after(1000) }, atOnce)
    for (const { id } of due) world.sky.hidden.add(id)
    void world.start()
    await world.clock.advance(50 * minuteMs)
    await world.sweep()
    expect(outcomesOf(world)).toEqual({})
    expect(world.backlog.awaited().size).toBe(120)
    for (const { id } of due.slice(0, 60)) world.sky.hidden.delete(id)
    await world.clock.advance(2 * hourMs)
    expect(outcomesOf(world)).toEqual({ recovered: 60, unknown: 60 })
  })

  test.each([
    { meanwhile: 'processing', counts: 'end' },
    { meanwhile: 'processing', counts: 'start' },
    { meanwhile: 'failed', counts: 'end' },
  ] as const)('shown as $meanwhile meanwhile, counted at its $counts', async ({ counts, meanwhile }) => {
    const due = records(60, 10 * secondMs)
    const fails = new Set(due.filter((_, index) => index % 3 === 0).map(({ id }) => id))
    await using world = holdingUnder({
      records: due,
      meanwhile,
      counts,
      deliver: ({ id }) => ({ afterMs: 3000, status: fails.has(id) ? 'failed' : 'successful' }),
    })
    void world.start()
    await world.clock.advance(50 * secondMs)
    expectTruth(world)
    expect(outcomesOf(world)).toEqual({ recovered: 40, 'failed-again': 20 })
  })

  test('lost answers are followed like others', async () => {
    const lost = { result: 'unreachable', reason: 'timeout', sent: true, lost: true } as const
    await expectRecovered({ records: records(80, secondMs), deliver: after(4000), answer: () => lost }, minuteMs)
  })

  test('a record that has left the window is looked at all the same', async () => {
    const edge = testNow - 7 * dayMs + 5 * minuteMs
    const due = [0, 1, 2].map((index) => failedRecord({ eventLocal: edge + index * secondMs }))
    await using world = holdingUnder({ records: due, deliver: after(20 * minuteMs) }, atOnce)
    void world.start()
    for (let sweep = 0; sweep < 6; sweep += 1) {
      await world.clock.advance(10 * minuteMs)
      await world.sweep()
    }
    expect(outcomesOf(world)).toEqual({ recovered: 3 })
  })

  test.each(['successful', 'failed'] as const)('in the hour that daylight saving repeats: %s', async (status) => {
    // 2026-10-25 in Berlin: 03:00 becomes 02:00 at 01:00 UTC. Events at 02:30 to 02:58, both times; retried before, delivered after.
    const changeAt = Date.UTC(2026, 9, 25, 1)
    const local = Date.UTC(2026, 9, 25, 2, 30)
    const startMs = changeAt - 30 * secondMs
    const due = Array.from({ length: 30 }, (_, index) =>
      failedRecord({ eventLocal: local + index * 56 * secondMs, lastAttemptLocal: local - hourMs }),
    )
    await using world = holdingUnder(
      { records: due, zone: 'Europe/Berlin', deliver: () => ({ afterMs: 10 * minuteMs, status }) },
      {
        ...atOnce,
        startMs,
        policy: { window: { lookbackMs: 7 * dayMs, settleMs: 0, notBefore: undefined, expiryWarningMs: 0 } },
      },
    )
    void world.start()
    await world.clock.advance(9 * minuteMs)
    const retried = world.sky.counts().retry
    expect(retried).toBeGreaterThan(0)
    await world.clock.advance(13 * minuteMs)
    const kind = status === 'failed' ? 'failed-again' : 'recovered'
    expect(outcomesOf(world)[kind]).toBeGreaterThanOrEqual(retried)
    expectTruth(world)
  })
})

describe('giving up', () => {
  test('takes a look: while the platform can not be asked, nothing is given up', async () => {
    const due = records(5, minuteMs)
    const down = { is: true }
    await using world = holdingUnder(
      {
        records: due,
        deliver: after(90 * minuteMs),
        before: ({ kind }) => {
          if (down.is && kind === 'confirm') throw new PlatformFailure('server-error', 500, 'list')
        },
      },
      atOnce,
    )
    void world.start()
    await world.clock.advance(3 * hourMs)
    expect(outcomesOf(world)).toEqual({})
    down.is = false
    await world.clock.advance(11 * minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: 5 })
  })

  test('a record that is being delivered for two hours is unknown after one', async () => {
    await using world = holdingUnder({ records: records(1, 0), deliver: after(2 * hourMs) })
    void world.start()
    await world.clock.advance(65 * minuteMs + secondMs)
    expect(outcomesOf(world)).toEqual({ unknown: 1 })
  })
})

describe('events and their records', () => {
  test('several records of one event are seen with one call', async () => {
    const eventId = 'e0000000-0000-4000-8000-00000000abcd'
    const due = [1, 2, 3, 4].map((number) =>
      failedRecord({ eventLocal: testNow - dayMs, eventId, subscriptionId: subscription(number) }),
    )
    const calls = await expectRecovered({ records: due, delivered: others(20_000, 100), deliver: after(300) }, minuteMs)
    expect(calls).toBeLessThanOrEqual(2)
  })

  test('also when they fill more than one page', async () => {
    const eventId = 'e0000000-0000-4000-8000-00000000abce'
    const due = Array.from({ length: 250 }, (_, number) =>
      failedRecord({ eventLocal: testNow - dayMs, eventId, subscriptionId: subscription(number) }),
    )
    const calls = await expectRecovered(
      { records: due, delivered: others(500_000, 10), deliver: after(100) },
      5 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(25)
  })

  test('a record without an event is found in its second', async () => {
    const due = records(1, 0, { eventId: '' })
    const calls = await expectRecovered(
      { records: due, delivered: others(5000, secondMs), deliver: after(300) },
      minuteMs,
    )
    expect(calls).toBe(1)
  })

  test('fifty of them in one second cost one listing, not fifty', async () => {
    const due = records(50, 10, { eventId: '' })
    const calls = await expectRecovered({ records: due, deliver: after(3000) }, minuteMs)
    // Looks at 0.5, 1, 2 and 4 s.
    expect(calls).toBeLessThanOrEqual(12)
  })

  test('hundreds of them over a minute share their listings as others do', async () => {
    const due = records(300, 200, { eventId: '' })
    const calls = await expectRecovered({ records: due, deliver: after(100) }, 10 * minuteMs)
    expect(calls).toBeLessThanOrEqual(30)
  })
})

describe('platforms that read the list otherwise', () => {
  test('eventId is ignored: a lonely record is found in its second', async () => {
    const calls = await expectRecovered(
      { records: records(1, 0), delivered: others(50_000, 1000), deliver: after(300), ignores: ['eventId'] },
      5 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(15)
  })

  test('eventId is ignored: twenty scattered records', async () => {
    const calls = await expectRecovered(
      {
        records: records(20, 20 * minuteMs),
        delivered: others(50_000, 1000),
        deliver: after(300),
        ignores: ['eventId'],
      },
      15 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(20 * 15)
  })

  test('From and To are ignored: they are looked up one by one', async () => {
    const calls = await expectRecovered(
      {
        records: records(200, secondMs),
        delivered: others(30_000, 1000),
        deliver: after(300),
        ignores: ['from', 'to'],
      },
      15 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(200 * 3)
  })

  const totals = ['true', 'none', 'zero', 'half', 'double', 'huge'] as const
  const sizes = ['own', 'asked', 'none'] as const
  test.each(totals.flatMap((total) => sizes.map((tellsSize) => ({ total, tellsSize }))))(
    'totals $total, size $tellsSize, pages of 20: nothing is lost',
    async ({ tellsSize, total }) => {
      await expectRecovered(
        {
          records: records(300, 250),
          delivered: others(1000, 150),
          deliver: after(300),
          maxPageSize: 20,
          totals: total,
          tellsSize,
        },
        30 * minuteMs,
      )
    },
  )

  test.each(totals)('totals %s with pages of 100: all within a few minutes', async (total) => {
    await expectRecovered({ records: records(300, 250), deliver: after(300), totals: total }, 5 * minuteMs)
  })

  test('all of one second, more than a page', async () => {
    const calls = await expectRecovered({ records: records(1000, 0), deliver: after(300) }, 5 * minuteMs)
    expect(calls).toBeLessThanOrEqual(100)
  })

  test('rows that shift while they are paged', async () => {
    await expectRecovered(
      { records: records(300, 250), delivered: others(1000, 150), deliver: after(300), order: 'unstable' },
      20 * minuteMs,
    )
  })
})

describe('failures', () => {
  const failure = (status: number): PlatformFailure => {
    const reasons = { 401: 'unauthorized', 403: 'forbidden', 429: 'throttled' } as const
    return new PlatformFailure(reasons[status as keyof typeof reasons] ?? 'server-error', status, 'list')
  }

  test.each([
    { name: '5xx', count: 500, error: () => failure(500) },
    { name: '401', count: 500, error: () => failure(401) },
    { name: '403', count: 500, error: () => failure(403) },
    { name: '429', count: 500, error: () => failure(429) },
    { name: 'no token', count: 500, error: () => new TokenError('transient', 'no token') },
    { name: '5xx, one record', count: 1, error: () => failure(500) },
    { name: '401, one record', count: 1, error: () => failure(401) },
    { name: 'no token, two records far apart', count: 2, error: () => new TokenError('rejected', 'no token') },
  ])('on every look for ten minutes: $name: it backs off, loses nothing and goes on', async ({ count, error }) => {
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
    expect(world.sky.counts().confirm).toBeLessThanOrEqual(60)
    broken.is = false
    await world.clock.advance(10 * minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: count })
    expectTruth(world)
  })

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
    const due = records(3000, 100)
    let listings = 0
    const calls = await expectRecovered(
      {
        records: due,
        deliver: after(5000),
        before: ({ kind, query }) => {
          if (kind === 'confirm' && query?.eventId === undefined && (query?.page ?? 0) > 0 && (listings += 1) === 3) {
            throw failure(500)
          }
        },
      },
      10 * minuteMs,
    )
    expect(calls).toBeLessThanOrEqual(600)
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

  test('a bug ends it at once', async () => {
    await using world = holdingUnder({
      records: records(1, 0),
      before: ({ kind }) => {
        if (kind === 'confirm') throw new TypeError('a bug')
      },
    })
    void world.start()
    const ended = world.confirmer.run(world.stop.signal).catch((error: unknown) => error)
    await world.clock.advance(minuteMs)
    expect(await ended).toBeInstanceOf(TypeError)
  })
})

describe('stopping', () => {
  test('in the midst of a round leaves nothing behind', async () => {
    const world = holdingUnder({ records: records(500, minuteMs), deliver: never, latencyMs: 400 }, atOnce)
    void world.start()
    const ended = world.confirmer.run(world.stop.signal).catch((error: unknown) => error)
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
