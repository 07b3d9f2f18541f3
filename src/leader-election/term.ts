// This instance's term of leadership: it lasts until its deadline, which each renewal extends.
import { onWallClock, type Clock } from '../runtime/clock.ts'
import { createNotifier } from '../runtime/notifier.ts'

/** The monotonic clock stops while a machine is suspended; the wall clock may be set. */
export type Moment = Record<'monotonic' | 'wall', number>

export interface Term {
  /** Judged by both clocks at the time of the call: a process or machine that slept past its deadline does not lead. */
  isOn(): boolean
  /**
   * Begins or extends the term. `asked`: both clocks before the write was sent, so that the lease expires later for others than
   * for this instance. True if a new term began.
   */
  lead(asked: Moment): boolean
  /** True if there was one. */
  end(): boolean
  /** True from its beginning until `end`, even past its deadline. */
  hasBegun(): boolean
  /** Since when this instance leads or stands by; epoch ms of the host's present clock. */
  since(): number
  /** Calls `work` for each term, one at a time; resolves after `stop`. */
  work(act: (term: AbortSignal) => Promise<void>, stop: AbortSignal): Promise<void>
  /** Calls `onDeadline` when a term was not extended in time, even while a call hangs. Rejects with the signal's reason. */
  watch(onDeadline: () => void, signal: AbortSignal): Promise<never>
}

const lost = new Error('the lease is lost')

export function createTerm(clock: Clock, renewDeadlineMs: number): Term {
  const changed = createNotifier(clock)
  /** Aborted at the end of the term; undefined on standby. */
  let current: AbortController | undefined
  /** Monotonic ms. */
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
      become(undefined)
      return true
    },
    async work(act, stop) {
      while (!stop.aborted) {
        if (current !== undefined && isOn()) await act(AbortSignal.any([stop, current.signal]))
        // Rejects only if `stop` is aborted, which ends the loop.
        else await changed.wait(Infinity, stop).catch(() => undefined)
      }
    },
    async watch(onDeadline, signal) {
      for (;;) {
        if (current !== undefined && !isOn()) onDeadline()
        await changed.wait(current === undefined ? Infinity : until - clock.monotonic(), signal)
      }
    },
  }
}
