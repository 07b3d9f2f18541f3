// A probe says something of the receiver, not of a poisoned record: fewest attempts first, of these the newest event. @see docs/architecture.md "Circuits"
import type { Call } from '../network.ts'
import type { SimulatedRecord } from '../platform.ts'
import { isSweepPage } from '../asked.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A slice is taken in when its last page is there. */
const takenInMs = 60_000

export function createProbeWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const isRoomy = config.backlog.maxRecords >= scenario.records.length
  const listedAt = new Map<string, number>()
  /** When a retry, or a page of a sweep, was last answered. */
  let answeredAt = -Infinity
  /** The daemon alone changes records, so that what was listed is what it knows. */
  const isQuiet = scenario.habits.ownRetriesAfterRetry === 0 && scenario.platformJumps.length === 0

  /**
   * The records of a slice that is about to be listed wait: for the page of the slice before, and for the retries in flight
   * there.
   */
  function mayWaitForListing(id: string): boolean {
    if (answeredAt === timeline.now()) return true
    return platform.records.values().some((other) => other.id !== id && knowledge.get(other.id)?.inFlight !== undefined)
  }

  /** At most so many attempts, by the platform's count or its own, of a record that it could have chosen; undefined when it could not. */
  function attemptsIfFree(record: SimulatedRecord): number | undefined {
    const known = knowledge.get(record.id)
    const shownAt = listedAt.get(record.id) ?? Infinity
    if (known === undefined || record.status !== 'failed' || record.busy > 0 || known.isDone) return undefined
    if (known.inFlight !== undefined || known.owed !== undefined || holds.isBeingListed(record)) return undefined
    if (shownAt > timeline.now() - takenInMs || record.changedAt > shownAt - scenario.habits.lagMs) return undefined
    if (!expectations.isSelected(record) || expectations.isLapsed(record, platform.now(), 60_000)) return undefined
    const attempts = Math.max(record.attempts, known.tries)
    const lastAt = Math.max(record.lastAt ?? record.eventAt, known.triedAt)
    if (expectations.isParked({ attempts })) return undefined
    const due = expectations.latestDue(record, { attempts, refusals: known.refusals, lastAt })
    return due + expectations.clockTolerance + 1000 < platform.now() ? attempts : undefined
  }

  function check({ id }: Call, chosen: SimulatedRecord): void {
    const views = knowledge.get(id)?.views ?? []
    const attempts = Math.min(chosen.attempts, ...views.map((view) => view.attempts))
    for (const other of platform.records.values()) {
      if (other.subscriptionId !== chosen.subscriptionId || other.id === id) continue
      // Of another type than the last probe is better still.
      if (other.plan.eventType !== chosen.plan.eventType) continue
      const free = attemptsIfFree(other)
      if (free === undefined) continue
      exercise('the least tried record is the probe')
      if (free < attempts) violate('waits', `probes with ${id} after ${attempts} attempts, ${other.id} has ${free}`)
    }
  }

  return {
    sent(call) {
      const record = platform.records.get(call.id)
      if (call.operation !== 'retry' || record === undefined || !isRoomy || !isQuiet) return
      if (config.retry.orderPerEntity || knowledge.get(call.id)?.mayReplay === true) return
      if (mayWaitForListing(record.id)) return
      if (holds.notClosed().has(record.subscriptionId) && holds.isFaultlessSince(timeline.now() - takenInMs))
        check(call, record)
    },
    told(call, { kind, views }) {
      if (call.operation === 'retry' || isSweepPage(call)) answeredAt = timeline.now()
      if (kind !== 'told' || !isSweepPage(call)) return
      for (const { id, status } of views) if (status === 'failed') listedAt.set(id, call.sentAt)
    },
  }
}
