// When a kind of sweep may go again.
import { describe, expect, test } from 'vitest'
import { createRhythm, type Rhythm } from '../../../src/reconcile/sweep/rhythm.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

function start(random = 0): { clock: VirtualClock; rhythm: Rhythm } {
  const clock = createVirtualClock()
  return {
    clock,
    rhythm: createRhythm({
      clock,
      random: { next: () => random, uuid: () => '' },
      restFactor: 20,
      maxRestMs: 3_600_000,
    }),
  }
}

/** How long it backs off after a failure now, in seconds. */
async function backoff({ clock, rhythm }: ReturnType<typeof start>): Promise<number> {
  rhythm.failed()
  let ms = 0
  for (; rhythm.state() === 'backs-off'; ms += 500) await clock.advance(500)
  expect(rhythm.state()).toBe('ready')
  return ms / 1000
}

describe('a rest', () => {
  test('is twenty times as long as what ended', async () => {
    const { clock, rhythm } = start()
    expect(rhythm.state()).toBe('ready')
    rhythm.ended(3)
    await clock.advance(59_999)
    expect(rhythm.state()).toBe('rests')
    await clock.advance(1)
    expect(rhythm.state()).toBe('ready')
  })

  test('is no longer than it may be, however long it took', async () => {
    const { clock, rhythm } = start()
    rhythm.ended(7200)
    await clock.advance(3_599_999)
    expect(rhythm.state()).toBe('rests')
    await clock.advance(1)
    expect(rhythm.state()).toBe('ready')
    expect(rhythm.last()).toEqual({ endedAgoMs: 3_600_000, restMs: 3_600_000 })
  })

  test('is measured in durations: a wall clock that is set changes nothing', () => {
    const { clock, rhythm } = start()
    rhythm.ended(3)
    clock.jump(365 * 86_400_000)
    expect(rhythm.state()).toBe('rests')
    clock.jump(-700 * 86_400_000)
    expect(rhythm.state()).toBe('rests')
  })
})

test('it tells when the last one that did not fail ended, and how long that was to rest', async () => {
  const { clock, rhythm } = start()
  expect(rhythm.last()).toBeUndefined()
  rhythm.failed()
  expect(rhythm.last()).toBeUndefined()
  rhythm.ended(3)
  await clock.advance(1000)
  rhythm.failed()
  await clock.advance(500)
  clock.jump(-86_400_000)
  expect(rhythm.last()).toEqual({ endedAgoMs: 1500, restMs: 60_000 })
})

describe('a backoff', () => {
  test('doubles from 1 s to 5 min, and begins anew after a sweep that worked', async () => {
    const world = start()
    const seconds = []
    for (let failure = 0; failure < 11; failure += 1) seconds.push(await backoff(world))
    expect(seconds).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    world.rhythm.ended(0)
    expect(await backoff(world)).toBe(1)
  })

  test('is cut by chance, by half at most', async () => {
    expect(await backoff(start(0.999_999))).toBe(0.5 + 0.5)
    const world = start(0.999_999)
    for (let failure = 0; failure < 12; failure += 1) await backoff(world)
    expect(await backoff(world)).toBeCloseTo(150, -1)
  })
})

test('it runs until the last of those under way has ended, however often it is told', () => {
  const { rhythm } = start()
  const ends = [rhythm.begin(), rhythm.begin()]
  ends[0]?.()
  ends[0]?.()
  expect(rhythm.state()).toBe('running')
  ends[1]?.()
  expect(rhythm.state()).toBe('ready')
})
