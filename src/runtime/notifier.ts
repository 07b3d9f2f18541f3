// A wait that can be cut short: loops sleep on a bell until their next deadline, and whoever changes something rings it.
import type { Clock } from './clock.ts'

export interface Bell {
  /** Ends every wait that is under way. */
  ring(): void
  /**
   * Resolves at the next ring, after `ms` milliseconds at the latest (never by itself when undefined).
   * Rejects with the signal's reason when it is aborted.
   */
  wait(ms: number | undefined, signal: AbortSignal): Promise<void>
}

/** Reason of ending a wait. Made once: an abort without one makes an exception with a stack each time. */
const rang = new Error('the bell rang')

/** Waits without a deadline look up now and then all the same, so that a loop that waits is seen to be alive. */
const longestWaitMs = 30_000

export function createBell(clock: Clock): Bell {
  let rung = new AbortController()

  return {
    ring() {
      const before = rung
      rung = new AbortController()
      before.abort(rang)
    },
    async wait(ms, signal) {
      signal.throwIfAborted()
      const own = new AbortController()
      const end = (): void => {
        own.abort(rang)
      }
      const { signal: ringing } = rung
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
