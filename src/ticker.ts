// The ticks as the daemon gets them: from the schedule, or, when that falls silent, from here.
import type { Clock } from './clock.ts'
import type { Sweeper } from './reconcile/sweeper.ts'

/** Ticks may be so late, besides: jitter, and a process that was busy. */
const longestDelayMs = 120_000

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

/** The ticks of the schedule, and whether they still come. */
export interface Ticker {
  tick(signal: AbortSignal, onBug: (error: unknown) => void): void
  /** Ticks by itself when the schedule has not for two periods; until the signal is aborted. */
  standIn(signal: AbortSignal, onBug: (error: unknown) => void): Promise<void>
  /** Starts a full sweep now, beside the ticks; false, and nothing, while one is under way. */
  sweepNow(signal: AbortSignal, onBug: (error: unknown) => void): boolean
  isLate(): boolean
}

export interface TickerOptions {
  sweeper: Pick<Sweeper, 'tick' | 'sweepNow' | 'idle'>
  clock: Clock
  /** Time between two ticks of the schedule, in ms. */
  periodMs: number
}

/** The schedule goes by the host's wall clock: set back by an hour, it would rest for an hour. */
export function createTicker({ sweeper, clock, periodMs }: TickerOptions): Ticker {
  let tickedAt = clock.monotonic()
  const silentForMs = (): number => clock.monotonic() - tickedAt

  function tick(signal: AbortSignal, onBug: (error: unknown) => void): void {
    tickedAt = clock.monotonic()
    sweeper.tick(signal)
    sweeper.idle().catch(onBug)
  }

  return {
    tick,
    standIn: (signal, onBug) =>
      every(periodMs, clock, signal, () => {
        if (silentForMs() >= 2 * periodMs) tick(signal, onBug)
      }),
    sweepNow(signal, onBug) {
      if (!sweeper.sweepNow(signal)) return false
      sweeper.idle().catch(onBug)
      return true
    },
    isLate: () => silentForMs() > 3 * periodMs + longestDelayMs,
  }
}
