// The virtual clock that the other tests stand on.
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createVirtualClock } from './virtual-clock.ts'

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
