// The one place where time and randomness enter: everything else is given a Clock and a Random.
import { performance } from 'node:perf_hooks'
import { randomUUID } from 'node:crypto'

/** Source of time. Tests and the simulation use a virtual one. */
export interface Clock {
  /** This host's wall clock, in milliseconds since the epoch. It may jump, in either direction. */
  now(): number
  /** Milliseconds since an arbitrary start; never runs backwards. Use it for durations. */
  monotonic(): number
  /** Resolves after `ms` milliseconds (at once when <= 0); rejects with the signal's reason when it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Source of randomness. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** A new random UUID (version 4). */
  uuid(): string
}

/** Longer timers fire immediately in Node, so a longer sleep is split. */
const longestTimerMs = 2 ** 31 - 1

/** One timer; `ms` is at most the longest. Rejects with the signal's reason itself, without a new error object. */
function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancel)
      resolve()
    }, ms)
    signal?.addEventListener('abort', cancel, { once: true })
  })
}

/** The host's own clock. Sleeping keeps the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  async sleep(ms, signal) {
    signal?.throwIfAborted()
    for (let left = ms; left > 0; left -= longestTimerMs) await delay(Math.min(left, longestTimerMs), signal)
  },
}

export const systemRandom: Random = { next: () => Math.random(), uuid: () => randomUUID() }

/** Repeats an action, `ms` after its last end; rejects with the signal's reason. */
export async function every(
  ms: number,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
  act: () => Promise<void> | void,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(ms, signal)
    await act()
  }
}
