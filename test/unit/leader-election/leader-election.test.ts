// One leads: who takes the lease, when it is taken over, and when a leader stops by itself.
import { describe, expect, test } from 'vitest'
import type { LeadershipEvent } from '../../../src/leader-election/leadership.ts'
import { createScene, noFaults, startScene, timings, type Instance } from '../../support/lease-store.ts'

function typesOf({ events }: Instance): LeadershipEvent['type'][] {
  return events.map(({ type }) => type)
}

describe('the lease', () => {
  test('is created by the first, which leads; the others see who it is', async () => {
    using scene = await startScene(2)
    const [one, two] = scene.instances
    expect(scene.leaders()).toEqual([one])
    expect(scene.store.lease()).toMatchObject({ holder: 'one_0', durationMs: 15_000, transitions: 0 })
    expect(one?.events).toEqual([{ type: 'leading', transitions: 0 }])
    expect(two?.events).toEqual([{ type: 'standing-by', cause: 'seen', leader: 'one_0' }])
    expect(two?.election.state()).toMatchObject({ isLeading: false, leader: 'one_0', problem: undefined })
  })

  test('is renewed every retryPeriod, for as long as the leader lives', async () => {
    using scene = await startScene(2)
    const before = scene.store.calls()
    const acquireTime = scene.store.lease()?.acquireTime
    await scene.clock.advance(60_000)
    expect(scene.leaders()).toEqual([scene.first])
    expect(scene.store.lease()).toMatchObject({ transitions: 0, acquireTime })
    // A write of the leader, and a read of the standby, each 2 s.
    expect(scene.store.calls() - before).toBe(60)
  })

  test('is taken over when its holder was killed: after its duration, at the moment of its expiry', async () => {
    using scene = await startScene(3)
    await scene.clock.advance(7000)
    scene.first.kill()
    const ms = await scene.takeoverMs()
    expect(ms).toBeGreaterThan(timings.leaseDurationMs - timings.retryPeriodMs - 100)
    expect(ms).toBeLessThanOrEqual(timings.leaseDurationMs + timings.retryPeriodMs)
    expect(scene.store.lease()).toMatchObject({ transitions: 1 })
    const standby = scene.instances.slice(1).find((one) => !one.election.isLeading())
    await scene.clock.advance(timings.retryPeriodMs)
    expect(standby?.events.at(-1)).toEqual({ type: 'standing-by', cause: 'seen', leader: scene.store.lease()?.holder })
  })

  test('is given away by a leader that stops, and taken by the next try of another', async () => {
    using scene = await startScene(2)
    await scene.clock.run(scene.first.stop())
    expect(scene.store.lease()).toMatchObject({ holder: '', durationMs: 1000 })
    expect(scene.first.events.at(-1)).toMatchObject({ type: 'standing-by', cause: 'released' })
    expect(await scene.takeoverMs()).toBeLessThanOrEqual(timings.retryPeriodMs)
  })

  test('is left to expire by a leader that stops while the API is away, and by a standby', async () => {
    using scene = await startScene(2)
    const before = scene.store.lease()
    await scene.clock.run(scene.instances[1]?.stop() ?? Promise.reject(new Error('two were started')))
    scene.first.faults = { ...noFaults, cut: true }
    const from = scene.clock.monotonic()
    await scene.clock.run(scene.first.stop())
    expect(scene.clock.monotonic() - from).toBeLessThanOrEqual(5000)
    expect(typesOf(scene.first).slice(-2)).toEqual(['standing-by', 'lease-unavailable'])
    expect(scene.store.lease()).toEqual(before)
  })

  test('keeps what other programs wrote into it', async () => {
    using scene = await startScene(1)
    const foreign = { annotations: { other: 'x' }, object: { metadata: { labels: { a: 'b' } } } }
    scene.store.edit(foreign)
    await scene.clock.advance(5000)
    expect(scene.store.lease()).toMatchObject(foreign)
  })

  test('that is edited all the time by another program still expires', async () => {
    using scene = await startScene(2)
    scene.first.kill()
    for (let step = 0; step < 170; step++) {
      scene.store.edit({ annotations: { step: String(step) } })
      await scene.clock.advance(100)
    }
    expect(scene.instances[1]?.election.isLeading()).toBe(true)
  })

  test.each([
    ['before', 'is made again by its holder'],
    ['after', 'stays with its holder'],
  ])('that was deleted %s the tries of the others %s', async (when) => {
    using scene = await startScene(1)
    await scene.clock.advance(100)
    for (let others = 0; others < 2; others++) scene.start()
    await scene.clock.advance(timings.retryPeriodMs - (when === 'before' ? 1000 : 50))
    scene.store.remove()
    // Another one may write it first: it does not take it.
    if (when === 'after') expect(await scene.instances[1]?.election.setPause(Date.UTC(2026, 0, 15))).toBe(true)
    for (let step = 0; step < 50; step++) {
      expect(scene.leaders()).toEqual([scene.first])
      await scene.clock.advance(100)
    }
    expect(scene.store.lease()).toMatchObject({ holder: 'one_0', transitions: 0 })
  })

  test('that a person gave to another ends the lead at the next renewal', async () => {
    using scene = await startScene(1)
    scene.store.edit({ holder: 'stranger', renewTime: '2026-01-01T00:00:00Z' })
    await scene.clock.advance(timings.retryPeriodMs)
    expect(scene.first.events.at(-1)).toEqual({ type: 'standing-by', cause: 'taken', leader: 'stranger' })
  })

  test('of long ago is waited for: its age counts from when it was seen, not by its own time', async () => {
    using scene = createScene()
    const old = '2020-01-01T00:00:00.000000Z'
    scene.store.write({
      ...{ version: undefined, holder: 'gone', durationMs: 15_000, transitions: 4, acquireTime: old, renewTime: old },
      ...{ annotations: {}, object: {} },
    })
    const one = scene.start()
    await scene.clock.advance(14_990)
    expect(one.election.isLeading()).toBe(false)
    await scene.clock.advance(20)
    expect(one.election.isLeading()).toBe(true)
    expect(scene.store.lease()?.transitions).toBe(5)
  })
})

describe('a leader that cannot renew', () => {
  test.each([
    ['is cut off', { cut: true }, 'timeout'],
    ['is refused with 403', { refused: 'forbidden' }, 'refused: forbidden'],
    ['gets 500', { refused: 'server-error' }, 'refused: server-error'],
    ['loses the answers', { loseAnswers: true }, 'timeout'],
  ] as const)('and %s stops leading at its deadline, before another one takes the lease', async (_, fault, problem) => {
    using scene = await startScene(2)
    await scene.clock.advance(timings.retryPeriodMs)
    scene.first.faults = { ...noFaults, ...fault }
    await scene.clock.advance(timings.renewDeadlineMs - timings.retryPeriodMs - 10)
    expect(scene.first.election.isLeading()).toBe(true)
    await scene.clock.advance(timings.retryPeriodMs + 20)
    expect(scene.leaders()).toEqual([])
    expect(scene.first.events).toContainEqual({ type: 'standing-by', cause: 'expired', leader: undefined, problem })
    expect(scene.first.election.state()).toMatchObject({ isLeading: false, problem })
  })

  test('continues when it can before the deadline', async () => {
    using scene = await startScene(2)
    scene.first.faults = { ...noFaults, refused: 'server-error' }
    await scene.clock.advance(7500)
    scene.first.faults = noFaults
    await scene.clock.advance(30_000)
    const unavailable = Array<string>(3).fill('lease-unavailable')
    expect(typesOf(scene.first)).toEqual(['leading', ...unavailable, 'lease-available'])
    expect(scene.leaders()).toEqual([scene.first])
  })
})

test('a standby that gets no answer names no leader, and never leads', async () => {
  using scene = await startScene(2)
  const [one, two] = scene.instances
  if (two !== undefined) two.faults = { ...noFaults, refused: 'forbidden' }
  one?.kill()
  await scene.clock.advance(120_000)
  expect(two?.election.state()).toMatchObject({ isLeading: false, leader: undefined, problem: 'refused: forbidden' })
})

describe('a leader that was frozen', () => {
  test.each([
    [11_000, 'one_0'],
    [60_000, 'one_1'],
  ])('for %d ms does not lead when it wakes up: then %s does', async (ms, leader) => {
    using scene = await startScene(2)
    scene.first.freeze()
    await scene.clock.advance(ms)
    expect(scene.first.election.isLeading()).toBe(false)
    scene.first.thaw()
    await scene.clock.advance(100)
    expect(scene.leaders().map(({ election }) => election.state().identity)).toEqual([leader])
  })

  test('works in a new term after it', async () => {
    using scene = await startScene(1)
    const stop = new AbortController()
    const terms: AbortSignal[] = []
    const leading = scene.first.election.lead((term) => {
      terms.push(term)
      return new Promise((resolve) => {
        term.addEventListener('abort', () => {
          resolve()
        })
      })
    }, stop.signal)
    await scene.clock.settle()
    scene.first.freeze()
    await scene.clock.advance(11_000)
    expect(terms.map(({ aborted }) => aborted)).toEqual([false])
    scene.first.thaw()
    await scene.clock.advance(timings.retryPeriodMs)
    expect(terms.map(({ aborted }) => aborted)).toEqual([true, false])
    stop.abort()
    await leading
    expect(terms.map(({ aborted }) => aborted)).toEqual([true, true])
  })
})
