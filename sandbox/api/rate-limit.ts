// The platform's own rate limit: a bucket of calls that refills evenly.
import type { Clock } from '../../src/runtime/clock.ts'
import type { Readings } from '../options.ts'

/** Undefined when the call may pass, else the seconds until the next one may. */
export type RateGate = (limit: NonNullable<Readings['rateLimit']>) => number | undefined

export function createRateGate(clock: Clock): RateGate {
  let level: number | undefined
  let at = clock.monotonic()
  return ({ requestsPerSecond, burst = requestsPerSecond }) => {
    const now = clock.monotonic()
    level = Math.min(burst, (level ?? burst) + ((now - at) / 1000) * requestsPerSecond)
    at = now
    if (level >= 1) {
      level--
      return undefined
    }
    return (1 - level) / requestsPerSecond
  }
}
