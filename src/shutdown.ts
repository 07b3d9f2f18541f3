// The end in good order: from the wish to stop on, retries in flight have a time of grace; what takes longer is cut off.
import type { Clock } from './runtime/clock.ts'
import { formatDuration } from './config/duration.ts'
import type { Log } from './observe/log.ts'

export interface GraceOptions {
  /** Aborted by the wish to stop; its reason's message is the signal's name. */
  stop: AbortSignal
  graceMs: number
  /** Retries in flight now. */
  inFlight: () => number
  clock: Clock
  log: Log
}

export interface Grace {
  /** Aborted when the grace is over. */
  readonly signal: AbortSignal
  /** How many retries were in flight then; 0 when all had finished. */
  cutOff(): number
  /** Ends the wait, and everything that still listens to `signal`. */
  end(): void
}

/** Tells when `stop` is aborted, and what had to be cut off. */
export function createGrace(options: GraceOptions): Grace {
  const { clock, graceMs, inFlight, log, stop } = options
  const kill = new AbortController()
  let cutOff = 0

  function begin(): void {
    if (kill.signal.aborted) return
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
  else stop.addEventListener('abort', begin, { once: true })

  return {
    signal: kill.signal,
    cutOff: () => cutOff,
    end() {
      stop.removeEventListener('abort', begin)
      kill.abort()
    },
  }
}

/** Resolves when the signal is aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else
      signal.addEventListener(
        'abort',
        () => {
          resolve()
        },
        { once: true },
      )
  })
}
