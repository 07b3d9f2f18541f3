// One Lease in memory with the semantics of the Kubernetes API, and hosts that reach it: with clocks that drift, freezes, partitions and lost responses.
import {
  LeaseFailure,
  type Lease,
  type LeaseClient,
  type LeaseFailureReason,
} from '../../src/leader-election/lease-client.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { abortable } from '../../src/runtime/notifier.ts'
import type { VirtualClock } from './virtual-clock.ts'

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
  /** In place of a response; the store does not see the call. */
  refused: LeaseFailureReason | undefined
  /** Nothing arrives, in either direction. */
  cut: boolean
  /** The store sees the call, its response is lost. */
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
  /** The machine sleeps: neither monotonic time nor code goes on, but the wall clock does. Ends with `thaw`. */
  suspend(): void
  thaw(): void
  /** Nothing of it goes on from now on, and nothing that it waits for comes. */
  kill(): void
  isFrozen(): boolean
  /** It was suspended at least once. */
  hasSlept(): boolean
  /** It goes on at this moment after it stood still: all timers that are due run, in no order that it could choose. */
  isWaking(): boolean
  /** Resolves when its code may go on; never after a kill. */
  awake(): Promise<void>
}

export interface LeaseHostOptions {
  store: LeaseStore
  clock: VirtualClock
  /** Its clock runs so many times as fast as true time. */
  rate?: number | undefined
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
  const from = truth.now()
  let awake: Promise<void> = Promise.resolve()
  let wake: (() => void) | undefined
  /** True time for which the machine slept, and since when it sleeps. */
  let sleptMs = 0
  let sleepsSince: number | undefined
  let wokeAt: number | undefined
  const monotonic = (): number => ((sleepsSince ?? truth.monotonic()) - sleptMs) * rate

  /** A timer of a machine that slept is late by that. */
  async function whenDue(dueAt: number, signal?: AbortSignal): Promise<void> {
    await awake
    for (; monotonic() < dueAt; await awake) await truth.sleep(Math.max(1, (dueAt - monotonic()) / rate), signal)
  }

  const clock: Clock = {
    now: () => from + (truth.now() - from) * rate + aheadMs,
    monotonic,
    timer(ms, act) {
      const dueAt = monotonic() + ms
      const cancelled = new AbortController()
      const cancel = truth.timer(ms / rate, () => {
        whenDue(dueAt - 1e-6, cancelled.signal).then(act, () => undefined)
      })
      return () => {
        cancel()
        cancelled.abort()
      }
    },
    async sleep(ms, signal) {
      const dueAt = monotonic() + ms
      await truth.sleep(ms / rate, signal)
      await whenDue(dueAt - 1e-6, signal)
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
    suspend() {
      sleepsSince = truth.monotonic()
      host.freeze()
    },
    thaw() {
      if (sleepsSince !== undefined) sleptMs += truth.monotonic() - sleepsSince
      sleepsSince = undefined
      wokeAt = truth.monotonic()
      wake?.()
      wake = undefined
      awake = Promise.resolve()
    },
    kill() {
      awake = never
    },
    isFrozen: () => wake !== undefined,
    hasSlept: () => sleptMs > 0,
    isWaking: () => wokeAt === truth.monotonic(),
    awake: () => awake,
  }
  return host
}
