// Failed records of a few known causes, for the commands that show or retry them.
import { systemClock } from '../../src/runtime/clock.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { sandboxEnv } from './platform.ts'
import { startDaemon, type Daemon } from './process.ts'

export const hour = 3_600_000
/** Of the subscription that is ours, and of anything that is looked for. */
export const missing = '11111111-2222-4333-8444-555555555555'
/** Another's subscription. */
export const team = '77777777-2222-4333-8444-555555555555'

/** Commands don't wait for the rate, and find no other daemon that may run on this machine. */
const ofItsOwn = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000', RECONCILER_SERVER_PORT: '1' }

/** The environment of a command beside which no daemon runs. */
export async function envOf(sandbox: Sandbox, more: Record<string, string> = {}): Promise<Record<string, string>> {
  return { ...(await sandboxEnv(sandbox)), ...ofItsOwn, ...more }
}

/** Nothing goes out but what an operator asks for. */
export const patient = { RECONCILER_RETRY_BACKOFF_INITIAL: '6d', RECONCILER_RETRY_BACKOFF_MAX: '6d' }

/** A daemon that has listed the window, and the environment of commands for it. */
export async function startBeside(
  sandbox: Sandbox,
  more: Record<string, string> = {},
): Promise<AsyncDisposable & { daemon: Daemon; env: Record<string, string> }> {
  const env = await envOf(sandbox, more)
  const daemon = await startDaemon({ ...env, RECONCILER_SERVER_PORT: '0' })
  await daemon.said('full_sweep_completed')
  return {
    daemon,
    env: { ...env, RECONCILER_SERVER_PORT: new URL(daemon.url).port },
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  }
}

/** Records of three causes: 20 due by 503, 5 backing off without a response, 3 exhausted; and 4 of another team. */
export function seedCauses(sandbox: Sandbox): { due: string[]; exhausted: string[]; others: string[] } {
  const now = systemClock.now()
  const common = { eventTypes: ['account-activated'], subscriptions: [missing] }
  const old = { from: now - 20 * hour, to: now - 10 * hour, attempts: 1 }
  const due = sandbox.seed({ ...common, ...old, count: 20, result: { responseStatusCode: 503 } })
  const soon = { from: now - 2 * hour, to: now - 2 * hour, attempts: 20, lastAttemptAfterMs: 2 * hour - 3000 }
  sandbox.seed({ ...common, ...soon, count: 5, result: { responseStatusCode: null } })
  const limit = { ...old, attempts: 30 }
  const exhausted = sandbox.seed({ ...common, ...limit, count: 3, result: { responseStatusCode: 503 } })
  const others = sandbox.seed({ ...old, count: 4, subscriptions: [team] })
  return { due, exhausted, others }
}
