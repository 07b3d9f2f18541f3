// All promises that are watched beside the invariants.
import { createAttemptWatcher } from './attempt.ts'
import { createBreakerWatcher } from './breaker.ts'
import { createCallsWatcher } from './calls.ts'
import { createCircuitWatcher } from './circuit.ts'
import { createClockWatcher } from './clock.ts'
import { createFailedAgainWatcher } from './failed-again.ts'
import { createIdentityWatcher } from './identity.ts'
import { createLateChecksWatcher } from './late-checks.ts'
import { createExpiryWatcher } from './expiry.ts'
import { createExhaustedWatcher } from './exhausted.ts'
import { createProbeWatcher } from './probe.ts'
import { createProgressWatcher } from './progress.ts'
import { createQuietWatcher } from './quiet.ts'
import { createRateWatcher } from './rate.ts'
import { createResolvedWatcher } from './resolved.ts'
import { createRestsWatcher } from './rests.ts'
import { createStuckWatcher } from './stuck.ts'
import { createTruthWatcher } from './truth.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'
import { createWorkWatcher } from './work.ts'

const makers: readonly ((options: WatcherOptions) => Watcher)[] = [
  createAttemptWatcher,
  createBreakerWatcher,
  createCallsWatcher,
  createCircuitWatcher,
  createClockWatcher,
  createFailedAgainWatcher,
  createIdentityWatcher,
  createLateChecksWatcher,
  createExpiryWatcher,
  createExhaustedWatcher,
  createProbeWatcher,
  createProgressWatcher,
  createQuietWatcher,
  createRateWatcher,
  createResolvedWatcher,
  createRestsWatcher,
  createStuckWatcher,
  createTruthWatcher,
  createWorkWatcher,
]

export function createWatchers(options: WatcherOptions): Watcher[] {
  return makers.map((make) => make(options))
}
