// What leaves the window unrecovered is counted. @see docs/architecture.md "Backlog and decisions"
import { isSweepPage } from '../asked.ts'
import type { SimulatedRecord } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A listing begins with forgetting; the longest rest between two, and a slow sweep. */
const forgottenMs = 7 * 60_000
const hourMs = 3_600_000
const slackMs = 5000

export function createExpiryWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, knowledge, platform, scenario, timeline, violate } = options
  /** When a page of a sweep last showed a record as failed; and what any list showed, as a page of one row looks like a question. */
  const listedAt = new Map<string, number>()
  const shown = new Set<string>()
  // Near a change of daylight saving the window is an hour wider.
  const marginMs = forgottenMs + (scenario.habits.timeZone === 'Europe/Berlin' ? hourMs : 0)
  /** One whose event lies an hour back or forward by the wall clock is left aside. */
  const isWatched = scenario.platformJumps.length === 0 && config.window.lookback <= 3 * hourMs

  /** One that was evicted is counted only while it is held, and one that a retry job wants does not expire. */
  const isRoomy = scenario.records.length <= config.backlog.maxRecords && scenario.jobs.length === 0

  const hasExpired = (record: SimulatedRecord, agoMs: number): boolean =>
    expectations.isExpired(record, platform.now(), -agoMs)

  /** It was taken in with its slice, long before it left, and nothing has happened to it since. */
  function isSurelyCounted(record: SimulatedRecord, at: number): boolean {
    const { isDone, owed, touchedAt } = knowledge.of(record.id)
    const isStill = record.status === 'failed' && record.busy === 0 && !isDone && owed === undefined
    const isUntouched = record.changedAt < at - scenario.habits.lagMs && touchedAt <= at
    return isStill && isUntouched && hasExpired(record, marginMs) && !hasExpired(record, timeline.now() - at - 30_000)
  }

  return {
    told(call, { kind, views }) {
      if (kind !== 'told' || call.asked?.status === undefined) return
      for (const { id, status } of views) {
        if (status !== 'failed') continue
        shown.add(id)
        if (isSweepPage(call)) listedAt.set(id, call.sentAt)
      }
    },
    scraped({ metrics }) {
      if (!isWatched) return
      let [least, most] = [0, 0]
      for (const id of shown) {
        const record = platform.records.get(id)
        if (record === undefined || !hasExpired(record, -slackMs) || !expectations.isSelected(record)) continue
        most += 1
        if (isRoomy && isSurelyCounted(record, listedAt.get(id) ?? Infinity)) least += 1
      }
      const counted = metrics.get('expired_webhooks_total') ?? 0
      if (most > 0) exercise('what expires is counted')
      if (counted < least || counted > most)
        violate('books', `counts ${counted} expired records, there are ${least} to ${most}`)
    },
  }
}
