// What the daemon's questions cost: checks of outcomes are few for each retry, and a sweep asks for no more pages than there are. @see docs/architecture.md "Sweep", "Outcomes"
import { firstCheckMs } from '../../../src/reconcile/confirm/evidence.ts'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import { isQuestion, isSweepPage } from '../asked.ts'
import { perSecondFor } from '../readings-limits.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** Checks come 1, 2, 4, 8 ... times the first one after a PATCH, at most this far apart. */
const longestPauseMs = 300_000
/** One by a sweep, one to be sure of a failure, one that its circuit's place is waited for, and the first itself. */
const moreChecks = 4
/** Pages of a span that show none of the records that are looked for. */
const lostPages = 12
/** Cut slices are asked for twice, and each has a page of its own at its end. */
const pagesPerSlice = 6
const questions = 20
/** Of the rate: somewhat less than what sweeps get while retries wait. */
const leastShare = 0.15
/** Of what a low limit allows; and until a quota begins anew, or the limit is learned. */
const [limitShare, limitedMs] = [0.6, 90_000]
/** A refused token that is younger stays in use. */
const youngMs = 10_000
/** A second that fails, and the two beside it, whose lists hold it too. Such parts that touch are one. */
const skippedOfOne = 3
/** A sweep that failed so often cuts no more. */
const maxFailedSlices = 200

type SweepReport = Extract<TelemetryEvent, { type: 'sweep' }>['report']

export function createCallsWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, scenario, timeline, violate } = options
  const { habits } = scenario
  const { delivery, deliveryTime, deliveryTimeout, eventIdFilter, lagMs, latency, limits } = habits
  const { pages: { max: maxRows = 100 } = {}, rowBytes, tokenTime, withoutEventId } = habits
  const allowedPerSecond = limitShare * perSecondFor('list', limits)
  const perSecond = Math.min(config.platform.maxRequestsPerSecond, allowedPerSecond)
  /** Pages that are refused, where lists have limits: until a span is short enough, and where the edge of what is listed is. */
  const { lookback } = config.window
  const isListLimited = habits.listsFor !== undefined || habits.listsAtOnce !== undefined
  const refusedPages = isListLimited ? 64 + (2 * lookback) / (habits.listsAtOnce ?? lookback) : 0
  /** Rows that surely go into a response. */
  const rowsPerPage = Math.min(maxRows, [100, 25].find((rows) => rows * rowBytes <= 4_000_000) ?? 5)
  const ofLists = scenario.faults.filter(({ kind, on, share }) => kind === 'bad-span' || (on !== 'retry' && share < 1))
  const mostSkipped = skippedOfOne * Math.max(1, ofLists.length)
  /** The books list as checks do. Records without an id of their event, and a filter that does not work, cost what they cost. */
  const isPlain =
    scenario.ledger === undefined &&
    withoutEventId === 0 &&
    eventIdFilter === 'works' &&
    lagMs === 0 &&
    scenario.faults.length === 0
  let checks = 0
  /** What the retries so far may have cost in checks. */
  let allowed = 0
  /** Of sweeps, since the last one ended. */
  let pages = 0
  /** Since the last full sweep ended, as recent sweeps come between its slices: pages, and how many are enough. */
  let [pagesSinceFull, enoughPages] = [0, 0]
  /** Failed lists since the last sweep ended. */
  let failedLists = 0

  /** Checks that a retry may have had by now. */
  function checksOf(id: string): number {
    const elapsed = Math.max(firstCheckMs, timeline.now() - knowledge.of(id).sentAt)
    const doubling = Math.log2(Math.min(elapsed, longestPauseMs) / firstCheckMs)
    return moreChecks + Math.ceil(doubling) + Math.ceil(elapsed / longestPauseMs)
  }

  /** In ms: each page has its part of the rate, a fifth, and each slice waits for the retries in flight there. */
  function longestSweep(asked: number, slices: number): number {
    const pageMs = latency[1] + 1000 / (leastShare * perSecond)
    const retryMs = latency[1] + (delivery === 'sync' ? Math.max(deliveryTime[1], deliveryTimeout) : 0)
    const unansweredMs = habits.hasYears === true ? 60_000 : 0
    return (limits.length === 0 ? 10_000 : limitedMs) + unansweredMs + tokenTime[1] + asked * pageMs + slices * retryMs
  }

  /** In ms: one that was revoked as it came is kept, as not every server may know it, and then another one is asked for. */
  function revokedMs(seconds: number): number {
    const since = timeline.now() - 1000 * seconds - tokenTime[1]
    const isRevoked = scenario.revocations.some((at) => at >= since && at <= timeline.now())
    return isRevoked ? youngMs + tokenTime[1] : 0
  }

  function checkSweep({ kind, listed, result, seconds, slices, unreadable }: SweepReport): void {
    const isComplete = result === 'complete' && scenario.faults.length === 0
    const enough =
      Math.ceil((3 * (listed + unreadable)) / rowsPerPage) + pagesPerSlice * slices + questions + refusedPages
    // A job lists what it looks for as well.
    enoughPages += isComplete && scenario.jobs.length === 0 ? enough : Infinity
    const asked = kind === 'full' ? pagesSinceFull : pages
    if (kind === 'full') {
      if (enoughPages < Infinity) exercise('a sweep asks for its pages')
      if (pagesSinceFull > enoughPages)
        violate('limits', `asked for ${pagesSinceFull} pages up to a full sweep, ${enoughPages} are enough`)
      ;[pagesSinceFull, enoughPages] = [0, 0]
    }
    if (!isComplete) return
    const longest = Math.round((longestSweep(asked, slices) + revokedMs(seconds)) / 1000)
    if (seconds > longest) violate('waits', `needs ${seconds} s for a sweep of ${asked} pages, ${longest} s are enough`)
  }

  return {
    told(call, { kind, status }) {
      if (isSweepPage(call) && (kind !== 'told' || status !== 200)) failedLists += 1
    },
    sent(call) {
      if (isSweepPage(call)) {
        pages += 1
        pagesSinceFull += 1
      } else if (call.operation === 'list' && !isQuestion(call)) checks += 1
    },
    fact(fact) {
      if (fact.type === 'outcome') {
        allowed += checksOf(fact.webhookId)
      } else if (fact.type === 'sweep') {
        checkSweep(fact.report)
        pages = 0
        failedLists = 0
      } else if (fact.type === 'slice-skipped' && scenario.habits.listsFor === undefined) {
        const { from, to } = fact.span
        exercise('no more than a second is skipped')
        if (to - from > mostSkipped && failedLists <= maxFailedSlices)
          violate('waits', `skips ${to - from} s that it can not list`)
      }
    },
    scraped() {
      if (!isPlain) return
      const most = 2 * [...knowledge.owed()].reduce((sum, id) => sum + checksOf(id), allowed) + lostPages
      if (checks > most) violate('limits', `made ${checks} calls to check outcomes, ${most} are enough`)
      if (checks > 20) exercise('checks are few')
    },
  }
}
