// How the dispatcher ends: a single round, a stop, a kill, a bug; and that it is seen to be alive until then.
import { describe, expect, test } from 'vitest'
import { PlatformFailure } from '../../../src/platform/http/response.ts'
import { dayMs, hourMs, learn, listingOf, minuteMs, testNow } from '../../support/backlog.ts'
import { delivering, due, holding, subscription, watching } from '../../support/dispatching.ts'
import { accepted, failedRecord } from '../../support/fake-platform.ts'
import type { Reconcile } from '../../support/reconcile.ts'

describe('a single round', () => {
  /** Runs one, with the checks of outcomes beside it. */
  async function round(world: Reconcile, limitMs?: number): Promise<void> {
    const { signal } = world.stop
    const beside = world.confirm(signal).catch(() => undefined)
    const signals = { stop: world.stop.signal, kill: world.kill.signal }
    await world.clock.run(world.retry(signals, { onlyDueAt: world.platform.now() }), limitMs)
    world.stop.abort(new Error('the round is over'))
    await world.clock.run(beside)
  }

  test.each([0, 1, 7, 100])('of %i records ends when each has been retried', async (count) => {
    await using world = holding(due(count))
    await round(world)
    expect(world.platform.retries).toHaveLength(count)
    expect(world.platform.failedIds()).toEqual([])
  })

  test('leaves what becomes due while it runs', async () => {
    const soon = failedRecord({ eventLocal: testNow - dayMs, lastAttemptLocal: testNow - 29_000 })
    await using world = holding([...due(300), soon], { maxPerSecond: 2 })
    await round(world)
    expect(world.platform.retries).toHaveLength(300)
    expect(world.platform.failedIds()).toEqual([soon.id])
  })

  test('ends when each has an outcome: an accepted retry has none yet', async () => {
    const { bind, onRetry } = delivering(({ attempts }) => ({ takesMs: 20_000, arrives: attempts < 2 }))
    const records = [...due(30), ...due(10, { attempts: 2, lastAttemptLocal: testNow - dayMs })]
    await using world = bind(holding(records, { onRetry }))
    await round(world, hourMs)
    const told = world.facts.flatMap((fact) => (fact.type === 'outcome' ? [fact.outcome] : []))
    expect(told.filter((outcome) => outcome === 'recovered')).toHaveLength(30)
    expect(told.filter((outcome) => outcome === 'failed-again')).toHaveLength(10)
    expect(world.platform.retries).toHaveLength(40)
    expect(world.backlog.outcomes.pending().size).toBe(0)
  })

  test('ends with an open circuit, and leaves what it holds', async () => {
    const { bind, onRetry } = delivering(({ subscriptionId }) => ({
      takesMs: 100,
      arrives: subscriptionId === subscription(2),
    }))
    const records = [
      ...due(100, { subscriptionId: subscription(1), attempts: 2, lastAttemptLocal: testNow - dayMs }),
      ...due(100, { subscriptionId: subscription(2) }),
    ]
    await using world = bind(holding(records, { onRetry, circuit: { enabled: true } }))
    await round(world, hourMs)
    const left = world.platform.failedIds().map((id) => world.platform.records.get(id)?.subscriptionId)
    expect(left).toHaveLength(100)
    expect(left.every((id) => id === subscription(1))).toBe(true)
    expect(world.platform.retries.length).toBeLessThanOrEqual(100 + 12)
    expect(world.platform.now() - testNow).toBeLessThan(2 * minuteMs)
  })

  test('does not wake up again and again for what is not part of it', async () => {
    const resting = Array.from({ length: 5 }, () =>
      failedRecord({ eventLocal: testNow - dayMs, lastAttemptLocal: testNow - 1000 }),
    )
    const [slow] = due(1)
    const watch = watching(() => 10 * minuteMs)
    await using world = holding([...resting, ...(slow === undefined ? [] : [slow])], {
      onRetry: watch.onRetry,
      latencyMs: 0,
    })
    watch.bind(world)
    let timers = 0
    const timer = world.clock.timer.bind(world.clock)
    world.clock.timer = (ms, act) => {
      timers += 1
      return timer(ms, act)
    }
    await round(world)
    expect(world.platform.retries).toHaveLength(1)
    expect(timers).toBeLessThan(100)
  })

  test.each([
    ['refused', { result: 'unauthorized', reason: 'forbidden', sent: true }, false, 'unauthorized'],
    ['down', { result: 'unreachable', reason: 'connection', sent: true }, true, 'platform'],
  ] as const)('ends when we are %s, after few PATCHes', async (_, answer, listFails, trouble) => {
    await using world = holding(due(500), {
      onRetry: () => answer,
      onList: () => {
        if (listFails) throw new PlatformFailure('connection', undefined, 'list')
      },
    })
    await round(world, hourMs)
    expect(world.platform.retries.length).toBeLessThanOrEqual(16)
    expect(world.breaker.trouble()).toBe(trouble)
  })
})

describe('stopping', () => {
  test('no new PATCH goes out, those in flight finish, and it ends', async () => {
    const watch = watching(() => 5000)
    await using world = holding(due(100), { onRetry: watch.onRetry, latencyMs: 0 })
    watch.bind(world)
    const run = world.start()
    await world.clock.advance(100)
    world.stop.abort()
    await world.clock.advance(1000)
    expect(world.dispatcher.inFlight()).toBe(7)
    await world.clock.run(run, 10_000)
    expect(world.platform.retries).toHaveLength(7)
    expect(world.platform.failedIds()).toHaveLength(93)
    expect(world.dispatcher.inFlight()).toBe(0)
  })

  test('in the moment in which the rate lets one go: it does not go', async () => {
    await using world = holding(due(3))
    const { rate } = world
    const acquire = rate.acquire.bind(rate)
    rate.tryAcquire = () => false
    rate.acquire = async (kind, signal) => {
      await acquire(kind, signal)
      world.stop.abort()
    }
    await world.start()
    expect(world.platform.retries).toEqual([])
  })
})

describe('a bug', () => {
  const bug = new TypeError('undefined is not a function')

  test('in the client makes run() reject, and nothing hangs', async () => {
    await using world = holding(due(20), {
      onRetry: () => {
        throw bug
      },
    })
    const run = world.start()
    await expect(world.clock.run(run)).rejects.toBe(bug)
    expect(world.platform.retries.length).toBeLessThanOrEqual(8)
    await world.clock.advance(minuteMs)
    const release = await world.clock.run(world.dispatcher.fence({ from: 0, to: 4e9 }, world.stop.signal))
    release()
    expect(world.dispatcher.inFlight()).toBe(0)
  })

  test('is reported at once, although others in flight take long and the rate is paused', async () => {
    const records = due(20)
    await using world = holding(records, {
      latencyMs: 0,
      onRetry: async (record) => {
        if (record?.id !== records[3]?.id) await world.clock.sleep(hourMs, world.kill.signal)
        else {
          world.rate.reportResponse({ kind: 'throttled', retryAfterMs: 300_000, sentAt: world.clock.monotonic() })
          await world.clock.sleep(100)
          throw bug
        }
        return accepted()
      },
    })
    await expect(world.clock.run(world.start(), 1000)).rejects.toBe(bug)
  })
})

describe('being alive', () => {
  test('an idle loop turns at least every half minute, one that waits for the rate is not silent', async () => {
    await using world = holding([])
    void world.start()
    for (let at = 0; at < 200; at += 1) {
      await world.clock.advance(1000)
      expect(world.dispatcher.silentForMs()).toBeLessThanOrEqual(30_000)
    }
    world.rate.reportResponse({ kind: 'throttled', retryAfterMs: 300_000, sentAt: world.clock.monotonic() })
    const [record] = due(1)
    if (record !== undefined) learn(world.backlog, listingOf([record]), testNow)
    world.planner.changed()
    await world.clock.advance(250_000)
    expect(world.dispatcher.silentForMs()).toBe(0)
    expect(world.platform.retries).toEqual([])
    await world.clock.advance(60_000)
    expect(world.platform.retries).toHaveLength(1)
    expect(world.dispatcher.silentForMs()).toBeLessThanOrEqual(30_000)
  })

  test('one that the rate never lets go is silent, but for the time that a Retry-After asks for', async () => {
    await using world = holding(due(1))
    world.rate.tryAcquire = () => false
    world.rate.acquire = (_, signal) => world.clock.sleep(dayMs, signal)
    void world.start()
    await world.clock.advance(60_000)
    expect(world.dispatcher.silentForMs()).toBe(60_000)
    world.rate.reportResponse({ kind: 'throttled', retryAfterMs: 300_000, sentAt: world.clock.monotonic() })
    await world.clock.advance(360_000)
    expect(world.dispatcher.silentForMs()).toBe(120_000)
  })
})
