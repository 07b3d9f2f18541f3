// Places that retries hold in the circuit of their subscription, as they are seen from outside. @see docs/architecture.md "Circuits"
import type { WatcherOptions } from './watcher.ts'

/**
 * The most retries of a subscription that can have held a place at `at` (ms since the start) and since. A check after
 * `circuit.probeTimeout` frees a place, and checks are at most as far apart as they are late.
 */
export function heldPlaces(
  { config, knowledge, platform }: WatcherOptions,
  subscriptionId: string,
  at: number,
): number {
  const since = at - 2 * config.circuit.probeTimeout - 15_000
  const isHeld = (owed: string): boolean => (knowledge.get(owed)?.sentAt ?? 0) > since
  const places = [...[...knowledge.owed()].filter(isHeld), ...knowledge.failedRetries()]
  return places.filter((place) => platform.records.get(place)?.subscriptionId === subscriptionId).length
}
