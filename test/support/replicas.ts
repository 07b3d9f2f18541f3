// Daemons that share one Lease and one platform, in virtual time: each on a host that is killed, frozen or cut off as a test wants.
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { loadConfig } from '../../src/config/load.ts'
import { runDaemon } from '../../src/daemon.ts'
import type { OpsServerOptions } from '../../src/ops/server.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from './platform.ts'
import { inProcessKey, inProcessTransport, quickKeys } from './in-process.ts'
import { createLeaseHost, createLeaseStore, type LeaseHost, type LeaseStore } from './lease-store.ts'
import { keepingLog } from './log.ts'
import { sandboxEnv } from './reconciler.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface Replica extends LeaseHost {
  readonly name: string
  readonly facts: readonly TelemetryEvent[]
  /** What its ops server was started with: /status, probes and commands. */
  ops(): OpsServerOptions
  /** SIGTERM; resolves when it has ended. */
  stop(): Promise<void>
  isGone(): boolean
}

/** A retry, or a list that is asked for. */
export interface PlatformCall {
  by: Replica
  method: string
  /** The end of its path: in a retry the record's id. */
  id: string
  /** Monotonic ms of true time: when it left. */
  at: number
  /** The lease as the API has it at that moment. */
  holder: string | undefined
}

/** A replica led from then on, by what it said itself; monotonic ms of true time. */
export interface Term {
  by: Replica
  from: number
}

export interface Replicas extends AsyncDisposable {
  clock: VirtualClock
  sandbox: Sandbox
  store: LeaseStore
  all: readonly Replica[]
  calls: readonly PlatformCall[]
  /** Its retries. */
  readonly patches: readonly PlatformCall[]
  terms: readonly Term[]
  /** The one that leads by its own status; undefined while none does. */
  leader(): Replica | undefined
  /** Virtual ms until it is so; throws after five minutes. */
  until(isSo: () => boolean): Promise<number>
}

const stepMs = 50
const maxMs = 300_000
const periodMs = 30_000

export interface ReplicasOptions {
  env?: Readonly<Record<string, string>>
  /** How far the wall clock of each host is ahead; as many replicas are started. Default: three, an hour apart. */
  aheadMs?: readonly number[]
  /** Called for each host before its daemon starts. */
  prepare?: (host: LeaseHost, index: number) => void
}

const token = 'the-token-of-three-replicas-is-long'

export async function startReplicas(options: ReplicasOptions = {}): Promise<Replicas> {
  const { aheadMs = [0, 3_600_000, -3_600_000], env = {}, prepare } = options
  const clock = createVirtualClock()
  const store = createLeaseStore()
  const { privateKeyPem, publicKeyPem } = quickKeys()
  const key = inProcessKey(privateKeyPem)
  await using starting = new AsyncDisposableStack()
  const sandbox = starting.use(await startPlatform({ inProcess: true, clock, certificatePem: publicKeyPem }))
  const all: Replica[] = []
  const calls: PlatformCall[] = []
  const terms: Term[] = []
  const base = await sandboxEnv(sandbox)

  function start(name: string, ahead: number, index: number): Replica {
    const { config } = loadConfig({
      env: {
        ...base,
        RECONCILER_INSTANCE_NAME: name,
        RECONCILER_LEADER_ELECTION_KIND: 'kubernetes',
        RECONCILER_CONTROL_TOKEN: token,
        ...env,
      },
      hostName: 'test',
      readFile: () => '',
    })
    const host = createLeaseHost({
      store,
      clock,
      aheadMs: ahead,
      callTimeoutMs: config.leaderElection.renewDeadline / 2,
    })
    prepare?.(host, index)
    const facts: TelemetryEvent[] = []
    const stop = new AbortController()
    let isGone = false
    let server: OpsServerOptions | undefined
    // What has left arrives, also when its sender is frozen or gone.
    const wire = inProcessTransport(sandbox, clock)
    const transport: Transport = async (request) => {
      await host.awake()
      const { method, url } = request
      const id = url.pathname.split('/').at(-1) ?? ''
      if (url.pathname.includes('/webhooks'))
        calls.push({ by: replica, method, id, at: clock.monotonic(), holder: store.lease()?.holder })
      try {
        return await wire(request)
      } finally {
        await host.awake()
      }
    }
    const running = runDaemon({
      config,
      version: '0.0.0',
      nodeVersion: 'test',
      clock: host.clock,
      random: { next: () => 0.5, uuid: () => crypto.randomUUID() },
      log: keepingLog(() => undefined),
      transport,
      lease: host.client,
      schedule: {
        periodMs,
        nextAt: () => undefined,
        isLate: () => false,
        start(tick) {
          const next = (): void => {
            tick()
            host.clock.timer(periodMs, next)
          }
          next()
          return Promise.resolve()
        },
        stop: () => Promise.resolve(),
      },
      key,
      certificate: undefined,
      stop: stop.signal,
      host: {
        processMetrics: false,
        startServer(served) {
          server = served
          return Promise.resolve({ port: 1, drain: () => undefined, close: () => Promise.resolve() })
        },
        emit(fact) {
          facts.push(fact)
          if (fact.type === 'leading') terms.push({ by: replica, from: clock.monotonic() })
        },
      },
    })
    running.catch(() => undefined)
    const { kill } = host
    const replica: Replica = Object.assign(host, {
      name,
      facts,
      ops() {
        if (server === undefined) throw new Error('its ops server was not started')
        return server
      },
      stop() {
        stop.abort(new Error('SIGTERM'))
        return running
      },
      kill() {
        isGone = true
        kill()
      },
      isGone: () => isGone,
    })
    return replica
  }

  for (const [index, ahead] of aheadMs.entries()) {
    all.push(start(`replica-${index}`, ahead, index))
    await clock.settle()
  }
  const running = starting.move()

  return {
    clock,
    sandbox,
    store,
    all,
    calls,
    get patches() {
      return calls.filter(({ method }) => method === 'PATCH')
    },
    terms,
    leader() {
      // A status costs something, and is asked for twenty times a second: one that never led does not lead.
      const former = all.filter((one) => terms.some(({ by }) => by === one))
      return former.find((one) => !one.isGone() && !one.isFrozen() && one.ops().status().leadership?.leading === true)
    },
    async until(isSo) {
      const from = clock.monotonic()
      while (!isSo()) {
        if (clock.monotonic() - from > maxMs) throw new Error(`not so after ${maxMs / 1000} s`)
        await clock.advance(stepMs)
      }
      return clock.monotonic() - from
    },
    async [Symbol.asyncDispose]() {
      for (const one of all) one.kill()
      await running.disposeAsync()
    },
  }
}

/** Lists and retries of a replica while the API has another holder of the lease, or none. */
export function strays({ calls }: Replicas): string[] {
  const stray = calls.filter(({ by, holder }) => holder?.startsWith(by.name) !== true)
  return stray.map(
    ({ at, by, holder, method }) => `${by.name} sends ${method} at ${at} while ${holder} holds the lease`,
  )
}
