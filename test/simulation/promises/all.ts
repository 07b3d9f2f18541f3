// All promises that are watched beside the invariants.
import type { Watcher, WatcherOptions } from './watcher.ts'

const makers: readonly ((options: WatcherOptions) => Watcher)[] = []

export function createWatchers(options: WatcherOptions): Watcher[] {
  return makers.map((make) => make(options))
}
