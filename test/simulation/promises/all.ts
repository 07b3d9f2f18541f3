// All promises that are watched beside the invariants.
import { createBreakerWatcher } from './breaker.ts'
import { createFailedAgainWatcher } from './failed-again.ts'
import { createOrderWatcher } from './order.ts'
import { createParkedWatcher } from './parked.ts'
import { createResolvedWatcher } from './resolved.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const makers: readonly ((options: WatcherOptions) => Watcher)[] = [
  createBreakerWatcher,
  createFailedAgainWatcher,
  createOrderWatcher,
  createParkedWatcher,
  createResolvedWatcher,
]

export function createWatchers(options: WatcherOptions): Watcher[] {
  return makers.map((make) => make(options))
}
