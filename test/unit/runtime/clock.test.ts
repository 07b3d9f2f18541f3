// The host's own clock.
import { getEventListeners } from 'node:events'
import { expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.ts'

const reason = new Error('enough')

test('a sleep lasts as long as it says, and leaves no listener', async () => {
  const from = systemClock.monotonic()
  const { signal } = new AbortController()
  await systemClock.sleep(20, signal)
  expect(systemClock.monotonic() - from).toBeGreaterThan(18)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test.each([0, -1, NaN, 1])(
  'a timer of %s ms acts once, never before the call has returned, nor when cancelled, and warns of nothing',
  async (ms) => {
    const acted: string[] = []
    const warned = vi.fn()
    process.on('warning', warned)
    systemClock.timer(ms, () => acted.push('first'))
    const cancel = systemClock.timer(ms, () => acted.push('cancelled'))
    cancel()
    cancel()
    expect(acted).toEqual([])
    await systemClock.sleep(20)
    expect(acted).toEqual(['first'])
    process.off('warning', warned)
    expect(warned).not.toHaveBeenCalled()
  },
)

test.each([0, -1, -Infinity, NaN])('sleeping %s ms ends at once, but not with a signal that is aborted', async (ms) => {
  await systemClock.sleep(ms)
  await expect(systemClock.sleep(ms, AbortSignal.abort(reason))).rejects.toBe(reason)
})

// Timers above 2^31-1 ms fire at once in Node, with a warning.
test.each([1_000_000, 2 ** 31, 2 ** 53, Infinity])(
  'a sleep of %s ms lasts until it is aborted, and warns of nothing',
  async (ms) => {
    const warnings: Error[] = []
    const note = (warning: Error): void => {
      warnings.push(warning)
    }
    process.on('warning', note)
    const cancel = new AbortController()
    const sleeping = systemClock.sleep(ms, cancel.signal)
    await systemClock.sleep(15)
    // Had it ended, the abort would not reject it.
    cancel.abort(reason)
    await expect(sleeping).rejects.toBe(reason)
    process.off('warning', note)
    expect(warnings).toEqual([])
    expect(getEventListeners(cancel.signal, 'abort')).toEqual([])
  },
)
