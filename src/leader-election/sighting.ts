// The lease as this instance saw it last, and until when it holds: counted on the monotonic clock from when a renewal was seen, as hosts' clocks differ.
import type { Clock } from '../runtime/clock.ts'
import type { Lease } from './lease-client.ts'

export interface Sighting {
  /** Undefined before the first. */
  lease(): Lease | undefined
  /** Empty while no instance holds it, or none is known to. */
  holder(): string
  /** Monotonic ms: when it may be taken, unless it is renewed before. */
  expiresAt(): number
  isExpired(): boolean
  see(lease: Lease): void
  /**
   * It was deleted. It counts as it was seen last, and is made again so: with its holder, which renews it, and with its
   * annotations. Undefined when none was ever seen.
   */
  miss(): Lease | undefined
}

export function createSighting(clock: Pick<Clock, 'monotonic'>, leaseDurationMs: number): Sighting {
  let lease: Lease | undefined
  /** Changes with each renewal, and not with an annotation. */
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
      // A person deletes a lease that would hold for years.
      expiresAt = Math.min(expiresAt, clock.monotonic() + leaseDurationMs)
      return { ...lease, version: undefined, durationMs: leaseDurationMs, object: {} }
    },
  }
}
