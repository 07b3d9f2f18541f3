// Backoff after a list call was given up: 1 s, doubling, less up to half at random. Sweeps, outcome checks and the platform breaker's pings have one each.
import { TokenError } from '../platform/auth/token-response.ts'
import type { Clock, Random } from '../runtime/clock.ts'

export interface PlatformBackoff {
  /** When the next call may be sent, monotonic ms; -Infinity without a failure, or once the platform has responded since. */
  until(): number
  /** A call failed: starts a backoff twice as long as the last one, up to `maxMs`, a minute by default. */
  failed(error?: unknown, maxMs?: number): void
  /** The platform has responded. */
  end(): void
}

const firstMs = 1000
const usualMaxMs = 60_000
/** Without an access token: the token cache backs off itself, and calls should resume soon after it has one. */
const maxWithoutTokenMs = 10_000

/** @param respondedAt - when the platform last responded to another list call, monotonic ms. Default: never. */
export function createPlatformBackoff(
  clock: Pick<Clock, 'monotonic'>,
  random: Pick<Random, 'next'>,
  respondedAt: () => number = () => -Infinity,
): PlatformBackoff {
  let until = -Infinity
  let failedAt = -Infinity
  let failures = 0

  return {
    until: () => (respondedAt() > failedAt ? -Infinity : until),
    failed(error, maxMs = usualMaxMs) {
      failedAt = clock.monotonic()
      const limitMs = error instanceof TokenError ? maxWithoutTokenMs : maxMs
      const delayMs = Math.min(limitMs, firstMs * 2 ** failures)
      if (delayMs < limitMs) failures += 1
      until = failedAt + delayMs * (1 - random.next() / 2)
    },
    end() {
      until = -Infinity
      failures = 0
    },
  }
}
