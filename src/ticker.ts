// The ticks of the schedule as the daemon gets them, and whether they still come.
import type { Clock } from './runtime/clock.ts'
import type { Sweeper } from './reconcile/sweep/sweeper.ts'

/** Ticks may be late by this: jitter (at most a minute), and a process that was busy. */
const maxDelayMs = 120_000

/** Acts again and again, `ms` after the last time had ended; rejects with the signal's reason. */
export async function every(
  ms: number,
  clock: Clock,
  signal: AbortSignal,
  act: () => Promise<void> | void,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(ms, signal)
    await act()
  }
}

export interface Ticker {
  tick(signal: AbortSignal, onBug: (error: unknown) => void): void
  /** Starts a full sweep now, beside the ticks; false, and nothing, while one is under way. */
  sweepNow(signal: AbortSignal, onBug: (error: unknown) => void): boolean
  /** True when the tick that the schedule announced at the last one did not come in time. */
  isLate(): boolean
}

export interface TickerOptions {
  sweeper: Pick<Sweeper, 'tick' | 'sweepNow' | 'idle'>
  clock: Pick<Clock, 'now' | 'monotonic'>
  /** When the schedule ticks next, in epoch ms of this host's clock; undefined when it does not. */
  nextAt: () => number | undefined
  /** Called after each tick, when its sweeps have begun. */
  onTick: () => void
}

/**
 * Ticks come from the schedule only: one of our own would break a schedule that is limited to hours or days. The schedule
 * goes by the host's wall clock, which may be set back. So lateness goes by the monotonic clock, and ends in a restart.
 */
export function createTicker({ sweeper, clock, nextAt, onTick }: TickerOptions): Ticker {
  /** When the next tick is due, on the monotonic clock. */
  let dueAt = Infinity

  return {
    tick(signal, onBug) {
      dueAt = clock.monotonic() + (nextAt() ?? Infinity) - clock.now()
      sweeper.tick(signal)
      onTick()
      sweeper.idle().catch(onBug)
    },
    sweepNow(signal, onBug) {
      if (!sweeper.sweepNow(signal)) return false
      sweeper.idle().catch(onBug)
      return true
    },
    isLate: () => clock.monotonic() > dueAt + maxDelayMs,
  }
}
