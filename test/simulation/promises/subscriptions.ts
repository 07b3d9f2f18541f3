// What may hold the retries of each subscription, as it is seen from outside: its circuit, and slots that others have. @see docs/architecture.md "Circuits"
import { probeTimeoutMs } from '../../../src/reconcile/retry/circuit-breaker.ts'
import type { Call } from '../network.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A circuit that was not used for so long may be forgotten. */
const forgottenMs = 600_000
/** A retry that waits for its token goes out all the same. */
const tokenWaitMs = 60_000
/** Until the loop has turned. */
const slackMs = 1000

interface Subscription {
  state: 'open' | 'half-open' | 'closed'
  /** ms since the start: when a retry last went out, an outcome came, or its circuit changed. */
  changedAt: number
  /** ms since the start: when its receiver last took a delivery. */
  recoveredAt: number
  heldUntil: number
  inFlight: number
  /** Since when an operator holds it, ms since the start; Infinity: not. */
  pausedAt: number
}

/** Times are ms since the start. */
export interface Subscriptions extends Required<Pick<Watcher, 'sent' | 'fact'>> {
  isClosed(id: string): boolean
  /** Until when its circuit may have held retries: it was not closed, or its places were taken. */
  heldUntil(id: string): number
  /** True when nothing has been under way since then, although a place in its circuit and a slot were free. */
  isIdleSince(id: string, since: number): boolean
  told(call: Call): void
  scraped(): void
}

export function createSubscriptions(options: WatcherOptions): Subscriptions {
  const { config, knowledge, platform, timeline, violate } = options
  const { concurrency } = config.retry
  const { initialLimit } = config.circuit
  const startedAt = timeline.now()
  const subscriptions = new Map<string, Subscription>()
  /** When all slots were last taken by several subscriptions: one alone leaves the last slot to the others. */
  let fullAt = -Infinity
  /** When an outage of the platform last began: of what was sent before, no outcome counts in a circuit. */
  let outageAt = -Infinity

  const unused = { changedAt: startedAt, recoveredAt: -Infinity, heldUntil: -Infinity, inFlight: 0, pausedAt: Infinity }
  const of = (id: string): Subscription => subscriptions.getOrInsertComputed(id, () => ({ state: 'closed', ...unused }))

  /** Retries of a subscription that may have held a place in its circuit at `at` and since: each for `probeTimeoutMs`. */
  function heldPlaces(id: string, at: number): number {
    const since = at - probeTimeoutMs - slackMs
    const isHeld = (owed: string): boolean => knowledge.of(owed).sentAt > since
    const places = [...[...knowledge.owed()].filter(isHeld), ...knowledge.failedRetries()]
    return places.filter((place) => platform.records.get(place)?.subscriptionId === id).length
  }

  const isKnownUp = ({ recoveredAt, state }: Subscription): boolean =>
    state === 'closed' && recoveredAt > timeline.now() - forgottenMs

  /** Half of the places, or the only one while no receiver is known to be up, may be all that a circuit allows. */
  function noteCircuit(id: string, untilMs = timeline.now()): void {
    const subscription = of(id)
    const taken = heldPlaces(id, -Infinity) + subscription.inFlight
    const isFull = taken >= (isKnownUp(subscription) ? Math.max(1, initialLimit / 2) : 1)
    if (isFull || subscription.pausedAt < Infinity || subscription.state !== 'closed')
      subscription.heldUntil = Math.max(subscription.heldUntil, untilMs)
  }

  function noteSlots(): void {
    const busy = subscriptions.values().filter(({ inFlight }) => inFlight > 0)
    const isFull = knowledge.inFlight().size >= concurrency - 1
    if (isFull && (concurrency === 1 || [...busy].length > 1)) fullAt = timeline.now()
  }

  return {
    isClosed: (id) => of(id).state === 'closed',
    heldUntil(id) {
      noteCircuit(id)
      return of(id).heldUntil
    },
    isIdleSince(id, since) {
      const subscription = of(id)
      if (subscription.changedAt > since || subscription.inFlight > 0 || fullAt > since) return false
      const places = isKnownUp(subscription) ? initialLimit : 1
      return subscription.pausedAt === Infinity && subscription.state !== 'open' && heldPlaces(id, since) < places
    },
    sent({ id, operation }) {
      const record = platform.records.get(id)
      if (operation !== 'retry' || record === undefined) return
      const subscription = of(record.subscriptionId)
      subscription.changedAt = timeline.now()
      if (subscription.inFlight >= Math.max(1, concurrency - 1))
        violate('waits', `takes the last slot for ${id}, whose subscription has all the others`)
      if (subscription.pausedAt < timeline.now() - tokenWaitMs && knowledge.get(id)?.mayReplay !== true)
        violate('limits', `retries ${id}, whose subscription is paused`)
      subscription.inFlight += 1
      noteSlots()
      noteCircuit(record.subscriptionId)
    },
    told({ id, operation }) {
      const record = platform.records.get(id)
      if (operation !== 'retry' || record === undefined) return
      const subscription = of(record.subscriptionId)
      noteSlots()
      subscription.inFlight -= 1
      subscription.changedAt = timeline.now()
      noteCircuit(record.subscriptionId)
    },
    fact(fact) {
      if (fact.type === 'trouble' && fact.trouble !== undefined) outageAt = timeline.now()
      if (fact.type === 'operator' && 'changed' in fact && fact.subscriptionId !== undefined) {
        of(fact.subscriptionId).pausedAt = fact.command === 'pause' ? timeline.now() : Infinity
        of(fact.subscriptionId).changedAt = of(fact.subscriptionId).heldUntil = timeline.now()
      }
      if (fact.type !== 'outcome' && fact.type !== 'circuit' && fact.type !== 'retry') return
      const id = fact.subscriptionId.toLowerCase()
      const subscription = of(id)
      if (fact.type === 'circuit') subscription.state = fact.to
      const isNew = fact.type === 'outcome' && timeline.now() - fact.sinceRetryMs > outageAt
      if (isNew && fact.outcome === 'recovered') subscription.recoveredAt = timeline.now()
      if (fact.type !== 'retry') subscription.changedAt = timeline.now()
      // A failed retry keeps its place, and nothing is seen when its time is over.
      const keepsPlace = fact.type === 'retry' && fact.response.result === 'platform-error'
      noteCircuit(id, keepsPlace ? knowledge.of(fact.webhookId).sentAt + probeTimeoutMs : timeline.now())
    },
    scraped: noteSlots,
  }
}
