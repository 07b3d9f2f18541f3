// The notifier: no ring is lost on who waits, no wait is for ever, nothing is left behind.
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { createNotifier } from '../../../src/runtime/notifier.ts'
import type { Clock } from '../../../src/runtime/clock.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const live = new AbortController().signal
const longest = 30_000

/** True when the promise is settled once everything that is ready has run. */
async function isDone(promise: Promise<unknown>, clock: { settle(): Promise<void> }): Promise<boolean> {
  let done = false
  const note = (): void => {
    done = true
  }
  promise.then(note, note)
  await clock.settle()
  return done
}

describe('a wait', () => {
  test.each([
    [1_000, 1_000],
    [0.5, 0.5],
    [longest, longest],
    [longest + 1, longest],
    [86_400_000, longest],
    [Infinity, longest],
    [undefined, longest],
  ])('of %s ms ends by itself after %s ms', async (ms, expected) => {
    const clock = createVirtualClock()
    const waiting = createNotifier(clock).wait(ms, live)
    expect(await isDone(waiting, clock)).toBe(false)
    expect(clock.nextWake()).toBe(expected)
    await clock.advance(expected)
    await waiting
  })

  test.each([0, -1, -Infinity, NaN])('of %s ms ends at once', async (ms) => {
    const clock = createVirtualClock()
    expect(await isDone(createNotifier(clock).wait(ms, live), clock)).toBe(true)
  })
})

describe('a ring', () => {
  test('ends every wait that is under way, and no later one', async () => {
    const clock = createVirtualClock()
    const notifier = createNotifier(clock)
    const early = [notifier.wait(undefined, live), notifier.wait(5_000, live), notifier.wait(1, live)]
    notifier.notify()
    await Promise.all(early)
    expect(await isDone(notifier.wait(undefined, live), clock)).toBe(false)
    expect(clock.sleepers()).toBe(1)
    notifier.notify()
    await clock.settle()
    expect(clock.sleepers()).toBe(0)
  })

  test('without anybody waiting is forgotten, a hundred times over', async () => {
    const clock = createVirtualClock()
    const notifier = createNotifier(clock)
    for (let i = 0; i < 100; i += 1) notifier.notify()
    expect(await isDone(notifier.wait(undefined, live), clock)).toBe(false)
  })

  test('by who was just woken ends the new wait of the others', async () => {
    const clock = createVirtualClock()
    const notifier = createNotifier(clock)
    const turns: string[] = []
    const loop = async (name: string): Promise<void> => {
      for (let i = 0; i < 3; i += 1) {
        await notifier.wait(undefined, live)
        turns.push(name)
        notifier.notify()
      }
    }
    const both = Promise.all([loop('a'), loop('b')])
    notifier.notify()
    await clock.settle()
    expect(turns.length).toBeGreaterThanOrEqual(3)
    notifier.notify()
    await clock.run(both, longest * 3)
    expect(turns).toHaveLength(6)
  })
})

describe('an abort', () => {
  const reason = new Error('enough')

  test('before the wait rejects with its reason', async () => {
    await expect(createNotifier(createVirtualClock()).wait(1_000, AbortSignal.abort(reason))).rejects.toBe(reason)
  })

  test('during it too, and leaves no sleeper', async () => {
    const clock = createVirtualClock()
    const cancel = new AbortController()
    const waiting = createNotifier(clock).wait(1_000, cancel.signal)
    cancel.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    expect(clock.sleepers()).toBe(0)
  })

  test('together with a ring rejects all the same: who is to stop must not go on', async () => {
    const clock = createVirtualClock()
    const notifier = createNotifier(clock)
    const cancel = new AbortController()
    const waiting = notifier.wait(undefined, cancel.signal)
    notifier.notify()
    cancel.abort(reason)
    await expect(waiting).rejects.toBe(reason)
  })
})

test('a thousand waits leave no listener on the signal', async () => {
  const clock = createVirtualClock()
  const notifier = createNotifier(clock)
  const { signal } = new AbortController()
  for (let i = 0; i < 1_000; i += 1) {
    const waiting = notifier.wait(10, signal)
    if (i % 2 === 0) notifier.notify()
    else await clock.advance(10)
    await waiting
  }
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('a clock that fails is not taken for a ring', async () => {
  const broken: Pick<Clock, 'timer'> = {
    timer() {
      throw new Error('no timers left')
    },
  }
  await expect(createNotifier(broken).wait(1_000, live)).rejects.toThrow('no timers left')
})
