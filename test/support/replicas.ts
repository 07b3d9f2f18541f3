// Daemons that share one Lease and one platform, in virtual time: each on a host that is killed, frozen or cut off as a test wants.
import { TransportError, type Transport } from '../../src/platform/http/http.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { periodMs, startDaemon, withControl, type RunningDaemon } from './daemon.ts'
import { createLeaseHost, createLeaseStore, type LeaseHost, type LeaseStore } from './lease-store.ts'
import { startPlatform } from './platform.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface Replica extends LeaseHost, Pick<RunningDaemon, 'facts' | 'ops' | 'metric'> {
  readonly name: string
  /** False: no call of it reaches the platform or the identity host. Default true. */
  hasEgress: boolean
  /** SIGTERM; resolves when it has ended. */
  stop(): Promise<unknown>
  /** A command that came to it, and what it answers. */
  command(name: 'pause' | 'resume'): Promise<unknown>
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
  /** It left as the host went on after it stood still. */
  isOfWaking: boolean
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
  /** The one that does not stand by, as it says itself; undefined while none leads. */
  leader(): Replica | undefined
  /** Virtual ms until it is so; throws after five minutes. */
  until(isSo: () => boolean): Promise<number>
}

/** `leaderElection.leaseDuration` and `leaderElection.retryPeriod` by default. */
export const [leaseMs, retryMs] = [15_000, 2000]
const stepMs = 50
const maxMs = 300_000

export interface ReplicasOptions {
  env?: Readonly<Record<string, string>>
  /** Besides, for one of them. */
  envOf?: (index: number) => Readonly<Record<string, string>>
  leaseDurationMs?: number
  /** How far the wall clock of each host is ahead; as many replicas are started. Default: three, an hour apart. */
  aheadMs?: readonly number[]
  /** Each clock runs so many times as fast as true time. */
  rates?: readonly number[]
  /** Called for each host before its daemon starts. */
  prepare?: (host: LeaseHost, index: number) => void
}

export async function startReplicas(options: ReplicasOptions = {}): Promise<Replicas> {
  const {
    aheadMs = [0, 3_600_000, -3_600_000],
    env = {},
    envOf,
    prepare,
    rates = [],
    leaseDurationMs = leaseMs,
  } = options
  const clock = createVirtualClock()
  const store = createLeaseStore()
  await using starting = new AsyncDisposableStack()
  const sandbox = starting.use(await startPlatform({ inProcess: true, clock }))
  const all: Replica[] = []
  const calls: PlatformCall[] = []
  const terms: Term[] = []

  function start(name: string, aheadMs: number, index: number): Replica {
    const host = createLeaseHost({ store, clock, rate: rates[index], aheadMs, callTimeoutMs: leaseDurationMs / 3 })
    prepare?.(host, index)
    let isGone = false
    // What has left arrives, also when its sender is frozen or gone.
    const between =
      (wire: Transport): Transport =>
      async (request) => {
        await host.awake()
        if (!replica.hasEgress) throw new TransportError('connection', 'ECONNREFUSED', { requestNotSent: true })
        const { method, url } = request
        const id = url.pathname.split('/').at(-1) ?? ''
        if (url.pathname.includes('/webhooks'))
          calls.push({
            ...{ by: replica, method, id, at: clock.monotonic(), holder: store.lease()?.holder },
            isOfWaking: host.isWaking(),
          })
        const sentAt = host.clock.monotonic()
        try {
          return { ...(await wire(request)), sentAt, receivedAt: host.clock.monotonic() }
        } finally {
          await host.awake()
        }
      }
    const { facts, metric, ops, running, stop, tick } = startDaemon({
      clock,
      hostClock: host.clock,
      sandbox,
      between,
      lease: host.client,
      env: {
        RECONCILER_PLATFORM_MAX_REQUESTS_PER_SECOND: undefined,
        RECONCILER_INSTANCE_NAME: name,
        RECONCILER_LEADER_ELECTION_KIND: 'kubernetes',
        RECONCILER_LEADER_ELECTION_LEASE_DURATION: `${leaseDurationMs}ms`,
        ...withControl,
        ...env,
        ...envOf?.(index),
      },
      hear(fact) {
        if (fact.type === 'leading') terms.push({ by: replica, from: clock.monotonic() })
      },
    })
    const tickOn = (): void => {
      host.clock.timer(periodMs, () => {
        tick()
        tickOn()
      })
    }
    tickOn()
    const { kill } = host
    const replica: Replica = Object.assign(host, {
      ...{ name, facts, metric, ops, hasEgress: true },
      stop() {
        stop()
        return running
      },
      command: (name: 'pause' | 'resume') => clock.run(Promise.resolve(ops().control.pause[name]())),
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
      // Not by its status: that costs something, and this is asked for twenty times a second.
      return all.find((one) => !one.isGone() && !one.isFrozen() && one.ops().records.standsBy() === undefined)
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

/**
 * Lists and retries of a replica while the API has another holder of the lease, or none. One that slept does not lead when it
 * wakes up, and so retries nothing; the lists that its timers ask for end with its next renewal. One that stood still may
 * list as it goes on, when the timer of a list comes before that of the lease.
 */
export function strays({ calls }: Replicas): string[] {
  const stray = calls.filter(
    ({ by, holder, isOfWaking, method }) =>
      holder?.startsWith(by.name) !== true && (method === 'PATCH' || !(by.hasSlept() || isOfWaking)),
  )
  return stray.map(
    ({ at, by, holder, method }) => `${by.name} sends ${method} at ${at} while ${holder} holds the lease`,
  )
}
