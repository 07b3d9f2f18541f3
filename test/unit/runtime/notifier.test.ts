// The notifier: no notification misses a wait, no wait is for ever, nothing is left behind.
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { isAbort } from '../../../src/runtime/errors.ts'
import { abortable, createNotifier } from '../../../src/runtime/notifier.ts'
import { createVirtualClock } from '../../support/virtual-clock.ts'

const live = new AbortController().signal
const maxMs = 30_000

test.each([
  ...[0, -1, -Infinity, NaN].map((ms): [number, number | undefined] => [ms, undefined]),
  [0.5, 0.5],
  [maxMs, maxMs],
  [maxMs + 1, maxMs],
  [Infinity, maxMs],
])('a wait of %s ms ends by itself after %s ms', async (ms, expected) => {
  const clock = createVirtualClock()
  const waiting = createNotifier(clock).wait(ms, live)
  expect(clock.nextWake()).toBe(expected)
  await clock.advance(expected ?? 0)
  await waiting
})

test('a notification ends every wait that is under way, and no later one', async () => {
  const clock = createVirtualClock()
  const notifier = createNotifier(clock)
  notifier.notify()
  const { signal } = new AbortController()
  const early = [notifier.wait(Infinity, signal), notifier.wait(5_000, signal), notifier.wait(1, signal)]
  await clock.settle()
  expect(clock.sleepers()).toBe(3)
  notifier.notify()
  await Promise.all(early)
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  const later = notifier.wait(Infinity, live)
  await clock.settle()
  expect(clock.sleepers()).toBe(1)
  notifier.notify()
  await later
  expect(clock.sleepers()).toBe(0)
})

test('an abort rejects with its reason, before the wait, during it, and beside a notification; no sleeper is left', async () => {
  const clock = createVirtualClock()
  const notifier = createNotifier(clock)
  const reason = new Error('enough')
  await expect(notifier.wait(1_000, AbortSignal.abort(reason))).rejects.toBe(reason)
  await expect(abortable(Promise.resolve(), AbortSignal.abort(reason))).rejects.toBe(reason)
  const cancel = new AbortController()
  const waiting = notifier.wait(1_000, cancel.signal)
  cancel.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  // What is to stop must not go on.
  const other = new AbortController()
  const notified = notifier.wait(Infinity, other.signal)
  notifier.notify()
  other.abort(reason)
  await expect(notified).rejects.toBe(reason)
  expect(clock.sleepers()).toBe(0)
})

test('an abort is a rejection with the reason, or an AbortError; a bug beside it is none', () => {
  const reason = new Error('enough')
  const errors = [reason, new DOMException('', 'AbortError'), new Error('bug')]
  expect(errors.map((error) => isAbort(error, AbortSignal.abort(reason)))).toEqual([true, true, false])
  expect(isAbort(reason, live)).toBe(false)
})
