// The circuits with everything around it: retries, looks and the slow start over a platform that delivers later. @see docs/architecture.md "Circuits"
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { hourMs, minuteMs, secondMs, testNow } from '../../support/backlog.ts'
import { isConfirm, records } from '../../support/confirming.ts'
import { subscription } from '../../support/dispatching.ts'
import { holdingUnder, outcomesOf, type Delivery, type SkyOptions, type World } from '../../support/sky.ts'

const retriesOf = (world: World): number => world.sky.counts().retry

/** Dead for a while, then well. */
function downFor(downMs: number, takesMs: number): NonNullable<SkyOptions['deliver']> {
  return (_, now): Delivery => ({ afterMs: takesMs, status: now < testNow + downMs ? 'failed' : 'successful' })
}

describe('a dead receiver', () => {
  test.each([
    { takesMs: 0, name: 'before the answer' },
    { takesMs: 100, name: 'at once' },
    { takesMs: 2000, name: 'after two seconds' },
    { takesMs: 30_000, name: 'by a timeout of half a minute' },
  ])(
    'of 1,000 records and 20 subscriptions, failing $name: at most nine each before the first pause',
    async ({ takesMs }) => {
      const due = records(1000, secondMs).map((record, index) => ({
        ...record,
        subscriptionId: subscription(index % 20),
      }))
      await using world = holdingUnder({ records: due, deliver: downFor(hourMs, takesMs) })
      void world.start()
      await world.clock.advance(minuteMs)
      expect(retriesOf(world)).toBeGreaterThanOrEqual(5 * 20)
      expect(retriesOf(world)).toBeLessThanOrEqual(9 * 20)
      await world.clock.advance(59 * minuteMs)
      // Nine, and one for each of the nine pauses of an hour.
      expect(retriesOf(world)).toBeLessThanOrEqual((9 + 9) * 20)
      expect(outcomesOf(world)['recovered']).toBeUndefined()
    },
  )

  test('down for a minute: all is recovered soon after, each with hardly more than one retry', async () => {
    await using world = holdingUnder({ records: records(3000, secondMs), deliver: downFor(minuteMs, 1000) })
    void world.start()
    await world.clock.advance(minuteMs)
    const hits = retriesOf(world)
    expect(hits).toBeLessThanOrEqual(20)
    await world.clock.advance(4 * minuteMs)
    expect(outcomesOf(world)['recovered']).toBe(3000)
    expect(retriesOf(world)).toBe(3000 + hits)
    expect(world.circuits.counts(world.clock.monotonic()).closed).toBe(1)
  })

  test('a probe without an outcome holds nothing up', async () => {
    const deliver = (_: WebhookRecord, now: number): Delivery | undefined => {
      if (now < testNow + 20 * secondMs) return { afterMs: 100, status: 'failed' }
      return now < testNow + 2 * minuteMs ? undefined : { afterMs: 100, status: 'successful' }
    }
    await using world = holdingUnder({ records: records(200, minuteMs), deliver })
    void world.start()
    await world.clock.advance(10 * minuteMs)
    expect(outcomesOf(world)['recovered']).toBeGreaterThanOrEqual(198)
  })
})

describe('beside a dead one', () => {
  test.each([
    { takesMs: 0, wellMs: 10_000 },
    { takesMs: 10_000, wellMs: 100 },
    { takesMs: undefined, wellMs: 500 },
  ])('(outcome after $takesMs ms) the other subscription recovers (each after $wellMs ms)', async (times) => {
    const dead = records(500, secondMs, { subscriptionId: subscription(1) })
    const well = records(500, secondMs, { subscriptionId: subscription(2) })
    const deliver = ({ subscriptionId }: WebhookRecord): Delivery | undefined => {
      if (subscriptionId === subscription(2)) return { afterMs: times.wellMs, status: 'successful' }
      return times.takesMs === undefined ? undefined : { afterMs: times.takesMs, status: 'failed' }
    }
    await using world = holdingUnder({ records: [...dead, ...well], deliver })
    void world.start()
    await world.clock.advance(6 * minuteMs)
    expect(outcomesOf(world)['recovered']).toBe(500)
  })
})

describe('poison', () => {
  test.each([0, 90, 190])(
    'ten from place %i on among 200: one pause at most, the others are through in two minutes',
    async (from) => {
      const due = records(200, secondMs)
      const poison = new Set(due.slice(from, from + 10).map(({ id }) => id))
      const deliver = ({ id }: WebhookRecord): Delivery => ({
        afterMs: 300,
        status: poison.has(id) ? 'failed' : 'successful',
      })
      await using world = holdingUnder({ records: due, deliver })
      void world.start()
      await world.clock.advance(2 * minuteMs)
      expect(outcomesOf(world)['recovered']).toBe(190)
      const opened = (): number => world.facts.filter((fact) => fact.type === 'circuit' && fact.to === 'open').length
      expect(opened()).toBeLessThanOrEqual(1)
      // They are retried again and again, and still are no news of the receiver.
      await world.clock.advance(3 * hourMs)
      expect(opened()).toBeLessThanOrEqual(1)
      expect(world.sky.calls.some(isConfirm)).toBe(true)
    },
  )

  test('refused with 422 they cost none', async () => {
    const due = records(200, secondMs)
    const poison = new Set(due.slice(0, 100).map(({ id }) => id))
    const deliver = ({ id }: WebhookRecord): Delivery =>
      poison.has(id) ? { afterMs: 300, status: 'failed', code: 422 } : { afterMs: 300, status: 'successful' }
    await using world = holdingUnder({ records: due, deliver })
    void world.start()
    // Five places, and two checks for each that is refused: two of these a second.
    await world.clock.advance(2 * minuteMs)
    expect(outcomesOf(world)['recovered']).toBe(100)
    expect(outcomesOf(world)['failed-again']).toBeGreaterThanOrEqual(100)
    expect(world.facts.filter(({ type }) => type === 'circuit')).toEqual([])
  })
})
