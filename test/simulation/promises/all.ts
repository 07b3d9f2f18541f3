// All promises that are watched beside the invariants.
import { createAttemptsWatcher } from './attempts.ts'
import { createBreakerWatcher } from './breaker.ts'
import { createCallsWatcher } from './calls.ts'
import { createDeadReceiversWatcher } from './dead-receivers.ts'
import { createFailedAgainWatcher } from './failed-again.ts'
import { createIdentityWatcher } from './identity.ts'
import { createLateChecksWatcher } from './late-checks.ts'
import { createExpiryWatcher } from './expiry.ts'
import { createQuietWatcher } from './quiet.ts'
import { createRestsWatcher } from './rests.ts'
import { createTruthWatcher } from './truth.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'
import { createWaitsWatcher } from './waits.ts'

const makers: readonly ((options: WatcherOptions) => Watcher)[] = [
  createAttemptsWatcher,
  createBreakerWatcher,
  createCallsWatcher,
  createDeadReceiversWatcher,
  createFailedAgainWatcher,
  createIdentityWatcher,
  createLateChecksWatcher,
  createExpiryWatcher,
  createQuietWatcher,
  createRestsWatcher,
  createTruthWatcher,
  createWaitsWatcher,
]

export function createWatchers(options: WatcherOptions): Watcher[] {
  return makers.map((make) => make(options))
}
