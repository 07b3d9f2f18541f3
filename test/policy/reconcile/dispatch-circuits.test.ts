// The dispatcher with circuits: few go out while nobody knows the outcome, one subscription's trouble is not another's, and nothing is sent twice.
import { describe, expect, test } from 'vitest'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, hourMs, learn, listingOf, minuteMs, testNow } from '../../support/backlog.ts'
import { delivering, due, holding, subscription, type Delivery } from '../../support/dispatching.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import type { Reconcile, ReconcileOptions } from '../../support/reconcile.ts'

const circuit = { enabled: true }
const arrives: Delivery = { takesMs: 100, arrives: true }
const fails: Delivery = { takesMs: 100, arrives: false }

/** The dispatcher with these records, over a platform that delivers so. */
function deliveringWorld(
  records: WebhookRecord[],
  of: (record: WebhookRecord) => Delivery | undefined,
  { waits = false, ...options }: ReconcileOptions & { waits?: boolean } = {},
): Reconcile {
  const { bind, onRetry } = delivering(of, waits)
  return bind(holding(records, { circuit, maxPerSecond: 20, onRetry, ...options }))
}

/** Old records of one subscription, one a second. */
function many(count: number, number: number): WebhookRecord[] {
  const subscriptionId = subscription(number)
  return Array.from({ length: count }, (_, index) => {
    const eventLocal = testNow - 2 * dayMs + index * 1000
    return failedRecord({ eventLocal, subscriptionId })
  })
}

/** Ten events of the last minutes. */
function fresh(number: number): WebhookRecord[] {
  return Array.from({ length: 10 }, (_, index) =>
    failedRecord({
      eventLocal: testNow - 10 * minuteMs + index,
      lastAttemptLocal: testNow - 9 * minuteMs,
      subscriptionId: subscription(number),
    }),
  )
}

/** They fail now, and a sweep lists them. */
function list(world: Reconcile, records: WebhookRecord[]): void {
  world.platform.add(...records)
  const listing = listingOf(records, { complete: false, askedAt: world.clock.monotonic() })
  learn(world.backlog, listing, world.platform.now())
  world.planner.changed()
}

/** Milliseconds until all of them were sent; undefined when one was not. */
function sentAfterMs(world: Reconcile, records: readonly WebhookRecord[], since: number): number | undefined {
  const times = records.map(({ id }) => world.platform.retries.find((retry) => retry.id === id)?.at)
  const sent = times.filter((at) => at !== undefined)
  return sent.length === records.length ? Math.max(...sent) - since : undefined
}

describe('ten fresh records of one subscription beside ten thousand of another are sent within two seconds', () => {
  const crowd = many(10_000, 1)

  test.each<[string, boolean, Delivery | undefined, number?]>([
    ['which arrive before they are answered', true, { takesMs: 20, arrives: true }],
    ['which are answered at once and arrive soon', false, arrives],
    // Its failures have just shrunk the circuits of all to one, and each outcome takes a look half a second later.
    ['which fail', false, fails, 2100],
    ['which fail before they are answered', true, fails],
    ['which take ten seconds to be answered, and arrive', true, { takesMs: 10_000, arrives: true }],
    ['which take ten seconds to be answered, and fail', true, { takesMs: 10_000, arrives: false }],
    // It holds nine of the first ten places of all for two minutes.
    ['whose outcome nobody ever knows', false, undefined, 3200],
  ])('%s', async (_, waits, delivery, mostAtStartMs = 2000) => {
    const of = (record: WebhookRecord): Delivery | undefined =>
      record.subscriptionId === subscription(1) ? delivery : { takesMs: 50, arrives: true }
    await using world = deliveringWorld(crowd, of, { waits })
    void world.start()
    // Shortly after the start, when it is slow, and later.
    const late: (number | undefined)[] = []
    for (const [round, restMs] of [5000, 3 * minuteMs].entries()) {
      await world.clock.advance(restMs)
      const records = fresh(2 + round)
      const since = world.platform.now()
      list(world, records)
      await world.clock.advance(15_000)
      late.push(sentAfterMs(world, records, since))
    }
    const [atStart = Infinity, later = Infinity] = late
    expect(atStart).toBeLessThanOrEqual(mostAtStartMs)
    expect(later).toBeLessThanOrEqual(2000)
  })
})

describe('a dead receiver', () => {
  test('gets at most nine deliveries, then one after each pause', async () => {
    await using world = deliveringWorld(many(1000, 1), () => fails)
    void world.start()
    await world.clock.advance(25_000)
    const first = world.platform.retries.length
    expect(first).toBeGreaterThanOrEqual(5)
    expect(first).toBeLessThanOrEqual(9)
    expect(world.circuits.isOpen(subscription(1), world.clock.monotonic())).toBe(true)
    await world.clock.advance(10 * minuteMs)
    // Pauses of 30 s, 1, 2, 4 min.
    expect(world.platform.retries.length).toBeLessThanOrEqual(first + 5)
    expect(world.platform.retries.length).toBeGreaterThanOrEqual(first + 3)
  })

  test('that answers with its failure is believed two seconds later: five to nine deliveries, then a pause', async () => {
    await using world = deliveringWorld(many(1000, 1), () => fails, { waits: true })
    const told = (): string[] => world.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
    void world.start()
    // The first is answered after 120 ms.
    await world.clock.advance(2110)
    expect(world.platform.retries.length).toBeGreaterThan(0)
    expect(told()).toEqual([])
    await world.clock.advance(5000)
    expect(told().length).toBeGreaterThanOrEqual(5)
    expect(told().every((outcome) => outcome === 'failed-again')).toBe(true)
    expect(world.circuits.isOpen(subscription(1), world.clock.monotonic())).toBe(true)
    const sent = world.platform.retries.length
    expect(sent).toBeLessThanOrEqual(9)
    await world.clock.advance(20_000)
    expect(world.platform.retries).toHaveLength(sent)
  })

  test('is tried as soon as a pause is over, although nothing else happens then', async () => {
    await using world = deliveringWorld(many(1000, 1), () => fails, { circuit: { ...circuit, cooldown: 7000 } })
    void world.start()
    await world.clock.advance(20_000)
    const opened = world.facts.findIndex((fact) => fact.type === 'circuit' && fact.to === 'open')
    expect(opened).toBeGreaterThan(-1)
    const times = world.platform.retries.map(({ at }) => at)
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    // The outcome of the last one before the pause is sure two checks after it, which are two seconds apart.
    expect(gaps.find((gap) => gap > 5000)).toBeGreaterThanOrEqual(7000)
    expect(gaps.find((gap) => gap > 5000)).toBeLessThanOrEqual(7000 + 4200)
  })

  test('is tried with records that were not tried before', async () => {
    await using world = deliveringWorld(many(1000, 1), () => fails)
    void world.start()
    await world.clock.advance(10 * minuteMs)
    const ids = world.platform.retries.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('that is up again gets all, faster and faster', async () => {
    const upAt = testNow + 5 * minuteMs
    const of = (): Delivery => ({ takesMs: 100, arrives: world.platform.now() >= upAt })
    await using world: Reconcile = deliveringWorld(many(2000, 1), of, { maxPerSecond: 100 })
    void world.start()
    await world.clock.advance(hourMs)
    expect(world.platform.failedIds()).toEqual([])
    const after = world.platform.retries.filter(({ at }) => at >= upAt)
    const firstSecond = after.filter(({ at }) => at < (after[0]?.at ?? 0) + 1000)
    expect(firstSecond.length).toBeLessThanOrEqual(4)
  })
})

describe('a receiver that is well', () => {
  // What is counted at the start, and has not ended by two seconds after the answer, looks as if it had failed.
  test.each([
    ['end', 100],
    ['end', 10_000],
    ['start', 100],
    ['start', 1900],
  ] as const)(
    'gets all, although records stay failed while they are delivered, counted at the %s of it, in %i ms',
    async (countedAt, takesMs) => {
      await using world: Reconcile = holding(many(200, 1), {
        circuit,
        onRetry: (record, platform, id) => {
          const attempt = { attempts: (record?.attempts ?? 0) + 1, lastAttemptLocal: platform.now() }
          const shown = countedAt === 'start' ? attempt : {}
          platform.set(id, shown)
          void world.clock.sleep(takesMs).then(() => {
            platform.set(id, { ...attempt, status: 'successful' })
          })
          return accepted(record && { ...record, ...shown })
        },
      })
      void world.start()
      await world.clock.advance(30 * minuteMs)
      expect(world.platform.failedIds()).toHaveLength(0)
      expect(world.platform.retries).toHaveLength(200)
      const told = world.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
      expect(told).toEqual(Array.from({ length: 200 }, () => 'recovered'))
      expect(world.facts.filter(({ type }) => type === 'circuit')).toEqual([])
    },
  )
})

describe('one subscription of two', () => {
  test('dead, does not stop the other', async () => {
    const of = ({ subscriptionId }: WebhookRecord): Delivery => (subscriptionId === subscription(1) ? fails : arrives)
    await using world = deliveringWorld([...many(500, 1), ...many(500, 2)], of)
    void world.start()
    await world.clock.advance(2 * minuteMs)
    const left = world.platform.failedIds().map((id) => world.platform.records.get(id)?.subscriptionId)
    expect(left.filter((id) => id === subscription(2))).toEqual([])
    const dead = world.platform.retries.filter(
      ({ id }) => world.platform.records.get(id)?.subscriptionId === subscription(1),
    )
    expect(dead.length).toBeLessThanOrEqual(9 + 2)
  })

  test('with synchronous PATCHes of ten seconds, does not stop the others', async () => {
    const of = ({ subscriptionId }: WebhookRecord): Delivery => ({
      takesMs: subscriptionId === subscription(1) ? 10_000 : 50,
      arrives: true,
    })
    const quick = [2, 3, 4].map((number) => many(20, number))
    await using world = deliveringWorld([...many(500, 1), ...quick.flat()], of, { waits: true })
    void world.start()
    await world.clock.advance(20_000)
    for (const records of quick) {
      for (const { id } of records) expect(world.platform.records.get(id)?.status).toBe('successful')
    }
  })

  test('that has no circuits keeps its records: they go when it has one', async () => {
    await using world = deliveringWorld(many(30, 1), () => ({ takesMs: minuteMs, arrives: true }))
    void world.start()
    await world.clock.advance(50_000)
    expect(world.platform.retries).toHaveLength(5)
    await world.clock.advance(hourMs)
    expect(world.platform.failedIds()).toEqual([])
    expect(world.platform.retries).toHaveLength(30)
  })
})

describe('outcomes that nobody ever knows', () => {
  test('free their places by the first check after two minutes, and not before', async () => {
    await using world = deliveringWorld(many(100, 1), () => undefined)
    void world.start()
    await world.clock.advance(2 * minuteMs - 1000)
    const before = world.platform.retries.length
    expect(before).toBe(5)
    // The checks come 64 and 128 s after the PATCH: the first beyond two minutes frees the place.
    await world.clock.advance(10_000)
    expect(world.platform.retries.length).toBeGreaterThan(before)
    expect(world.platform.retries.length).toBeLessThanOrEqual(10)
    // They stay awaited.
    expect(world.backlog.outcomes.pending().size).toBe(world.platform.retries.length)
  })
})

describe('the last free slot', () => {
  test('is free for whoever comes, while one subscription waits for its answers', async () => {
    const of = ({ subscriptionId }: WebhookRecord): Delivery => ({
      takesMs: subscriptionId === subscription(1) ? hourMs : 20,
      arrives: true,
    })
    await using world = deliveringWorld(many(100, 1), of, { waits: true, concurrency: 4 })
    void world.start()
    await world.clock.advance(10_000)
    expect(world.dispatcher.inFlight()).toBe(3)
    const records = fresh(2)
    list(world, records)
    await world.clock.advance(2000)
    expect(records.map(({ id }) => world.platform.records.get(id)?.status)).toEqual(records.map(() => 'successful'))
    expect(world.dispatcher.inFlight()).toBe(3)
  })
})

describe('a record in flight or awaited', () => {
  test('has one PATCH, however often it is listed, and whatever else wants its place', async () => {
    const flying = new Map<string, number>()
    let mostOfOne = 0
    const records = due(40)
    await using world: Reconcile = holding(records, {
      circuit,
      maxRecords: 40,
      onRetry: async (record, platform, id) => {
        const count = (flying.get(id) ?? 0) + 1
        flying.set(id, count)
        mostOfOne = Math.max(mostOfOne, count)
        platform.set(id, { status: 'processing' })
        await world.clock.sleep(5000)
        flying.set(id, count - 1)
        platform.set(id, { status: 'successful' })
        return accepted(record && { ...record, status: 'processing' })
      },
    })
    void world.start()
    await world.clock.advance(500)
    const sent = world.platform.retries.map(({ id }) => id)
    expect(sent).toHaveLength(5)
    // A listing from before shows them failed, a later one does not show them, and newer ones want their places.
    for (const complete of [true, false]) {
      const stale = listingOf(records, { askedAt: 1, complete })
      learn(world.backlog, stale, world.platform.now())
      world.planner.changed()
      const empty = listingOf([], { askedAt: world.clock.monotonic(), complete })
      learn(world.backlog, empty, world.platform.now())
      world.backlog.forgetBefore(Math.floor(testNow / 1000))
      list(world, many(100, 2))
    }
    for (const id of sent) expect(world.backlog.get(id)).toBeDefined()
    await world.clock.advance(4000)
    expect(world.platform.retries.filter(({ id }) => sent.includes(id))).toHaveLength(5)
    expect(mostOfOne).toBe(1)
    await world.clock.advance(10 * minuteMs)
    const ids = world.platform.retries.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const told = world.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.id] : []))
    expect(new Set(told).size).toBe(told.length)
    expect(sent.every((id) => told.includes(id))).toBe(true)
  })

  test('two of one event go side by side, and each has its own outcome', async () => {
    const one = failedRecord({ eventLocal: testNow - dayMs })
    const other = {
      ...failedRecord({ eventLocal: testNow - dayMs }),
      eventId: one.eventId,
      subscriptionId: subscription(2),
    }
    const of = ({ id }: WebhookRecord): Delivery => (id === one.id ? arrives : fails)
    await using world = deliveringWorld([one, other], of)
    void world.start()
    await world.clock.advance(10_000)
    const told = world.facts.flatMap((fact) => (fact.type === 'outcome' ? [[fact.id, fact.outcome]] : []))
    expect(new Map(told as [string, string][])).toEqual(
      new Map([
        [one.id, 'recovered'],
        [other.id, 'failed-again'],
      ]),
    )
    expect(world.platform.retries).toHaveLength(2)
  })
})

describe('a lost answer', () => {
  test.each([
    ['taken, and it arrives', true, 'recovered'],
    ['never taken', false, 'unknown'],
  ] as const)('of a retry that was %s: no other PATCH before that is known', async (_, isTaken, outcome) => {
    const [record] = due(1)
    if (record === undefined) throw new Error('no record')
    await using world: Reconcile = holding([record], {
      circuit,
      onRetry: (_record, platform, id) => {
        if (isTaken) platform.set(id, { status: 'processing' })
        if (isTaken) void world.clock.sleep(90_000).then(() => platform.set(id, { status: 'successful', attempts: 2 }))
        return { result: 'unreachable', reason: 'timeout', sent: true, lost: true }
      },
    })
    void world.start()
    await world.clock.advance(119_000)
    expect(world.platform.retries).toHaveLength(1)
    await world.clock.advance(minuteMs * 10)
    const told = world.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
    expect(told[0]).toBe(outcome)
    const second = world.platform.retries[1]?.at
    if (isTaken) expect(second).toBeUndefined()
    else expect(second).toBeGreaterThanOrEqual(testNow + 2 * minuteMs)
  })

  test('of every retry: a platform that takes none is not hit by ten thousand', async () => {
    await using world: Reconcile = holding(many(1000, 1), {
      circuit,
      onRetry: () => ({ result: 'platform-error', reason: 'server-error', sent: true, lost: true }),
    })
    void world.start()
    await world.clock.advance(minuteMs)
    // Three failures, then one question whose answer says that the records are the trouble; places are free after two seconds.
    expect(world.platform.retries.length).toBeLessThanOrEqual(400)
    expect(world.backlog.outcomes.pending().size).toBe(world.platform.retries.length)
  })
})
