// The term of leadership of this instance: it lasts until its deadline, and each renewal moves that on.
import { onWallClock, type Clock } from '../runtime/clock.ts'
import { createNotifier } from '../runtime/notifier.ts'

/** While a machine is suspended, its monotonic clock stands still; its wall clock may be set. */
export type Moment = Record<'monotonic' | 'wall', number>

export interface Term {
  /** By both clocks, at the moment of asking: a process or a machine that slept past its deadline does not lead. */
  isOn(): boolean
  /**
   * Begins the term, or prolongs it. `asked`: both clocks before the write was sent, so that the others see the lease expire
   * later than this instance does. True when a new one has begun.
   */
  lead(asked: Moment): boolean
  /** Ends it. True when there was one. */
  end(): boolean
  /** True from its beginning until `end`, also past its deadline. */
  hasBegun(): boolean
  /** Since when this instance leads, or stands by; epoch ms of the host's present clock. */
  since(): number
  /** Calls `work` for each term, one at a time; resolves after `stop`. */
  work(act: (term: AbortSignal) => Promise<void>, stop: AbortSignal): Promise<void>
  /** Calls `onDeadline` when a term has not been prolonged in time, also while a call hangs. Rejects with the signal's reason. */
  watch(onDeadline: () => void, signal: AbortSignal): Promise<never>
}

const lost = new Error('the lease is lost')

export function createTerm(clock: Clock, renewDeadlineMs: number): Term {
  const changed = createNotifier(clock)
  /** Aborted at its end; undefined while this instance stands by. */
  let current: AbortController | undefined
  /** Monotonic ms, both. */
  let until = -Infinity
  let since = clock.monotonic()
  let untilWall = -Infinity

  const isOn = (): boolean => current !== undefined && clock.monotonic() < until && clock.now() < untilWall

  function become(next: AbortController | undefined): void {
    current?.abort(lost)
    current = next
    since = clock.monotonic()
    changed.notify()
  }

  return {
    isOn,
    hasBegun: () => current !== undefined,
    since: () => onWallClock(clock, since),
    lead(asked) {
      until = asked.monotonic + renewDeadlineMs
      untilWall = asked.wall + renewDeadlineMs
      if (current !== undefined || clock.monotonic() >= until || clock.now() >= untilWall) return false
      become(new AbortController())
      return true
    },
    end() {
      if (current === undefined) return false
      until = -Infinity
      become(undefined)
      return true
    },
    async work(act, stop) {
      while (!stop.aborted) {
        if (current !== undefined && isOn()) await act(AbortSignal.any([stop, current.signal]))
        // Rejects only when `stop` is aborted, and then the loop is over.
        else await changed.wait(undefined, stop).catch(() => undefined)
      }
    },
    async watch(onDeadline, signal) {
      for (;;) {
        if (current !== undefined && !isOn()) onDeadline()
        await changed.wait(current === undefined ? undefined : until - clock.monotonic(), signal)
      }
    },
  }
}
