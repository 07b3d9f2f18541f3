// The host's own clock and chance.
import { getEventListeners } from 'node:events'
import { expect, test, vi } from 'vitest'
import { systemClock, systemRandom } from '../../../src/runtime/clock.ts'

const reason = new Error('enough')

test('gives the wall time, and durations that never run backwards', async () => {
  const before = Date.now()
  const now = systemClock.now()
  expect(now).toBeGreaterThanOrEqual(before)
  expect(now).toBeLessThanOrEqual(Date.now())
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

test('chance is in [0, 1), and ids differ', () => {
  const draws = Array.from({ length: 1_000 }, () => systemRandom.next())
  expect(Math.min(...draws)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...draws)).toBeLessThan(1)
  const ids = Array.from({ length: 100 }, () => systemRandom.uuid())
  expect(new Set(ids).size).toBe(100)
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
