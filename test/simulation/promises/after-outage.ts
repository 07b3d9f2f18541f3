// A receiver that takes a part of its deliveries after an outage, or refuses single records, is not taken for dead any longer. @see docs/architecture.md "Circuits"
import { maxCooldownMs } from '../../../src/reconcile/retry/circuit-breaker.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** From the first probe that is due after the outage to the closed circuit: the part that is taken may fail five rounds by chance. */
const boundMs = 5 * maxCooldownMs + 60_000

export function createAfterOutageWatcher({ exercise, scenario, timeline, violate }: WatcherOptions): Watcher {
  const [outage] = scenario.receivers[0]?.outages ?? []
  const isStaged = scenario.readings.includes('after an outage')
  /** When a probe was first due after it, by subscription, ms since the start; and those that have closed. */
  const dueAt = new Map<string, number>()

  return {
    fact(fact) {
      if (!isStaged || fact.type !== 'circuit') return
      const isOver = timeline.now() >= (outage?.to ?? Infinity)
      if (fact.to === 'half-open' && isOver && !dueAt.has(fact.subscriptionId))
        dueAt.set(fact.subscriptionId, timeline.now())
      if (fact.to !== 'closed' || !dueAt.has(fact.subscriptionId)) return
      exercise('circuits close soon after an outage')
      dueAt.set(fact.subscriptionId, Infinity)
    },
    scraped() {
      for (const [id, at] of dueAt)
        if (timeline.now() - at > boundMs) violate('waits', `keeps the circuit of ${id} open though its receiver is up`)
    },
  }
}
