// The time limits of tests: one for each test and hook, and how long what waits in a test may do so.
import { AsyncLocalStorage } from 'node:async_hooks'

/** Far beyond what a slow machine needs: only a test that fails takes so long. */
export const testLimitMs = 300_000

/** What waits gives up so long before the test's own limit, and says for what it waited; then all that the test holds is released. */
const marginMs = 20_000

/** When the test that runs here meets its limit. */
const limits = new AsyncLocalStorage<number>()

/** Runs a test that has this limit. */
export function underLimit(limitMs: number, run: () => Promise<void>): Promise<void> {
  return limits.run(performance.now() + limitMs, run)
}

/** How long a wait that begins now may take. Outside of a test, in a hook or a script, as long as if one began now. */
export function waitableMs(): number {
  const endsAt = limits.getStore() ?? performance.now() + testLimitMs
  return Math.max(1, endsAt - marginMs - performance.now())
}
