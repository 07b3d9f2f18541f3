// Interruptible waits: a condition variable for loops, and promises that end on abort.
import type { Clock } from './clock.ts'

export interface Notifier {
  /** Ends all current waits. */
  notify(): void
  /**
   * Resolves at the next `notify`, after `ms` milliseconds at the latest (undefined: no deadline).
   * Rejects with the signal's reason when it is aborted.
   */
  wait(ms: number | undefined, signal: AbortSignal): Promise<void>
}

/** A wait without a deadline wakes at this interval, so that its loop shows that it is alive. */
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

/** Abort reason of a signal whose work has ended. */
const over = new Error('what the signal was for is over')

/**
 * A signal that aborts with the first of its sources, or when it is disposed of. Unlike that of AbortSignal.any it costs
 * nothing more with each listener, and a loop that waits on it adds one for each call.
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

/** Settles as the promise does, or rejects with the signal's reason once it is aborted: the work itself goes on. */
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

/** Resolves when the signal is aborted. */
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
