// No subscription waits while it may go: places come free, and slots and turns are shared. @see docs/architecture.md "Retry plan", "Circuits"
import type { SimulatedRecord } from '../platform.ts'
import { isSweepPage, ownSpan } from '../asked.ts'
import { heldPlaces } from './places.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const boundMs = 45_000
/** With less room than records: those that were left out are listed again first, at some ticks. */
const crowdedBoundMs = 2 * 60_000
const crowdedTicks = 3
/** Events younger than an hour take turns with the older ones; a turn of one near the hour may be either's. */
const recentMs = 50 * 60_000
const oldMs = 70 * 60_000
/** So many turns of one age, and none of the other. */
const manyTurns = 6
/** A circuit that was not used for so long may be forgotten. */
const forgottenMs = 600_000

type State = 'open' | 'half-open' | 'closed'

interface Subscription {
  state: State
  /** ms since the start: when a retry last went out, an outcome came, or its circuit changed. */
  changedAt: number
  /** ms since the start: when its receiver last took a delivery. */
  recoveredAt: number
  /** Retries since the last scrape, by the age of the event. */
  turns: Turns
  inFlight: number
}

interface Turns {
  recent: number
  old: number
  either: number
}

const noTurns = (): Turns => ({ recent: 0, old: 0, either: 0 })

export function createWorkWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const { concurrency } = config.retry
  const { enabled, initialLimit, maxLimit } = config.circuit
  const isRoomy = config.backlog.maxRecords >= scenario.records.length
  const bound = isRoomy ? boundMs : crowdedBoundMs + crowdedTicks * scenario.periodMs
  const startedAt = timeline.now()
  const subscriptions = new Map<string, Subscription>()
  /** When a sweep first took a record in as failed, as it is since it last changed. */
  const listedAt = new Map<string, number>()
  /** When all slots were last taken. */
  let fullAt = -Infinity
  let scrapedAt = startedAt
  /** Since a sweep's first page: records wait for the listing of their slice, those of one age longer than the others. */
  let isSweeping = false

  function of(id: string): Subscription {
    const known = subscriptions.get(id)
    if (known !== undefined) return known
    const made: Subscription = {
      state: 'closed',
      changedAt: startedAt,
      recoveredAt: -Infinity,
      turns: noTurns(),
      inFlight: 0,
    }
    subscriptions.set(id, made)
    return made
  }

  const subscriptionOf = (id: string): Subscription | undefined => {
    const record = platform.records.get(id)
    return record && of(record.subscriptionId)
  }

  /** Due, known and free to go for so long that it should have gone, or another one of its subscription in its place. */
  function isWaiting(record: SimulatedRecord, ms: number): boolean {
    const { id } = record
    const known = knowledge.get(id)
    const shownAt = listedAt.get(id) ?? Infinity
    const now = timeline.now()
    if (record.status !== 'failed' || record.busy > 0 || known === undefined || known.isDone) return false
    if (known.inFlight !== undefined || known.owed !== undefined || holds.isBeingListed(record)) return false
    if (shownAt > now - ms || record.changedAt > shownAt - scenario.habits.lagMs) return false
    if (known.touchedAt > now - ms || !expectations.isSelected(record)) return false
    const attempts = Math.max(record.attempts, known.tries)
    const lastAt = Math.max(record.lastAt ?? record.eventAt, known.triedAt)
    if (expectations.isExhausted({ attempts }) || expectations.isExpired(record, platform.now(), 60_000)) return false
    const due = expectations.latestDue(record, { attempts, refusals: known.refusals, lastAt })
    return due + expectations.clockTolerance < platform.now() - ms
  }

  /** Before its receiver is known to be up, each failure takes a place from a circuit; one that was not used may be forgotten. */
  function hasPlace(id: string, { recoveredAt, state }: Subscription): boolean {
    if (!enabled) return true
    if (state === 'open') return false
    const isKnownUp = state === 'closed' && recoveredAt > timeline.now() - forgottenMs
    return heldPlaces(options, id, timeline.now() - bound) < (isKnownUp ? Math.min(initialLimit, maxLimit) : 1)
  }

  /** The first that should have gone, by subscription and age. */
  function waiting(): Map<string, { recent?: SimulatedRecord; old?: SimulatedRecord; any?: SimulatedRecord }> {
    const found = new Map<string, { recent?: SimulatedRecord; old?: SimulatedRecord; any?: SimulatedRecord }>()
    for (const record of platform.records.values()) {
      if (!isWaiting(record, bound)) continue
      const age = platform.now() - record.eventAt
      const known = found.get(record.subscriptionId) ?? {}
      known.any ??= record
      // Since the first of the turns that are counted.
      const isPassedOver = isWaiting(record, Math.max(bound, timeline.now() - scrapedAt))
      if (isPassedOver && age < recentMs) known.recent ??= record
      else if (isPassedOver && age > oldMs) known.old ??= record
      found.set(record.subscriptionId, known)
    }
    return found
  }

  /**
   * Records of closed circuits that it worked on lately fill half of the backlog: those that were left out wait for the
   * next full sweep. Where subscriptions outnumber the places, one that has a place keeps it while its record is due.
   */
  function isBusy(): boolean {
    if (isRoomy) return false
    if (scenario.subscriptions.length > config.backlog.maxRecords) return true
    const since = timeline.now() - bound - config.retry.backoff.max
    const busy = [...platform.records.values()].filter(({ id, status, subscriptionId }) => {
      const isOurs = status !== 'successful' && (knowledge.get(id)?.sentAt ?? -Infinity) > since
      return isOurs && of(subscriptionId).state === 'closed'
    })
    return busy.length >= config.backlog.maxRecords / 2
  }

  function check(): void {
    const now = timeline.now()
    if (holds.openGateSince() > now - bound || !holds.isFaultlessSince(now - bound - 30_000)) return
    const mayBeLeftOut = isBusy()
    for (const [id, { any, old, recent }] of waiting()) {
      const subscription = of(id)
      const { changedAt, state, turns } = subscription
      if (any !== undefined && !mayBeLeftOut && hasPlace(id, subscription)) {
        const isIdle = changedAt < now - bound && subscription.inFlight === 0
        if (isIdle && fullAt < now - bound)
          violate('waits', `lets ${any.id} wait for ${bound / 1000} s although its subscription has a place`)
      }
      // What has no room has no turn.
      if (!isRoomy || state !== 'closed' || turns.either > 0 || now - scrapedAt < 30_000) continue
      if (recent !== undefined && turns.recent === 0 && turns.old >= manyTurns)
        violate('waits', `lets ${recent.id}, which is recent, wait behind ${turns.old} old ones`)
      if (old !== undefined && turns.old === 0 && turns.recent >= manyTurns)
        violate('waits', `lets ${old.id}, which is old, wait behind ${turns.recent} recent ones`)
    }
  }

  return {
    sent(call) {
      if (isSweepPage(call)) isSweeping = true
      if (call.operation !== 'retry') return
      const record = platform.records.get(call.id)
      if (record === undefined) return
      const subscription = of(record.subscriptionId)
      if (isWaiting(record, 0))
        exercise(isRoomy ? 'no subscription waits while it may go' : 'healthy records behind a full backlog')
      const age = platform.now() - record.eventAt
      subscription.changedAt = timeline.now()
      if (subscription.inFlight >= Math.max(1, concurrency - 1)) {
        violate('waits', `takes the last slot for ${call.id}, whose subscription has all the others`)
      }
      subscription.inFlight += 1
      if (!isSweeping) subscription.turns[age < recentMs ? 'recent' : age > oldMs ? 'old' : 'either'] += 1
      if (knowledge.inFlight().size + 1 >= concurrency) fullAt = timeline.now()
    },
    told(call, { kind, views }) {
      if (call.operation === 'retry') {
        const subscription = subscriptionOf(call.id)
        if (subscription !== undefined) {
          subscription.inFlight -= 1
          subscription.changedAt = timeline.now()
        }
        if (knowledge.inFlight().size + 1 >= concurrency) fullAt = timeline.now()
      } else if (kind === 'told' && isSweepPage(call)) {
        const { from, to } = ownSpan(call)
        for (const { id, status } of views) {
          const record = platform.records.get(id)
          if (status !== 'failed' || record === undefined || !platform.isBetween(record, from, to)) continue
          if ((listedAt.get(id) ?? -Infinity) < record.changedAt + scenario.habits.lagMs) listedAt.set(id, call.sentAt)
        }
      }
    },
    fact(fact) {
      if (fact.type === 'outcome') {
        const subscription = of(fact.subscriptionId.toLowerCase())
        subscription.changedAt = timeline.now()
        if (fact.outcome === 'recovered') subscription.recoveredAt = timeline.now()
      } else if (fact.type === 'circuit') {
        const subscription = of(fact.subscriptionId.toLowerCase())
        subscription.state = fact.to
        subscription.changedAt = timeline.now()
        // Probes of a half-open circuit take no turns: they are chosen by their attempts.
        subscription.turns = noTurns()
      } else if (fact.type === 'sweep') {
        isSweeping = false
      }
    },
    scraped() {
      if (knowledge.inFlight().size >= concurrency) fullAt = timeline.now()
      if (config.retry.enabled && scenario.platformJumps.length === 0) check()
      for (const subscription of subscriptions.values()) {
        if (subscription.turns.old > 0 && subscription.turns.recent > 0) exercise('recent and old take turns')
        subscription.turns = noTurns()
      }
      scrapedAt = timeline.now()
    },
  }
}
