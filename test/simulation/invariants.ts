// The invariants, checked as it runs: watches one process of the daemon from outside, every call, every response, every fact that it emits.
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { isSweepPage } from './asked.ts'
import { createCallLimits } from './call-limits.ts'
import { createEndedBackoffs } from './ended-backoffs.ts'
import type { FaultWindow } from './fault-kinds.ts'
import type { Call, NetworkWatch } from './network.ts'
import { createKnowledge, type Known } from './knowledge.ts'
import { createOpenListings } from './open-listings.ts'
import type { SimulatedRecord } from './platform.ts'
import { createAbsentWatcher } from './promises/absent.ts'
import { createAttemptsWatcher } from './promises/attempts.ts'
import { createBreakerWatcher } from './promises/breaker.ts'
import { createCallsWatcher } from './promises/calls.ts'
import { createAfterOutageWatcher } from './promises/after-outage.ts'
import { createDeadReceiversWatcher } from './promises/dead-receivers.ts'
import { createFailedAgainWatcher } from './promises/failed-again.ts'
import { createIdentityWatcher } from './promises/identity.ts'
import { createJobsWatcher } from './promises/jobs.ts'
import { createLateChecksWatcher } from './promises/late-checks.ts'
import { createLimitsWatcher } from './promises/limits.ts'
import { createBesideDeadWatcher } from './promises/beside-dead.ts'
import { createExpiryWatcher } from './promises/expiry.ts'
import { createQuietWatcher } from './promises/quiet.ts'
import { createRestsWatcher } from './promises/rests.ts'
import { createTicksWatcher } from './promises/ticks.ts'
import { createTruthWatcher } from './promises/truth.ts'
import { createSaidWatcher } from './promises/said.ts'
import { createEstimatesWatcher } from './promises/estimates.ts'
import { createUnprocessedWatcher } from './promises/unprocessed.ts'
import { createWaitsWatcher } from './promises/waits.ts'
import { createWholeWatcher } from './promises/whole.ts'
import type { AskedJob, Holds, Watcher } from './promises/watcher.ts'
import type { Tally } from './tally.ts'
import type { Invariant, Trace } from './trace.ts'
import type { World } from './world.ts'

export interface ProcessWatch extends NetworkWatch, Required<Omit<Watcher, 'asked'>> {
  /** An operator asked it for the retry of these records. */
  asked(job: AskedJob, ids: Iterable<string>): void
  /** Retries whose outcome it owes. */
  owed(): number
  /** When the oldest retry without a known outcome was sent, ms since the start; Infinity for none. */
  owedSince(): number
  /** How often it retried this record. */
  tries(id: string): number
}

export interface ProcessWatchOptions extends World {
  number: number
  trace: Trace
  tally: Tally
}

/** All promises that are watched beside the invariants. */
const makers = [
  createAbsentWatcher,
  createAttemptsWatcher,
  createBreakerWatcher,
  createCallsWatcher,
  createAfterOutageWatcher,
  createBesideDeadWatcher,
  createDeadReceiversWatcher,
  createFailedAgainWatcher,
  createIdentityWatcher,
  createJobsWatcher,
  createLateChecksWatcher,
  createLimitsWatcher,
  createExpiryWatcher,
  createQuietWatcher,
  createRestsWatcher,
  createTicksWatcher,
  createTruthWatcher,
  createSaidWatcher,
  createEstimatesWatcher,
  createUnprocessedWatcher,
  createWaitsWatcher,
  createWholeWatcher,
]

/** The longest backoff of a ping, and its response. */
const longestTroubleMs = 330_000
/** A list that waited for a pause is sent within this time after it. */
const afterPauseMs = 10_000
/** A part that can't be listed is tried again at least so often. */
const unlistedRestMs = 3_660_000
/** A jump of the platform's clock is believed after three that agree. Some may have been under way, or lost. */
const answersForJump = 12

/** Ids as they are written here, in any case of the platform's. */
function inLowerCase(fact: TelemetryEvent): TelemetryEvent {
  if (fact.type !== 'retry' && fact.type !== 'outcome') return fact
  return { ...fact, webhookId: fact.webhookId.toLowerCase() }
}

export function createProcessWatch(options: ProcessWatchOptions): ProcessWatch {
  const { config, expectations, platform, scenario, timeline, trace } = options
  const { exempt, exercise } = options.tally
  const { concurrency } = config.retry
  const name = `process ${options.number}`
  const violate = (invariant: Invariant, what: string): void => {
    trace.violate(invariant, `${name} ${what}`)
  }
  /** Since when neither a limit nor a gate has held retries. */
  let freeSince = timeline.now()
  const held = (until = timeline.now()): void => {
    freeSince = Math.max(freeSince, until)
  }
  /** Since when no gate has held all retries: pause, receiver, trouble, Retry-After, no token. */
  let openGateSince = timeline.now()
  const shut = (until = timeline.now()): void => {
    openGateSince = Math.max(openGateSince, until)
    held(until)
  }
  const { boundsLater, hidden } = scenario.habits
  let listsFreeSince = Math.max(timeline.now(), boundsLater?.until ?? hidden?.until ?? 0)
  const limits = createCallLimits({
    ...options,
    onHold: held,
    onShut: shut,
    onListsHeld(until) {
      listsFreeSince = Math.max(listsFreeSince, until)
    },
    violate: (what) => {
      violate('limits', what)
    },
  })
  const knowledge = createKnowledge(options)
  /** Records that it has reported as recovered. */
  const recovered = new Set<string>()
  const listings = createOpenListings(scenario.sweep.sliceRecords, scenario.habits.firstRows?.rows)
  /** Records that an operator asked for, until they are sent. */
  const askedFor = new Map<string, AskedJob>()
  /** Its last token, ms since the start. A retry that goes out as it comes has waited for it, at most since it was asked for. */
  const token = { askedAt: -Infinity, cameAt: -Infinity }
  const dispatchedAt = new Map<string, number>()
  const endedBackoffs = createEndedBackoffs(timeline, platform)
  /** Circuits that pause or probe; and of these the ones that an operator had probed, until a record of theirs is sent. */
  const notClosed = new Set<string>()
  const probed = new Set<string>()
  const hasUncodedRefusals = !scenario.habits.missingHasCode && scenario.records.some(({ kind }) => kind === 'missing')
  let hasTrouble = false
  let isPaused = false
  let isSwept = false
  let lastComplete: ReturnType<Holds['lastComplete']>
  /** Responses that reported the platform's time since its clock was last set. */
  let answersOfTime = 0
  let hasJumped = false
  /** ms since the start: since then it can know the platform's time. */
  let sureSince = -Infinity
  for (const { at } of scenario.platformJumps) {
    timeline.after(at - timeline.now(), () => {
      hasJumped = true
      answersOfTime = 0
    })
  }
  /** Half of the backlog awaits its outcome. */
  const isFull = (): boolean =>
    knowledge.owed().size + knowledge.inFlight().size >= Math.max(1, Math.floor(config.backlog.maxRecords / 2))
  const isSureOfTime = (): boolean => !hasJumped || answersOfTime > answersForJump
  /** A last attempt that lies ahead was made before the platform's clock was put back. */
  const pastOf = (lastAt: number | null): number | null => (lastAt !== null && lastAt > platform.now() ? null : lastAt)
  /**
   * When its last retry was, by the platform's clock as it is set now; -Infinity when there was none, or it was
   * answered before the platform's present time could be known.
   */
  function lastTryOf(id: string, { sentAt, touchedAt, triedAt }: Known): number {
    if (triedAt === -Infinity || touchedAt < sureSince) return -Infinity
    return platform.now() - (timeline.now() - (dispatchedAt.get(id) ?? sentAt))
  }

  /** The earliest moment that any of what it was shown since its last retry allows, in epoch ms of the platform's clock. */
  function earliestDue(record: SimulatedRecord, known: Known): number {
    const { sure, views } = known
    // Shown before it could know the platform's present time, an attempt may have seemed to lie far ahead.
    const readings = (lastAt: number | null): number[] => [
      pastOf(lastAt) ?? record.eventAt,
      ...(known.touchedAt < sureSince ? [record.eventAt] : []),
    ]
    const dues = views.flatMap(({ attempts, lastAt, responseStatusCode }) =>
      readings(lastAt).flatMap((reading) =>
        // More tries may mean an earlier one: the last chance, where the backoff leads out of the window.
        [sure, known].map(({ refusals, tries }) =>
          expectations.earliestDue(record, {
            attempts,
            tries,
            refusals,
            responseStatusCode,
            endedAt: endedBackoffs.at(record.subscriptionId, 'perhaps'),
            // When its last retry was is the daemon's idea of the platform's time, as now is.
            lastAt: reading,
            triedAt: lastTryOf(record.id, known) - expectations.clockTolerance,
          }),
        ),
      ),
    )
    return Math.min(...dues)
  }

  function isBeingListed(record: SimulatedRecord): boolean {
    return listings.spans().some(({ from, to }) => platform.isBetween(record, from, to))
  }

  function checkRetry(call: Call): void {
    const { id } = call
    const record = platform.records.get(id)
    if (record === undefined) {
      violate('premature', `retries ${id}, which the platform never had`)
      return
    }
    const known = knowledge.of(id)
    if (known.inFlight !== undefined) violate('premature', `retries ${id} while its retry is in flight`)
    if (known.owed !== undefined) {
      violate('premature', `retries ${id} whose outcome is not known (${known.owed.kind})`)
    }
    if (!expectations.isSelected(record) && !askedFor.has(id))
      violate('premature', `retries ${id}, which is not selected`)
    if (known.views.length === 0) violate('premature', `retries ${id} without having been shown it as failed`)
    if (known.isDone) violate('premature', `retries ${id}, which was seen as successful, and has not failed since`)
    // While lists alone wait for long, retries go on there.
    if (listsFreeSince > timeline.now()) listings.forget(({ from, to }) => platform.isBetween(record, from, to))
    if (isBeingListed(record)) {
      violate('premature', `retries ${id} while the list that it stands in is being read`)
    }
    const earliest = earliestDue(record, known) - expectations.clockTolerance
    if (!isSureOfTime()) exempt("the platform's clock was set a moment ago")
    else exercise('no retry before it is due')
    const isByOperator = probed.delete(record.subscriptionId) || askedFor.has(id)
    if (isSureOfTime() && platform.now() < earliest && !isByOperator) {
      violate('premature', `retries ${id} ${Math.round(earliest - platform.now())} ms before it is due`)
    }
  }

  /** A retried record leaves the list between two of its pages, and shifts others out of sight. */
  function checkListing(call: Call): void {
    const { from, page, status, to } = call.asked ?? {}
    if (!isSweepPage(call) || status !== 'failed' || page !== 0 || from === undefined || to === undefined) return
    // After a long pause of lists, retries go on there: what is listed counts as incomplete.
    if (listsFreeSince > timeline.now() - afterPauseMs) return
    for (const id of knowledge.inFlight().keys()) {
      const record = platform.records.get(id)
      if (record === undefined || !platform.isBetween(record, from, to)) continue
      violate('premature', `begins the list that ${id} stands in while its retry is in flight`)
    }
  }

  function sendRetry(call: Call): void {
    if (!knowledge.of(call.id).mayReplay) {
      checkRetry(call)
      dispatchedAt.set(call.id, token.cameAt === timeline.now() ? token.askedAt : timeline.now())
    }
    knowledge.sent(call)
    const inFlight = knowledge.inFlight().size
    if (inFlight > concurrency) violate('limits', `has ${inFlight} retries in flight, ${concurrency} are allowed`)
    if (inFlight >= concurrency - 1) held()
  }

  function outcome(fact: Extract<TelemetryEvent, { type: 'outcome' }>): void {
    const record = platform.records.get(fact.webhookId)
    if (fact.isRelapse) {
      // Its own retry, or that of the record whose retry made it.
      const hadRecovered = [record, record?.madeBy].some((one) => recovered.delete(one?.id ?? ''))
      if (!hadRecovered || record?.isTaken !== false)
        violate('untrue', `says that ${fact.webhookId} has failed after it had recovered`)
      exercise('a success that does not last is taken back')
      return
    }
    const wasShown = scenario.habits.meanwhile === 'successful' && knowledge.get(fact.webhookId)?.last?.view.status
    if (fact.outcome === 'recovered' && record?.status !== 'successful' && wasShown !== 'successful') {
      violate('untrue', `says that ${fact.webhookId} is recovered, which is ${record?.status ?? 'unknown'}`)
    }
    if (fact.outcome === 'recovered') {
      if (recovered.has(fact.webhookId)) violate('books', `counts the recovery of ${fact.webhookId} twice`)
      recovered.add(fact.webhookId)
      exercise('a recovery is counted once')
    }
    if (!knowledge.owed().has(fact.webhookId))
      violate('books', `reports an outcome of ${fact.webhookId} that it does not owe`)
  }

  /** A fault that keeps no list of this record from its answer. */
  function isOfOthers({ eventAt = 0, kind }: FaultWindow, { eventLocal }: SimulatedRecord): boolean {
    const second = Math.floor(eventLocal / 1000)
    return kind === 'bad-span' && !platform.isInstantBetween(scenario.startAt + eventAt, second - 2, second + 3)
  }

  function isFaultlessSince(at: number, record?: SimulatedRecord): boolean {
    const since = scenario.faults.filter(
      ({ from, kind, to }) => from <= timeline.now() && to + (kind === 'bad-span' ? unlistedRestMs : 0) > at,
    )
    return since.every((fault) => record !== undefined && isOfOthers(fault, record))
  }

  /** Trouble lasts no longer than the longest pause after what caused it; records that are not there cause some at any time. */
  function isTroubled(): boolean {
    const since = timeline.now() - longestTroubleMs
    // Errors of the platform that hide a void token are believed for a minute.
    const isHidden = [400, 500].includes(Number(scenario.habits.voidToken))
    const isRevoked = isHidden && scenario.revocations.some((at) => at > since && at <= timeline.now())
    return hasTrouble && (hasUncodedRefusals || isRevoked || !isFaultlessSince(since))
  }

  const holds: Holds = {
    limitsFreeSince: () => freeSince,
    listsFreeSince: () => listsFreeSince,
    openGateSince: () =>
      isTroubled() || isPaused || isFull() || limits.isReceiverDown() || !isSureOfTime() ? Infinity : openGateSince,
    isSureOfTime,
    isSwept: () => isSwept,
    lastComplete: () => lastComplete,
    backoffsEndedAt: (id) => endedBackoffs.at(id, 'surely'),
    notClosed: () => notClosed,
    isAskedFor: (id) => askedFor.has(id),
    isBeingListed,
    isFaultlessSince,
  }
  const watchers = makers.map((make) => make({ ...options, knowledge, holds, violate, exempt, exercise }))

  function checkBound(name: string, value: number): void {
    const most = config.backlog.maxRecords
    if (!(value <= most)) violate('bounds', `shows ${name} ${value}, ${most} are allowed`)
  }

  return {
    note: trace.note,
    sent(call) {
      trace.note(`${name} call ${call.number} ${call.operation} ${call.id.slice(0, 8)}`)
      if (call.operation === 'token') token.askedAt = timeline.now()
      limits.sent(call, knowledge.get(call.id)?.mayReplay === true)
      checkListing(call)
      listings.sent(call)
      for (const watcher of watchers) watcher.sent?.(call)
      if (call.operation === 'retry') sendRetry(call)
    },
    told(call, told) {
      trace.note(`${name} call ${call.number} answer ${told.kind} ${told.status ?? ''} rows=${told.views.length}`)
      limits.told(call, told)
      if (call.operation === 'token') token.cameAt = timeline.now()
      listings.told(call, told)
      const wasSure = isSureOfTime()
      if (told.hasDate && (call.operation === 'list' || call.operation === 'retry')) answersOfTime += 1
      if (!wasSure && isSureOfTime()) {
        sureSince = timeline.now()
        shut()
      }
      if (isFull()) shut()
      knowledge.told(call, told)
      if (call.operation === 'retry' && knowledge.get(call.id)?.isDone === true) exercise('resolved by another client')
      for (const watcher of watchers) watcher.told?.(call, told)
    },
    fact(told) {
      const fact = inLowerCase(told)
      endedBackoffs.fact(fact)
      // While the job is still listing, an earlier retry may end: it has not found the record yet.
      if (fact.type === 'retry' && fact.response.result !== 'throttled') {
        const isListing = askedFor.get(fact.webhookId)?.view()?.state === 'listing'
        if (!isListing) askedFor.delete(fact.webhookId)
      }
      if (fact.type === 'outcome') {
        trace.note(`${name} outcome ${fact.webhookId.slice(0, 8)} ${fact.outcome}`)
        outcome(fact)
      } else if (fact.type === 'operator' && fact.command === 'probe') {
        limits.freedToken()
        for (const id of notClosed) probed.add(id)
      } else if (fact.type === 'credential-reloaded') {
        limits.freedToken()
      } else if (fact.type === 'circuit') {
        trace.note(`${name} circuit ${fact.subscriptionId.slice(0, 8)} ${fact.to}`)
        if (fact.to === 'closed') notClosed.delete(fact.subscriptionId)
        else notClosed.add(fact.subscriptionId)
      } else if (fact.type === 'trouble') {
        trace.note(`${name} trouble ${fact.trouble ?? 'over'}`)
        hasTrouble = fact.trouble !== undefined
        shut()
      } else if (fact.type === 'sweep') {
        // A list that was read anew may have ended with a short page. A recent sweep goes between two slices.
        listings.forget(() => true)
        const { kind, result, seconds } = fact.report
        const endedAt = timeline.now()
        if (kind === 'full' && result !== 'failed') isSwept = true
        if (kind === 'full' && result === 'complete') lastComplete = { startedAt: endedAt - seconds * 1000, endedAt }
        trace.note(`${name} sweep ${kind} ${result} listed=${fact.report.listed} ${seconds.toFixed(3)}s`)
      } else if (fact.type === 'operator') {
        trace.note(`${name} operator ${fact.command}`)
        if ('changed' in fact && fact.subscriptionId === undefined) isPaused = fact.command === 'pause'
        limits.paused(isPaused)
        shut()
      } else if (fact.type === 'receiver') {
        trace.note(`${name} receiver ${fact.up ? 'up' : 'down'}`)
      }
      for (const watcher of watchers) watcher.fact?.(fact)
      if (isFull()) shut()
      knowledge.fact(fact)
    },
    asked(job, ids) {
      trace.note(`${name} is asked for retries`)
      for (const id of ids) {
        const { views } = knowledge.of(id)
        const isExhausted = views.length > 0 && views.every(({ attempts }) => attempts >= config.retry.maxAttempts)
        if (!isExhausted || job.view()?.exhausted === true) askedFor.set(id, job)
      }
      for (const watcher of watchers) watcher.asked?.(job)
    },
    delivered(receiver, isOwn) {
      for (const watcher of watchers) watcher.delivered?.(receiver, isOwn)
    },
    scraped(sight) {
      const { metrics, status } = sight
      checkBound('records in memory', status.missing - status.expired - status.causes.onlyCounted)
      checkBound('awaiting_webhooks', metrics.get('awaiting_webhooks') ?? 0)
      for (const watcher of watchers) watcher.scraped?.(sight)
    },
    ticked() {
      for (const watcher of watchers) watcher.ticked?.()
    },
    owed: () => knowledge.owed().size,
    owedSince: () => Math.min(...[...knowledge.owed()].map((id) => knowledge.get(id)?.sentAt ?? Infinity)),
    tries: (id) => knowledge.get(id)?.tries ?? 0,
  }
}
