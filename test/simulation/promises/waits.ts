// Nothing that may go out waits: what is due, shown and free to go is retried in time, or another record of its subscription is. @see docs/architecture.md "Retry plan"
import type { FactOf } from '../../../src/observe/events.ts'
import { shortSliceSeconds } from '../../../src/reconcile/sweep/list-slice.ts'
import { isListedFor, isSweepPage } from '../asked.ts'
import type { Call, Told } from '../network.ts'
import type { SimulatedRecord } from '../platform.ts'
import { perSecondFor } from '../readings-limits.ts'
import type { Exemption } from '../tally.ts'
import { restFactor } from './rests.ts'
import { createSubscriptions } from './subscriptions.ts'
import type { AskedJob, Watcher, WatcherOptions } from './watcher.ts'

const boundMs = 45_000
/** With less room than records: those that were left out are listed again first, at some ticks, and by a full sweep that may have to begin anew. */
const crowdedBoundMs = 2 * 60_000
const crowdedTicks = 3
/** A full sweep rests after the last one, and may begin anew. */
const crowdedSweeps = restFactor + 2
/** A limit of lists alone has to be told from one of all calls. */
const besideLimitMs = 3 * 60_000
/** Calls/s at which a backlog takes its time. */
const lowRate = 2
/** A fault lasts on in what it delayed. */
const afterFaultMs = 30_000
const slackMs = 5000

/** A full sweep that saw all; ms since the start. */
interface Sweep {
  startedAt: number
  endedAt: number
}

export function createWaitsWatcher(options: WatcherOptions): Watcher {
  const { config, exempt, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const { maxRecords } = config.backlog
  const { lagMs } = scenario.habits
  const subscriptions = createSubscriptions(options)
  /** When a sweep first took a record in as failed, as it is since it last changed. */
  const listedAt = new Map<string, number>()
  /** When a sweep first showed a record as failed. */
  const knownAt = new Map<string, number>()
  /** The last one that ended so long ago that what it showed should have gone out, and those after it. */
  let sweeps: Sweep[] = []
  let longestSweepMs = 0
  /** Calls/s that it says it may send. */
  let rate = Infinity
  /** When there were last more failed records than places. */
  let crowdedAt = -Infinity
  const jobs: AskedJob[] = []
  const isJobListing = (): boolean => jobs.some((job) => job.view()?.state === 'listing')
  /** Records that have left the window. */
  const left = new Set<string>()

  /** What was not listed was shown all the same, when it had not changed since before a full sweep that saw all. */
  function shownAt(record: SimulatedRecord): number {
    const [sweep] = sweeps
    const at = listedAt.get(record.id) ?? Infinity
    // Where lists had to wait, a slice may have been begun anew.
    const listed = at < holds.listsFreeSince() ? Infinity : at
    if (sweep === undefined || record.changedAt > sweep.startedAt - lagMs) return listed
    const sweptAt = platform.now() - (timeline.now() - sweep.startedAt) - expectations.clockTolerance
    return expectations.isSettled(record, sweptAt) ? Math.min(listed, sweep.endedAt) : listed
  }

  /** Due, known and free to go for so long. */
  function isWaiting(record: SimulatedRecord, ms: number): boolean {
    const known = knowledge.of(record.id)
    const since = timeline.now() - ms
    if (record.status !== 'failed' || record.busy > 0 || known.isDone || record.plan.unreadable !== undefined)
      return false
    if (known.inFlight !== undefined || known.owed !== undefined || holds.isBeingListed(record)) return false
    const shown = shownAt(record)
    if (shown > since || record.changedAt > shown - lagMs) return false
    if (known.touchedAt > since || !expectations.isSelected(record)) return false
    const { attempts, eventAt, lastAt, responseStatusCode } = record
    const endedAt = holds.backoffsEndedAt(record.subscriptionId)
    const last = { ...known, attempts, responseStatusCode, lastAt: lastAt ?? eventAt, endedAt }
    if (expectations.isExhausted(last) || expectations.isExpired(record, platform.now(), 60_000)) return false
    // Whether the last retry was let through may not be known.
    const dues = [known, known.sure].map(({ refusals }) => expectations.latestDue(record, { ...last, refusals }))
    return Math.max(...dues) + expectations.clockTolerance < platform.now() - ms
  }

  /**
   * Records of closed circuits that it worked on lately fill half of the backlog: those that were left out wait for the
   * next full sweep. Where subscriptions outnumber the places, one that has a place keeps it while its record is due.
   */
  function isBusy(since: number): boolean {
    if (scenario.subscriptions.length > maxRecords) return true
    const workedOn = [...platform.records.values()].filter(({ id, status, subscriptionId }) => {
      const isOurs = status !== 'successful' && knowledge.of(id).sentAt > since - config.retry.backoff.max
      return isOurs && subscriptions.isClosed(subscriptionId)
    })
    return workedOn.length >= maxRecords / 2
  }

  /** A low limit has to be learned, or a quota begins anew, and then each failed record takes its calls. So it does at a rate that a fault has left low. */
  function limitedMs(): number {
    const { limits } = scenario.habits
    const perSecond = perSecondFor('retry', limits)
    const open = platform.records.values().filter(({ status }) => status === 'failed')
    const workMs = (1000 * [...open].length) / (0.3 * Math.min(perSecond, rate))
    if (perSecond < Infinity) return 60_000 + workMs
    return limits.length === 0 ? (rate < lowRate ? workMs : 0) : besideLimitMs
  }

  /** Why it may wait; undefined when it may not. */
  function excuseOf({ subscriptionId }: SimulatedRecord, since: number, isCrowded: boolean): Exemption | undefined {
    if (isCrowded && isBusy(since)) return 'the backlog has no room'
    if (subscriptions.isIdleSince(subscriptionId, since)) return undefined
    if (subscriptions.heldUntil(subscriptionId) > since) return 'a circuit is not closed, or has no place'
    return holds.limitsFreeSince() > since ? 'the rate or all slots are used up' : undefined
  }

  function checkAll(bound: number, isCrowded: boolean): void {
    const excuses = new Set<Exemption>()
    for (const record of platform.records.values()) {
      if (!isWaiting(record, bound)) continue
      const excuse = excuseOf(record, timeline.now() - bound, isCrowded)
      if (excuse === undefined) violate('waits', `lets ${record.id} wait for ${bound / 1000} s although it may go`)
      else excuses.add(excuse)
    }
    if (excuses.size === 0) exercise('what may go out does not wait')
    else for (const excuse of excuses) exempt(excuse)
  }

  function noteCrowd(): void {
    const open = platform.records.values().filter(({ status }) => status !== 'successful')
    if ([...open].length > maxRecords) crowdedAt = timeline.now()
  }

  /** Looks after each full sweep that saw all, and once a minute, unless something held all retries, or troubled the daemon. */
  function look(): void {
    noteCrowd()
    const now = timeline.now()
    const crowdedBound = crowdedBoundMs + crowdedTicks * scenario.periodMs + crowdedSweeps * longestSweepMs
    const isCrowded = crowdedAt > now - crowdedBound
    const bound = (isCrowded ? crowdedBound : boundMs) + limitedMs()
    if (holds.openGateSince() > now - bound) exempt('something holds all retries')
    else if (!holds.isFaultlessSince(now - bound - afterFaultMs)) exempt('a fault of the platform or the network')
    else checkAll(bound, isCrowded)
  }

  function swept({ kind, result, seconds }: FactOf<'sweep'>['report']): void {
    if (kind !== 'full' || result !== 'complete') return
    const now = timeline.now()
    sweeps = [...sweeps, { startedAt: now - seconds * 1000, endedAt: now }]
    longestSweepMs = Math.max(longestSweepMs, seconds * 1000)
    const reference = sweeps.findLastIndex(({ endedAt }) => endedAt <= now - boundMs)
    sweeps = sweeps.slice(Math.max(0, reference))
    look()
  }

  /** What leaves the window has had a last try, if it was free to go from three periods before that until then. */
  function checkLeft(record: SimulatedRecord): void {
    const { periodMs } = scenario
    const leavesAt = record.eventAt + config.window.lookback
    const since = timeline.now() - (platform.now() - leavesAt) - 3 * periodMs - slackMs
    const known = knowledge.of(record.id)
    if (record.status !== 'failed' || record.busy > 0 || known.owed !== undefined || known.isDone) return
    if ((knownAt.get(record.id) ?? Infinity) > since || !expectations.isSelected(record)) return
    if (expectations.isExhausted({ attempts: record.attempts, tries: known.tries })) return
    if (subscriptions.heldUntil(record.subscriptionId) > since || crowdedAt > since) return
    if (holds.openGateSince() > since || !holds.isFaultlessSince(since - boundMs)) return
    exercise('a last chance before the window ends')
    const triedAt = Math.max(known.triedAt, record.lastAt ?? -Infinity)
    if (triedAt < leavesAt - 2 * periodMs - slackMs - expectations.clockTolerance)
      violate('waits', `lets ${record.id} leave the window without a last try`)
  }

  function checkAllLeft(): void {
    // Near a change of daylight saving the window is an hour wider.
    if (scenario.platformJumps.length > 0 || scenario.habits.timeZone === 'Europe/Berlin') return
    // What is about to leave goes before others, but not where few may go.
    if (config.retry.maxPerSecond !== undefined) return
    for (const record of platform.records.values()) {
      if (left.has(record.id) || !expectations.isExpired(record, platform.now(), -slackMs)) continue
      left.add(record.id)
      checkLeft(record)
    }
  }

  function listed(call: Call, { views }: Told): void {
    const { from = -Infinity, size, to = Infinity } = call.asked ?? {}
    // It is cut, and listed again in parts.
    const isFull = views.length === size && views.length > 2 * scenario.sweep.sliceRecords
    if (isFull && to - from - 2 > shortSliceSeconds) return
    for (const { id, status } of views) {
      const record = platform.records.get(id)
      if (status !== 'failed' || record === undefined || !isListedFor(call, record)) continue
      if (!knownAt.has(id)) knownAt.set(id, timeline.now())
      if ((listedAt.get(id) ?? -Infinity) < record.changedAt + lagMs) listedAt.set(id, call.sentAt)
    }
  }

  return {
    sent: subscriptions.sent,
    told(call, told) {
      subscriptions.told(call)
      // The pages of a job look like those of a sweep, but of them only what it asks for is held.
      if (told.kind === 'told' && isSweepPage(call) && !isJobListing()) listed(call, told)
    },
    fact(fact) {
      subscriptions.fact(fact)
      if (fact.type === 'sweep') swept(fact.report)
    },
    asked(job) {
      jobs.push(job)
    },
    scraped({ metrics }) {
      rate = metrics.get('platform_request_limit_per_second') ?? Infinity
      subscriptions.scraped()
      look()
      checkAllLeft()
    },
  }
}
