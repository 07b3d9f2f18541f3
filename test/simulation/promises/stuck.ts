// A record that the daemon retried a moment ago is not stuck, however old its event and its last attempt are. @see docs/architecture.md "Sweep"
import type { SimulatedRecord } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

export function createStuckWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const { stuckAfter } = config.outcome
  const toleranceMs = expectations.clockTolerance + 2000
  /** As many as the last full sweep can have counted. */
  let most = 0

  /** Retried before the sweep, not so long ago, and without an outcome since. */
  function isYoung({ id }: SimulatedRecord, startedAt: number): boolean {
    const known = knowledge.get(id)
    if (known === undefined || (known.owed === undefined && known.inFlight === undefined)) return false
    return known.sentAt < startedAt && platform.now() - known.triedAt < stuckAfter - toleranceMs
  }

  /** By its own times alone it would be stuck. */
  function looksStuck({ eventAt, lastAt, status }: SimulatedRecord): boolean {
    return status === 'processing' && platform.now() - Math.max(eventAt, lastAt ?? 0) > stuckAfter + toleranceMs
  }

  function count(startedAt: number): number {
    let counted = 0
    for (const record of platform.records.values()) {
      const mayBeProcessing = record.status === 'processing' || record.changedAt >= startedAt - scenario.habits.lagMs
      if (!mayBeProcessing) continue
      if (!isYoung(record, startedAt)) counted += 1
      else if (looksStuck(record)) exercise('a record retried a moment ago is not stuck')
    }
    return counted
  }

  return {
    fact(fact) {
      if (fact.type !== 'sweep' || fact.report.kind !== 'full' || fact.report.continued) return
      const startedAt = timeline.now() - fact.report.seconds * 1000
      // A count that could not be had leaves the one before.
      const isCounted = fact.report.failure === undefined && holds.isFaultlessSince(startedAt)
      most = Math.max(count(startedAt), isCounted ? 0 : most)
    },
    scraped({ metrics }) {
      if (scenario.platformJumps.length > 0) return
      const shown = metrics.get('stuck_processing_webhooks') ?? 0
      if (shown > most) violate('books', `shows ${shown} records as stuck, ${most} may be`)
    },
  }
}
