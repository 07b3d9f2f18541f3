// A platform that limits the rate is used to its limit: nothing fails by that alone, and new failures are seen in time. @see docs/architecture.md "Retry plan"
import type { Limit } from '../../../sandbox/api/limits.ts'
import { isSweepPage } from '../asked.ts'
import type { SimulatedRecord } from '../platform.ts'
import { perSecondOf } from '../readings-limits.ts'
import type { PlannedRecord } from '../scenario.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/**
 * Share of the allowed calls that recover something: a limit of retries alone looks like one of all calls, of which lists take
 * their part; and 503 without a wait look like an outage here and there.
 */
const leastShare = { all: 0.6, retries: 0.55, unnamed: 0.4, others: 0.5 }
/** From when on, after the start of a process; later where one subscription is limited alone. */
const [learnedAfterMs, foundAfterMs] = [60_000, 240_000]
/** Over less it says little. */
const shortestMs = 120_000
/** In which a failure is listed, once its event has settled. */
const seenWithinMs = 300_000

export function createLimitsWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, holds, platform, scenario, timeline, violate } = options
  const [limit] = scenario.habits.limits
  const isStage = scenario.theme === 'limit'
  const startedAt = timeline.now()
  /** Accepted retries, and pages of sweeps that found these records. */
  let useful = 0
  let isUsedUp = false
  const isUnnamed = limit?.status === 503 && limit.retryAfter === 'absent'
  /** The limit of one subscription is none of the others. */
  const limitedAlone = limit?.subscription
  const perSecond = limitedAlone === undefined ? limit && steadyPerSecond(limit) : config.platform.maxRequestsPerSecond
  const countedFrom = startedAt + (limitedAlone === undefined ? learnedAfterMs : foundAfterMs)
  const isCounted = (plan?: PlannedRecord): boolean => limitedAlone === undefined || plan?.subscription !== limitedAlone
  const isOfLists = limit?.operations.includes('list') === true
  const seen = new Set<string>()

  /** Calls that leave at even times arrive sooner or later, each by its latency: a bucket without a burst refuses what comes too soon. */
  function steadyPerSecond(of: Limit): number {
    const spacingMs = 1000 / perSecondOf(of)
    const [least, most] = scenario.habits.latency
    const isEven = of.kind === 'bucket' && of.burst === 1
    return 1000 / (spacingMs + (isEven ? Math.min(spacingMs, (most - least) / 2) : 0))
  }

  /** For how long a failed record has been free to be found. */
  function unseenMs({ eventAt, failedAt }: SimulatedRecord): number {
    const settledAt = timeline.now() - (platform.now() - eventAt) + config.window.settle
    return timeline.now() - Math.max(startedAt, failedAt, settledAt, holds.listsFreeSince())
  }

  function checkSeen(record: SimulatedRecord): void {
    const ms = Math.round(unseenMs(record))
    if (ms > seenWithinMs) violate('waits', `has not listed ${record.id} for ${ms} ms`)
  }

  function listed(id: string): void {
    const record = platform.records.get(id)
    if (record === undefined || seen.has(id)) return
    seen.add(id)
    if (!isStage || record.failedAt < startedAt) return
    exercise('new failures are seen within five minutes')
    checkSeen(record)
  }

  function checkShare(perSecond: number): void {
    const ms = timeline.now() - countedFrom
    const open = platform.records
      .values()
      .filter(({ plan, status }) => status === 'failed' && plan.kind === 'plain' && isCounted(plan))
    // A minute's work and more must be left.
    isUsedUp ||= [...open].length < 90 * perSecond
    if (isUsedUp || ms < shortestMs) return
    const share = useful / (perSecond * (ms / 1000))
    exercise(limitedAlone === undefined ? 'a low limit is used' : 'a limit of one subscription limits no other')
    const least =
      limitedAlone !== undefined
        ? leastShare.others
        : isUnnamed
          ? leastShare.unnamed
          : isOfLists
            ? leastShare.all
            : leastShare.retries
    if (share < least) violate('waits', `uses ${Math.round(100 * share)} % of the calls that the platform allows`)
  }

  return {
    told(call, { kind, status, views }) {
      if (!isSweepPage(call) || kind !== 'told' || status !== 200) return
      for (const { id } of views) listed(id)
      if (isOfLists && views.length > 0 && timeline.now() > countedFrom) useful += 1
    },
    fact(fact) {
      if (fact.type === 'retry' && fact.response.result === 'accepted' && timeline.now() > countedFrom)
        useful += Number(isCounted(platform.records.get(fact.webhookId)?.plan))
      if (fact.type !== 'sweep') return
      if (fact.report.failure?.reason === 'throttled' && fact.report.failure.stage === 'list')
        violate('alive', 'a sweep has failed by 429 alone')
      if (isStage && fact.report.result === 'failed')
        violate('alive', `a sweep has failed: ${fact.report.failure?.message ?? ''}`)
    },
    scraped() {
      if (!isStage || perSecond === undefined) return
      for (const record of platform.records.values())
        if (record.status === 'failed' && !seen.has(record.id)) checkSeen(record)
      checkShare(perSecond)
    },
  }
}
