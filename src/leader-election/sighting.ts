// The lease as this instance last saw it, and its expiry, measured on the monotonic clock from the last seen renewal, because hosts' clocks differ.
import type { Clock } from '../runtime/clock.ts'
import type { Lease } from './lease-client.ts'

export interface Sighting {
  /** Undefined before the first. */
  lease(): Lease | undefined
  /** Empty if no instance is known to hold it. */
  holder(): string
  /** Monotonic ms from which it may be taken unless it is renewed. */
  expiresAt(): number
  isExpired(): boolean
  see(lease: Lease): void
  /**
   * The lease was deleted. It is recreated as last seen, with its holder, which renews it, and its annotations. Undefined if
   * none was ever seen.
   */
  miss(): Lease | undefined
}

export function createSighting(clock: Pick<Clock, 'monotonic'>, leaseDurationMs: number): Sighting {
  let lease: Lease | undefined
  /** Changes with each renewal, but not with an annotation. */
  let renewal = ''
  let expiresAt = -Infinity
  return {
    lease: () => lease,
    holder: () => lease?.holder ?? '',
    expiresAt: () => expiresAt,
    isExpired: () => clock.monotonic() >= expiresAt,
    see(seen) {
      const { acquireTime, durationMs = leaseDurationMs, holder, renewTime, transitions } = seen
      const shown = [holder, acquireTime, renewTime, transitions].join(' ')
      if (shown !== renewal) expiresAt = clock.monotonic() + durationMs
      renewal = shown
      lease = seen
    },
    miss() {
      if (lease === undefined) return undefined
      // A person deletes a lease that would last for years.
      expiresAt = Math.min(expiresAt, clock.monotonic() + leaseDurationMs)
      return { ...lease, version: undefined, durationMs: leaseDurationMs, object: {} }
    },
  }
}
