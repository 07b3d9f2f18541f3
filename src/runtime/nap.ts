// Waits that can be cut short: by a signal, by what they wait for, or by somebody who knows better.
import type { Clock } from './clock.ts'

export interface Nap {
  /** Sleeps until the time has passed, the signal is aborted, or `wake` is called. Never rejects because of these. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** Ends the sleep that is under way, if there is one. */
  wake(): void
}

/** For one sleeper. */
export function createNap(clock: Clock): Nap {
  let woken = new AbortController()

  return {
    async sleep(ms, signal) {
      const mine = new AbortController()
      woken = mine
      const end = (): void => {
        mine.abort()
      }
      if (signal.aborted) end()
      signal.addEventListener('abort', end, { once: true })
      await clock.sleep(ms, mine.signal).catch((error: unknown) => {
        if (!mine.signal.aborted) throw error
      })
      signal.removeEventListener('abort', end)
    },
    wake() {
      woken.abort()
    },
  }
}

/** What the promise gives, or the signal's reason as soon as it is aborted. What the promise stands for goes on. */
export function until<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
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
