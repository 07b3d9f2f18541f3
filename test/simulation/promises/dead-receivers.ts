// What a process has delivered to receivers that have been dead since it started is little. @see docs/architecture.md "Circuits"
import { probeTimeoutMs } from '../../../src/reconcile/retry/circuit-breaker.ts'
import { looksFailed, succeedsTooSoon } from '../scenario.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** After one pause. */
const maxProbes = 3

export function createDeadReceiversWatcher(options: WatcherOptions): Watcher {
  const { config, expectations, platform, scenario, timeline, violate } = options
  const startedAt = timeline.now()
  /** By receiver. */
  const own: number[] = scenario.receivers.map(() => 0)
  /** What becomes of others' deliveries may be taken for the outcome of an own retry. */
  let foreign = 0
  /** Circuits that an operator had probed, and how often: what was sent before opens no circuit then. */
  let [probed, probes] = [0, 0]
  const hasFaults = scenario.faults.length > 0 || scenario.revocations.length > 0
  // Its successes fill no circuit: its records are bounded by their backoffs.
  const isWatched = config.receiver.healthUrl === undefined && !succeedsTooSoon(scenario.habits)

  function isDead(receiver: number): boolean {
    const outage = platform.outageAt(receiver, startedAt)
    return outage !== undefined && outage.to > timeline.now()
  }

  /**
   * Of one subscription: before its first pause the initial limit, and up to nine that follow; then three probes after each
   * pause. Pauses begin small again for a response that is new: of a delivery that was under way when the outage began.
   */
  function limitOfOne(): number {
    const elapsed = timeline.now() - startedAt
    const { initialLimit } = config.circuit
    // What an attempt under way shows may be another response.
    const series = looksFailed(scenario.habits) ? 2 : 1
    const probes = maxProbes * (series * expectations.probesWithin(elapsed) + 3)
    // A retry whose outcome stays unknown gives its place back after a while.
    const longestDelivery = scenario.habits.queue[1] + scenario.habits.deliveryTimeout
    const isVague = hasFaults || longestDelivery > probeTimeoutMs / 2 || scenario.habits.hidden?.by === 'all'
    const givenBack = isVague ? Math.floor(elapsed / probeTimeoutMs) * initialLimit : 0
    return initialLimit + Math.min(initialLimit - 1, 9) + probes + givenBack
  }

  function check(receiver: number): void {
    const subscriptions = scenario.subscriptions.filter((of) => of === receiver).length
    const limit = subscriptions * (limitOfOne() + probes * config.circuit.initialLimit) + foreign + maxProbes * probed
    const count = own[receiver] ?? 0
    if (count > limit) violate('dead-receiver', `had ${count} deliveries made to a dead receiver, ${limit} are allowed`)
  }

  return {
    fact(fact) {
      if (fact.type !== 'operator' || fact.command !== 'probe') return
      probed += fact.circuits
      probes += 1
    },
    delivered(receiver, isOwn) {
      if (!isOwn) {
        foreign += 1
        return
      }
      own[receiver] = (own[receiver] ?? 0) + 1
      if (isWatched && isDead(receiver)) check(receiver)
    },
  }
}
