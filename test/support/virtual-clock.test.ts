// The virtual clock that the other tests stand on.
import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { createVirtualClock } from './virtual-clock.ts'

describe('virtual clock', () => {
  test('starts where the test says and moves only when asked', async () => {
    const clock = createVirtualClock(1_000)
    const monotonic = clock.monotonic()
    await clock.advance(250.5)
    expect(clock.now()).toBe(1_250.5)
    expect(clock.monotonic() - monotonic).toBe(250.5)
  })

  test('wakes in the order of time, then of coming, and shows each its own time', async () => {
    const clock = createVirtualClock(0)
    const woken: string[] = []
    const sleeper = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms)
      woken.push(`${name}@${clock.now()}`)
    }
    const all = [sleeper('late', 30), sleeper('first', 10), sleeper('second', 10), sleeper('never', 31)]
    await clock.advance(30)
    expect(woken).toEqual(['first@10', 'second@10', 'late@30'])
    expect(clock.sleepers()).toBe(1)
    expect(clock.nextWake()).toBe(1)
    await clock.advance(1)
    await Promise.all(all)
  })

  test('a loop that sleeps again and again runs through in one advance', async () => {
    const clock = createVirtualClock(0)
    const times: number[] = []
    const loop = (async () => {
      for (let i = 0; i < 5; i++) {
        await clock.sleep(100)
        await Promise.resolve()
        times.push(clock.now())
      }
    })()
    await clock.advance(450)
    expect(times).toEqual([100, 200, 300, 400])
    await clock.advance(50)
    await loop
  })

  test.each([0, -5, Number.NaN])('sleeping %s ms ends at once', async (ms) => {
    await expect(createVirtualClock().sleep(ms)).resolves.toBeUndefined()
  })

  test('an abort rejects with its reason, before or during the sleep, and leaves no sleeper', async () => {
    const clock = createVirtualClock()
    const controller = new AbortController()
    const reason = new Error('enough')
    const sleeping = clock.sleep(1_000, controller.signal)
    controller.abort(reason)
    await expect(sleeping).rejects.toBe(reason)
    await expect(clock.sleep(1_000, controller.signal)).rejects.toBe(reason)
    expect(clock.sleepers()).toBe(0)
    expect(clock.nextWake()).toBeUndefined()
  })

  test('a jump of the wall clock does not move durations', async () => {
    const clock = createVirtualClock(0)
    const monotonic = clock.monotonic()
    const sleeping = clock.sleep(100)
    clock.jump(-3_600_000)
    expect(clock.now()).toBe(-3_600_000)
    expect(clock.monotonic()).toBe(monotonic)
    await clock.advance(100)
    await sleeping
  })

  test('a hot loop is reported, not endless', async () => {
    const clock = createVirtualClock()
    const loop = async (): Promise<never> => {
      for (;;) await clock.sleep(0)
    }
    await expect(loop()).rejects.toThrow('hot loop')
  })

  test('run moves on as far as the promise needs, real I/O included', async () => {
    const clock = createVirtualClock(0)
    const work = async (): Promise<string> => {
      await clock.sleep(86_000_000)
      await readFile(import.meta.filename)
      await clock.sleep(5)
      return 'done'
    }
    await expect(clock.run(work())).resolves.toBe('done')
    expect(clock.now()).toBe(86_000_005)
    await expect(clock.run(clock.sleep(101), 100)).rejects.toThrow('100 ms of virtual time')
    await expect(clock.run(Promise.reject(new Error('own')))).rejects.toThrow('own')
  })
})
