// A sandbox with its clock, and daemon's engines that are started against it: in this process on a virtual clock, or over HTTP.
import type { Clock } from '../../src/runtime/clock.ts'
import type { TelemetryEvent } from '../../src/observe/events.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import type { SandboxOptions } from '../../sandbox/options.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { startPlatform } from './platform.ts'
import { startReconciler, type ReconcilerUnderTest } from './reconciler.ts'
import { inProcessKey, inProcessTransport, quickKeys } from './in-process.ts'
import { createOffsetClock } from './offset-clock.ts'
import { createVirtualClock } from './virtual-clock.ts'

export interface EngineOptions {
  env: Readonly<Record<string, string>>
  /** How far the daemon's host is ahead of the true time, in milliseconds; default 0. */
  hostAheadMs?: number | undefined
  /** Called with every fact in the moment in which it is reported. */
  hear?: ((fact: TelemetryEvent) => void) | undefined
  /** In this process only: stands between the reconciler and the platform. */
  between?: ((transport: Transport) => Transport) | undefined
}

export interface Stage extends AsyncDisposable {
  clock: Clock
  /** A call may reach the platform so much later than the daemon decided it, by the platform's clock. */
  lateByMs: number
  sandbox: Sandbox
  /** Resolves as the promise does, while the clock goes on. */
  run<T>(work: Promise<T>): Promise<T>
  /** Moves the clock on. */
  advance(ms: number): Promise<void>
  startReconciler(options: EngineOptions): Promise<ReconcilerUnderTest>
}

export interface StageOptions {
  sandbox?: Partial<SandboxOptions>
  /** The true time at the start, epoch ms; default: the clock's own. */
  startAt?: number | undefined
}

/** No socket, no real time: everything happens in the same order each time. */
export async function startStage({ sandbox: options, startAt }: StageOptions = {}): Promise<Stage> {
  const clock = createVirtualClock(startAt)
  const sandbox = await startPlatform({ inProcess: true, clock, ...options })
  return {
    clock,
    // Date headers give whole seconds, so the daemon knows the time to about half of one.
    lateByMs: 4000,
    sandbox,
    run: (work) => clock.run(work),
    advance: (ms) => clock.advance(ms),
    async startReconciler({ between = (transport) => transport, env, hear, hostAheadMs = 0 }) {
      const hostClock = aheadOf(clock, hostAheadMs)
      const transport = between(inProcessTransport(sandbox, hostClock))
      const inProcess = { transport, key: inProcessKey(quickKeys().privateKeyPem) }
      const reconciler = await startReconciler(sandbox, { clock: hostClock, inProcess, env, ...heard(hear) })
      return {
        ...reconciler,
        round: () => clock.run(reconciler.round()),
        async [Symbol.asyncDispose]() {
          await clock.run(Promise.resolve(reconciler[Symbol.asyncDispose]()))
        },
      }
    },
    async [Symbol.asyncDispose]() {
      await clock.run(Promise.resolve(sandbox[Symbol.asyncDispose]()))
    },
  }
}

/** Over HTTP, on a clock that goes on by itself. */
export async function startHttpStage({ sandbox: options, startAt }: StageOptions = {}): Promise<Stage> {
  const clock = createOffsetClock(startAt)
  const sandbox = await startPlatform({ clock, ...options })
  return {
    clock,
    // On a busy host any time may pass; the stage without sockets is exact.
    lateByMs: 120_000,
    sandbox,
    run: (work) => work,
    advance(ms) {
      clock.advance(ms)
      return Promise.resolve()
    },
    startReconciler({ between, env, hear, hostAheadMs = 0 }) {
      if (between !== undefined) throw new Error('over HTTP nothing stands between')
      return startReconciler(sandbox, { clock: clock.seenAhead(hostAheadMs), env, ...heard(hear) })
    },
    [Symbol.asyncDispose]: () => sandbox.close(),
  }
}

function heard(hear: EngineOptions['hear']): { hear?: (fact: TelemetryEvent) => void } {
  return hear === undefined ? {} : { hear }
}

/** The same time as a host sees it whose wall clock is this far ahead (negative: behind). Durations are the same. */
function aheadOf(clock: Clock, ms: number): Clock {
  return { ...clock, now: () => clock.now() + ms }
}
