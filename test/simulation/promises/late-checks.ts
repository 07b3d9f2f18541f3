// A retry is looked after in time: the checks of its outcome never come late by more than a bound. @see docs/architecture.md "Retry plan", "Outcomes"
import { firstCheckMs } from '../../../src/reconcile/confirm/evidence.ts'
import { isListedFor, isQuestion, isSweepPage } from '../asked.ts'
import type { Call } from '../network.ts'
import { perSecondFor } from '../readings-limits.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** While a check is overdue by more than 10 s it gets as much of the rate as the retries do. */
const boundMs = 30_000
const longestPauseMs = 300_000

export function createLateChecksWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, holds, knowledge, platform, scenario, timeline, violate } = options
  /** When each record was last looked at, ms since the start. */
  const lookedAt = new Map<string, number>()
  /** A check takes its part of half of the rate, and so many at a time the time of a call. */
  const perSecond = Math.min(config.platform.maxRequestsPerSecond, perSecondFor('list', scenario.habits.limits))
  const checkMs = Math.max(2000 / perSecond, scenario.habits.latency[1] / scenario.sweep.concurrency)
  const queueMs = (records: number): number => records * checkMs
  /** The most retries whose outcome was owed at once since the last scrape: each takes its turn. */
  let mostOwed = 0
  const isSlow = scenario.habits.latency[1] > 100

  function look(id: string): void {
    if (knowledge.get(id)?.owed !== undefined) lookedAt.set(id, timeline.now())
  }

  /** The latest moment for the next check. */
  function dueAt(id: string, answeredAt: number, sentAt: number): number {
    const last = lookedAt.get(id)
    if (last === undefined || last < answeredAt) return answeredAt + firstCheckMs
    return last + Math.min(longestPauseMs, Math.max(4 * firstCheckMs, last - sentAt))
  }

  /** A check of an event, or one that fails, puts off all that it looks for, as one that does not show them. */
  function putOff(call: Call): void {
    const eventId = call.asked?.eventId
    for (const id of knowledge.owed()) {
      const record = platform.records.get(id)
      const isLookedFor = eventId === undefined ? record && isListedFor(call, record) : record?.eventId === eventId
      if (isLookedFor === true) look(id)
    }
  }

  return {
    told(call, { kind, status, views }) {
      mostOwed = Math.max(mostOwed, knowledge.owed().size)
      if (call.operation === 'retry') lookedAt.delete(call.id)
      if (call.operation !== 'list') return
      for (const { id } of views) look(id)
      const hasFailed = kind !== 'told' || status !== 200
      if (call.asked?.eventId !== undefined || (hasFailed && !isSweepPage(call) && !isQuestion(call))) putOff(call)
    },
    scraped() {
      const now = timeline.now()
      const owed = knowledge.owed()
      const bound = boundMs + queueMs(mostOwed) * (isSlow ? 2 : 1)
      mostOwed = owed.size
      for (const id of owed) {
        const known = knowledge.get(id)
        if (known?.owed === undefined) continue
        const late = now - dueAt(id, known.owed.at, known.sentAt)
        if (late <= bound || !holds.isFaultlessSince(now - late - bound, platform.records.get(id))) continue
        if (Math.max(holds.openGateSince(), holds.listsFreeSince()) > now - late - bound) continue
        violate('waits', `has not looked after ${id} for ${Math.round(late / 1000)} s although it is due`)
        return
      }
      if (owed.size > 0) exercise('checks come in time')
    },
  }
}
