// The host's own clock, without waiting for it.
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { systemClock, systemRandom } from '../../../src/runtime/clock.ts'

describe('the host clock', () => {
  test('gives the wall time, and durations that never run backwards', () => {
    const from = Date.now()
    const between = systemClock.now()
    expect(between).toBeGreaterThanOrEqual(from)
    expect(between).toBeLessThanOrEqual(Date.now())
    let last = systemClock.monotonic()
    for (let i = 0; i < 10_000; i += 1) {
      const now = systemClock.monotonic()
      expect(now).toBeGreaterThanOrEqual(last)
      last = now
    }
  })

  test.each([0, -1, NaN, 1])('a timer of %s ms acts once, and never before the call has returned', async (ms) => {
    let acted = 0
    systemClock.timer(ms, () => (acted += 1))
    expect(acted).toBe(0)
    await systemClock.sleep(20)
    expect(acted).toBe(1)
  })

  test('a timer that is cancelled does not act, and may be cancelled again', async () => {
    let acted = 0
    const cancel = systemClock.timer(1, () => (acted += 1))
    cancel()
    cancel()
    await systemClock.sleep(20)
    expect(acted).toBe(0)
  })

  test.each([0, -1, -Infinity, NaN])('sleeping %s ms ends at once', async (ms) => {
    await systemClock.sleep(ms)
  })

  test('sleeping is not shorter than asked for', async () => {
    const from = systemClock.monotonic()
    await systemClock.sleep(20)
    expect(systemClock.monotonic() - from).toBeGreaterThan(18)
  })

  const reason = new Error('enough')

  test('an aborted signal ends it before it began, even for no time at all', async () => {
    await expect(systemClock.sleep(0, AbortSignal.abort(reason))).rejects.toBe(reason)
    await expect(systemClock.sleep(1_000, AbortSignal.abort(reason))).rejects.toBe(reason)
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
      let over = false
      const sleeping = systemClock.sleep(ms, cancel.signal).finally(() => {
        over = true
      })
      sleeping.catch(() => undefined)
      await systemClock.sleep(15)
      expect(over).toBe(false)
      cancel.abort(reason)
      await expect(sleeping).rejects.toBe(reason)
      process.off('warning', note)
      expect(warnings).toEqual([])
      expect(getEventListeners(cancel.signal, 'abort')).toEqual([])
    },
  )

  test('a reason that is no error is passed on as it is', async () => {
    const cancel = new AbortController()
    const sleeping = systemClock.sleep(1_000, cancel.signal)
    cancel.abort('because')
    await expect(sleeping).rejects.toBe('because')
  })
})

describe('randomness', () => {
  test('is in [0, 1), and ids differ', () => {
    const draws = Array.from({ length: 1_000 }, () => systemRandom.next())
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...draws)).toBeLessThan(1)
    expect(new Set(draws).size).toBeGreaterThan(990)
    const ids = Array.from({ length: 100 }, () => systemRandom.uuid())
    expect(new Set(ids).size).toBe(100)
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})
