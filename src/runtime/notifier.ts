// A condition variable: a loop waits for a change or for a deadline, whichever comes first.
import type { Clock } from './clock.ts'

export interface Notifier {
  /** Ends every wait that is under way. */
  notify(): void
  /**
   * Resolves at the next `notify`, after `ms` milliseconds at the latest (never by itself when undefined).
   * Rejects with the signal's reason when it is aborted.
   */
  wait(ms: number | undefined, signal: AbortSignal): Promise<void>
}

/** Reason of ending a wait. Made once: an abort without one makes an exception with a stack each time. */
const notified = new Error('notified')

/** Waits without a deadline look up now and then all the same, so that a loop that waits is seen to be alive. */
const longestWaitMs = 30_000

export function createNotifier(clock: Clock): Notifier {
  let current = new AbortController()

  return {
    notify() {
      const before = current
      current = new AbortController()
      before.abort(notified)
    },
    async wait(ms, signal) {
      signal.throwIfAborted()
      const own = new AbortController()
      const end = (): void => {
        own.abort(notified)
      }
      const { signal: ringing } = current
      ringing.addEventListener('abort', end, { once: true })
      signal.addEventListener('abort', end, { once: true })
      try {
        await clock.sleep(Math.min(ms ?? Infinity, longestWaitMs), own.signal)
      } catch (error) {
        signal.throwIfAborted()
        if (!own.signal.aborted) throw error
      } finally {
        ringing.removeEventListener('abort', end)
        signal.removeEventListener('abort', end)
      }
    },
  }
}
