// How often a receiver is hit that is dead, and that one who is well is not held up: the circuits of docs/architecture.md "Circuits", in its own time.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createCircuits,
  type CircuitEvent,
  type Ticket,
  type ReceiverVerdict,
} from '../../../src/reconcile/retry/circuits.ts'
import { defaultCircuit, deliveries, failing, linesOf, type Fate } from '../../support/deliveries.ts'

const minuteMs = 60_000
const hourMs = 3_600_000

/** Probes of a receiver that stays dead, up to a time: pauses of 30 s doubling to 10 min, each followed by one that takes `takesMs`. */
function probesUntil(time: number, firstPauseAt: number, takesMs: number): number {
  let at = firstPauseAt
  let count = 0
  for (let pause = 30_000; at + pause <= time; pause = Math.min(600_000, pause * 2)) {
    at += pause + takesMs
    count += 1
  }
  return count
}

test('a record counts once, in upper or lower case', () => {
  const events: CircuitEvent[] = []
  const circuits = createCircuits({ ...defaultCircuit, failureRatio: 0.5 }, (event) => events.push(event))
  const outcome = (id: string, verdict: ReceiverVerdict, now: number): void => {
    circuits.settle(circuits.take({ id, subscriptionId: 's', eventType: 't' }, now), verdict, now)
  }
  outcome('a1', 'recovered', 1)
  outcome('b2', 'recovered', 2)
  for (let now = 3; now < 30; now += 1) outcome(now % 2 === 0 ? 'c3' : 'C3', 'failed-again', now)
  expect(events).toEqual([])
})

describe('a dead receiver', () => {
  test.each([
    { subscriptions: 1, takesMs: 100 },
    { subscriptions: 1, takesMs: 30_000 },
    { subscriptions: 10, takesMs: 5000 },
    { subscriptions: 20, takesMs: 20_000 },
  ])(
    'with $subscriptions subscriptions, $takesMs ms each: nine hits each, then one a pause each',
    ({ subscriptions, takesMs }) => {
      const world = deliveries(linesOf(subscriptions, 1000, failing(takesMs)))
      world.until(takesMs + 29_999)
      expect(world.hits).toHaveLength(9 * subscriptions)
      world.until(2 * hourMs)
      const hits = Object.values(Object.groupBy(world.hits, ({ subscriptionId }) => subscriptionId))
      for (const of of hits) {
        // A first probe may wait a second for each of the others.
        expect(of?.length).toBeGreaterThanOrEqual(9 + probesUntil(2 * hourMs, takesMs, takesMs + 1000 * subscriptions))
        expect(of?.length).toBeLessThanOrEqual(9 + probesUntil(2 * hourMs, takesMs, takesMs))
      }
    },
  )

  test.each([1, 2, 5, 10, 20])('for a day, with %i subscriptions: no more than one a pause each', (subscriptions) => {
    const world = deliveries(linesOf(subscriptions, 100_000, failing(100)))
    world.until(24 * hourMs)
    expect(world.hits.length).toBeLessThanOrEqual(subscriptions * (9 + probesUntil(24 * hourMs, 0, 0)))
  })

  test('first probes of all circuits together go one a second, the longest waiting first', () => {
    const world = deliveries(linesOf(50, 1000, failing(100)))
    world.until(30_099)
    const first = world.hits.length
    world.until(85_000)
    const probes = world.hits.slice(first)
    expect(probes).toHaveLength(50)
    expect(new Set(probes.map(({ subscriptionId }) => subscriptionId)).size).toBe(50)
    const gaps = probes.slice(1).map(({ at }, index) => at - (probes[index]?.at ?? 0))
    expect(new Set(gaps)).toEqual(new Set([1000]))
    world.until(4 * hourMs)
    // Each has its turn: none waits while others are probed twice.
    const counts = Object.values(Object.groupBy(world.hits.slice(first), (hit) => hit.subscriptionId)).map(
      (of) => of?.length ?? 0,
    )
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1)
  })

  test('for any order and time of outcomes, and however many subscriptions', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 60_000 }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: 20 }),
        (times, subscriptions, initialLimit) => {
          const fate = (number: number, at: number): Fate => ({
            afterMs: times[(number + Math.floor(at)) % times.length] ?? 1,
            verdict: 'failed-again',
          })
          const world = deliveries(linesOf(subscriptions, 1000, fate), { initialLimit })
          world.until(hourMs)
          const hits = Object.values(Object.groupBy(world.hits, ({ subscriptionId }) => subscriptionId))
          for (const of of hits) {
            expect(of?.length).toBeLessThanOrEqual(2 * initialLimit - 1 + probesUntil(hourMs, 0, 0))
            const before = of?.filter(({ at }) => at < 30_000).length
            expect(before).toBeLessThanOrEqual(2 * initialLimit - 1)
          }
        },
      ),
      { numRuns: 100 },
    )
  })

  test('that comes back: the first probe finds it, then it doubles each round; the next pause is a short one again', () => {
    const upAt = 5 * minuteMs
    const downAt = 20 * minuteMs
    const world = deliveries(
      linesOf(1, 1_000_000, (_, at) => ({
        afterMs: 1000,
        verdict: at >= upAt && at < downAt ? 'recovered' : 'failed-again',
      })),
      { maxLimit: 50 },
    )
    world.until(downAt - 1)
    const first = world.hits.find(({ at }) => at >= upAt)?.at ?? 0
    // It is known to be dead after two seconds; pauses end at 32, 93, 214, 455 s.
    expect(first).toBe(455_000)
    const rounds = [0, 1, 2, 3].map((round) => {
      const from = first + round * 1000
      return world.hitsBetween(from, from + 1000).length
    })
    expect(rounds).toEqual([1, 2, 4, 8])
    world.until(downAt + 10 * minuteMs)
    const opened = world.facts.filter(({ at, to }) => at >= downAt && to === 'open')
    expect(opened[0]?.pauseMs).toBe(30_000)
  })

  test('outcomes of before the pause move nothing, be they good or bad', () => {
    // Ten fail at once, and ninety that were sent before follow in the pause and after the probe.
    const facts: CircuitEvent[] = []
    const circuits = createCircuits(defaultCircuit, (fact) => facts.push(fact))
    const take = (id: string, at: number): Ticket =>
      circuits.take({ id, subscriptionId: 'a', eventType: 'transfer' }, at)
    const warm = Array.from({ length: 90 }, (_, index) => take(`warm-${index}`, 0))
    for (const ticket of warm) circuits.settle(ticket, 'recovered', 1)
    const late = Array.from({ length: 50 }, (_, index) => take(`late-${index}`, 2))
    const early = Array.from({ length: 50 }, (_, index) => take(`early-${index}`, 2))
    for (const ticket of early) circuits.settle(ticket, 'failed-again', 3)
    const told = facts.length
    for (const ticket of late.slice(0, 20)) circuits.settle(ticket, 'recovered', 4)
    expect(facts).toHaveLength(told)
    circuits.turn(31_000)
    const view = (now: number): [number | undefined, number | undefined] => {
      const [first] = circuits.views(now)
      return [first?.limit, first?.outstanding]
    }
    expect(view(31_000)).toEqual([1, 0])
    const probe = take('probe', 31_000)
    for (const ticket of late.slice(20)) circuits.settle(ticket, 'failed-again', 32_000)
    expect(view(32_000)).toEqual([1, 1])
    circuits.settle(probe, 'recovered', 33_000)
    expect(view(33_000)).toEqual([2, 0])
  })
})

describe('poison records', () => {
  /** A healthy subscription with poison at these places of its queue; the pauses that it cost. */
  function pausesWith(poison: ReadonlySet<number>, takesMs: (number: number) => number): number {
    const world = deliveries([
      {
        id: 'healthy',
        due: 200,
        fate: (number) => ({ afterMs: takesMs(number), verdict: poison.has(number) ? 'failed-again' : 'recovered' }),
      },
    ])
    world.until(2 * hourMs)
    expect(world.recovered('healthy')).toBe(190)
    return world.facts.filter(({ to }) => to === 'open').length
  }

  test('ten among two hundred cost one pause, and one for each of five that become probes, for any order', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uniqueArray(fc.integer({ min: 0, max: 199 }), { minLength: 10, maxLength: 10 }),
          // Close together they do the most harm.
          fc.uniqueArray(fc.integer({ min: 0, max: 14 }), { minLength: 10, maxLength: 10 }),
        ),
        fc.array(fc.integer({ min: 10, max: 5000 }), { minLength: 1, maxLength: 20 }),
        (places, times) => {
          const pauses = pausesWith(new Set(places), (number) => times[number % times.length] ?? 10)
          expect(pauses).toBeLessThanOrEqual(6)
        },
      ),
      { numRuns: 100 },
    )
  })

  test.each([
    { name: 'first, the tenth as probe', places: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], max: 2 },
    { name: 'after one that arrives', places: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] },
    { name: 'nine first and one right after', places: [0, 1, 2, 3, 4, 5, 6, 7, 8, 10] },
    { name: 'last', places: [190, 191, 192, 193, 194, 195, 196, 197, 198, 199] },
    { name: 'every second', places: [0, 2, 4, 6, 8, 10, 12, 14, 16, 18] },
  ])('$name: at most one pause, or as said', ({ max = 1, places }) => {
    for (const takesMs of [10, 1000]) expect(pausesWith(new Set(places), () => takesMs)).toBeLessThanOrEqual(max)
  })

  test('nine of the first ten and then the probe itself: at most one pause', () => {
    const places = new Set([0, 1, 2, 3, 4, 5, 6, 7, 10, 11])
    expect(pausesWith(places, (number) => 10 + (number % 2))).toBeLessThanOrEqual(1)
  })

  test('one that fails over and over is one record: it does not outweigh those that arrived', () => {
    const facts: CircuitEvent[] = []
    const circuits = createCircuits(defaultCircuit, (fact) => facts.push(fact))
    const outcome = (id: string, verdict: ReceiverVerdict, at: number): void => {
      circuits.settle(circuits.take({ id, subscriptionId: 'a', eventType: 'transfer' }, at), verdict, at + 1)
    }
    for (let index = 0; index < 5; index += 1) outcome(`good-${index}`, 'recovered', index)
    for (let index = 0; index < 500; index += 1) outcome(`poison-${index % 3}`, 'failed-again', 100 + index)
    expect(facts).toEqual([])
  })
})
