// When and what to sweep: full sweeps, fresh looks, and going on where there was no room. @see design section 8
import type { Clock, Random } from '../clock.ts'
import type { PlatformClient } from '../platform/client.ts'
import { PlatformFailure } from '../platform/failure.ts'
import type { Reason } from '../platform/http.ts'
import type { Zone } from '../platform/local-time.ts'
import type { UnreadableRow } from '../platform/record.ts'
import { TokenError } from '../platform/token.ts'
import type { Backlog } from './backlog.ts'
import type { Entry } from './entry.ts'
import type { Dispatcher, TimeOffsetFact } from './dispatch.ts'
import { freshMs, type Policy } from './policy.ts'
import { sweep, type SweepStep } from './sweep.ts'
import { slidingWindow, type Span } from './window.ts'

export const sweepKinds = ['full', 'fresh'] as const
export type SweepKind = (typeof sweepKinds)[number]
export const sweepResults = ['complete', 'incomplete', 'failed'] as const
export type SweepResult = (typeof sweepResults)[number]
export const skipReasons = ['overlap', 'paused', 'backoff'] as const
export type SkipReason = (typeof skipReasons)[number]

export interface SweepReport {
  /** Stands on every log line of this sweep. */
  id: string
  kind: SweepKind
  /** True for the part of a full sweep that goes on where there had been no room. */
  continued: boolean
  result: SweepResult
  seconds: number
  slices: number
  /** Failed records listed. */
  listed: number
  /** Slices that were not seen whole, and slices that could not be listed at all. */
  incompleteSlices: number
  skippedSlices: number
  /** With `failed`: why. `token` means that no access token could be had. */
  failure?: { reason: Reason; stage: 'token' | 'list'; rejected: boolean; message: string }
}

export type SweeperFact =
  | { type: 'sweep'; report: SweepReport }
  | { type: 'slice-skipped'; sweepId: string; span: Span; reason: Reason }
  | { type: 'tick-skipped'; reason: SkipReason }
  | { type: 'unreadable'; sweepId: string; rows: readonly UnreadableRow[] }
  | { type: 'unexpected'; sweepId: string; time: number; status: number }
  | { type: 'early-at-limit'; sweepId: string; records: number }
  | { type: 'left-window'; records: number }
  | TimeOffsetFact

export interface SweeperOptions {
  client: PlatformClient
  backlog: Backlog
  dispatcher: Pick<Dispatcher, 'offer' | 'fence'>
  policy: Policy
  zone: Zone
  clock: Clock
  random: Random
  sliceRecords: number
  concurrency: number
  maxRecords: number
  report: (fact: SweeperFact) => void
}

export interface Sweeper {
  /** Starts what is due. `signal` ends the sweeps that it starts. Their bugs end up in `idle()`. */
  tick(signal: AbortSignal): void
  /** One full sweep now, whatever the schedule says. */
  full(signal: AbortSignal): Promise<SweepReport>
  /** Resolves when no sweep is under way; rejects with the first bug that one met. */
  idle(): Promise<void>
  /** Failed records beyond the window, as the last full sweep saw them. */
  beyondWindow(): number
}

/** A sweep rests for this many times its own duration: listing stays near 5 % of the calls while there is work. */
const restFactor = 20
const firstFailureRestMs = 1000
const longestFailureRestMs = 300_000

/** When a kind of sweep may go again. */
interface Rhythm {
  running: Promise<void> | undefined
  restsUntil: number
  failuresInARow: number
}

interface Tally {
  slices: number
  listed: number
  incompleteSlices: number
  skippedSlices: number
}

function failureOf(error: unknown): NonNullable<SweepReport['failure']> | undefined {
  if (error instanceof TokenError) {
    return { reason: error.reason, stage: 'token', rejected: error.kind === 'rejected', message: error.message }
  }
  if (!(error instanceof PlatformFailure)) return undefined
  const rejected = error.reason === 'unauthorized' || error.reason === 'forbidden'
  return { reason: error.reason, stage: 'list', rejected, message: error.message }
}

export function createSweeper(options: SweeperOptions): Sweeper {
  const { backlog, client, clock, dispatcher, policy, random, report, zone } = options
  const rhythms: Record<SweepKind, Rhythm> = {
    full: { running: undefined, restsUntil: -Infinity, failuresInARow: 0 },
    fresh: { running: undefined, restsUntil: -Infinity, failuresInARow: 0 },
  }
  let beyondWindow = 0
  let timeIsKnown = false
  let bug: unknown

  function window(): Span {
    return slidingWindow(client.now(), policy.window, zone)
  }

  /** The platform's time comes with its answers: before the first one, a wrong host clock would move the window. */
  async function learnTime(signal: AbortSignal): Promise<void> {
    if (timeIsKnown) return
    await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    timeIsKnown = true
  }

  function newestOf(whole: Span): Span {
    return { from: Math.max(whole.from, whole.to - freshMs / 1000), to: whole.to }
  }

  function absorb(step: SweepStep, kind: SweepKind, sweepId: string, tally: Tally): Entry[] {
    tally.slices += 1
    if ('skipped' in step) {
      tally.skippedSlices += 1
      report({ type: 'slice-skipped', sweepId, ...step.skipped })
      return []
    }
    const { listed } = step
    const learned = backlog.learn(listed, client.now(), kind === 'full')
    dispatcher.offer(learned.changed)
    tally.listed += listed.records.length
    if (!listed.complete) tally.incompleteSlices += 1
    if (listed.unreadable.length > 0) report({ type: 'unreadable', sweepId, rows: listed.unreadable })
    const { time, status } = listed.unexpected
    if (time + status > 0) report({ type: 'unexpected', sweepId, time, status })
    if (learned.offsets.length > 0) report({ type: 'time-offset', offsets: learned.offsets })
    if (learned.earlyAtLimit > 0) report({ type: 'early-at-limit', sweepId, records: learned.earlyAtLimit })
    return learned.changed
  }

  async function listInto(
    spans: Span[],
    kind: SweepKind,
    sweepId: string,
    tally: Tally,
    signal: AbortSignal,
  ): Promise<void> {
    const { concurrency, sliceRecords } = options
    const fence = (span: Span, ended: AbortSignal): Promise<() => void> => dispatcher.fence(span, ended)
    const monotonic = (): number => clock.monotonic()
    for await (const step of sweep(spans, { client, monotonic, concurrency, sliceRecords, fence }, signal)) {
      absorb(step, kind, sweepId, tally)
    }
  }

  /** Counts what lies before the window: nobody retries it any more. The sweep does not depend on it. */
  async function countBeyond(start: number, signal: AbortSignal): Promise<void> {
    try {
      const page = await client.list({ status: 'failed', to: start - 1, page: 0, size: 1 }, signal)
      beyondWindow = page.total ?? beyondWindow
    } catch (error) {
      if (failureOf(error) === undefined) throw error
    }
  }

  /** The newest hour first, then the oldest slices upwards. The newest hour counts as a fresh look. */
  async function fullBody(sweepId: string, tally: Tally, signal: AbortSignal): Promise<void> {
    await learnTime(signal)
    const whole = window()
    const newest = newestOf(whole)
    backlog.census.begin()
    try {
      const startedAt = clock.monotonic()
      await listInto([newest], 'full', sweepId, tally, signal)
      rest(rhythms.fresh, startedAt)
      await listInto([{ from: whole.from, to: newest.from }], 'full', sweepId, tally, signal)
      backlog.census.commit()
    } catch (error) {
      backlog.census.abandon()
      throw error
    }
    await countBeyond(whole.from, signal)
  }

  async function freshBody(sweepId: string, tally: Tally, signal: AbortSignal): Promise<void> {
    await learnTime(signal)
    await listInto([newestOf(window())], 'fresh', sweepId, tally, signal)
  }

  /** Goes on from the oldest hour that had to be left out until the backlog is full. */
  async function continueBody(sweepId: string, tally: Tally, signal: AbortSignal): Promise<void> {
    const whole = window()
    while (backlog.size() < options.maxRecords) {
      const hour = backlog.census.takeOldest()
      if (hour === undefined) return
      const span = { from: Math.max(hour.from, whole.from), to: Math.min(hour.to, whole.to) }
      await listInto([span], 'full', sweepId, tally, signal)
    }
  }

  function rest(rhythm: Rhythm, startedAt: number): void {
    const now = clock.monotonic()
    rhythm.failuresInARow = 0
    rhythm.restsUntil = now + restFactor * (now - startedAt)
  }

  function restAfterFailure(rhythm: Rhythm): void {
    const longest = Math.min(longestFailureRestMs, firstFailureRestMs * 2 ** Math.min(rhythm.failuresInARow, 20))
    rhythm.failuresInARow += 1
    rhythm.restsUntil = clock.monotonic() + longest * (1 - random.next() / 2)
  }

  type Body = (sweepId: string, tally: Tally, signal: AbortSignal) => Promise<void>

  async function run(kind: SweepKind, continued: boolean, body: Body, signal: AbortSignal): Promise<SweepReport> {
    const startedAt = clock.monotonic()
    const id = random.uuid().slice(0, 8)
    const tally: Tally = { slices: 0, listed: 0, incompleteSlices: 0, skippedSlices: 0 }
    let failure: SweepReport['failure']
    try {
      await body(id, tally, signal)
      if (!continued) rest(rhythms[kind], startedAt)
    } catch (error) {
      signal.throwIfAborted()
      failure = failureOf(error)
      if (failure === undefined) throw error
      restAfterFailure(rhythms[kind])
    }
    const partial = tally.incompleteSlices + tally.skippedSlices > 0
    const result = failure !== undefined ? 'failed' : partial ? 'incomplete' : 'complete'
    const seconds = (clock.monotonic() - startedAt) / 1000
    const done: SweepReport = { id, kind, continued, result, seconds, ...tally, ...(failure && { failure }) }
    report({ type: 'sweep', report: done })
    return done
  }

  function start(kind: SweepKind, continued: boolean, body: Body, signal: AbortSignal): void {
    const rhythm = rhythms[kind]
    rhythm.running = run(kind, continued, body, signal)
      .then(
        () => undefined,
        (error: unknown) => {
          if (!signal.aborted) bug ??= error
        },
      )
      .finally(() => {
        rhythm.running = undefined
      })
  }

  function startFull(signal: AbortSignal): 'started' | 'resting' | 'running' {
    const { full } = rhythms
    if (full.running !== undefined) return 'running'
    const rested = clock.monotonic() >= full.restsUntil
    const roomAgain = backlog.census.leftOut() && backlog.size() < options.maxRecords / 2
    if (rested) start('full', false, fullBody, signal)
    else if (roomAgain && full.failuresInARow === 0) start('full', true, continueBody, signal)
    else return 'resting'
    return 'started'
  }

  function startFresh(signal: AbortSignal): 'started' | 'resting' | 'running' {
    const { fresh } = rhythms
    if (fresh.running !== undefined) return 'running'
    if (clock.monotonic() < fresh.restsUntil) return 'resting'
    start('fresh', false, freshBody, signal)
    return 'started'
  }

  return {
    tick(signal) {
      const gone = backlog.forgetBefore(window().from)
      if (gone.length > 0) report({ type: 'left-window', records: gone.length })
      const full = startFull(signal)
      // A full sweep that starts now begins with the newest hour itself.
      const fresh = full === 'started' ? 'resting' : startFresh(signal)
      if (full === 'started' || fresh === 'started') return
      if (rhythms.full.failuresInARow + rhythms.fresh.failuresInARow > 0)
        report({ type: 'tick-skipped', reason: 'backoff' })
      else if (full === 'running' || fresh === 'running') report({ type: 'tick-skipped', reason: 'overlap' })
    },
    full: (signal) => run('full', false, fullBody, signal),
    async idle() {
      await Promise.all([rhythms.full.running, rhythms.fresh.running])
      if (bug !== undefined) throw bug as Error
    },
    beyondWindow: () => beyondWindow,
  }
}
