// When to sweep: full sweeps, fresh looks, and going on where there was no room; one of a kind at a time. @see design section 8
import type { Random } from '../../runtime/clock.ts'
import type { Reason } from '../../platform/http.ts'
import { TokenError } from '../../platform/token-error.ts'
import type { Counts } from '../retry/census.ts'
import { createPasses, type Pass, type PassFact, type PassOptions, type Tally } from './passes.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'
import { createRhythm, type Rhythm } from './rhythm.ts'

export const sweepKinds = ['full', 'fresh'] as const
export type SweepKind = (typeof sweepKinds)[number]
export const sweepResults = ['complete', 'incomplete', 'failed'] as const
export type SweepResult = (typeof sweepResults)[number]
export const skipReasons = ['overlap', 'paused', 'backoff'] as const
export type SkipReason = (typeof skipReasons)[number]

export interface SweepReport extends Tally {
  /** Stands on every log line of this sweep. */
  id: string
  kind: SweepKind
  /** True for the part of a full sweep that goes on where there had been no room. */
  continued: boolean
  result: SweepResult
  seconds: number
  /** After a full sweep that did not fail: the failed records of the window by decision. */
  failed?: Counts
  /** With `failed`: why. `token` means that no access token could be had. */
  failure?: {
    reason: Reason
    stage: 'token' | 'list'
    rejected: boolean
    message: string
    /** Why no answer came: a code of Node, OpenSSL or undici. */
    code?: string | undefined
  }
}

export type SweeperFact =
  { type: 'sweep'; report: SweepReport } | { type: 'tick-skipped'; reason: SkipReason } | PassFact

export interface SweeperOptions extends PassOptions {
  random: Random
  /** Milliseconds for which nothing may be sent, and for which that was so in all, up to now. @see Rate */
  pausedForMs: () => number
  pausedMs: () => number
  /** Whether retries of a subscription are held, for the counts that are told. Default: none are. */
  isHeld?: (subscriptionId: string) => boolean
  report: (fact: SweeperFact) => void
}

export interface Sweeper {
  /** Starts what is due. `signal` ends the sweeps that it starts. Their bugs end up in `idle()`. */
  tick(signal: AbortSignal): void
  /** Starts a full sweep whatever the schedule says; false, and nothing, while one is under way. Otherwise as `tick`. */
  sweepNow(signal: AbortSignal): boolean
  /** One full sweep now, whatever the schedule says. */
  full(signal: AbortSignal): Promise<SweepReport>
  /** Resolves when no sweep is under way; rejects with the first bug that one met. */
  idle(): Promise<void>
  /** When sweeps may come again after the last ones, in ms from now; negative when they may, undefined before the first. */
  restEndsInMs(): number | undefined
  /** Failed records beyond the window, as the last full sweep saw them. */
  beyondWindow(): number
  /** Records that have been processing for too long, as the last full sweep saw them. */
  stuckProcessing(): number
}

/** A sweep rests for this many times its own duration: listing stays near 5 % of the calls while there is work. */
const restFactor = 20
/** But a sweep that was slow once must not leave failures unseen for long. */
const maxFullRestMs = 3_600_000
const maxFreshRestMs = 300_000
/**
 * A full sweep comes with the first tick after the rest of the last one. Two more periods leave room for a tick that was
 * late or skipped, and a few minutes for the pauses and failures of an ordinary day.
 */
const blindPeriods = 3
const leastBlindMs = 300_000

/** A sweep to be run. */
interface Plan {
  kind: SweepKind
  continued: boolean
  rhythm: Rhythm
  body: (pass: Pass) => Promise<void>
}

/** Undefined for a bug. */
function failureOf(error: unknown): SweepReport['failure'] {
  if (!isPlatformTrouble(error)) return undefined
  const { message, reason, transportCode: code } = error
  if (error instanceof TokenError) return { reason, stage: 'token', rejected: error.kind === 'rejected', message, code }
  return { reason, stage: 'list', rejected: reason === 'unauthorized' || reason === 'forbidden', message, code }
}

export function createSweeper(options: SweeperOptions): Sweeper {
  const { backlog, clock, policy, random, report } = options
  const passes = createPasses(options)
  const rhythms = {
    full: createRhythm({ clock, random, restFactor, maxRestMs: maxFullRestMs }),
    fresh: createRhythm({ clock, random, restFactor, maxRestMs: maxFreshRestMs }),
    leftOut: createRhythm({ clock, random, restFactor: 0, maxRestMs: 0 }),
  }
  const running = new Set<Promise<void>>()
  let bug: unknown

  const fresh: Plan = { kind: 'fresh', continued: false, rhythm: rhythms.fresh, body: (pass) => passes.newest(pass) }
  const leftOut: Plan = {
    kind: 'full',
    continued: true,
    rhythm: rhythms.leftOut,
    body: (pass) => passes.leftOut(pass),
  }
  const full: Plan = { kind: 'full', continued: false, rhythm: rhythms.full, body: fullBody }

  /** Seconds of work from now on: waiting for a Retry-After to pass is none. */
  function startWork(): () => number {
    const idleMs = (): number => clock.monotonic() - options.pausedMs()
    const startedAt = idleMs()
    return () => Math.max(0, idleMs() - startedAt) / 1000
  }

  /** How long nobody has looked at all of the window, when that is longer than rests and ticks explain. */
  function blindForMs(): number | undefined {
    const [last, lastContinued] = [rhythms.full.last(), rhythms.leftOut.last()]
    if (last === undefined) return undefined
    // While a sweep goes on where there had been no room, no other full one may begin.
    const blindMs = Math.min(last.endedAgoMs, lastContinued?.endedAgoMs ?? Infinity)
    const expectedMs = Math.max(leastBlindMs, last.restMs + blindPeriods * policy.periodMs)
    return blindMs > expectedMs ? blindMs : undefined
  }

  /** Begins with the newest part, which is a fresh look: no other is needed meanwhile. */
  async function fullBody(pass: Pass): Promise<void> {
    const worked = startWork()
    const endFresh = rhythms.fresh.begin()
    const onNewest = (): void => {
      rhythms.fresh.ended(worked())
      endFresh()
    }
    try {
      await passes.full(pass, { onNewest, blindForMs: blindForMs() })
    } finally {
      endFresh()
    }
  }

  async function run(plan: Plan, signal: AbortSignal): Promise<SweepReport> {
    const startedAt = clock.monotonic()
    const id = random.uuid().slice(0, 8)
    const tally: Tally = { slices: 0, listed: 0, incompleteSlices: 0, skippedSlices: 0 }
    const worked = startWork()
    const end = plan.rhythm.begin()
    let failure: SweepReport['failure']
    try {
      await plan.body({ sweepId: id, tally, signal })
      plan.rhythm.ended(worked())
    } catch (error) {
      signal.throwIfAborted()
      failure = failureOf(error)
      if (failure === undefined) throw error
      plan.rhythm.failed()
    } finally {
      end()
    }
    const partial = tally.incompleteSlices + tally.skippedSlices > 0
    const result = failure !== undefined ? 'failed' : partial ? 'incomplete' : 'complete'
    const { kind, continued } = plan
    const known = kind === 'full' && failure === undefined
    const done: SweepReport = {
      id,
      kind,
      continued,
      result,
      seconds: (clock.monotonic() - startedAt) / 1000,
      ...tally,
      ...(known && { failed: backlog.summary(options.client.now(), options.isHeld ?? (() => false)).counts }),
      ...(failure && { failure }),
    }
    if (kind === 'full' && !continued && result === 'complete') options.dispatcher.sawAll()
    report({ type: 'sweep', report: done })
    return done
  }

  function start(plan: Plan, signal: AbortSignal): void {
    const sweeping = run(plan, signal)
      .then(
        () => undefined,
        (error: unknown) => {
          if (!signal.aborted) bug ??= error
        },
      )
      .finally(() => running.delete(sweeping))
    running.add(sweeping)
  }

  /** The full sweep that is due, or the one that goes on where there had been no room. */
  function dueFull(): Plan | undefined {
    if (isFullUnderWay()) return undefined
    const state = rhythms.full.state()
    if (state === 'ready') return full
    if (state === 'backs-off' || rhythms.leftOut.state() === 'backs-off') return undefined
    const roomAgain = backlog.census.leftOut() && backlog.size() < options.maxRecords / 2
    return roomAgain ? leftOut : undefined
  }

  function isFullUnderWay(): boolean {
    return rhythms.full.state() === 'running' || rhythms.leftOut.state() === 'running'
  }

  return {
    tick(signal) {
      passes.forget()
      if (options.pausedForMs() > 0) {
        // A sweep could only wait, and would keep others from starting when the pause is over.
        report({ type: 'tick-skipped', reason: 'paused' })
        return
      }
      const plan = dueFull()
      if (plan !== undefined) start(plan, signal)
      const looksFresh = rhythms.fresh.state() === 'ready'
      if (looksFresh) start(fresh, signal)
      if (plan !== undefined || looksFresh) return
      const states = Object.values(rhythms).map((rhythm) => rhythm.state())
      if (states.includes('running')) report({ type: 'tick-skipped', reason: 'overlap' })
      else if (states.includes('backs-off')) report({ type: 'tick-skipped', reason: 'backoff' })
    },
    sweepNow(signal) {
      if (isFullUnderWay()) return false
      start(full, signal)
      return true
    },
    full: (signal) => run(full, signal),
    async idle() {
      await Promise.all(running)
      if (bug !== undefined) throw bug as Error
    },
    restEndsInMs() {
      const ends = [rhythms.full, rhythms.fresh].flatMap((rhythm) => {
        const last = rhythm.last()
        return last === undefined ? [] : [last.restMs - last.endedAgoMs]
      })
      return ends.length === 0 ? undefined : Math.min(...ends)
    },
    beyondWindow: () => passes.beyondWindow(),
    stuckProcessing: () => passes.stuckProcessing(),
  }
}
