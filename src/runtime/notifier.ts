// Interruptible waits: a condition variable for loops, and promises that end on abort.
import type { Clock } from './clock.ts'

export interface Notifier {
  /** Ends all current waits. */
  notify(): void
  /**
   * Resolves at the next `notify`, or after `ms` milliseconds (undefined: no deadline). Rejects with the signal's reason.
   */
  wait(ms: number | undefined, signal: AbortSignal): Promise<void>
}

/** A wait without a deadline wakes at this interval, to show that its loop is alive. */
const maxWaitMs = 30_000

export function createNotifier(clock: Pick<Clock, 'timer'>): Notifier {
  const waiting = new Set<() => void>()

  return {
    notify() {
      for (const end of waiting) end()
    },
    async wait(ms, signal) {
      signal.throwIfAborted()
      if (ms !== undefined && !(ms > 0)) return
      await new Promise<void>((resolve) => {
        const end = (): void => {
          cancel()
          waiting.delete(end)
          signal.removeEventListener('abort', end)
          resolve()
        }
        const cancel = clock.timer(Math.min(ms ?? Infinity, maxWaitMs), end)
        waiting.add(end)
        signal.addEventListener('abort', end, { once: true })
      })
      signal.throwIfAborted()
    },
  }
}

export interface LinkedAbort extends Disposable {
  readonly signal: AbortSignal
  abort(reason: unknown): void
}

/** Abort reason of a signal that is no longer needed. */
const over = new Error('the signal is no longer needed')

/**
 * A signal that aborts with the first of its sources, or when disposed of. Unlike AbortSignal.any, it does not grow with each
 * listener; a loop that waits on it adds one per call.
 */
export function linkAbort(sources: readonly AbortSignal[]): LinkedAbort {
  const controller = new AbortController()
  const { signal } = controller
  const onAbort = (): void => {
    controller.abort(sources.find(({ aborted }) => aborted)?.reason)
  }
  if (sources.some(({ aborted }) => aborted)) onAbort()
  for (const source of sources) source.addEventListener('abort', onAbort, { once: true })
  return {
    signal,
    abort(reason) {
      controller.abort(reason)
    },
    [Symbol.dispose]() {
      for (const source of sources) source.removeEventListener('abort', onAbort)
      controller.abort(over)
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
    signal.addEventListener('abort', abort, { once: true })
    void promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', abort)
    })
  })
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else
      signal.addEventListener(
        'abort',
        () => {
          resolve()
        },
        { once: true },
      )
  })
}
