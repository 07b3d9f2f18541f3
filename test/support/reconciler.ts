// A real reconciler against a sandbox, over real HTTP or in this process, with everything it emits kept for the test.
import { every, systemClock, systemRandom, type Clock } from '../../src/runtime/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { connectionsOf, createReconciler, toPolicy, type Reconciler } from '../../src/reconciler.ts'
import { createConnection, type Connection } from '../../src/platform/connection.ts'
import { runTogether, type Task } from '../../src/runtime/run-together.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { createHttpTransport, type Transport } from '../../src/platform/http/http.ts'
import type { RetryResult } from '../../src/platform/operations.ts'
import { loadKey, type SigningKey } from '../../src/platform/auth/private-key.ts'
import type { Reloadable } from '../../src/platform/auth/reloadable.ts'
import type { Outcome } from '../../src/reconcile/confirm/evidence.ts'
import type { SweepReport } from '../../src/reconcile/sweep/sweep-report.ts'
import { platformEnv, type Sandbox } from '../../sandbox/sandbox.ts'
import { testKeys } from './keys.ts'

/** Rarely: on a virtual clock each look costs, and a day has 86,400 seconds. */
const pingCheckMs = 5000

export interface ReconcilerUnderTest extends AsyncDisposable {
  connection: Connection
  reconciler: Reconciler
  config: Config
  facts: TelemetryEvent[]
  /** One full sweep, then a retry of all that was due when it ended until the outcomes are known; as `once` does. */
  round(): Promise<Round>
}

/** What one round did: retries that were sent and outcomes that became known in it, by name; those that are 0 are left out. */
export interface Round {
  sweep: SweepReport
  retries: Partial<Record<RetryResult, number>>
  outcomes: Partial<Record<Outcome, number>>
}

export interface ReconcilerTestOptions {
  /** Environment variables besides those that the sandbox needs. */
  env?: Record<string, string>
  clock?: Clock
  periodMs?: number
  /** How the sandbox is reached without HTTP. Default: over HTTP, with real deadlines. */
  inProcess?: { transport: Transport; key: Reloadable<SigningKey> }
  /** Called with every fact in the moment in which it is reported. */
  hear?: (fact: TelemetryEvent) => void
}

/** What the daemon's environment must hold to work with a sandbox. */
export async function sandboxEnv(sandbox: Sandbox): Promise<Record<string, string>> {
  const { privateKeyFile } = await testKeys()
  return { ...platformEnv(sandbox, privateKeyFile), RECONCILER_INSTANCE_NAME: 'test' }
}

interface Way {
  transport: Transport
  key: Reloadable<SigningKey>
  close?: () => Promise<void>
}

/** Deadlines are real, for any clock of the reconciler. */
function overHttp(config: Config, clock: Clock): Way {
  const key = loadKey({ file: config.auth.privateKeyFile ?? '' })
  const http = createHttpTransport({ clock: systemClock, connections: connectionsOf(config) })
  const transport: Transport = async (request) => {
    const sentAt = clock.monotonic()
    const answer = await http.transport(request)
    return { ...answer, sentAt, receivedAt: clock.monotonic() }
  }
  return { transport, key, close: () => http.close() }
}

export async function startReconciler(
  sandbox: Sandbox,
  options: ReconcilerTestOptions = {},
): Promise<ReconcilerUnderTest> {
  const clock = options.clock ?? systemClock
  const env = { RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: '1000', ...(await sandboxEnv(sandbox)), ...options.env }
  const { config } = loadConfig({
    env,
    hostName: 'test',
    readFile: () => {
      throw new Error('no file is read here')
    },
  })
  const { close, key, transport }: Way = options.inProcess ?? overHttp(config, clock)
  const facts: TelemetryEvent[] = []
  function emit(fact: TelemetryEvent): void {
    facts.push(fact)
    options.hear?.(fact)
  }
  const random = systemRandom
  const policy = toPolicy(config, options.periodMs ?? 30_000)
  const connection = createConnection(config, { clock, random, transport, key, emit })
  const reconciler = createReconciler(config, { policy, connection, transport, clock, random, emit })
  const work = new AbortController()
  const { breaker } = reconciler
  /** Between two rounds no retry loop runs, which would ping the platform. */
  const ping = (): Promise<void> => (breaker.isPingDue() ? breaker.ping(work.signal) : Promise.resolve())
  const pinging: Task = (signal) => every(pingCheckMs, clock, signal, ping)
  const beside = runTogether([reconciler.receiver.run, reconciler.confirm, pinging], work.signal)
  beside.catch(() => undefined)

  function countOf(told: readonly TelemetryEvent[]): Pick<Round, 'retries' | 'outcomes'> {
    const counts: Pick<Round, 'retries' | 'outcomes'> = { retries: {}, outcomes: {} }
    const { outcomes, retries } = counts
    for (const fact of told) {
      if (fact.type === 'retry' && fact.answer.sent) {
        retries[fact.answer.result] = (retries[fact.answer.result] ?? 0) + 1
      }
      if (fact.type === 'outcome') outcomes[fact.outcome] = (outcomes[fact.outcome] ?? 0) + 1
    }
    return counts
  }

  return {
    connection,
    reconciler,
    config,
    facts,
    async round() {
      const from = facts.length
      const sweep = await reconciler.sweeper.make('full', work.signal)
      const signals = { stop: work.signal, kill: work.signal }
      await Promise.race([reconciler.retry(signals, { onlyDueAt: reconciler.client.now() }), beside])
      return { sweep, ...countOf(facts.slice(from)) }
    },
    async [Symbol.asyncDispose]() {
      work.abort()
      await beside
      await close?.()
    },
  }
}
