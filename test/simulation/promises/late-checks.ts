// A retry is looked after in time: the checks of its outcome never come late by more than a bound. @see docs/architecture.md "Retry plan", "Outcomes"
import { firstCheckMs } from '../../../src/reconcile/confirm/evidence.ts'
import type { Call } from '../network.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** While a check is overdue by more than 10 s it gets as much of the rate as the retries do. */
const boundMs = 30_000
const longestPauseMs = 300_000
/** Checks go out in rounds. */
const roundMs = 1000

export function createLateChecksWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, holds, knowledge, platform, scenario, timeline, violate } = options
  /** When each record was last looked at, ms since the start. */
  const lookedAt = new Map<string, number>()
  /** A check takes its part of half of the rate, and so many at a time the time of a call. */
  const checkMs = Math.max(
    1000 / Math.max(0.5, config.platform.maxRequestsPerSecond / 2),
    scenario.habits.latency[1] / scenario.sweep.concurrency,
  )
  const queueMs = (records: number): number => records * checkMs
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

  /** A check that fails puts off all that it looks for, as one that shows nothing. */
  function putOff(): void {
    for (const id of knowledge.owed()) {
      const { owed, sentAt } = knowledge.of(id)
      if (owed !== undefined && dueAt(id, owed.at, sentAt) <= timeline.now() + roundMs) look(id)
    }
  }

  function byEvent({ asked }: Call): void {
    const eventId = asked?.eventId
    if (eventId === undefined) return
    for (const id of knowledge.owed()) if (platform.records.get(id)?.eventId === eventId) look(id)
  }

  return {
    told(call, { kind, status, views }) {
      if (call.operation === 'retry') lookedAt.delete(call.id)
      if (call.operation !== 'list') return
      if (kind !== 'told' || status !== 200) {
        putOff()
        return
      }
      for (const { id } of views) look(id)
      byEvent(call)
    },
    scraped() {
      const now = timeline.now()
      const owed = knowledge.owed()
      const bound = boundMs + queueMs(owed.size) * (isSlow ? 2 : 1)
      for (const id of owed) {
        const known = knowledge.get(id)
        if (known?.owed === undefined) continue
        const late = now - dueAt(id, known.owed.at, known.sentAt)
        if (late <= bound || !holds.isFaultlessSince(now - late - bound)) continue
        if (holds.openGateSince() > now - late - bound) continue
        violate('waits', `has not looked after ${id} for ${Math.round(late / 1000)} s although it is due`)
        return
      }
      if (owed.size > 0) exercise('checks come in time')
    },
  }
}
