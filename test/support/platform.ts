// The sandbox as tests start it: it knows the test keys, or in this process a quick one, and lives in the host's time unless a test gives another.
import { systemClock } from '../../src/runtime/clock.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import { platformEnv, startSandbox, type Sandbox } from '../../sandbox/sandbox.ts'
import { quickKeys } from './in-process.ts'
import { testKeys } from './keys.ts'
import { ofDaemon, startDaemonHere, type DaemonHere } from './process.ts'

export async function startPlatform(options: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  const certificatePem = options.inProcess === true ? quickKeys().publicKeyPem : (await testKeys()).certificatePem
  return startSandbox({ clock: systemClock, certificatePem, ...options })
}

/** What the daemon's environment must hold to work with a sandbox. */
export async function sandboxEnv(sandbox: Sandbox): Promise<Record<string, string>> {
  const { privateKeyFile } = await testKeys()
  return { ...platformEnv(sandbox, privateKeyFile), RECONCILER_INSTANCE_NAME: 'test' }
}

/** The environment of a daemon whose platform does not listen, with the test key. */
export async function nowhere(): Promise<Record<string, string>> {
  const { privateKeyFile } = await testKeys()
  const origin = 'http://127.0.0.1:9'
  const address = { baseUrl: origin, authUrl: origin, realm: 'main', clientId: 'client' }
  return { ...ofDaemon, ...platformEnv(address, privateKeyFile) }
}

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
): Promise<AsyncDisposable & { daemon: DaemonHere; env: Record<string, string> }> {
  const env = await envOf(sandbox, more)
  const daemon = await startDaemonHere({ ...env, RECONCILER_SERVER_PORT: '0' })
  await daemon.said('full_sweep_completed')
  return {
    daemon,
    env: { ...env, RECONCILER_SERVER_PORT: new URL(daemon.url).port },
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  }
}

const hourMs = 3_600_000

/** Adds failed records that were tried a moment ago: with a long backoff nothing goes out but what an operator asks for. */
export function seedTried(sandbox: Sandbox, count: number): string[] {
  const from = systemClock.now() - 2 * hourMs
  return sandbox.seed({ count, from, to: from, attempts: 1, lastAttemptAfterMs: 2 * hourMs - 3000 })
}

/** Adds failed records that are due: some days old, last tried half a day ago. Returns their ids. */
export function seedDue(sandbox: Sandbox, count: number): string[] {
  const now = systemClock.now()
  return sandbox.seed({ count, from: now - 100 * hourMs, to: now - 12 * hourMs, attempts: 1 })
}
