// A circuit opens when, and only when, nearly all of the last outcomes failed again. @see docs/architecture.md "Circuits"
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const judgedRecords = 50
/** Deliveries that the receiver refuses with one of these are its trouble; with another 4xx, the record's. */
const telling: ReadonlySet<number> = new Set([401, 403, 404, 408, 425, 429])

/** A circuit that was not used for so long may be forgotten. */
const forgottenMs = 600_000

interface Subscription {
  /** Last outcome of each record, in the order in which the retries were sent. */
  last: { id: string; sent: number; hasFailed: boolean }[]
  known: number
  limit: number
  /** The receiver has taken a delivery, or refused a single record. */
  isKnownUp: boolean
  isHalfOpen: boolean
  /** ms since the start: outcomes of retries that were sent before count for nothing. */
  openedAt: number
  /** ms since the start: it has to open with an outcome that was reported then. */
  mustOpen: number | undefined
  /** The same: it opens with an outcome that is reported then. */
  opensAt: number | undefined
  /** ms since the start: when an outcome was last reported. */
  usedAt: number
  /** It may have been forgotten since: what it knows is not known. */
  isUnsure: boolean
  /** The pause of the next opening: it doubles, until the limit has grown back. */
  nextPauseMs: number
  /** That of this opening, as it is reported. */
  pauseMs?: number | undefined
}

type Outcome = Extract<TelemetryEvent, { type: 'outcome' }>

function refusesRecord({ outcome, responseStatusCode: code }: Outcome): boolean {
  return outcome === 'failed-again' && code !== null && code >= 400 && code < 500 && !telling.has(code)
}

export function createCircuitWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, knowledge, timeline, violate } = options
  const { cooldown, enabled, failureRatio, initialLimit, maxCooldown, maxLimit } = config.circuit
  const initial = Math.min(initialLimit, maxLimit)
  /** While nothing shows that the receiver is up, so many have to fail again: the initial limit, and up to nine that follow. */
  const firstRetries = Math.min(2 * initial - 1, initial + 9)
  const subscriptions = new Map<string, Subscription>()
  /** The number of the call, by record. */
  const sentAs = new Map<string, number>()

  function fresh(): Subscription {
    return {
      last: [],
      known: 0,
      limit: initial,
      isKnownUp: false,
      isHalfOpen: false,
      openedAt: -Infinity,
      mustOpen: undefined,
      opensAt: undefined,
      usedAt: timeline.now(),
      isUnsure: false,
      nextPauseMs: cooldown,
    }
  }

  function of(id: string): Subscription {
    const known = subscriptions.get(id)
    if (known !== undefined) return known
    const made = fresh()
    subscriptions.set(id, made)
    return made
  }

  function failedOf({ last }: Subscription): number {
    return last.filter(({ hasFailed }) => hasFailed).length
  }

  /** Outcomes without which a closed circuit doesn't open. */
  function neededOf({ isHalfOpen, isKnownUp }: Subscription): number {
    if (isHalfOpen) return 1
    return isKnownUp ? judgedRecords : firstRetries
  }

  function learn(fact: Outcome): void {
    const id = fact.subscriptionId.toLowerCase()
    const subscription = of(id)
    if (timeline.now() - subscription.usedAt >= forgottenMs) subscription.isUnsure = true
    subscription.usedAt = timeline.now()
    if (fact.outcome === 'unknown' || (knowledge.get(fact.webhookId)?.sentAt ?? 0) < subscription.openedAt) return
    const isRefused = refusesRecord(fact)
    if (!isRefused) {
      const outcome = {
        id: fact.webhookId,
        sent: sentAs.get(fact.webhookId) ?? 0,
        hasFailed: fact.outcome === 'failed-again',
      }
      const others = subscription.last.filter((other) => other.id !== fact.webhookId)
      subscription.last = [...others, outcome].sort((a, b) => a.sent - b.sent).slice(-judgedRecords)
      subscription.known += 1
    }
    if (fact.outcome === 'recovered' || isRefused) {
      subscription.isKnownUp = true
      if (isRefused && subscription.isHalfOpen) return
      subscription.limit = Math.min(maxLimit, subscription.limit + 1)
      if (subscription.limit < initial) return
      subscription.isHalfOpen = false
      subscription.nextPauseMs = cooldown
      return
    }
    const isBad = failedOf(subscription) >= failureRatio * subscription.last.length
    if (subscription.known >= neededOf(subscription) && isBad && !subscription.isUnsure)
      subscription.mustOpen = timeline.now()
  }

  /** Reported in either order, at the same moment: the outcome, and that the circuit opens of it. */
  function checkOpened(): void {
    for (const [id, subscription] of subscriptions) {
      const { mustOpen, opensAt } = subscription
      if (mustOpen !== undefined && mustOpen < timeline.now()) {
        violate('dead-receiver', `does not open the circuit of ${id}: nearly all failed again`)
      }
      if (opensAt !== undefined && opensAt < timeline.now())
        violate('waits', `opens the circuit of ${id} without an outcome`)
    }
  }

  function open(id: string, subscription: Subscription): void {
    const { known, last, pauseMs } = subscription
    const failed = failedOf(subscription)
    const isAsLong = (ms: number): boolean => Math.abs((pauseMs ?? 0) - ms) <= 1
    // The first pause again, if it was forgotten.
    const isForgotten = subscription.isUnsure && isAsLong(cooldown)
    const nextPauseMs = Math.min(maxCooldown, 2 * (isForgotten ? cooldown : subscription.nextPauseMs))
    subscriptions.set(id, {
      ...fresh(),
      limit: 1,
      isKnownUp: subscription.isKnownUp,
      isHalfOpen: true,
      openedAt: timeline.now(),
      nextPauseMs,
    })
    if (!isForgotten && !isAsLong(subscription.nextPauseMs))
      violate('dead-receiver', `pauses ${id} for ${pauseMs ?? 0} ms, not for ${subscription.nextPauseMs}`)
    if (subscription.isUnsure) return
    exercise('a circuit opens')
    if (failed === failureRatio * last.length) exercise('a circuit opens at exactly the ratio')
    if (known < neededOf(subscription)) violate('waits', `opens the circuit of ${id} after ${known} outcomes`)
    if (failed < failureRatio * last.length)
      violate('waits', `opens the circuit of ${id}: ${failed} of ${last.length} failed`)
  }

  return {
    sent(call) {
      checkOpened()
      if (call.operation === 'retry') sentAs.set(call.id, call.number)
    },
    fact(fact) {
      if (!enabled) return
      if (fact.type === 'circuit' && fact.subscriptionId !== undefined) {
        const id = fact.subscriptionId.toLowerCase()
        const subscription = of(id)
        if (fact.to !== 'open') return
        subscription.pauseMs = fact.pauseMs
        if (subscription.mustOpen === undefined) subscription.opensAt = timeline.now()
        else open(id, subscription)
      } else if (fact.type === 'outcome') {
        const id = fact.subscriptionId.toLowerCase()
        learn(fact)
        const subscription = of(id)
        if (subscription.opensAt !== undefined) open(id, subscription)
      }
    },
  }
}
