// Turns while circuits are not closed, or records wait for others: which record goes, and that no lane is lost meanwhile.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createZone } from '../../../src/platform/local-time.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { createFailedRecord, type FailedRecord } from '../../../src/reconcile/failed-record.ts'
import { createTurns, type Turns } from '../../../src/reconcile/retry/turns.ts'
import { awaitedOf, dayMs, defaultPolicy, hourMs, minuteMs, testNow } from '../../support/backlog.ts'
import { subscription } from '../../support/dispatching.ts'
import { failedRecord } from '../../support/fake-platform.ts'

const now = testNow

function entry(ageMs: number, fields: Partial<FailedRecord> = {}): FailedRecord {
  const record = failedRecord({ eventLocal: now - ageMs, lastAttemptLocal: now - ageMs })
  const made = createFailedRecord(record, { zone: createZone('UTC'), now, askedAt: 0 })
  return { ...made, lastAt: now - 7 * dayMs, ...fields }
}

interface World {
  turns: Turns
  held: Set<FailedRecord>
  inFlight: Set<FailedRecord>
  /** Subscriptions without an allowance, waiting for their first probe, and recovering. */
  shut: Set<string>
  probed: Set<string>
  recovering: Set<string>
  /** Records that wait for another one. */
  waiting: Set<FailedRecord>
  /** How often it was asked whether a record is held. */
  judged: number
}

function world(entries: FailedRecord[] = []): World {
  const held = new Set<FailedRecord>(entries)
  const inFlight = new Set<FailedRecord>()
  const [shut, probed, recovering] = [new Set<string>(), new Set<string>(), new Set<string>()]
  const waiting = new Set<FailedRecord>()
  const turns = createTurns({
    policy: defaultPolicy,
    isHeld: (one) => {
      all.judged += 1
      return held.has(one)
    },
    isInFlight: (one) => inFlight.has(one),
    inFlightOf: (id) => [...inFlight].filter(({ subscriptionId }) => subscriptionId === id).length,
    allows: (id) => !shut.has(id),
    firstProbes: () => probed,
    isRecovering: (id) => recovering.has(id),
    isNext: (one) => !waiting.has(one),
  })
  const all: World = { turns, held, inFlight, shut, probed, recovering, waiting, judged: 0 }
  turns.offer(entries, now)
  return all
}

/** Hands out until nothing is left. */
function drain({ turns }: World, at = now): FailedRecord[] {
  const given: FailedRecord[] = []
  for (let one = turns.next(at, false); one !== undefined; one = turns.next(at, false)) given.push(one)
  return given
}

const ids = (entries: readonly (FailedRecord | undefined)[]): (string | undefined)[] => entries.map((one) => one?.id)

describe('while a subscription recovers', () => {
  test('fewest attempts first, of these the newest event; then the oldest first again', () => {
    const [poison, worn, older, newer] = [
      entry(5 * dayMs, { attempts: 20 }),
      entry(dayMs, { attempts: 2 }),
      entry(3 * dayMs, { attempts: 1 }),
      entry(2 * dayMs, { attempts: 1 }),
    ]
    const all = world([poison, worn, older, newer])
    all.recovering.add(poison.subscriptionId)
    expect(ids([all.turns.next(now, false), all.turns.next(now, false)])).toEqual(ids([newer, older]))
    all.recovering.clear()
    expect(ids(drain(all))).toEqual(ids([poison, worn]))
  })

  test('of another event type than the last one, if there is any', () => {
    const [a1, a2, b] = [
      entry(2 * dayMs, { eventType: 'a', attempts: 1 }),
      entry(3 * dayMs, { eventType: 'a', attempts: 1 }),
      entry(4 * dayMs, { eventType: 'b', attempts: 9 }),
    ]
    const all = world([a1, a2, b])
    all.recovering.add(a1.subscriptionId)
    expect(ids(drain(all))).toEqual(ids([a1, b, a2]))
  })

  test('of one type only, that type', () => {
    const all = world([entry(2 * dayMs, { eventType: 'a' }), entry(3 * dayMs, { eventType: 'a' })])
    all.recovering.add([...all.held][0]?.subscriptionId ?? '')
    expect(drain(all)).toHaveLength(2)
  })

  test('what may not go is not chosen: gone, in flight, resting, being listed, or behind another one', () => {
    const [gone, flying, resting, listed, behind, free] = [
      entry(dayMs + 1),
      entry(dayMs + 2),
      entry(dayMs + 3),
      entry(dayMs + 4000),
      entry(dayMs + 5),
      entry(2 * dayMs, { attempts: 3 }),
    ]
    const all = world([gone, flying, resting, listed, behind, free])
    all.recovering.add(free.subscriptionId)
    all.held.delete(gone)
    all.inFlight.add(flying)
    resting.triedAt = now
    all.waiting.add(behind)
    const release = all.turns.fence({ from: listed.localSecond, to: listed.localSecond + 1 })
    expect(ids(drain(all))).toEqual(ids([free]))
    release()
    expect(ids(drain(all))).toEqual(ids([listed]))
  })

  test('fresh and old records are one: fewest attempts first, wherever they stand', () => {
    const [freshPoison, old] = [entry(10 * minuteMs, { attempts: 20 }), entry(2 * dayMs, { attempts: 1 })]
    const all = world([freshPoison, old])
    all.recovering.add(old.subscriptionId)
    expect(ids([all.turns.next(now, false)])).toEqual(ids([old]))
  })

  test('each record goes once, however often it is offered, and none is left', () => {
    const entries = Array.from({ length: 200 }, (_, index) =>
      entry(dayMs + index * 1000, { attempts: 1 + (index % 7) }),
    )
    const all = world(entries)
    all.recovering.add(subscription(1))
    const given: FailedRecord[] = []
    for (let one = all.turns.next(now, false); one !== undefined; one = all.turns.next(now, false)) {
      given.push(one)
      one.awaiting = awaitedOf(one)
      all.turns.offer(entries, now)
    }
    expect(given).toHaveLength(200)
    expect(new Set(given).size).toBe(200)
    expect(given.map(({ attempts }) => attempts)).toEqual(entries.map(({ attempts }) => attempts).sort((a, b) => a - b))
  })

  test('a probe of a hundred thousand records judges few of them', () => {
    const all = world(
      Array.from({ length: 100_000 }, (_, index) => entry(dayMs + index, { attempts: 1 + (index % 5) })),
    )
    all.recovering.add(subscription(1))
    all.judged = 0
    const given = Array.from({ length: 20 }, () => all.turns.next(now, false))
    expect(new Set(given).size).toBe(20)
    expect(given.every((one) => one?.attempts === 1)).toBe(true)
    expect(all.judged).toBeLessThan(20 * 100)
  })
})

describe('first probes after a pause', () => {
  const of = (number: number): FailedRecord[] =>
    Array.from({ length: 3 }, (_, index) => entry(dayMs + index, { subscriptionId: subscription(number) }))

  test('go before all others in their own order, but not twice in a row while another could go', () => {
    const all = world([...of(1), ...of(2), ...of(3), ...of(4)])
    all.probed.add(subscription(3)).add(subscription(1))
    const order = drain(all).map(({ subscriptionId }) => Number(subscriptionId.slice(-1)))
    expect(order).toEqual([3, 2, 3, 4, 3, 2, 1, 4, 1, 2, 1, 4])
  })

  test('of which the first may not go make way for the next', () => {
    const all = world([...of(1), ...of(2)])
    all.probed.add(subscription(3)).add(subscription(1)).add(subscription(2))
    all.shut.add(subscription(1))
    expect(all.turns.next(now, false)?.subscriptionId).toBe(subscription(2))
  })
})

describe('a subscription without allowance', () => {
  test('keeps its records, and is due all the same; they go when it has one', () => {
    const entries = Array.from({ length: 5 }, (_, index) => entry(dayMs + index, { subscriptionId: subscription(1) }))
    const all = world(entries)
    all.shut.add(subscription(1))
    for (let round = 0; round < 3; round += 1) {
      expect(all.turns.ready(now, false)).toBe(false)
      expect(all.turns.next(now, false)).toBeUndefined()
      expect(all.turns.hasDue(now, () => true)).toBe(true)
      expect(all.turns.hasDue(now, (id) => id !== subscription(1))).toBe(false)
    }
    all.shut.clear()
    expect(drain(all)).toHaveLength(5)
  })

  test('keeps its place in the turns', () => {
    const all = world([1, 2, 3].map((number) => entry(dayMs, { subscriptionId: subscription(number) })))
    all.shut.add(subscription(1))
    expect(all.turns.next(now, false)?.subscriptionId).toBe(subscription(2))
    all.shut.clear()
    expect(all.turns.next(now, false)?.subscriptionId).toBe(subscription(1))
  })

  test('when none has any, nothing is ready, and nothing is lost', () => {
    const all = world([entry(dayMs), entry(dayMs, { lastAt: now - 1000 })])
    all.shut.add(subscription(1))
    expect(all.turns.ready(now, false)).toBe(false)
    expect(all.turns.hasDue(now, () => true)).toBe(true)
    // Time goes on, and what rests becomes due.
    expect(all.turns.ready(now + hourMs, false)).toBe(false)
    all.shut.clear()
    expect(drain(all, now + hourMs)).toHaveLength(2)
  })
})

describe('a record that waits for another one', () => {
  test('is not handed out, keeps nobody from going, and goes once it is offered again', () => {
    const [behind, free] = [entry(3 * dayMs), entry(dayMs)]
    const all = world([behind, free])
    all.waiting.add(behind)
    expect(ids(drain(all))).toEqual(ids([free]))
    all.waiting.clear()
    all.turns.offer([behind], now)
    expect(ids(drain(all))).toEqual(ids([behind]))
  })

  test('and whose slice is being listed is kept back for it', () => {
    const behind = entry(3 * dayMs)
    const all = world([behind])
    all.waiting.add(behind)
    const release = all.turns.fence({ from: behind.localSecond, to: behind.localSecond + 1 })
    expect(drain(all)).toEqual([])
    all.waiting.clear()
    release()
    expect(ids(drain(all))).toEqual(ids([behind]))
  })
})

/** What may happen; numbers pick a record or a subscription. */
const step = fc.record({
  do: fc.constantFrom(
    'next',
    'next',
    'next',
    'offer',
    'shut',
    'open',
    'recover',
    'heal',
    'probe',
    'rest',
    'evict',
    'land',
  ),
  pick: fc.nat(29),
})

test('whatever happens to circuits: only what may go does, and in the end all that may has gone', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const entries = Array.from({ length: 30 }, (_, index) =>
        entry(index % 2 === 0 ? dayMs + index : minuteMs + index, {
          subscriptionId: subscription(index % 3),
          attempts: 1 + (index % 4),
          eventType: index % 5 === 0 ? 'a' : 'b',
        }),
      )
      const all = world(entries)
      const { held, inFlight, probed, recovering, shut, turns } = all
      let time = now
      let wasFirstProbe = false
      const isFree = (one: FailedRecord): boolean =>
        held.has(one) && !inFlight.has(one) && decide(one, defaultPolicy, { now: time, held: false }).decision === 'due'

      function takeNext(): FailedRecord | undefined {
        const free = entries.filter((one) => isFree(one) && !shut.has(one.subscriptionId))
        expect(turns.ready(time, false)).toBe(free.length > 0)
        const given = turns.next(time, false)
        if (given === undefined) expect(free).toEqual([])
        else {
          expect(free).toContain(given)
          const others = free.filter(({ subscriptionId }) => !probed.has(subscriptionId))
          // A first probe goes before the others, but not twice in a row while another could go.
          const isFirstProbe = probed.has(given.subscriptionId)
          if (isFirstProbe && wasFirstProbe) expect(others).toEqual([])
          if (!isFirstProbe && !wasFirstProbe) expect(others).toEqual(free)
          wasFirstProbe = isFirstProbe
          inFlight.add(given)
        }
        return given
      }

      const acts: Record<(typeof steps)[number]['do'], (one: FailedRecord) => void> = {
        next: takeNext,
        offer: (one) => {
          held.add(one)
          turns.offer([one], time)
        },
        shut: (one) => shut.add(one.subscriptionId),
        open: (one) => shut.delete(one.subscriptionId),
        recover: (one) => recovering.add(one.subscriptionId),
        heal: (one) => recovering.delete(one.subscriptionId),
        probe: (one) => probed.add(one.subscriptionId),
        rest: (one) => {
          one.triedAt = time
        },
        evict: (one) => held.delete(one),
        land: (one) => {
          if (!inFlight.delete(one)) return
          one.triedAt = time
          if (held.has(one)) turns.offer([one], time)
        },
      }
      for (const { do: act, pick } of steps) acts[act](entries[pick] ?? entry(0))
      shut.clear()
      time += 7 * hourMs
      const left = new Set(entries.filter(isFree))
      const given = new Set<FailedRecord>()
      for (let one = takeNext(); one !== undefined; one = takeNext()) given.add(one)
      expect(given).toEqual(left)
    }),
    { numRuns: 500 },
  )
})
