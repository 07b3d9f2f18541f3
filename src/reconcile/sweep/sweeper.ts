// Performs sweeps, one at a time: lists the window slice by slice and merges each slice into the backlog. @see docs/architecture.md "Sweep"
import type { Clock, Random } from '../../runtime/clock.ts'
import { finishInTurns } from '../../runtime/steps.ts'
import { learnTime, type PlatformClient } from '../../platform/client.ts'
import { createUnreadableSum, type UnreadableSum } from '../../platform/record.ts'
import { maxPageSize } from '../../platform/wire.ts'
import type { RateLimiter } from '../../platform/rate-limiter.ts'
import type { TimeZone } from '../../platform/time-zone.ts'
import type { Outcomes } from '../confirm/outcomes.ts'
import { stateOf } from '../retry/circuit-breaker.ts'
import type { PlatformBreaker } from '../retry/platform-breaker.ts'
import type { Backlog } from '../retry/backlog.ts'
import type { Dispatcher } from '../retry/dispatcher.ts'
import type { Planner } from '../retry/retry-plan.ts'
import type { Subscriptions } from '../retry/subscriptions.ts'
import { decide, type SituationOf } from '../decide.ts'
import { failureOf, unlessTrouble } from '../platform-trouble.ts'
import type { Policy } from '../policy.ts'
import { sumOf, type Excluded } from '../reasons.ts'
import type { FailedRecord } from '../failed-record.ts'
import { newestHour, slidingWindow, without, type Span } from '../window.ts'
import { asked, type Listing } from './list-slice.ts'
import { countOutside, countStuck, outsideOf, showFiltered } from './other-counts.ts'
import { sweep, type SkippedSlice } from './sweep.ts'
import { sweepKinds, type SweeperEvent, type SweepKind, type SweepReport, type SweepTally } from './sweep-report.ts'
import { createSweepSchedule } from './sweep-schedule.ts'
import { createUnlistable, type UnlistedPart } from './unlistable.ts'

export interface SweeperOptions {
  client: PlatformClient
  backlog: Backlog
  outcomes: Pick<Outcomes, 'relapsed' | 'see' | 'turned'>
  planner: Pick<Planner, 'changed'>
  dispatcher: Pick<Dispatcher, 'fence'>
  situations: () => SituationOf
  subscriptions: Pick<Subscriptions, 'circuitOf' | 'forgetIdle'>
  rate: Pick<RateLimiter, 'pausedForMs' | 'pausedMs'>
  breaker: Pick<PlatformBreaker, 'respondedAt' | 'listed'>
  policy: Policy
  zone: TimeZone
  clock: Clock
  random: Random
  maxRecords: number
  emit: (event: SweeperEvent) => void
  wake: () => void
}

/** Listed records that one step adds to the retry plan: a few milliseconds. */
const plannedPerStep = 1000

/** Findings of the last full sweep. */
export interface SweepFindings {
  /** Excluded failed records of the window, by rule. */
  excluded: Excluded
  /** Failed records of events before the window, and ahead of the platform's clock. */
  beyondWindow: number
  aheadOfClock: number
  /** Records that have been processing for too long. */
  stuckProcessing: number
  /** Unreadable rows, as seen by it or a later recent sweep. */
  unreadable: UnreadableSum | undefined
  /** Failures of events up to this time are known, in epoch ms of the platform's clock; undefined before the first sweep. */
  seenUntil: number | undefined
}

/** The steps of the sweep loop, which waits between them. @see src/reconciler.ts */
export interface Sweeper {
  /** A tick of the schedule: sweeps are wanted. */
  tick(): void
  /** An operator ends the backoff after a failed sweep; returns whether there was one. */
  probe(): boolean
  /** The sweep to perform now; undefined if none is due. */
  next(): SweepKind | undefined
  /** Milliseconds until a sweep is due; Infinity while none is wanted. */
  msUntilNext(tickInMs?: number): number
  /** Performs one sweep. Rejects with the signal's reason, or with a bug; the report shows a failing platform. */
  make(kind: SweepKind, signal: AbortSignal): Promise<SweepReport>
  findings(): Readonly<SweepFindings>
  unlisted(): readonly UnlistedPart[]
  isFullUnderWay(): boolean
  isUnderWay(): boolean
}

/** Findings that are numbers of records. */
type Count = 'beyondWindow' | 'aheadOfClock' | 'stuckProcessing'

interface Sweep {
  id: string
  kind: SweepKind
  tally: SweepTally
  excluded: Excluded
  unreadable: ReturnType<typeof createUnreadableSum>
  /** Slices that could not be listed so far; and whether any could. */
  skipped: SkippedSlice[]
  hasListed: boolean
  /** Whether its lists hide failed records, as the first absent one has shown; and whether filters hid all of them when it began. */
  hides?: boolean
  filtersHid: boolean
  /** Monotonic ms. */
  startedAt: number
  worked: () => number
  signal: AbortSignal
  /** Of a full sweep whose newest part is listed: what is left to list; and until when it may be resumed after a failure, monotonic ms. */
  older?: { left: readonly Span[]; until: number }
}

/** A failed full sweep is resumed within this time of its last progress; later, what it has listed is old. */
const maxResumeMs = 3_600_000
/** After this time without a failed record, it is asked again whether filters hide them. */
const maxBelievedMs = 3_600_000
/** A recent sweep repeats a count that has failed up to so often in a row: one that always times out would delay each of them. */
const maxFailedCounts = 5

export function createSweeper(options: SweeperOptions): Sweeper {
  const { backlog, breaker, client, clock, dispatcher, maxRecords, outcomes } = options
  const { emit, planner, policy, random, rate, situations, subscriptions, wake, zone } = options
  const { window } = policy
  const schedule = createSweepSchedule({ hasRoomAgain, rate, breaker, clock, random })
  const unlistable = createUnlistable(() => clock.monotonic())
  const turn = (): Promise<void> => clock.sleep(1)
  let hasAskedTime = false
  /** Local second at which the newest listed part last ended. */
  let newestSeenTo: number | undefined
  /** A full sweep that failed, and may be resumed. */
  let unfinished: Sweep | undefined
  /** Local second before which records are forgotten. */
  let forgottenBefore = -Infinity
  /** Whether lists were last seen to hide what they filter for; and until when they are believed not to, monotonic ms. */
  let filters = { hide: false, believedUntil: -Infinity }
  /** How often each count has failed in a row. */
  const failedCounts: Record<Count, number> = { beyondWindow: 0, aheadOfClock: 0, stuckProcessing: 0 }
  const findings: SweepFindings = {
    ...{ excluded: {}, unreadable: undefined, seenUntil: undefined },
    ...{ beyondWindow: 0, aheadOfClock: 0, stuckProcessing: 0 },
  }

  /** True if a full sweep would replace records that cannot be sent by some that can. */
  function hasRoomAgain(): boolean {
    const { dueOf, records } = backlog.evictions.known()
    if (records === 0) return false
    if (backlog.size() <= maxRecords / 2) return true
    const isClosed = (id: string): boolean => stateOf(subscriptions.circuitOf(id), clock.monotonic()) === 'closed'
    return dueOf.values().some(isClosed) && !backlog.isBusy(client.now())
  }

  /** Measures milliseconds of work from now on, not counting a Retry-After. */
  function startWork(): () => number {
    const workedMs = (): number => clock.monotonic() - rate.pausedMs('list')
    const startedAt = workedMs()
    return () => Math.max(0, workedMs() - startedAt)
  }

  /** Drops records that left the window, and returns the present window. */
  function forget(): Span {
    const present = slidingWindow(client.now(), window, zone)
    forgottenBefore = present.from
    unlistable.forgetBefore(present.from)
    const gone = backlog.forgetBefore(present.from)
    if (gone.records > 0) emit({ type: 'expired', ...gone })
    return present
  }

  /** Omits records that left the window before their slice was listed: they would return, and expire again. */
  function inWindow(listed: Listing): Listing {
    if (listed.span.from >= forgottenBefore) return listed
    const records = listed.records.filter(({ eventLocal }) => Math.floor(eventLocal / 1000) >= forgottenBefore)
    return { ...listed, records }
  }

  /**
   * True if a list without a status shows a record as it was, which a list of failed ones lacks, or unreadable, as in a new status,
   * or if the window shows no record at all: such lists do not show that any has left. With another attempt, it may have been
   * processing meanwhile.
   */
  async function isHidden(record: FailedRecord, signal: AbortSignal): Promise<boolean> {
    const { attempts, eventId, id, lastAttemptLocal, localSecond } = record
    const second = asked({ from: localSecond, to: localSecond + 1 })
    const query = { ...(eventId !== '' && { eventId }), ...second, page: 0, size: maxPageSize }
    const page = await unlessTrouble(client.list(query, signal))
    if (page?.rows === 0) {
      const whole = asked(slidingWindow(client.now(), window, zone))
      return (await unlessTrouble(client.list({ ...whole, page: 0, size: 1 }, signal)))?.rows === 0
    }
    const isIts = (one: { id: string | undefined }): boolean => one.id?.toLowerCase() === id.toLowerCase()
    if (page?.unreadable.some(isIts) === true) return true
    const row = page?.records.find(isIts)
    return row?.status === 'failed' && row.attempts === attempts && row.lastAttemptLocal === lastAttemptLocal
  }

  async function merge(whole: Listing, current: Sweep): Promise<void> {
    const { id: sweepId, tally } = current
    const seen = inWindow(whole)
    const absent = await finishInTurns(backlog.absentFrom(seen), turn)
    if (current.hides === undefined && absent[0] !== undefined) {
      current.hides = await isHidden(absent[0], current.signal)
      // Where outcomes are not shown either, later sweeps find no absent record.
      if (current.hides) noteFilters(false)
    }
    const listed = current.hides === true ? { ...seen, verdict: 'missed' as const, absent: [] } : { ...seen, absent }
    const now = client.now()
    const learned = await finishInTurns(backlog.learn(listed, now), turn)
    for (const { record, shown } of learned.awaiting) {
      outcomes.see(record, shown, { askedAt: listed.askedAt, monotonic: clock.monotonic(), seenAt: now })
    }
    for (const relapse of learned.relapsed) outcomes.relapsed(relapse, now)
    for (let from = 0; from < learned.changed.length; from += plannedPerStep) {
      if (from > 0) await turn()
      planner.changed(learned.changed.slice(from, from + plannedPerStep))
    }
    for (const record of learned.turned) outcomes.turned(record)
    tally.listed += listed.records.length
    if (listed.records.length > 0) noteFilters(true)
    tally.leftWithoutRetry += learned.leftWithoutRetry
    tally.evicted += learned.evicted
    if (learned.returned > 0) emit({ type: 'returned', records: learned.returned })
    for (const rule of Object.keys(learned.excluded) as (keyof Excluded)[])
      current.excluded[rule] = (current.excluded[rule] ?? 0) + (learned.excluded[rule] ?? 0)
    if (listed.verdict !== 'whole') tally.incompleteSlices += 1
    if (listed.unreadable.length > 0) emit({ type: 'unreadable', sweepId, rows: listed.unreadable })
    current.unreadable.add(listed.unreadable)
    tally.unreadable = current.unreadable.sum()?.rows ?? 0
    const { time, status } = listed.unexpected
    if (time + status > 0) emit({ type: 'unexpected', wrongTime: time, wrongStatus: status })
  }

  async function list(span: Span, current: Sweep): Promise<void> {
    const monotonic = (): number => clock.monotonic()
    const { fence } = dispatcher
    const how = { client, monotonic, ...policy.sweep, fence, unlistable }
    // Not while the newest part is listed: a recent sweep would list it a second time.
    const between = current.older && { betweenSlices: sweepRecentIfDue }
    for await (const step of sweep(span, { ...how, ...between }, current.signal)) {
      const { listed, skipped } = step
      const { older } = current
      current.tally.slices += 1
      if (skipped !== undefined) current.skipped.push(skipped)
      for (const one of [listed, skipped]) if (older && one) older.left = without(older.left, one.span)
      if (listed === undefined) continue
      current.hasListed = true
      await merge(listed, current)
      if (older === undefined) continue
      older.until = clock.monotonic() + maxResumeMs
      schedule.progressed()
    }
  }

  /** Remembers what could not be listed. @throws PlatformFailure if nothing could */
  function noteSkipped({ hasListed, id: sweepId, skipped, tally }: Sweep): void {
    const tried = skipped.filter(({ isResting }) => isResting !== true)
    const failure = tried.findLast((one) => one.failure !== undefined)?.failure
    if (failure !== undefined && !hasListed) throw failure
    tally.skippedSlices = skipped.length
    for (const slice of skipped) emit({ type: 'slice-skipped', sweepId, ...slice })
    for (const { failure: why, span } of tried) if (why !== undefined) unlistable.failed(span, why)
  }

  /** The newest hour, extended back to the end of the last such listing; a full sweep begins with it, too. */
  async function listNewest(current: Sweep): Promise<Span> {
    const begunAt = client.now()
    const span = newestHour(begunAt, window, zone, newestSeenTo)
    await list(span, current)
    newestSeenTo = span.to
    if (current.skipped.length === 0) findings.seenUntil = begunAt - window.settle
    return span
  }

  /** Updates a count; a failed or unknown one keeps its last number. */
  async function note(what: Count, count: Promise<number | 'missed' | undefined>, { tally }: Sweep): Promise<void> {
    const counted = await unlessTrouble(count)
    failedCounts[what] = counted === undefined ? failedCounts[what] + 1 : 0
    if (counted === 'missed') {
      tally.incompleteSlices += 1
      // For minutes, such a record may be in neither list.
      noteFilters(false)
    } else findings[what] = counted ?? findings[what]
  }

  function noteFilters(show: boolean): void {
    filters = { hide: !show, believedUntil: show ? clock.monotonic() + maxBelievedMs : -Infinity }
  }

  /** Where no failed record was listed for long: filters that hide all of them look the same. */
  async function proveFilters(signal: AbortSignal): Promise<void> {
    if (clock.monotonic() < filters.believedUntil) return
    // A platform that fails lists without filters is not asked for one by each sweep.
    const show = (await unlessTrouble(showFiltered(client, zone, signal))) ?? !filters.hide
    if (show !== 'unknown') noteFilters(show)
  }

  /** As of now: a list before may have waited for a pause that the platform demanded. */
  const outside = (): ReturnType<typeof outsideOf> => outsideOf(client.now(), window, zone)

  /** A recent sweep repeats counts that failed, and those of records that may leave by themselves. */
  async function countOthers(current: Sweep): Promise<void> {
    const { kind, signal } = current
    const how = { client, policy, zone }
    const stuck = { ...how, monotonic: clock.monotonic, triedAt: backlog.triedAt }
    const isWanted = (what: Count): boolean =>
      kind === 'full' || (failedCounts[what] > 0 && failedCounts[what] <= maxFailedCounts)
    if (isWanted('beyondWindow')) await note('beyondWindow', countOutside(how, outside().before, signal), current)
    if (isWanted('aheadOfClock') || findings.aheadOfClock > 0)
      await note('aheadOfClock', countOutside(how, outside().ahead, signal), current)
    if (isWanted('stuckProcessing') || findings.stuckProcessing > 0)
      await note('stuckProcessing', countStuck(stuck, signal), current)
  }

  /** Lists the newest hour, then the oldest slices upwards; then counts records outside the window, and stuck ones. */
  async function sweepFull(current: Sweep): Promise<void> {
    const { signal } = current
    if (current.older === undefined) {
      const whole = forget()
      if (filters.hide) await proveFilters(signal)
      current.filtersHid = filters.hide
      backlog.evictions.begin()
      const newest = await listNewest(current)
      schedule.done('recent', current.worked())
      current.older = { left: [{ from: whole.from, to: newest.from }], until: -Infinity }
    }
    for (const span of current.older.left) await list(span, current)
    unfinished = undefined
    noteSkipped(current)
    backlog.evictions.end()
    findings.excluded = current.excluded
    await sweepRecentIfDue(signal)
    forget()
    await countOthers(current)
    await proveFilters(signal)
    // What was listed while they hid all may be missing.
    if (filters.hide || current.filtersHid) current.tally.incompleteSlices += 1
    schedule.done('full', current.worked())
  }

  async function sweepRecent(current: Sweep): Promise<void> {
    forget()
    await listNewest(current)
    noteSkipped(current)
    await countOthers(current)
    schedule.done('recent', current.worked())
  }

  async function sweepRecentIfDue(signal: AbortSignal): Promise<void> {
    if (schedule.dueInMs('recent') === 0) await make('recent', signal)
  }

  /** Forgets the circuits of subscriptions without a record that could be retried. */
  function forgetCircuits(): void {
    const now = client.now()
    const isOpen = (record: FailedRecord): boolean => decide(record, policy, { now }).decision !== 'exhausted'
    subscriptions.forgetIdle(
      // A subscription with evicted records may still have some.
      (id) =>
        backlog.evictions.known().records > 0 || Iterator.from(backlog.bySubscription().get(id) ?? []).some(isOpen),
      clock.monotonic(),
    )
  }

  function newSweep(): Omit<Sweep, 'kind' | 'signal' | 'worked'> {
    return {
      id: random.uuid().slice(0, 8),
      startedAt: clock.monotonic(),
      tally: {
        ...{ slices: 0, listed: 0, leftWithoutRetry: 0, evicted: 0, unreadable: 0 },
        ...{ incompleteSlices: 0, skippedSlices: 0 },
      },
      ...{ excluded: {}, unreadable: createUnreadableSum(), skipped: [], hasListed: false },
      filtersHid: false,
    }
  }

  async function make(kind: SweepKind, signal: AbortSignal): Promise<SweepReport> {
    const mayResume = kind === 'full' && clock.monotonic() < (unfinished?.older?.until ?? -Infinity)
    const kept = mayResume ? unfinished : undefined
    const current = { ...(kept ?? newSweep()), kind, worked: startWork(), signal }
    const { id, startedAt, tally } = current
    let failure: SweepReport['failure']
    schedule.begin(kind)
    try {
      if (!hasAskedTime) await learnTime(client, signal)
      hasAskedTime = true
      await (kind === 'full' ? sweepFull : sweepRecent)(current)
      // A recent sweep may show more of them, but cannot show fewer.
      if (kind === 'full' || tally.unreadable > (findings.unreadable?.rows ?? 0))
        findings.unreadable = current.unreadable.sum()
      schedule.end(kind)
      breaker.listed()
    } catch (error) {
      schedule.end(kind, current.worked(), error)
      failure = failureOf(error)
      if (failure === undefined) throw error
      // The next full sweep lists what is left of this one. The report of the failure had this number.
      if (current.older !== undefined) unfinished = { ...current, tally: { ...tally, leftWithoutRetry: 0 } }
    }
    const isKnown = kind === 'full' && failure === undefined
    const summary = isKnown ? await finishInTurns(backlog.summary(situations()), turn) : undefined
    const partial = tally.incompleteSlices + tally.skippedSlices > 0
    const made: SweepReport = {
      sweepId: id,
      kind,
      result: failure !== undefined ? 'failed' : partial ? 'incomplete' : 'complete',
      seconds: (clock.monotonic() - startedAt) / 1000,
      ...tally,
      ...(summary && { failed: { ...summary.counts, excluded: sumOf(findings.excluded) } }),
      ...(failure && { failure }),
    }
    if (isKnown) forgetCircuits()
    const { refused = 0, unattempted = 0, unproven = 0 } = summary?.endless ?? {}
    const open = summary && { refused, refusedAgain: refused + unattempted + unproven, oldestAt: summary.oldestOpenAt }
    emit({ type: 'sweep', report: made, ...(open && { open }) })
    return made
  }

  return {
    tick() {
      forget()
      schedule.tick()
      wake()
    },
    probe() {
      const isBackingOff = schedule.probe()
      wake()
      return isBackingOff
    },
    next: () => sweepKinds.find((kind) => schedule.dueInMs(kind) <= 0),
    msUntilNext: (tickInMs) => Math.min(...sweepKinds.map((kind) => schedule.dueInMs(kind, tickInMs))),
    make,
    isFullUnderWay: schedule.isFullUnderWay,
    isUnderWay: schedule.isUnderWay,
    findings: () => findings,
    unlisted: () => unlistable.parts(),
  }
}
