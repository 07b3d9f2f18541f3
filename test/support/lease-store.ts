// One Lease in memory with the semantics of the Kubernetes API, and instances that elect a leader by it: with clocks that drift, freezes, partitions and lost answers.
import { createElection, type Election } from '../../src/leader-election/leader-election.ts'
import type { LeadershipEvent } from '../../src/leader-election/leadership.ts'
import {
  LeaseFailure,
  type Lease,
  type LeaseClient,
  type LeaseFailureReason,
} from '../../src/leader-election/lease-client.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { abortable } from '../../src/runtime/notifier.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export interface LeaseStore {
  lease(): Lease | undefined
  read(): Lease | undefined
  /** Optimistic concurrency: another version than the stored one is a conflict. */
  write(lease: Lease): Lease
  /** A person edits it, or deletes it. */
  edit(changes: Partial<Omit<Lease, 'version'>>): void
  remove(): void
  /** Reads and writes that came. */
  calls(): number
}

export function createLeaseStore(): LeaseStore {
  let stored: Lease | undefined
  let [version, calls] = [0, 0]
  // Times have six decimals there.
  const store = (lease: Lease): Lease =>
    (stored = {
      ...lease,
      version: String((version += 1)),
      renewTime: lease.renewTime?.replace(/(\.\d{3})Z$/, '$1000Z'),
    })
  const conflict = (): never => {
    throw new LeaseFailure('conflict', 'HTTP 409')
  }
  return {
    lease: () => stored,
    read() {
      calls += 1
      return stored
    },
    write(lease) {
      calls += 1
      return lease.version === stored?.version ? store(lease) : conflict()
    },
    edit(changes) {
      if (stored !== undefined) store({ ...stored, ...changes })
    },
    remove() {
      stored = undefined
    },
    calls: () => calls,
  }
}

/** What happens to the next calls of an instance. */
export interface CallFaults {
  /** Time on the way there, and back; in ms of true time. */
  wayMs: [there: number, back: number]
  /** In place of an answer; the store does not see the call. */
  refused: LeaseFailureReason | undefined
  /** Nothing arrives, in either direction. */
  cut: boolean
  /** The store sees the call, its answer is lost. */
  loseAnswers: boolean
  /** Writes fail, and reads are well. `stored`: the store keeps what is written, all the same. */
  writesFail: 'stored' | 'unstored' | undefined
}

export const noFaults: CallFaults = {
  ...{ wayMs: [0, 0], refused: undefined, writesFail: undefined },
  ...{ cut: false, loseAnswers: false },
}

/** Where an instance runs: its clock drifts, its code stands still for a while, and its calls of the Lease go astray. */
export interface LeaseHost {
  readonly clock: Clock
  readonly client: LeaseClient
  faults: CallFaults
  /** Monotonic time goes on, code does not. */
  freeze(): void
  thaw(): void
  /** Nothing of it goes on from now on, and nothing that it waits for comes. */
  kill(): void
  isFrozen(): boolean
  /** Resolves when its code may go on; never after a kill. */
  awake(): Promise<void>
}

export interface LeaseHostOptions {
  store: LeaseStore
  clock: VirtualClock
  /** Its clock runs so many times as fast as true time. */
  rate?: number
  /** Of its wall clock; negative: behind. */
  aheadMs?: number
  callTimeoutMs: number
}

export function createLeaseHost({
  aheadMs = 0,
  callTimeoutMs,
  clock: truth,
  rate = 1,
  store,
}: LeaseHostOptions): LeaseHost {
  const never = new Promise<never>(() => undefined)
  let awake: Promise<void> = Promise.resolve()
  let wake: (() => void) | undefined

  const clock: Clock = {
    now: () => truth.now() * rate + aheadMs,
    monotonic: () => truth.monotonic() * rate,
    timer: (ms, act) => truth.timer(ms / rate, () => void awake.then(act)),
    async sleep(ms, signal) {
      await truth.sleep(ms / rate, signal)
      await awake
      signal?.throwIfAborted()
    },
  }

  async function exchange<T>(act: () => T, signal: AbortSignal): Promise<T> {
    const { cut, loseAnswers, refused, wayMs } = host.faults
    const late = new AbortController()
    const timeout = clock.sleep(callTimeoutMs, late.signal).then(() => {
      throw new LeaseFailure('unreachable', 'timeout')
    })
    const answer = (async () => {
      if (cut) return never
      // A call that has left arrives, also when the instance does not wait for it any more.
      await truth.sleep(wayMs[0])
      if (refused !== undefined) throw new LeaseFailure(refused, `refused: ${refused}`)
      const given = act()
      if (loseAnswers) return never
      await truth.sleep(wayMs[1])
      return given
    })()
    answer.catch(() => undefined)
    try {
      return await abortable(Promise.race([answer, timeout]), signal)
    } finally {
      late.abort()
      timeout.catch(() => undefined)
      await awake
    }
  }

  const host: LeaseHost = {
    clock,
    client: {
      subject: 'test/lease',
      read: (signal) => exchange(() => store.read(), signal),
      write(lease, signal) {
        const { writesFail } = host.faults
        return exchange(() => {
          const written = writesFail === 'unstored' ? lease : store.write(lease)
          if (writesFail !== undefined) throw new LeaseFailure('server-error', 'HTTP 500')
          return written
        }, signal)
      },
      close: () => Promise.resolve(),
    },
    faults: noFaults,
    freeze() {
      if (wake !== undefined) return
      awake = new Promise((resolve) => {
        wake = resolve
      })
    },
    thaw() {
      wake?.()
      wake = undefined
      awake = Promise.resolve()
    },
    kill() {
      awake = never
    },
    isFrozen: () => wake !== undefined,
    awake: () => awake,
  }
  return host
}

export interface Instance extends Pick<LeaseHost, 'faults' | 'freeze' | 'thaw' | 'isFrozen'> {
  election: Election
  events: LeadershipEvent[]
  /** Nothing of it goes on; the lease is not released. */
  kill(): void
  /** Ends in good order. */
  stop(): Promise<void>
  pauses: (number | undefined)[]
}

export const timings = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2000 }

interface InstanceOptions extends Pick<LeaseHostOptions, 'store' | 'clock' | 'rate'> {
  identity: string
  onEvent: () => void
}

function startInstance({ clock, identity, onEvent, rate = 1, store }: InstanceOptions): Instance {
  const host = createLeaseHost({ store, clock, rate, callTimeoutMs: timings.renewDeadlineMs / 2 })
  const end = new AbortController()
  const events: LeadershipEvent[] = []
  const pauses: Instance['pauses'] = []
  const election = createElection({
    client: host.client,
    identity,
    ...timings,
    clock: host.clock,
    emit(event) {
      events.push(event)
      onEvent()
    },
    onPause: (since) => pauses.push(since),
  })
  const running = election.run(end.signal)
  running.catch(() => undefined)
  return Object.assign(host, {
    election,
    events,
    pauses,
    kill() {
      end.abort(new Error('killed'))
    },
    async stop() {
      end.abort(new Error('stopped'))
      await running
      await election.release()
    },
  })
}

export interface Scene extends Disposable {
  clock: VirtualClock
  store: LeaseStore
  instances: Instance[]
  /** Starts one more, `one_0` first; its clock runs so many times as fast as true time. */
  start(rate?: number): Instance
  /** Those that would act as the leader now. */
  leaders(): Instance[]
  /** Virtual ms until another one than the first leads. */
  takeoverMs(): Promise<number>
}

/** Instances on one clock, killed at the end. `onEvent`: called for each event of any of them. */
export function createScene(onEvent: (scene: Scene) => void = () => undefined): Scene {
  const clock = createVirtualClock()
  const store = createLeaseStore()
  const instances: Instance[] = []
  let starts = 0
  const scene: Scene = {
    clock,
    store,
    instances,
    start(rate = 1) {
      const onOne = (): void => {
        onEvent(scene)
      }
      const started = startInstance({ identity: `one_${starts++}`, store, clock, rate, onEvent: onOne })
      instances.push(started)
      return started
    },
    leaders: () => instances.filter(({ election }) => election.isLeading()),
    async takeoverMs() {
      const from = clock.monotonic()
      const isTaken = (): boolean => scene.leaders().some((one) => one !== instances[0])
      while (!isTaken() && clock.monotonic() - from < 60_000) await clock.advance(10)
      return clock.monotonic() - from
    },
    [Symbol.dispose]() {
      for (const instance of instances) instance.kill()
    },
  }
  return scene
}

/** So many instances, of which the first leads. */
export async function startScene(count: number): Promise<Scene & { first: Instance }> {
  const scene = createScene()
  const first = scene.start()
  await scene.clock.settle()
  for (let others = 1; others < count; others++) {
    scene.start()
    await scene.clock.settle()
  }
  return Object.assign(scene, { first })
}
