// Whether retries arrived: when it is looked, what counts as evidence, and how a platform may read a list. @see docs/architecture.md "Outcomes"
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { dayMs, hourMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
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
import { subscription } from '../../support/dispatching.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { after, holdingUnder, outcomesOf, since } from '../../support/sky.ts'

describe('when it looks', () => {
  test('0.5, 1, 2, 4 ... s after the PATCH, at most five minutes apart, until it gives up by a look after an hour', async () => {
    const [one] = records(1, 0)
    const id = one?.id ?? ''
    await using world = holdingUnder({ records: one === undefined ? [] : [one], deliver: never })
    void world.start()
    await world.clock.advance(3 * hourMs)
    const looks = since(world, id, isConfirm)
    const doubling = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256].map((seconds) => seconds * secondMs)
    // A round begins a second after the one before: the second check comes at 1.5 s.
    for (const at of doubling) expect(looks.some((look) => look >= at && look <= 1.5 * at + 50)).toBe(true)
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
    expect(world.backlog.outcomes.pending().size).toBe(120)
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
        policy: { window: { lookback: 7 * dayMs, settle: 0, notBefore: undefined, expiryWarning: 0 } },
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
  test.each([
    ...totals.map((total) => ({ total, tellsSize: 'own' as const })),
    { total: 'true' as const, tellsSize: 'asked' as const },
    { total: 'true' as const, tellsSize: 'none' as const },
  ])('totals $total, size $tellsSize, pages of 20: nothing is lost', async ({ tellsSize, total }) => {
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
  })

  test.each(totals)('totals %s with pages of 100: all within a few minutes', async (total) => {
    await expectRecovered({ records: records(300, 250), deliver: after(300), totals: total }, 5 * minuteMs)
  })

  test.each(totals)('totals %s, and a full first page that shows all that is looked for: it goes on', async (total) => {
    const crowd = Array.from({ length: 500 }, () => testNow - dayMs + secondMs)
    await using world = holdingUnder(
      { records: records(2, 1), delivered: crowd, deliver: after(300), totals: total },
      atOnce,
    )
    const ended = startLooking(world)
    await world.clock.advance(minuteMs)
    expect(outcomesOf(world)).toEqual({ recovered: 2 })
    world.stop.abort('the end of the test')
    expect(await world.clock.run(ended)).toBe('the end of the test')
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
