// Turns: nobody starves, nobody is handed out twice or lost, and the queues don't grow, whatever happens in between.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createZone } from '../../../src/platform/local-time.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createTurns, type Turns } from '../../../src/reconcile/retry/turns.ts'
import { contains, type Span } from '../../../src/reconcile/window.ts'
import { awaitedOf, dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { failedRecord } from '../../support/fake-platform.ts'

const now = testNow
const subscription = (number: number): string => `aaaaaaaa-0000-4000-8000-${String(number).padStart(12, '0')}`

function entry(ageMs: number, fields: Partial<FailedRecord> = {}): FailedRecord {
  const record = failedRecord({ eventLocal: now - ageMs })
  return { ...createFailedRecord(record, { zone: createZone('UTC'), now, askedAt: 0 }), ...fields }
}

/** A backlog and dispatcher as the turns see them. */
function world(): { turns: Turns; held: Set<FailedRecord>; inFlight: Set<FailedRecord> } {
  const held = new Set<FailedRecord>()
  const inFlight = new Set<FailedRecord>()
  const turns = createTurns({
    policy: defaultPolicy,
    isHeld: (one) => held.has(one),
    isInFlight: (one) => inFlight.has(one),
    inFlightOf: (id) => [...inFlight].filter(({ subscriptionId }) => subscriptionId === id).length,
  })
  return { turns, held, inFlight }
}

function offer({ turns, held }: ReturnType<typeof world>, entries: FailedRecord[], at = now): void {
  for (const one of entries) held.add(one)
  turns.offer(entries, at)
}

/** Hands out until nothing is left. */
function drain({ turns }: Pick<ReturnType<typeof world>, 'turns'>, at = now): FailedRecord[] {
  const given: FailedRecord[] = []
  for (let one = turns.next(at, false); one !== undefined; one = turns.next(at, false)) given.push(one)
  return given
}

describe('the order', () => {
  test('within a subscription the oldest event first, whatever the order of offers', () => {
    const all = world()
    const ages = [3, 9, 2, 40, 5, 100].map((hours) => hours * hourMs)
    offer(
      all,
      ages.map((age) => entry(age)),
    )
    expect(drain(all).map(({ eventAt }) => now - eventAt)).toEqual([...ages].sort((a, b) => b - a))
  })

  test('subscriptions take turns: one with a thousand records does not keep the others waiting', () => {
    const all = world()
    offer(
      all,
      Array.from({ length: 1000 }, (_, index) => entry(dayMs + index, { subscriptionId: subscription(1) })),
    )
    offer(
      all,
      Array.from({ length: 3 }, () => entry(2 * hourMs, { subscriptionId: subscription(2) })),
    )
    offer(all, [entry(2 * hourMs, { subscriptionId: subscription(3) })])
    const given = drain(all)
    expect(given).toHaveLength(1004)
    const places = (id: string): number[] => given.flatMap((one, index) => (one.subscriptionId === id ? [index] : []))
    expect(places(subscription(2))).toEqual([1, 4, 6])
    expect(places(subscription(3))).toEqual([2])
  })

  test('fresh and old records of a subscription take turns too', () => {
    const all = world()
    offer(
      all,
      Array.from({ length: 5 }, (_, index) => entry(10 * minuteMs + index)),
    )
    offer(
      all,
      Array.from({ length: 5 }, (_, index) => entry(dayMs + index)),
    )
    const fresh = drain(all).map(({ eventAt }) => now - eventAt < hourMs)
    expect(fresh).toEqual(Array.from({ length: 10 }, (_, index) => index % 2 === 0))
  })

  test('a record that is no longer fresh loses its fresh turns, at the next sweep that lists it', () => {
    const all = world()
    const aged = [1, 2].map((minutes) => entry(hourMs - minutes * minuteMs, { subscriptionId: subscription(1) }))
    const old = entry(dayMs, { subscriptionId: subscription(1) })
    offer(all, [...aged, old])
    const later = now + 5 * minuteMs
    const fresh = entry(0, { subscriptionId: subscription(1) })
    offer(all, [...aged, old, fresh], later)
    expect(new Set([all.turns.next(later, false), all.turns.next(later, false)])).toEqual(new Set([old, fresh]))
  })

  test('a subscription whose queue is filled again and again does not push the others back', () => {
    const all = world()
    offer(
      all,
      Array.from({ length: 50 }, () => entry(dayMs, { subscriptionId: subscription(2) })),
    )
    let quiet = 0
    for (let turn = 0; turn < 100; turn += 1) {
      offer(all, [entry(dayMs * 2, { subscriptionId: subscription(1) })])
      if (all.turns.next(now, false)?.subscriptionId === subscription(2)) quiet += 1
    }
    expect(quiet).toBe(50)
  })

  test('for the last free slot only a subscription with none in flight is taken', () => {
    const all = world()
    const [busy, idle] = [
      entry(dayMs * 3, { subscriptionId: subscription(1) }),
      entry(dayMs, { subscriptionId: subscription(2) }),
    ]
    all.inFlight.add(entry(dayMs, { subscriptionId: subscription(1) }))
    offer(all, [busy])
    expect(all.turns.ready(now, true)).toBe(false)
    expect(all.turns.next(now, true)).toBeUndefined()
    expect(all.turns.ready(now, false)).toBe(true)
    offer(all, [idle])
    expect(all.turns.next(now, true)).toBe(idle)
    expect(all.turns.next(now, false)).toBe(busy)
  })
})

describe('those that back off', () => {
  test('come when they are due, and not before', () => {
    const all = world()
    const one = entry(dayMs, { lastAt: now - 1000 })
    const { dueAt } = decide(one, defaultPolicy, { now, held: false })
    offer(all, [one])
    expect(all.turns.nextDueAt()).toBe(dueAt)
    expect(all.turns.next(dueAt - 1, false)).toBeUndefined()
    expect(all.turns.next(dueAt, false)).toBe(one)
    expect(all.turns.nextDueAt()).toBeUndefined()
  })

  test('are judged anew: one that was tried again meanwhile rests on', () => {
    const all = world()
    const one = entry(dayMs, { lastAt: now - 1000 })
    offer(all, [one])
    const first = all.turns.nextDueAt() ?? 0
    one.triedAt = first - 1
    expect(all.turns.next(first, false)).toBeUndefined()
    expect(all.turns.nextDueAt()).toBeGreaterThan(first)
  })

  test.each([
    ['no longer held', (all: ReturnType<typeof world>, one: FailedRecord) => all.held.delete(one)],
    ['parked', (_: ReturnType<typeof world>, one: FailedRecord) => (one.attempts = 30)],
    ['awaited', (_: ReturnType<typeof world>, one: FailedRecord) => (one.awaiting = awaitedOf(one))],
    ['backing off again', (_: ReturnType<typeof world>, one: FailedRecord) => (one.lastAt = now)],
    ['in flight', (all: ReturnType<typeof world>, one: FailedRecord) => all.inFlight.add(one)],
  ])('one that is %s when its turn comes is passed over', (_, happens) => {
    const all = world()
    const [one, other] = [entry(2 * dayMs), entry(dayMs)]
    offer(all, [one, other])
    happens(all, one)
    expect(drain(all)).toEqual([other])
  })

  test('whether retries are enabled does not change the order of turns', () => {
    const turns = createTurns({
      policy: { ...defaultPolicy, enabled: false },
      isHeld: () => true,
      isInFlight: () => false,
      inFlightOf: () => 0,
    })
    turns.offer([entry(dayMs)], now)
    expect(turns.ready(now, false)).toBe(true)
  })
})

describe('a fence', () => {
  const second = Math.floor((now - dayMs) / 1000)
  const at = (offset: number): FailedRecord =>
    entry(0, { eventAt: (second + offset) * 1000, localSecond: second + offset, lastAt: now - dayMs })

  test('keeps back what lies in its span, and gives it back', () => {
    const all = world()
    const [before, first, last, after] = [at(-1), at(0), at(59), at(60)]
    offer(all, [before, first, last, after])
    const release = all.turns.fence({ from: second, to: second + 60 })
    expect(drain(all)).toEqual([before, after])
    release()
    expect(drain(all)).toEqual([first, last])
  })

  test('of two that overlap each keeps its own', () => {
    const all = world()
    const [left, middle, right] = [at(0), at(15), at(25)]
    offer(all, [left, middle, right])
    const releaseLeft = all.turns.fence({ from: second, to: second + 20 })
    const releaseRight = all.turns.fence({ from: second + 10, to: second + 30 })
    expect(drain(all)).toEqual([])
    releaseLeft()
    expect(drain(all)).toEqual([left])
    releaseRight()
    expect(drain(all)).toEqual([middle, right])
  })

  test('put up twice over the same span is taken down twice', () => {
    const all = world()
    const span = { from: second, to: second + 60 }
    offer(all, [at(5)])
    const releases = [all.turns.fence(span), all.turns.fence(span)]
    releases[0]?.()
    releases[0]?.()
    expect(drain(all)).toEqual([])
    releases[1]?.()
    expect(drain(all)).toHaveLength(1)
  })

  test('does not make a record due that was retried or resolved meanwhile', () => {
    const all = world()
    const [resolved, retried] = [at(1), at(2)]
    offer(all, [resolved, retried])
    const release = all.turns.fence({ from: second, to: second + 60 })
    drain(all)
    all.held.delete(resolved)
    retried.awaiting = awaitedOf(retried)
    all.turns.offer([retried], now)
    release()
    expect(drain(all)).toEqual([])
  })
})

describe('the queues do not grow', () => {
  test('with repeated sweeps over the same records', () => {
    const all = world()
    const entries = Array.from({ length: 2000 }, (_, index) =>
      entry(dayMs + index, index % 2 === 0 ? { lastAt: now - 1000 } : {}),
    )
    for (let sweep = 0; sweep < 50; sweep += 1) offer(all, entries)
    expect(all.turns.places()).toBe(2000)
  })

  test('while nothing may go out, with records that come and are resolved', () => {
    const all = world()
    for (let sweep = 0; sweep < 500; sweep += 1) {
      all.held.clear()
      const due = Array.from({ length: 50 }, () => entry(dayMs))
      const resting = Array.from({ length: 50 }, () => entry(dayMs, { lastAt: now }))
      offer(all, [...due, ...resting])
    }
    expect(all.turns.places()).toBeLessThan(2000)
    expect(drain(all, now + hourMs)).toHaveLength(100)
  })

  test('nor with subscriptions that come and go', () => {
    const all = world()
    for (let number = 0; number < 5000; number += 1) {
      all.held.clear()
      offer(all, [entry(dayMs, { subscriptionId: subscription(number) })])
    }
    expect(all.turns.places()).toBeLessThan(2000)
    expect(drain(all)).toHaveLength(1)
  })

  test('with records that fail again and again, each time due later', () => {
    const all = world()
    const entries = Array.from({ length: 100 }, () => entry(dayMs))
    for (let round = 0; round < 200; round += 1) {
      for (const one of entries) one.lastAt = now + round
      offer(all, entries, now + round)
    }
    expect(all.turns.places()).toBeLessThan(2000)
  })
})

/** What may happen to the turns; numbers pick a record, a subscription or a span. */
type Step =
  | { do: 'offer'; picks: number[] }
  | { do: 'next'; idleOnly: boolean }
  | { do: 'answer'; pick: number; how: 'accepted' | 'failed' | 'resolved' | 'not-sent' }
  | { do: 'fence'; from: number; seconds: number }
  | { do: 'release'; pick: number }
  | { do: 'evict'; pick: number }
  | { do: 'pass'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('offer' as const), picks: fc.array(fc.nat(39), { maxLength: 20 }) }),
  { weight: 4, arbitrary: fc.record({ do: fc.constant('next' as const), idleOnly: fc.boolean() }) },
  fc.record({
    do: fc.constant('answer' as const),
    pick: fc.nat(),
    how: fc.constantFrom('accepted' as const, 'failed' as const, 'resolved' as const, 'not-sent' as const),
  }),
  fc.record({ do: fc.constant('fence' as const), from: fc.nat(40), seconds: fc.integer({ min: 1, max: 20 }) }),
  fc.record({ do: fc.constant('release' as const), pick: fc.nat() }),
  fc.record({ do: fc.constant('evict' as const), pick: fc.nat(39) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1000, 40_000, 10 * minuteMs, 2 * hourMs) }),
)

test('whatever happens, in whatever order: only what may go out does, it does go out, once at a time, and nothing is lost', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const all = world()
      const { turns, held, inFlight } = all
      let time = now
      const base = Math.floor((now - 50 * minuteMs) / 1000)
      // Forty records of four subscriptions, one a second, some of them not yet due.
      const entries = Array.from({ length: 40 }, (_, index) =>
        entry(0, {
          subscriptionId: subscription(index % 4),
          localSecond: base + index,
          eventAt: (base + index) * 1000,
          lastAt: index % 3 === 0 ? now - 1000 : now - dayMs,
        }),
      )
      const pick = (number: number): FailedRecord => entries[number % entries.length] ?? entry(0)
      const offered = new Set<FailedRecord>()
      const fences: { span: Span; release: () => void }[] = []

      const isFree = (one: FailedRecord): boolean =>
        held.has(one) &&
        offered.has(one) &&
        !inFlight.has(one) &&
        !fences.some(({ span }) => contains(span, one.localSecond)) &&
        decide(one, defaultPolicy, { now: time, held: false }).decision === 'due'

      function takeNext(idleOnly: boolean): FailedRecord | undefined {
        const idle = (one: FailedRecord): boolean =>
          !idleOnly || ![...inFlight].some(({ subscriptionId }) => subscriptionId === one.subscriptionId)
        const free = entries.filter((one) => isFree(one) && idle(one))
        expect(turns.ready(time, idleOnly)).toBe(free.length > 0)
        const given = turns.next(time, idleOnly)
        if (given === undefined) expect(free).toEqual([])
        else expect(free).toContain(given)
        if (given !== undefined) inFlight.add(given)
        return given
      }

      function answer(one: FailedRecord, how: Extract<Step, { do: 'answer' }>['how']): void {
        inFlight.delete(one)
        if (how !== 'not-sent') {
          one.tries += 1
          one.triedAt = time
        }
        one.awaiting = how === 'accepted' ? awaitedOf(one) : undefined
        if (how === 'resolved') held.delete(one)
        if (held.has(one)) turns.offer([one], time)
      }

      function act(one: Step): void {
        if (one.do === 'offer') {
          for (const number of one.picks) {
            held.add(pick(number))
            offered.add(pick(number))
            // A listing that shows it failed settles what was awaited.
            if (!inFlight.has(pick(number))) pick(number).awaiting = undefined
          }
          turns.offer(one.picks.map(pick), time)
        } else if (one.do === 'next') takeNext(one.idleOnly)
        else if (one.do === 'answer') {
          const flying = [...inFlight][one.pick % Math.max(1, inFlight.size)]
          if (flying !== undefined) answer(flying, one.how)
        } else if (one.do === 'fence') {
          const span = { from: base + one.from, to: base + one.from + one.seconds }
          fences.push({ span, release: turns.fence(span) })
        } else if (one.do === 'release') {
          fences.splice(one.pick % Math.max(1, fences.length), 1)[0]?.release()
        } else if (one.do === 'evict') {
          held.delete(pick(one.pick))
          offered.delete(pick(one.pick))
        } else time += one.ms
      }

      for (const one of steps) act(one)
      for (const { release } of fences.splice(0)) release()
      for (const one of [...inFlight]) answer(one, 'not-sent')
      time += 7 * hourMs
      const left = new Set(entries.filter(isFree))
      const given = new Set<FailedRecord>()
      for (let one = takeNext(false); one !== undefined; one = takeNext(false)) given.add(one)
      expect(given).toEqual(left)
    }),
    { numRuns: 1000 },
  )
})
