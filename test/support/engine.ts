// A real engine against a sandbox over real HTTP, with everything it tells kept for the test.
import { systemClock, systemRandom, type Clock } from '../../src/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { connectionsOf, createEngine, type Engine } from '../../src/engine.ts'
import type { Fact } from '../../src/facts.ts'
import { createKeySource } from '../../src/platform/private-key.ts'
import { createUndiciTransport } from '../../src/platform/undici-transport.ts'
import type { RetryResult } from '../../src/platform/client.ts'
import type { SweepReport } from '../../src/reconcile/sweeper.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import { testKeys } from './keys.ts'

export interface EngineUnderTest extends AsyncDisposable {
  engine: Engine
  config: Config
  facts: Fact[]
  /** One full sweep, then a retry of all that was due when it ended; as `once` does. */
  round(): Promise<{ sweep: SweepReport; retries: Partial<Record<RetryResult, number>> }>
}

export interface EngineTestOptions {
  /** Environment variables besides those that the sandbox needs. */
  env?: Record<string, string>
  clock?: Clock
  periodMs?: number
}

/** What the daemon's environment must hold to work with a sandbox. */
export async function sandboxEnv(sandbox: Sandbox): Promise<Record<string, string>> {
  const { privateKeyFile } = await testKeys()
  return {
    RECONCILER_PLATFORM_BASE_URL: sandbox.baseUrl,
    RECONCILER_AUTH_AUTH_URL: sandbox.authUrl,
    RECONCILER_AUTH_REALM: sandbox.realm,
    RECONCILER_AUTH_CLIENT_ID: sandbox.clientId,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
    RECONCILER_INSTANCE_NAME: 'test',
  }
}

export async function startEngine(sandbox: Sandbox, options: EngineTestOptions = {}): Promise<EngineUnderTest> {
  const clock = options.clock ?? systemClock
  const env = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000', ...(await sandboxEnv(sandbox)), ...options.env }
  const { config } = loadConfig({
    env,
    hostName: 'test',
    readFile: () => {
      throw new Error('no file is read here')
    },
  })
  const { source: key } = await createKeySource({ file: config.auth.privateKeyFile ?? '' })
  // Deadlines are real, whatever clock the engine lives by.
  const http = createUndiciTransport({ clock: systemClock, connections: connectionsOf(config) })
  const facts: Fact[] = []
  const engine = createEngine({
    config,
    periodMs: options.periodMs ?? 30_000,
    clock,
    random: systemRandom,
    transport: async (request) => {
      const sentAt = clock.now()
      const answer = await http.transport(request)
      return { ...answer, sentAt, receivedAt: clock.now() }
    },
    key,
    certificate: undefined,
    report: (fact) => facts.push(fact),
  })
  const work = new AbortController()
  const guarding = engine.guard.run(work.signal).catch(() => undefined)

  return {
    engine,
    config,
    facts,
    async round() {
      const from = facts.length
      const sweep = await engine.sweeper.full(work.signal)
      const signals = { stop: work.signal, kill: work.signal }
      await engine.dispatcher.run(signals, { onlyDueAt: engine.client.now() })
      const retries: Partial<Record<RetryResult, number>> = {}
      for (const fact of facts.slice(from)) {
        if (fact.type === 'retry' && fact.answer.sent) {
          retries[fact.answer.result] = (retries[fact.answer.result] ?? 0) + 1
        }
      }
      return { sweep, retries }
    },
    async [Symbol.asyncDispose]() {
      work.abort()
      await guarding
      await http.close()
    },
  }
}
