// The only source of time and randomness: everything else receives a Clock and a Random.
import { performance } from 'node:perf_hooks'
import { randomUUID } from 'node:crypto'
import { onAbort } from './on-abort.ts'

/** Source of time. Tests and the simulation use a virtual one. */
export interface Clock {
  /** This host's wall clock, in epoch ms. It may jump in either direction. */
  now(): number
  /** Milliseconds since an arbitrary start; never runs backwards. For durations. */
  monotonic(): number
  /** Calls `act` once after `ms` milliseconds, never before this call returns. The returned function cancels it. */
  timer(ms: number, act: () => void): () => void
  /** Resolves after `ms` milliseconds (at once if <= 0); rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/**
 * A moment of the monotonic clock, in epoch ms of the host's present wall clock. Moments are kept on the monotonic clock: once
 * the wall clock is set, an age counted on it would be wrong, by years on a board without battery.
 */
export function onWallClock(clock: Pick<Clock, 'now' | 'monotonic'>, monotonic: number): number {
  return Math.round(clock.now() + monotonic - clock.monotonic())
}

export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** A new random UUID (version 4). */
  uuid(): string
}

/** Node fires longer timers immediately, so they are split. */
const maxTimerMs = 2 ** 31 - 1

/** The promise form of a timer. Rejects with the signal's reason itself, without a new error. */
export function sleepBy(timer: Clock['timer']): Clock['sleep'] {
  return (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (!(ms > 0)) {
        resolve()
        return
      }
      const cancel = timer(ms, () => {
        forget?.()
        resolve()
      })
      const forget =
        signal &&
        onAbort(signal, () => {
          cancel()
          reject(signal.reason as Error)
        })
    })
}

function systemTimer(ms: number, act: () => void): () => void {
  let timer: NodeJS.Timeout
  const begin = (left: number): void => {
    timer = left > maxTimerMs ? setTimeout(begin, maxTimerMs, left - maxTimerMs) : setTimeout(act, left)
  }
  // Node warns of a time that has passed, and of NaN, on stderr.
  begin(ms > 0 ? ms : 0)
  return () => {
    clearTimeout(timer)
  }
}

/** The host's own clock. A timer keeps the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer: systemTimer,
  sleep: sleepBy(systemTimer),
}

export const systemRandom: Random = { next: () => Math.random(), uuid: () => randomUUID() }

/** A signal that is aborted with this reason after `ms`, until it is disposed of. */
export function deadline(clock: Pick<Clock, 'timer'>, ms: number, reason: Error): Disposable & { signal: AbortSignal } {
  const late = new AbortController()
  const cancel = clock.timer(ms, () => {
    late.abort(reason)
  })
  return { signal: late.signal, [Symbol.dispose]: cancel }
}

/** Repeats an action `ms` after its last end; rejects with the signal's reason. */
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
