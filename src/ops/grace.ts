// The grace period of a shutdown: how long retries in flight may continue.
import { formatDuration } from '../config/duration.ts'
import type { Log } from '../observe/log/log.ts'
import type { Clock } from '../runtime/clock.ts'

export interface GraceOptions {
  /** Aborted by the shutdown request; the message of its reason is the name of the signal. */
  stop: AbortSignal
  graceMs: number
  inFlight: () => number
  clock: Clock
  log: Log
}

export interface Grace {
  /** Aborted when the grace period ends. */
  readonly signal: AbortSignal
  /** Number of retries in flight at that time; 0 if all had finished. */
  cutOff(): number
  /** Ends the wait, and all work that listens to `signal`. */
  end(): void
}

/** Logs the shutdown and the number of aborted retries. */
export function createGrace(options: GraceOptions): Grace {
  const { clock, graceMs, inFlight, log, stop } = options
  const kill = new AbortController()
  let cutOff = 0

  function begin(): void {
    log.event('shutdown_started', {
      signal: stop.reason instanceof Error ? stop.reason.message : undefined,
      inFlight: inFlight(),
      grace: formatDuration(graceMs),
    })
    clock.sleep(graceMs, kill.signal).then(
      () => {
        cutOff = inFlight()
        kill.abort()
        if (cutOff === 0) return
        log.event('shutdown_grace_expired', { inFlight: cutOff })
      },
      () => undefined,
    )
  }

  if (stop.aborted) begin()
  else stop.addEventListener('abort', begin, { once: true, signal: kill.signal })

  return {
    signal: kill.signal,
    cutOff: () => cutOff,
    end() {
      kill.abort()
    },
  }
}
