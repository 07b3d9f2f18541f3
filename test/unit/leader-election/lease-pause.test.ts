// The operator's pause in the lease: written by any instance, followed by all, and ended by a command alone.
import { describe, expect, test } from 'vitest'
import { pauseAnnotation } from '../../../src/leader-election/leader-election.ts'
import { LeaseFailure } from '../../../src/leader-election/lease-client.ts'
import { createScene, noFaults, startScene, timings } from '../../support/lease-store.ts'

const since = Date.UTC(2026, 0, 15, 12)
const written = { [pauseAnnotation]: '2026-01-15T12:00:00.000Z' }

describe("the operator's pause", () => {
  test('is written by any instance, and seen by all', async () => {
    using scene = await startScene(2)
    const [one, two] = scene.instances
    expect(await two?.election.setPause(since)).toBe(true)
    const lease = scene.store.lease()
    expect(lease?.annotations).toEqual(written)
    expect(await two?.election.setPause(since)).toBe(false)
    expect(scene.store.lease()).toBe(lease)
    await scene.clock.advance(timings.retryPeriodMs)
    expect([one?.pauses.at(-1), two?.pauses.at(-1)]).toEqual([since, since])
    expect(scene.leaders()).toEqual([one])
    expect(await one?.election.setPause(undefined)).toBe(true)
    expect(scene.store.lease()?.annotations).toEqual({})
  })

  test('outlives its leader, and is known to the next one before it leads', async () => {
    using scene = await startScene(2)
    await scene.first.election.setPause(since)
    scene.first.kill()
    await scene.takeoverMs()
    expect(scene.instances[1]?.pauses.at(-1)).toBe(since)
    expect(scene.store.lease()?.annotations).toEqual(written)
  })

  test('of two instances at one moment: both are done, one after the other', async () => {
    using scene = await startScene(2)
    await scene.clock.advance(100)
    for (const instance of scene.instances) instance.faults = { ...noFaults, wayMs: [100, 100] }
    const commands = scene.instances.map(({ election }) => election.setPause(since))
    expect(await scene.clock.run(Promise.all(commands))).toEqual([true, false])
  })

  test.each(['conflict', 'forbidden'] as const)('that cannot be written is refused: %s', async (refused) => {
    using scene = await startScene(1)
    scene.first.faults = { ...noFaults, refused }
    const refusal = await scene.first.election.setPause(since).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(LeaseFailure)
    expect(refusal).toMatchObject({ reason: refused })
  })

  test('is not undone by an older answer that comes after it', async () => {
    using scene = await startScene(1)
    const { clock, first: one, store } = scene
    await clock.advance(100)
    one.faults = { ...noFaults, wayMs: [0, 500] }
    const before = store.calls()
    while (store.calls() === before) await clock.advance(10)
    one.faults = noFaults
    expect(await clock.run(one.election.setPause(since))).toBe(true)
    const known = one.pauses.length
    await clock.advance(timings.retryPeriodMs)
    expect(new Set(one.pauses.slice(known))).toEqual(new Set([since]))
  })

  test('that is empty is none', async () => {
    using scene = await startScene(1)
    scene.store.edit({ annotations: { [pauseAnnotation]: '' } })
    await scene.clock.advance(timings.retryPeriodMs)
    expect(scene.first.pauses.at(-1)).toBeUndefined()
  })

  test('outlives a person who deletes the lease, and is no change when it is sent again', async () => {
    using scene = await startScene(2)
    const { clock, first: one, store } = scene
    await one.election.setPause(since)
    const before = one.pauses.length
    store.remove()
    await clock.advance(timings.retryPeriodMs)
    expect(store.lease()?.annotations).toEqual(written)
    store.remove()
    expect(await one.election.setPause(since + 1000)).toBe(false)
    expect(store.lease()?.annotations).toEqual(written)
    expect(new Set(one.pauses.slice(before))).toEqual(new Set([since]))
  })

  test('is written before there is any lease', async () => {
    using scene = createScene()
    const one = scene.start()
    one.kill()
    scene.store.remove()
    expect(await one.election.setPause(since)).toBe(true)
    expect(scene.store.lease()).toMatchObject({ holder: '' })
  })
})
