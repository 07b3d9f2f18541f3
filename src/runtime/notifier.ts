// Interruptible waits: a condition variable for loops, and promises that end on abort.
import { once } from 'node:events'
import type { Clock } from './clock.ts'
import { onAbort } from './on-abort.ts'

export interface Notifier {
  /** Ends all current waits. */
  notify(): void
  /**
   * Resolves at the next `notify`, or after `ms` milliseconds (Infinity: no deadline). Rejects with the signal's reason.
   */
  wait(ms: number, signal: AbortSignal): Promise<void>
}

/** A wait without a deadline wakes at this interval, to show that its loop is alive. */
const maxWaitMs = 30_000

export function createNotifier(clock: Pick<Clock, 'timer'>): Notifier {
  const waiting = new Set<() => void>()
  /** Their aborts end all waits: a loop waits thousands of times with one signal. */
  const signals = new WeakSet<AbortSignal>()

  function notify(): void {
    for (const end of waiting) end()
  }

  return {
    notify,
    async wait(ms, signal) {
      signal.throwIfAborted()
      if (!(ms > 0)) return
      if (!signals.has(signal)) onAbort(signal, notify)
      signals.add(signal)
      await new Promise<void>((resolve) => {
        const end = (): void => {
          cancel()
          waiting.delete(end)
          resolve()
        }
        const cancel = clock.timer(Math.min(ms, maxWaitMs), end)
        waiting.add(end)
      })
      signal.throwIfAborted()
    },
  }
}

/** Settles like the promise, or rejects with the signal's reason once aborted; the work itself continues. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(signal.reason as Error)
    }
    if (signal.aborted) abort()
    void promise.then(resolve, reject).finally(onAbort(signal, abort))
  })
}

export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
