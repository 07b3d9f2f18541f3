// With `retry.orderPerEntity`: no event is retried while an older one of its transfer or account is open. @see docs/architecture.md "Retry plan"
import type { Call } from '../network.ts'
import type { SimulatedRecord } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const takenInMs = 5000

export function createOrderWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const startedAt = timeline.now()
  const platformStartedAt = platform.now()

  /** Open as far as this process knows: the state that it was last shown still holds. */
  function isKnownToBeOpen(record: SimulatedRecord): boolean {
    const known = knowledge.get(record.id)
    if (known?.last === undefined || known.letsPass || record.status !== 'failed') return false
    // A list is taken in when its last page is there; one that was not whole is read once more.
    if (holds.isBeingListed(record) || timeline.now() - known.last.shownAt < takenInMs) return false
    const isPresent =
      known.last.view.status === 'failed' && known.last.askedAt - scenario.habits.lagMs > record.changedAt
    if (!isPresent || expectations.isLapsed(record, platform.now(), config.window.settle)) return false
    return (
      expectations.isSelected(record) && !expectations.isParked({ attempts: Math.max(record.attempts, known.tries) })
    )
  }

  /** Open since before this process began, and never shown to it: retries wait until the whole window was listed. */
  function isUnseen(record: SimulatedRecord): boolean {
    if (record.status !== 'failed' || knowledge.get(record.id)?.firstShownAt !== undefined) return false
    if (scenario.platformJumps.length > 0 || !expectations.isSettled(record, platformStartedAt)) return false
    if (record.changedAt > Math.max(0, startedAt - scenario.habits.lagMs)) return false
    if (expectations.isLapsed(record, platform.now(), 60_000) || !expectations.isSelected(record)) return false
    return !expectations.isParked(record)
  }

  function check(call: Call, record: SimulatedRecord): void {
    for (const other of platform.records.values()) {
      if (other.entityId !== record.entityId || other.subscriptionId !== record.subscriptionId) continue
      if (!expectations.isBefore(other, record)) continue
      exercise('order')
      if (isKnownToBeOpen(other))
        violate('order', `retries ${call.id} before ${other.id}, an older event of its entity`)
      if (isUnseen(other))
        violate('order', `retries ${call.id} before it has listed ${other.id}, an older event of its entity`)
    }
  }

  return {
    sent(call) {
      const record = platform.records.get(call.id)
      if (!config.retry.orderPerEntity || call.operation !== 'retry' || record === undefined) return
      if (knowledge.get(call.id)?.mayReplay !== true) check(call, record)
    },
  }
}
