// The operator's pause in the lease: written by any instance, followed by all, and ended by a command alone.
import { describe, expect, test } from 'vitest'
import { pauseAnnotation } from '../../../src/leader-election/leader-election.ts'
import { LeaseFailure } from '../../../src/leader-election/lease-client.ts'
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
} from '../../support/lease-store.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const since = Date.UTC(2026, 0, 15, 12)

describe("the operator's pause", () => {
  test('is written by any instance, and seen by all', async () => {
    const scene = await startScene(2)
    const [one, two] = scene.instances
    expect(await two?.election.setPause(since)).toBe(true)
    expect(await two?.election.setPause(since)).toBe(false)
    expect(scene.store.lease()?.annotations).toEqual({ [pauseAnnotation]: '2026-01-15T12:00:00.000Z' })
    await scene.clock.advance(timings.retryPeriodMs)
    expect([one?.pauses.at(-1), two?.pauses.at(-1)]).toEqual([since, since])
    expect(leadersOf(scene.instances)).toEqual([one])
    expect(await one?.election.setPause(undefined)).toBe(true)
    expect(scene.store.lease()?.annotations).toEqual({})
    end(scene)
  })

  test('outlives its leader, and is known to the next one before it leads', async () => {
    const scene = await startScene(2)
    await first(scene).election.setPause(since)
    first(scene).kill()
    const two = scene.instances[1]
    await takeoverMs(scene, first(scene))
    expect(two?.pauses.at(-1)).toBe(since)
    expect(scene.store.lease()?.annotations).toHaveProperty([pauseAnnotation])
    end(scene)
  })

  test('of two instances at one moment: both are done, one after the other', async () => {
    const scene = await startScene(2)
    await scene.clock.advance(100)
    for (const instance of scene.instances) instance.faults = { ...noFaults, wayMs: [100, 100] }
    const commands = scene.instances.map(({ election }) => election.setPause(since))
    expect(await scene.clock.run(Promise.all(commands))).toEqual([true, false])
    end(scene)
  })

  test('is refused when somebody else writes the lease all the time', async () => {
    const scene = await startScene(1)
    first(scene).faults = { ...noFaults, refused: 'conflict' }
    await expect(first(scene).election.setPause(since)).rejects.toMatchObject({ reason: 'conflict' })
    end(scene)
  })

  test('is not undone by an older answer that comes after it', async () => {
    const scene = await startScene(1)
    const one = first(scene)
    await scene.clock.advance(100)
    one.faults = { ...noFaults, wayMs: [0, 500] }
    const before = scene.store.calls()
    while (scene.store.calls() === before) await scene.clock.advance(10)
    one.faults = noFaults
    expect(await scene.clock.run(one.election.setPause(since))).toBe(true)
    const known = one.pauses.length
    await scene.clock.advance(timings.retryPeriodMs)
    expect(new Set(one.pauses.slice(known))).toEqual(new Set([since]))
    end(scene)
  })

  test('that is empty is none', async () => {
    const scene = await startScene(1)
    scene.store.edit({ annotations: { [pauseAnnotation]: '' } })
    await scene.clock.advance(timings.retryPeriodMs)
    expect(first(scene).pauses.at(-1)).toBeUndefined()
    end(scene)
  })

  test('outlives a person who deletes the lease, and is no change when it is sent again', async () => {
    const scene = await startScene(2)
    const one = first(scene)
    await one.election.setPause(since)
    const before = one.pauses.length
    scene.store.remove()
    await scene.clock.advance(timings.retryPeriodMs)
    expect(scene.store.lease()?.annotations).toEqual({ [pauseAnnotation]: '2026-01-15T12:00:00.000Z' })
    scene.store.remove()
    expect(await one.election.setPause(since + 1000)).toBe(false)
    expect(scene.store.lease()?.annotations).toEqual({ [pauseAnnotation]: '2026-01-15T12:00:00.000Z' })
    expect(new Set(one.pauses.slice(before))).toEqual(new Set([since]))
    end(scene)
  })

  test('is written before there is any lease', async () => {
    const clock = createVirtualClock()
    const store = createLeaseStore()
    const one = startInstance({ identity: 'one', store, clock })
    one.kill()
    store.remove()
    expect(await one.election.setPause(since)).toBe(true)
    expect(store.lease()).toMatchObject({ holder: '' })
  })

  test('that cannot be written is refused', async () => {
    const scene = await startScene(1)
    first(scene).faults = { ...noFaults, refused: 'forbidden' }
    await expect(first(scene).election.setPause(since)).rejects.toThrow(LeaseFailure)
    end(scene)
  })
})
