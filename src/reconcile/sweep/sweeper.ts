// The sweep loop: lists the window when the schedule ticks, one sweep at a time, and merges it into the backlog. @see design section 8
import type { Clock, Random } from '../../runtime/clock.ts'
import { createNotifier } from '../../runtime/notifier.ts'
import type { PlatformClient } from '../../platform/client.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import type { Gate } from '../retry/gates.ts'
import type { Backlog, Learned } from '../retry/backlog.ts'
import { isOpen, type Recount } from '../retry/left-out.ts'
import type { Dispatcher } from '../retry/dispatcher.ts'
import { isPlatformTrouble } from '../platform-trouble.ts'
import type { Policy } from '../policy.ts'
import { expiringBefore, newestHour, slidingWindow, type Span } from '../window.ts'
import type { Listing } from './list-slice.ts'
import { countBeyond, countStuck } from './other-counts.ts'
import { sweep } from './sweep.ts'
import {
  failureOf,
  type SkipReason,
  type SweeperEvent,
  type SweepKind,
  type SweepReport,
  type SweepTally,
} from './sweep-report.ts'

export interface SweeperOptions {
  client: PlatformClient
  backlog: Backlog
  outcomes: Pick<Outcomes, 'see'>
  dispatcher: Pick<Dispatcher, 'changed' | 'fence' | 'sawAll'>
  policy: Policy
  zone: TimeZone
  clock: Clock
  random: Random
  sliceRecords: number
  concurrency: number
  maxRecords: number
  /** How long a record may be processing before it counts as stuck. */
  stuckAfterMs: number
  /** Milliseconds for which nothing may be sent, and for which that was so in all, up to now. @see Rate */
  pausedForMs: () => number
  pausedMs: () => number
  /** The gate that blocks a subscription, for the counts of the report. */
  gateOf?: (subscriptionId: string) => Gate | undefined
  /** Whether the circuit of a subscription is closed, so that its records can go out. Default: each is. */
  isClosed?: (subscriptionId: string) => boolean
  emit: (event: SweeperEvent) => void
}

export interface Sweeper {
  /** The loop: makes the sweeps that ticks ask for. Rejects with a bug, or with the signal's reason. */
  run(signal: AbortSignal): Promise<never>
  /** A moment of the schedule: starts the sweep that is due. Needs `run`. */
  tick(): void
  /** One full sweep now, for commands that have no loop. */
  full(signal: AbortSignal): Promise<SweepReport>
  /** When sweeps may come again after the last ones, in ms from now; negative when they may, undefined before the first. */
  restEndsInMs(): number | undefined
  /** Failed records beyond the window, as the last full sweep saw them. */
  beyondWindow(): number
  /** Records that have been processing for too long, as the last full sweep saw them. */
  stuckProcessing(): number
}

/** What can be swept: all of the window, its newest part, or the records for which there was no room. */
type Target = 'full' | 'recent' | 'left-out'

/** One sweep under way. */
interface Sweep {
  target: Target
  id: string
  tally: SweepTally
  /** Milliseconds of work so far. */
  worked: () => number
  signal: AbortSignal
}

/** A sweep rests for this many times its own duration: listing stays near 5 % of the calls while there is work. */
const restFactor = 20
/** But a sweep that was slow once must not leave failures unseen for long. */
const maxRestMs: Readonly<Record<SweepKind, number>> = { full: 3_600_000, recent: 300_000 }
const firstBackoffMs = 1000
const maxBackoffMs = 300_000
/** How often the backlog is looked at for room while records are left out. */
const roomCheckMs = 1000

export function createSweeper(options: SweeperOptions): Sweeper {
  const { backlog, client, clock, dispatcher, isClosed = () => true, maxRecords, outcomes } = options
  const { policy, random, emit, zone } = options
  const { window } = policy
  const notifier = createNotifier(clock)
  /** The sweep that the loop makes next, and the one that it makes now; a recent one may be part of another one. */
  let next: Target | undefined
  const underWay = new Set<Target>()
  /** A tick asked for a recent sweep while another sweep was under way: it comes between two slices. */
  let isRecentWanted = false
  /** Monotonic ms; undefined before the first sweep of the kind has ended. */
  const restsUntil: Record<SweepKind, number | undefined> = { full: undefined, recent: undefined }
  let backsOffUntil = -Infinity
  let failuresInARow = 0
  /** Monotonic ms: when listing may go on with left-out records. */
  let leftOutRestsUntil = -Infinity
  let vainInARow = 0
  let hasAskedTime = false
  /** Local second at which the newest part that was listed last ended. */
  let newestSeenTo: number | undefined
  /** Local second: what lies before it is forgotten. */
  let forgottenBefore = -Infinity
  let beyond = 0
  let stuck = 0

  /** Milliseconds of work from now on: waiting for a Retry-After to pass is none. */
  function startWork(): () => number {
    const workedMs = (): number => clock.monotonic() - options.pausedMs()
    const startedAt = workedMs()
    return () => Math.max(0, workedMs() - startedAt)
  }

  function rest(kind: SweepKind, workedMs: number): void {
    restsUntil[kind] = clock.monotonic() + Math.min(maxRestMs[kind], restFactor * workedMs)
  }

  function hasRested(kind: SweepKind): boolean {
    return clock.monotonic() >= (restsUntil[kind] ?? -Infinity)
  }

  function backOff(): void {
    const maxMs = Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.min(failuresInARow, 20))
    failuresInARow += 1
    backsOffUntil = clock.monotonic() + maxMs * (1 - random.next() / 2)
  }

  /** The platform's time comes with its answers: before the first one, a wrong host clock would move the window. */
  async function learnTime(signal: AbortSignal): Promise<void> {
    if (hasAskedTime || client.knowsTime()) return
    await client.list({ status: 'failed', page: 0, size: 1 }, signal)
    hasAskedTime = true
  }

  /** Drops what has left the window, and returns the window as it is now. */
  function forget(): Span {
    const present = slidingWindow(client.now(), window, zone)
    forgottenBefore = present.from
    const records = backlog.forgetBefore(present.from)
    if (records > 0) emit({ type: 'lapsed', records })
    return present
  }

  /** Without what has left the window while its slice waited to be listed: it would come back, and lapse once more. */
  function inWindow(listed: Listing): Listing {
    if (listed.span.from >= forgottenBefore) return listed
    const records = listed.records.filter(({ eventLocal }) => Math.floor(eventLocal / 1000) >= forgottenBefore)
    return { ...listed, records }
  }

  function merge(whole: Listing, { id: sweepId, tally }: Sweep, recount?: Recount): Learned {
    const listed = inWindow(whole)
    const now = client.now()
    const learned = backlog.learn(listed, now, recount)
    if (learned.changed.length > 0) dispatcher.changed()
    const { askedAt } = listed
    for (const { record, shown } of learned.awaiting) {
      outcomes.see(record, shown, { askedAt, monotonic: askedAt, seenAt: now })
    }
    tally.listed += listed.records.length
    if (!listed.complete) tally.incompleteSlices += 1
    if (listed.unreadable.length > 0) emit({ type: 'unreadable', sweepId, rows: listed.unreadable })
    const { time, status } = listed.unexpected
    if (time + status > 0) emit({ type: 'unexpected', sweepId, time, status })
    if (learned.earlyAtLimit > 0) emit({ type: 'early-at-limit', sweepId, records: learned.earlyAtLimit })
    return learned
  }

  async function fence(span: Span, signal: AbortSignal): Promise<() => void> {
    const release = await dispatcher.fence(span, signal)
    const close = backlog.beginListing()
    return () => {
      close()
      release()
    }
  }

  /** `isEnough` ends it after a slice. */
  async function list(
    span: Span,
    current: Sweep,
    { isEnough = () => false, recount }: { isEnough?: (learned: Learned) => boolean; recount?: Recount } = {},
  ): Promise<void> {
    const { concurrency, sliceRecords } = options
    const betweenSlices = current.target === 'recent' ? {} : { betweenSlices: sweepRecentIfWanted }
    const how = { client, monotonic: () => clock.monotonic(), concurrency, sliceRecords, fence, ...betweenSlices }
    for await (const step of sweep([span], how, current.signal)) {
      current.tally.slices += 1
      if ('listed' in step) {
        if (isEnough(merge(step.listed, current, recount))) return
      } else {
        current.tally.skippedSlices += 1
        emit({ type: 'slice-skipped', sweepId: current.id, ...step.skipped })
      }
    }
  }

  /** The newest hour, and what lies between it and the newest part that was listed last; a full sweep begins with it too. */
  async function listNewest(current: Sweep, recount?: Recount): Promise<Span> {
    const span = newestHour(client.now(), window, zone, newestSeenTo)
    isRecentWanted = false
    await list(span, current, recount && { recount })
    newestSeenTo = span.to
    rest('recent', current.worked())
    return span
  }

  /** The sweep does not depend on it. */
  async function besides<T>(call: Promise<T>): Promise<T | undefined> {
    try {
      return await call
    } catch (error) {
      if (!isPlatformTrouble(error)) throw error
      return undefined
    }
  }

  /** The newest hour, then the oldest slices upwards; then what lies beyond, and what is stuck. */
  async function sweepFull(current: Sweep): Promise<void> {
    const { signal, tally } = current
    const whole = forget()
    const recount = backlog.leftOut.begin({ from: whole.from, expiring: expiringBefore(client.now(), window, zone) })
    try {
      const newest = await listNewest(current, recount)
      await list({ from: whole.from, to: newest.from }, current, { recount })
    } catch (error) {
      recount.abandon()
      throw error
    }
    recount.commit(tally.incompleteSlices + tally.skippedSlices === 0)
    await sweepRecentIfWanted(signal)
    beyond = (await besides(countBeyond(client, whole, signal))) ?? beyond
    const { concurrency, stuckAfterMs } = options
    const triedAt = (id: string): number | undefined => backlog.get(id)?.triedAt
    const monotonic = (): number => clock.monotonic()
    const stuckOptions = { client, monotonic, window, zone, stuckAfterMs, concurrency, triedAt }
    stuck = (await besides(countStuck(stuckOptions, signal))) ?? stuck
    rest('full', current.worked())
  }

  async function sweepRecent(current: Sweep): Promise<void> {
    forget()
    await listNewest(current)
  }

  /** Goes on from the oldest left-out record of a closed circuit, until one of these finds no room. */
  async function sweepLeftOut(current: Sweep): Promise<void> {
    const whole = forget()
    const from = Math.max(whole.from, backlog.leftOut.oldestSecond(isClosed) ?? whole.to)
    let entered = 0
    const isEnough = (learned: Learned): boolean => {
      entered += learned.entered
      return learned.leftOut.some((row) => isOpen(row) && isClosed(row.subscriptionId))
    }
    await list({ from, to: whole.to }, current, { isEnough })
    // In vain: none entered. That ends when some have gone out, which listing again does not bring about.
    vainInARow = entered > 0 ? 0 : vainInARow + 1
    const restMs = entered > 0 ? 0 : current.worked() * 2 ** Math.min(vainInARow, 20)
    leftOutRestsUntil = clock.monotonic() + Math.min(maxRestMs.recent, restMs)
  }

  const bodies: Readonly<Record<Target, (current: Sweep) => Promise<void>>> = {
    full: sweepFull,
    recent: sweepRecent,
    'left-out': sweepLeftOut,
  }

  async function sweepRecentIfWanted(signal: AbortSignal): Promise<void> {
    if (isRecentWanted) await make('recent', signal)
  }

  function reportOf({ id, tally, target }: Sweep, seconds: number, failure: SweepReport['failure']): SweepReport {
    const partial = tally.incompleteSlices + tally.skippedSlices > 0
    const kind = target === 'recent' ? 'recent' : 'full'
    const isKnown = kind === 'full' && failure === undefined
    return {
      id,
      kind,
      continued: target === 'left-out',
      result: failure !== undefined ? 'failed' : partial ? 'incomplete' : 'complete',
      seconds,
      ...tally,
      ...(isKnown && { failed: backlog.summary(client.now(), options.gateOf ?? (() => undefined)).counts }),
      ...(failure && { failure }),
    }
  }

  /** Makes one sweep. A platform that can't be listed makes it fail, and lets the next one back off. */
  async function make(target: Target, signal: AbortSignal): Promise<SweepReport> {
    const startedAt = clock.monotonic()
    const tally: SweepTally = { slices: 0, listed: 0, incompleteSlices: 0, skippedSlices: 0 }
    const current: Sweep = { target, id: random.uuid().slice(0, 8), tally, worked: startWork(), signal }
    let failure: SweepReport['failure']
    underWay.add(target)
    try {
      await learnTime(signal)
      await bodies[target](current)
      failuresInARow = 0
      backsOffUntil = -Infinity
    } catch (error) {
      signal.throwIfAborted()
      failure = failureOf(error)
      if (failure === undefined) throw error
      backOff()
    } finally {
      underWay.delete(target)
    }
    const made = reportOf(current, (clock.monotonic() - startedAt) / 1000, failure)
    if (target === 'full' && made.result === 'complete') dispatcher.sawAll()
    emit({ type: 'sweep', report: made })
    return made
  }

  function start(target: Target): void {
    next = target
    notifier.notify()
  }

  /** Records that can go out, or have: they are what keeps the dispatcher busy. */
  function working(): number {
    let records = 0
    for (const { attempts, awaiting, subscriptionId, tries } of backlog.entries()) {
      const canGo = Math.max(attempts, tries) < policy.maxAttempts && isClosed(subscriptionId)
      if (awaiting !== undefined || canGo) records += 1
    }
    return records
  }

  /** Left-out records of closed circuits are not waited for until the next full sweep. */
  function hasRoomForLeftOut(): boolean {
    const now = clock.monotonic()
    if (now < leftOutRestsUntil || now < backsOffUntil || options.pausedForMs() > 0) return false
    return backlog.leftOut.oldestSecond(isClosed) !== undefined && working() < maxRecords / 2
  }

  /** Asks for what is due, or says why nothing can be. */
  function ask(): SkipReason | undefined {
    // A sweep could only wait, and would keep others from starting when the pause is over.
    if (options.pausedForMs() > 0) return 'paused'
    if (next !== undefined || underWay.size > 0) {
      if (next !== undefined || underWay.has('recent') || isRecentWanted || !hasRested('recent')) return 'overlap'
      isRecentWanted = true
      return undefined
    }
    if (clock.monotonic() < backsOffUntil) return 'backoff'
    if (hasRested('full')) start('full')
    else if (hasRested('recent')) start('recent')
    return undefined
  }

  return {
    async run(signal) {
      for (;;) {
        const target = next ?? (hasRoomForLeftOut() ? 'left-out' : undefined)
        next = undefined
        if (target !== undefined) await make(target, signal)
        else await notifier.wait(backlog.leftOut.any() ? roomCheckMs : undefined, signal)
      }
    },
    tick() {
      forget()
      const reason = ask()
      if (reason !== undefined) emit({ type: 'tick-skipped', reason })
    },
    full: (signal) => make('full', signal),
    restEndsInMs() {
      const ends = Object.values(restsUntil).filter((at) => at !== undefined)
      return ends.length === 0 ? undefined : Math.min(...ends) - clock.monotonic()
    },
    beyondWindow: () => beyond,
    stuckProcessing: () => stuck,
  }
}
