// Events of one transfer or account are retried in their order: the whole way from the listing to the PATCH.
import { describe, expect, test } from 'vitest'
import type { ListQuery, RetryAnswer } from '../../../src/platform/operations.ts'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { dayMs, due, hourMs, learn, listingOf, minuteMs, noted, testBacklog, testNow } from '../../support/backlog.ts'
import { delivering, holding, subscription, type Delivery } from '../../support/dispatching.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { reconcile, ticks, type Reconcile, type ReconcileOptions } from '../../support/reconcile.ts'

const policy = { orderPerEntity: true }
const arrives: Delivery = { takesMs: 300, arrives: true }
const fails: Delivery = { takesMs: 300, arrives: false }
const entity = (number: number): string => `77777777-0000-4000-8000-${String(number).padStart(12, '0')}`

/** Events of one entity, a second apart. */
function chain(count: number, number = 1, fields: Partial<WebhookRecord> = {}): WebhookRecord[] {
  return Array.from({ length: count }, (_, index) =>
    failedRecord({ eventLocal: testNow - 2 * dayMs + index * 1000, entityId: entity(number), ...fields }),
  )
}

/** The dispatcher with these records, over a platform that delivers so. */
function ordered(
  records: WebhookRecord[],
  of: (record: WebhookRecord) => Delivery | undefined,
  options: ReconcileOptions = {},
): Reconcile {
  const { bind, onRetry } = delivering(of)
  return bind(holding(records, { policy, onRetry, ...options }))
}

const ids = (records: readonly { id: string }[]): string[] => records.map(({ id }) => id)

/** When an outcome of a record was reported, in the order of facts; and when its PATCH was answered. */
function events(world: Reconcile): string[] {
  return world.facts.flatMap((fact) => {
    if (fact.type === 'retry') return [`PATCH ${fact.id}`]
    return fact.type === 'outcome' ? [`${fact.outcome} ${fact.id}`] : []
  })
}

describe('one after the other', () => {
  test('each goes when the one before has been seen to be recovered', async () => {
    const records = chain(5)
    await using world = ordered(records.toReversed(), () => arrives)
    void world.start()
    await world.clock.advance(minuteMs)
    expect(events(world)).toEqual(records.flatMap(({ id }) => [`PATCH ${id}`, `recovered ${id}`]))
  })

  test('one that fails again holds the others up until it is recovered', async () => {
    const [first, ...rest] = chain(3)
    if (first === undefined) throw new Error('no record')
    let tries = 0
    const of = ({ id }: WebhookRecord): Delivery => (id === first.id && ++tries < 4 ? fails : arrives)
    await using world = ordered([first, ...rest], of)
    void world.start()
    await world.clock.advance(hourMs)
    expect(ids(world.platform.retries)).toEqual(ids([first, first, first, first, ...rest]))
    expect(world.platform.failedIds()).toEqual([])
  })

  test.each<[string, Partial<WebhookRecord>, (record: WebhookRecord) => Delivery | undefined, number]>([
    ['parked from the beginning', { attempts: 30 }, () => arrives, 0],
    ['parked by the last failure', { attempts: 29 }, () => fails, 0],
    ['unknown, after an hour', {}, () => undefined, hourMs],
  ])('one that is %s lets the others go', async (_, fields, of, heldMs) => {
    const [first] = chain(1, 1, { ...fields, lastAttemptLocal: testNow - dayMs })
    const [, second] = chain(2)
    if (first === undefined || second === undefined) throw new Error('no record')
    await using world = ordered([first, second], (record) => (record.id === first.id ? of(record) : arrives))
    void world.start()
    await world.clock.advance(heldMs)
    const isEarly = heldMs > 0 && ids(world.platform.retries).includes(second.id)
    expect(isEarly).toBe(false)
    // Looks are five minutes apart at most.
    await world.clock.advance(6 * minuteMs)
    expect(world.platform.records.get(second.id)?.status).toBe('successful')
    expect(world.platform.records.get(first.id)?.status).not.toBe('successful')
  })

  test.each<[string, RetryAnswer, number]>([
    // It is due again by then: what waits behind it goes all the same.
    ['lost, and stays as it was', { result: 'unreachable', reason: 'timeout', sent: true, lost: true }, 2 * minuteMs],
  ])('one that is %s lets the others go', async (_, answer, heldMs) => {
    const [first, next] = chain(2)
    const { bind, onRetry } = delivering(() => arrives)
    await using world = bind(
      holding(chain(0).concat(first ?? [], next ?? []), {
        policy,
        onRetry: (record, platform, id) => (id === first?.id ? answer : onRetry(record, platform, id)),
      }),
    )
    void world.start()
    await world.clock.advance(heldMs)
    expect(ids(world.platform.retries)).not.toContain(next?.id)
    await world.clock.advance(3 * minuteMs)
    expect(world.platform.failedIds()).toEqual([first?.id])
  })

  test('one that was lost and then failed again holds the others up again', async () => {
    const [first, next, last] = chain(3)
    if (first === undefined || next === undefined || last === undefined) throw new Error('no record')
    const lost: RetryAnswer = { result: 'unreachable', reason: 'timeout', sent: true, lost: true }
    let tries = 0
    const { bind, onRetry } = delivering(({ id }) => (id === first.id && tries < 4 ? fails : arrives))
    await using world = bind(
      holding([first, next, last], {
        policy,
        onRetry: (record, platform, id) => {
          if (id === first.id) tries += 1
          return id === first.id && tries === 1 ? lost : onRetry(record, platform, id)
        },
      }),
    )
    void world.start()
    await world.clock.advance(hourMs)
    expect(ids(world.platform.retries)).toEqual(ids([first, first, next, first, first, last]))
    expect(world.platform.failedIds()).toEqual([])
  })

  test.each([
    ['and is listed all the same holds them up', false],
    ['and is not listed any more lets them go', true],
  ])('one that a PATCH found gone %s', async (_, isGone) => {
    const [first, next] = chain(2)
    if (first === undefined || next === undefined) throw new Error('no record')
    const { bind, onRetry } = delivering(() => arrives)
    await using world = bind(
      holding([first, next], {
        policy,
        onRetry: (record, platform, id) =>
          id === first.id ? { result: 'gone', reason: 'not-found', sent: true } : onRetry(record, platform, id),
      }),
    )
    void world.start()
    await world.clock.advance(minuteMs)
    if (isGone) world.platform.records.delete(first.id)
    world.platform.changed()
    await world.sweep()
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries).includes(next.id)).toBe(isGone)
  })

  test('entities, subscriptions, and records without an entity don’t wait for each other', async () => {
    const stuck = chain(3, 1)
    const free = [
      ...chain(1, 2),
      ...chain(1, 1, { subscriptionId: subscription(2) }),
      ...chain(2, 1, { entityId: '' }).map(({ entityId: _, ...record }) => record),
    ]
    const of = ({ id }: WebhookRecord): Delivery | undefined => (id === stuck[0]?.id ? undefined : arrives)
    await using world = ordered([...stuck, ...free], of)
    void world.start()
    await world.clock.advance(10_000)
    expect(world.platform.failedIds().toSorted()).toEqual(ids(stuck.slice(1)).toSorted())
  })

  test('without the setting they go side by side', async () => {
    await using world = ordered(chain(5), () => undefined, { policy: {} })
    void world.start()
    await world.clock.advance(1000)
    expect(world.platform.retries).toHaveLength(5)
  })

  test('a hundred entities of three events: all recovered, each in its order', async () => {
    const records = Array.from({ length: 100 }, (_, number) => chain(3, number)).flat()
    await using world = ordered(records, () => arrives)
    void world.start()
    await world.clock.advance(4 * minuteMs)
    expect(world.platform.failedIds()).toEqual([])
    const told = events(world)
    const places = new Map(told.map((event, index) => [event, index]))
    for (const [index, record] of records.entries()) {
      const before = records[index - 1]
      if (before?.entityId !== record.entityId || before === undefined) continue
      const after = places.get(`PATCH ${record.id}`) ?? -1
      expect(after).toBeGreaterThan(places.get(`recovered ${before.id}`) ?? Infinity)
    }
    expect(told).toHaveLength(2 * records.length)
  })
})

describe('what is not in the backlog', () => {
  /** A sweep lists them. */
  function list(world: Reconcile, records: WebhookRecord[]): void {
    const listing = listingOf(records, { complete: false, askedAt: world.clock.monotonic() })
    learn(world.backlog, listing, world.platform.now())
    world.planner.changed()
  }

  test('older events that come later take the room of the newest, and go before them', async () => {
    const older = chain(1, 1)
    const inside = chain(3, 2).map((record) => ({ ...record, eventLocal: record.eventLocal + hourMs }))
    await using world = ordered(inside, () => arrives, { maxRecords: 3, concurrency: 1 })
    world.platform.add(...older)
    list(world, older)
    expect(inside.map(({ id }) => world.backlog.get(id) !== undefined)).toEqual([true, true, false])
    void world.start()
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids([...older, ...inside]))
  })

  test('older events that had no room, as newer ones were awaited, go before these are retried again', async () => {
    const [older, newer] = [chain(1, 1), chain(1, 2)]
    const inside = newer.map((record) => ({ ...record, eventLocal: record.eventLocal + hourMs }))
    let tries = 0
    const of = ({ id }: WebhookRecord): Delivery => (id === inside[0]?.id && ++tries === 1 ? fails : arrives)
    await using world = ordered(inside, of, { maxRecords: 1 })
    void world.start()
    await world.clock.advance(100)
    world.platform.add(...older)
    list(world, older)
    // Its backoff is long over, and nothing but the older one is in its way.
    await world.clock.advance(hourMs)
    expect(ids(world.platform.retries)).toEqual(ids(inside))
    list(world, older)
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids([...inside, ...older, ...inside]))
    expect(world.platform.failedIds()).toEqual([])
  })

  // Berlin: 02:00 to 03:00 came twice on 2026-10-25, at 00:00 and at 01:00 UTC.
  test.each([
    ['was never tried', 1],
    ['was tried, as the daemon alone counts', 0],
  ])('of an hour that the clock repeats, the latest gives way: one that %s', (_, attempts) => {
    const fields = { lastAttemptLocal: null, entityId: entity(1) }
    const at = (minute: number): WebhookRecord => due({ ...fields, eventLocal: Date.UTC(2026, 9, 25, 2, minute) })
    const [first, older, latest] = [at(5), at(10), { ...at(50), attempts }]
    const backlog = testBacklog({ policy, zone: 'Europe/Berlin', maxRecords: 2 })
    const list = (records: WebhookRecord[], now: number): void => {
      learn(backlog, listingOf(records, { span: { from: 0, to: 2e9 }, complete: false }), now)
    }
    // Listed before the hour is repeated: its event lies before those of the others by UTC.
    const [before, after] = [Date.UTC(2026, 9, 25, 0, 55), Date.UTC(2026, 9, 25, 4)]
    list([latest], before)
    if (attempts === 0) noted(backlog, latest, { result: 'rejected', reason: 'bad-request', sent: true }, 2000, before)
    list([first], after)
    list([older], after)
    // By the wall clock it lies behind what was left out: it would hold the others up and never go itself.
    expect([first, older, latest].map(({ id }) => backlog.get(id) !== undefined)).toEqual([true, true, false])
  })

  test('nothing goes before a full sweep has seen the whole window: one that failed is not enough', async () => {
    const records = chain(2, 1).map((record, index) => ({
      ...record,
      eventLocal: testNow - 30 * minuteMs + index * 1000,
      lastAttemptLocal: testNow - 29 * minuteMs,
    }))
    const { bind, onRetry } = delivering(() => arrives)
    let fails = true
    const onList = ({ from = 0, size }: ListQuery): void => {
      const isOld = size === 1 || from < (testNow - 2 * hourMs) / 1000
      if (fails && isOld) throw new PlatformFailure('server-error', 500, 'list')
    }
    await using world = bind(reconcile({ policy, onRetry, onList, records }))
    void world.start()
    expect((await world.sweep()).result).toBe('failed')
    await ticks(world, 30_000, 10 * minuteMs)
    expect(new Set(world.sweeps().map(({ result }) => result))).toEqual(new Set(['failed']))
    expect(world.backlog.size()).toBe(2)
    world.planner.changed()
    await world.clock.advance(minuteMs)
    expect(world.platform.retries).toEqual([])

    fails = false
    expect((await world.sweep()).result).toBe('complete')
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids(records))
    expect(world.platform.failedIds()).toEqual([])
  })

  test('nor one that left a part of it out: the event there may be the older one', async () => {
    const records = chain(2, 1).map((record, index) => ({
      ...record,
      eventLocal: testNow - 2 * dayMs + index * hourMs,
    }))
    const [older] = records
    const { bind, onRetry } = delivering(() => arrives)
    let fails = true
    const second = (older?.eventLocal ?? 0) / 1000
    const onList = ({ from = Infinity, to = 0, size }: ListQuery): void => {
      if (fails && size > 1 && from <= second && second <= to) throw new PlatformFailure('server-error', 500, 'list')
    }
    await using world = bind(reconcile({ policy, onRetry, onList, records }))
    void world.start()
    expect((await world.sweep()).result).toBe('incomplete')
    await world.clock.advance(minuteMs)
    expect(world.platform.retries).toEqual([])
    fails = false
    expect((await world.sweep()).result).toBe('complete')
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids(records))
  })

  test.each([
    ['another subscription do not hold it up', subscription(2), 3],
    ['its own subscription do', subscription(1), 0],
  ])('older events without room that are of %s', async (_, subscriptionId, sent) => {
    const records = chain(3, 1, { subscriptionId: subscription(1) })
    // It is full, so that nothing can be listed again.
    await using world = ordered(records, () => arrives, { maxRecords: 3 })
    const second = (testNow - 6 * dayMs) / 1000
    world.backlog.leftOut.evicted({ decision: 'due', eventSecond: second, subscriptionId })
    void world.start()
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids(records).slice(0, sent))
  })

  test('an older event of the same second without room holds it up, and a newer one does not', async () => {
    const [first] = chain(1, 1, { subscriptionId: subscription(1) })
    const records = first === undefined ? [] : [{ ...first, eventLocal: testNow - 2 * dayMs + 500 }]
    for (const [ms, sent] of [
      [400, 0],
      [600, 1],
    ] as const) {
      await using world = ordered(records, () => arrives, { maxRecords: 1 })
      const second = (testNow - 2 * dayMs) / 1000
      world.backlog.leftOut.evicted({
        decision: 'due',
        eventSecond: second + ms / 1000,
        subscriptionId: subscription(1),
      })
      void world.start()
      await world.clock.advance(minuteMs)
      expect(world.platform.retries).toHaveLength(sent)
    }
  })

  test('and newer ones that fill the backlog give way to them: else none would ever go', async () => {
    const fresh = chain(10, 1).map((record, index) => ({
      ...record,
      eventLocal: testNow - 30 * minuteMs + index * 1000,
    }))
    const old = chain(10, 2)
    const { bind, onRetry } = delivering(() => arrives)
    await using world = bind(reconcile({ policy, onRetry, records: [...fresh, ...old], maxRecords: 5 }))
    void world.start()
    for (let round = 0; round < 60; round += 1) {
      world.sweeper.tick()
      await world.clock.advance(30_000)
      world.planner.changed()
    }
    expect(world.platform.failedIds()).toEqual([])
  })

  test('an older event whose part of the window has not been listed yet goes before', async () => {
    const [older, newer] = chain(2, 1)
    if (older === undefined || newer === undefined) throw new Error('no record')
    const records = [older, { ...newer, eventLocal: testNow - 10 * minuteMs, lastAttemptLocal: testNow - 9 * minuteMs }]
    const { bind, onRetry } = delivering(() => arrives)
    await using world = bind(reconcile({ policy, onRetry, records }))
    void world.start()
    // The first full sweep lists the newest hour before all else.
    await world.sweep()
    world.planner.changed()
    await world.clock.advance(minuteMs)
    expect(ids(world.platform.retries)).toEqual(ids([older, newer]))
  })
})
