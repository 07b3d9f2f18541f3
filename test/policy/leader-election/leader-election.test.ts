// One leads: who takes the lease, when it is taken over, and when a leader stops by itself.
import { describe, expect, test } from 'vitest'
import type { LeadershipEvent } from '../../../src/leader-election/leadership.ts'
import {
  createLeaseStore,
  end,
  first,
  leadersOf,
  noFaults,
  startInstance,
  startScene,
  takeoverMs,
  timings,
  type Instance,
} from '../../support/lease-store.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

function typesOf({ events }: Instance): LeadershipEvent['type'][] {
  return events.map(({ type }) => type)
}

describe('the lease', () => {
  test('is created by the first, which leads; the others see who it is', async () => {
    const scene = await startScene(3)
    const [one, two, three] = scene.instances
    expect(leadersOf(scene.instances)).toEqual([one])
    expect(scene.store.lease()).toMatchObject({ holder: 'one_0', durationMs: 15_000, transitions: 0 })
    expect(one && typesOf(one)).toEqual(['leading'])
    expect(two?.events).toEqual([{ type: 'standing-by', cause: 'seen', leader: 'one_0' }])
    expect(three?.election.state()).toMatchObject({ isLeading: false, leader: 'one_0', problem: undefined })
    end(scene)
  })

  test('is renewed every retryPeriod, for as long as the leader lives', async () => {
    const scene = await startScene(2)
    const before = scene.store.calls()
    const acquireTime = scene.store.lease()?.acquireTime
    await scene.clock.advance(60_000)
    expect(leadersOf(scene.instances)).toEqual([first(scene)])
    expect(scene.store.lease()).toMatchObject({ transitions: 0, acquireTime })
    // A write of the leader, and a read of the standby, each 2 s.
    expect(scene.store.calls() - before).toBe(60)
    end(scene)
  })

  test('is taken over when its holder was killed: after its duration, at the moment of its expiry', async () => {
    const scene = await startScene(3)
    await scene.clock.advance(7000)
    first(scene).kill()
    const ms = await takeoverMs(scene, first(scene))
    expect(ms).toBeGreaterThan(timings.leaseDurationMs - timings.retryPeriodMs - 100)
    expect(ms).toBeLessThanOrEqual(timings.leaseDurationMs + timings.retryPeriodMs)
    expect(scene.store.lease()).toMatchObject({ transitions: 1 })
    const standby = scene.instances.slice(1).find((one) => !one.election.isLeading())
    await scene.clock.advance(timings.retryPeriodMs)
    expect(standby?.events.at(-1)).toEqual({ type: 'standing-by', cause: 'seen', leader: scene.store.lease()?.holder })
    end(scene)
  })

  test('a standby that sees the last renewal late does not wait for its next try, but for the expiry', async () => {
    const clock = createVirtualClock()
    const store = createLeaseStore()
    const slow = { store, clock, retryPeriodMs: 5000 }
    const one = startInstance({ identity: 'one', ...slow })
    await clock.settle()
    const two = startInstance({ identity: 'two', ...slow })
    await clock.settle()
    one.kill()
    await clock.advance(14_990)
    expect(two.election.isLeading()).toBe(false)
    await clock.advance(20)
    expect(two.election.isLeading()).toBe(true)
    two.kill()
  })

  test('is given away by a leader that stops, and taken by the next try of another', async () => {
    const scene = await startScene(2)
    const [one] = scene.instances
    await scene.clock.run(one?.stop() ?? Promise.reject(new Error()))
    expect(scene.store.lease()).toMatchObject({ holder: '', durationMs: 1000 })
    expect(await takeoverMs(scene, first(scene))).toBeLessThanOrEqual(timings.retryPeriodMs)
    expect(one?.events.at(-1)).toMatchObject({ type: 'standing-by', cause: 'released' })
    end(scene)
  })

  test('is left to expire by a leader that stops while the API is away: it does not wait for it', async () => {
    const scene = await startScene(2)
    first(scene).faults = { ...noFaults, cut: true }
    const from = scene.clock.monotonic()
    await scene.clock.run(first(scene).stop())
    expect(scene.clock.monotonic() - from).toBeLessThanOrEqual(5000)
    expect(typesOf(first(scene)).slice(-2)).toEqual(['standing-by', 'lease-unavailable'])
    expect(scene.store.lease()?.holder).toBe('one_0')
    end(scene)
  })

  test('of a standby that stops stays as it is', async () => {
    const scene = await startScene(2)
    const before = scene.store.lease()
    await scene.clock.run(scene.instances[1]?.stop() ?? Promise.reject(new Error()))
    expect(scene.store.lease()).toEqual(before)
    end(scene)
  })

  test('keeps what other programs wrote into it', async () => {
    const scene = await startScene(1)
    scene.store.edit({ annotations: { other: 'x' }, object: { metadata: { labels: { a: 'b' } } } })
    await scene.clock.advance(5000)
    expect(scene.store.lease()).toMatchObject({
      annotations: { other: 'x' },
      object: { metadata: { labels: { a: 'b' } } },
    })
    end(scene)
  })

  test('that is edited all the time by another program still expires', async () => {
    const scene = await startScene(2)
    first(scene).kill()
    for (let step = 0; step < 170; step++) {
      scene.store.edit({ annotations: { step: String(step) } })
      await scene.clock.advance(100)
    }
    expect(scene.instances[1]?.election.isLeading()).toBe(true)
    end(scene)
  })

  test('that was deleted is made again by its holder, not taken by another', async () => {
    const scene = await startScene(3)
    await scene.clock.advance(1000)
    scene.store.remove()
    for (let step = 0; step < 50; step++) {
      await scene.clock.advance(100)
      expect(leadersOf(scene.instances)).toEqual([first(scene)])
    }
    expect(scene.store.lease()?.holder).toBe('one_0')
    end(scene)
  })

  test('that was deleted stays with its holder, also when another one writes it first', async () => {
    const scene = await startScene(1)
    await scene.clock.advance(100)
    const { clock, store } = scene
    for (const identity of ['one_1', 'one_2']) scene.instances.push(startInstance({ identity, store, clock }))
    // The others try before the holder renews it.
    await clock.advance(timings.retryPeriodMs - 50)
    store.remove()
    expect(await scene.instances[1]?.election.setPause(Date.UTC(2026, 0, 15))).toBe(true)
    for (let step = 0; step < 50; step++) {
      expect(leadersOf(scene.instances)).toEqual([first(scene)])
      await clock.advance(100)
    }
    expect(store.lease()).toMatchObject({ holder: 'one_0', transitions: 0 })
    end(scene)
  })

  test('that a person gave to another ends the lead at the next renewal', async () => {
    const scene = await startScene(1)
    scene.store.edit({ holder: 'stranger', renewTime: '2026-01-01T00:00:00Z' })
    await scene.clock.advance(timings.retryPeriodMs)
    expect(first(scene).events.at(-1)).toEqual({ type: 'standing-by', cause: 'taken', leader: 'stranger' })
    end(scene)
  })

  test('of long ago is waited for: its age counts from when it was seen, not by its own time', async () => {
    const clock = createVirtualClock()
    const store = createLeaseStore()
    const old = '2020-01-01T00:00:00.000000Z'
    store.write({
      ...{ version: undefined, holder: 'gone', durationMs: 15_000, transitions: 4, acquireTime: old, renewTime: old },
      ...{ annotations: {}, object: {} },
    })
    const one = startInstance({ identity: 'one', store, clock })
    await clock.advance(14_990)
    expect(one.election.isLeading()).toBe(false)
    await clock.advance(20)
    expect(one.election.isLeading()).toBe(true)
    expect(store.lease()?.transitions).toBe(5)
    one.kill()
  })
})

describe('a leader that cannot renew', () => {
  test.each([
    ['is cut off', { cut: true }, 'timeout'],
    ['is refused with 403', { refused: 'forbidden' }, 'refused: forbidden'],
    ['gets 500', { refused: 'server-error' }, 'refused: server-error'],
    ['loses the answers', { loseAnswers: true }, 'timeout'],
  ] as const)('and %s stops leading at its deadline, before another one takes the lease', async (_, fault, problem) => {
    const scene = await startScene(2)
    await scene.clock.advance(timings.retryPeriodMs)
    first(scene).faults = { ...noFaults, ...fault }
    await scene.clock.advance(timings.renewDeadlineMs - timings.retryPeriodMs - 10)
    expect(first(scene).election.isLeading()).toBe(true)
    await scene.clock.advance(timings.retryPeriodMs + 20)
    expect(first(scene).election.isLeading()).toBe(false)
    expect(first(scene).events).toContainEqual({ type: 'standing-by', cause: 'expired', leader: undefined, problem })
    expect(first(scene).election.state()).toMatchObject({ isLeading: false, problem })
    end(scene)
  })

  test('goes on when it can before the deadline', async () => {
    const scene = await startScene(2)
    first(scene).faults = { ...noFaults, refused: 'server-error' }
    await scene.clock.advance(7500)
    first(scene).faults = noFaults
    await scene.clock.advance(30_000)
    expect(typesOf(first(scene))).toEqual(['leading', ...Array<string>(3).fill('lease-unavailable'), 'lease-available'])
    expect(leadersOf(scene.instances)).toEqual([first(scene)])
    end(scene)
  })

  test('leads again when no other one wanted the lease', async () => {
    const scene = await startScene(1)
    first(scene).faults = { ...noFaults, refused: 'server-error' }
    await scene.clock.advance(60_000)
    expect(first(scene).election.isLeading()).toBe(false)
    first(scene).faults = noFaults
    await scene.clock.advance(timings.retryPeriodMs)
    expect(first(scene).election.isLeading()).toBe(true)
    expect(scene.store.lease()?.transitions).toBe(0)
    end(scene)
  })

  test('a slow API is no reason to stop', async () => {
    const scene = await startScene(2)
    first(scene).faults = { ...noFaults, wayMs: [1000, 1000] }
    await scene.clock.advance(60_000)
    expect(leadersOf(scene.instances)).toEqual([first(scene)])
    end(scene)
  })
})

describe('a standby that gets no answer', () => {
  test.each(['forbidden', 'unauthorized', 'server-error'] as const)('stands by: %s', async (refused) => {
    const scene = await startScene(2)
    const [one, two] = scene.instances
    if (one === undefined || two === undefined) throw new Error('two were started')
    two.faults = { ...noFaults, refused }
    one.kill()
    await scene.clock.advance(120_000)
    expect(two.election.isLeading()).toBe(false)
    expect(two.election.state()).toMatchObject({ leader: undefined, problem: `refused: ${refused}` })
    end(scene)
  })
})

describe('a leader that was frozen', () => {
  test.each([11_000, 60_000])('for %d ms does not lead when it wakes up', async (ms) => {
    const scene = await startScene(2)
    first(scene).freeze()
    await scene.clock.advance(ms)
    expect(first(scene).election.isLeading()).toBe(false)
    first(scene).thaw()
    await scene.clock.advance(100)
    const other = ms > timings.leaseDurationMs
    expect(leadersOf(scene.instances)).toEqual([scene.instances[other ? 1 : 0]])
    end(scene)
  })

  test('works in a new term after it', async () => {
    const scene = await startScene(1)
    const stop = new AbortController()
    const terms: AbortSignal[] = []
    const leading = first(scene).election.lead(async (term) => {
      terms.push(term)
      await new Promise<void>((resolve) => {
        term.addEventListener('abort', () => {
          resolve()
        })
      })
    }, stop.signal)
    await scene.clock.settle()
    first(scene).freeze()
    await scene.clock.advance(11_000)
    expect(terms.map(({ aborted }) => aborted)).toEqual([false])
    first(scene).thaw()
    await scene.clock.advance(timings.retryPeriodMs)
    expect(terms.map(({ aborted }) => aborted)).toEqual([true, false])
    stop.abort()
    await leading
    expect(terms.map(({ aborted }) => aborted)).toEqual([true, true])
    end(scene)
  })
})
