// A probe says something of the receiver, not of a poisoned record: fewest attempts first, of these the newest event. @see docs/architecture.md "Circuits"
import type { Call } from '../network.ts'
import type { SimulatedRecord } from '../platform.ts'
import { isSweepPage, ownSpan } from '../asked.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A slice is taken in when its last page is there. */
const takenInMs = 60_000

export function createProbeWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const isRoomy = config.backlog.maxRecords >= scenario.records.length
  const listedAt = new Map<string, number>()
  /** Event type of the last retry, by subscription. */
  const lastTypes = new Map<string, string>()
  /** When a retry, or a page of a sweep, was last answered. */
  let answeredAt = -Infinity
  /** From a sweep's first page to its report: a slice is held back also while its next page waits for the rate. */
  let isSweeping = false
  /** The daemon alone changes records, so that what was listed is what it knows. */
  const isQuiet = scenario.habits.ownRetriesAfterRetry === 0 && scenario.platformJumps.length === 0

  /**
   * The records of a slice that is about to be listed wait: for the page of the slice before, and for the retries in flight
   * there.
   */
  function mayWaitForListing(id: string): boolean {
    if (isSweeping || answeredAt === timeline.now()) return true
    return platform.records.values().some((other) => other.id !== id && knowledge.get(other.id)?.inFlight !== undefined)
  }

  function mayCheck({ id, subscriptionId }: SimulatedRecord): boolean {
    if (!isRoomy || !isQuiet || knowledge.get(id)?.mayReplay === true) return false
    if (mayWaitForListing(id)) return false
    return holds.notClosed().has(subscriptionId) && holds.isFaultlessSince(timeline.now() - takenInMs)
  }

  /** At most so many attempts, by the platform's count or its own, of a record that it could have chosen; undefined when it could not. */
  function attemptsIfFree(record: SimulatedRecord): number | undefined {
    const known = knowledge.get(record.id)
    const shownAt = listedAt.get(record.id) ?? Infinity
    if (known === undefined || record.status !== 'failed' || record.busy > 0 || known.isDone) return undefined
    if (known.inFlight !== undefined || known.owed !== undefined || holds.isBeingListed(record)) return undefined
    if (shownAt > timeline.now() - takenInMs || record.changedAt > shownAt - scenario.habits.lagMs) return undefined
    if (!expectations.isSelected(record) || expectations.isExpired(record, platform.now(), 60_000)) return undefined
    const attempts = Math.max(record.attempts, known.tries)
    const lastAt = Math.max(record.lastAt ?? record.eventAt, known.triedAt)
    if (expectations.isExhausted({ attempts })) return undefined
    const due = expectations.latestDue(record, { attempts, refusals: known.refusals, lastAt })
    return due + expectations.clockTolerance + 1000 < platform.now() ? attempts : undefined
  }

  function check({ id }: Call, chosen: SimulatedRecord): void {
    const known = knowledge.get(id)
    const shown = [chosen.attempts, ...(known?.views ?? []).map((view) => view.attempts)]
    const attempts = Math.min(...shown)
    const most = Math.max(...shown, known?.tries ?? 0)
    const { eventType } = chosen.plan
    for (const other of platform.records.values()) {
      if (other.subscriptionId !== chosen.subscriptionId || other.id === id) continue
      const free = attemptsIfFree(other)
      if (free === undefined) continue
      if (other.plan.eventType !== eventType) {
        exercise('a probe is of another type than the last one')
        if (lastTypes.get(chosen.subscriptionId) === eventType)
          violate('waits', `probes with ${id}, of the same type as the last one; ${other.id} is of another`)
        continue
      }
      exercise('the least tried record is the probe')
      if (free < attempts) violate('waits', `probes with ${id} after ${attempts} attempts, ${other.id} has ${free}`)
      if (free <= attempts && most === attempts && expectations.isBefore(chosen, other))
        violate('waits', `probes with ${id}, ${other.id} has as few attempts and is newer`)
    }
  }

  return {
    sent(call) {
      if (isSweepPage(call)) isSweeping = true
      const record = platform.records.get(call.id)
      if (call.operation !== 'retry' || record === undefined) return
      if (mayCheck(record)) check(call, record)
      lastTypes.set(record.subscriptionId, record.plan.eventType)
    },
    told(call, { kind, views }) {
      if (call.operation === 'retry' || isSweepPage(call)) answeredAt = timeline.now()
      if (kind !== 'told' || !isSweepPage(call)) return
      const { from, to } = ownSpan(call)
      for (const { id, status } of views) {
        const record = platform.records.get(id)
        if (status === 'failed' && record !== undefined && platform.isBetween(record, from, to))
          listedAt.set(id, call.sentAt)
      }
    },
    fact(fact) {
      if (fact.type === 'sweep') isSweeping = false
      // Also of one that had no token to be sent with.
      if (fact.type === 'retry' && !fact.answer.sent) lastTypes.set(fact.subscriptionId, fact.eventType)
    },
  }
}
