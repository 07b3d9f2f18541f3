// What leaves the window unrecovered had its last chance, and is counted. @see docs/architecture.md "Backlog and decisions"
import type { SimulatedRecord } from '../platform.ts'
import { isSweepPage } from '../asked.ts'
import { heldPlaces } from './places.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** A listing begins with forgetting; the longest rest between two, and a slow sweep. */
const forgottenMs = 7 * 60_000
const hourMs = 3_600_000
const slackMs = 5000

export function createExpiryWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  const { enabled, initialLimit, maxLimit } = config.circuit
  const { lookback } = config.window
  const isRoomy = config.backlog.maxRecords >= scenario.records.length
  const startedAt = timeline.now()
  /** When a page of a sweep last showed a record as failed. */
  const listedAt = new Map<string, number>()
  /** When one first did: from then on the daemon knew of it. */
  const knownAt = new Map<string, number>()
  /** When the circuit of a subscription last changed. */
  const circuitAt = new Map<string, number>()
  /** Without a warning nothing goes before others for it: what waits while all slots are taken may leave without a last try. */
  const goesFirst = config.window.expiryWarning > 3 * scenario.periodMs
  /** When all slots were last taken. */
  let fullAt = -Infinity
  /** When all places in the circuit of a subscription were last taken, as far as can be seen: a closed circuit's limit may be higher. */
  const noPlaceAt = new Map<string, number>()
  /** Records whose last chance has been looked at. */
  const looked = new Set<string>()

  const hasExpired = (record: SimulatedRecord, marginMs: number): boolean =>
    expectations.isExpired(record, platform.now(), -marginMs)

  /** Of those that were listed: as few and as many as can have been counted. */
  function countBounds(): { least: number; most: number } {
    let [least, most] = [0, 0]
    for (const [id, at] of listedAt) {
      const record = platform.records.get(id)
      const known = knowledge.get(id)
      if (record === undefined || known === undefined) continue
      if (!hasExpired(record, -slackMs) || !expectations.isSelected(record)) continue
      most += 1
      const isStill = record.status === 'failed' && record.busy === 0 && !known.isDone && known.owed === undefined
      const isUntouched = record.changedAt < at - scenario.habits.lagMs && known.touchedAt <= at
      // Near a change of daylight saving the window is an hour wider.
      const margin = forgottenMs + (scenario.habits.timeZone === 'Europe/Berlin' ? hourMs : 0)
      // It was taken in with its slice, long before it left.
      if (isStill && isUntouched && hasExpired(record, margin) && !hasExpired(record, timeline.now() - at - 30_000))
        least += 1
    }
    return { least, most }
  }

  /** Looked at with each retry, and with each outcome before its place is free again. */
  function notePlaces(subscriptionId: string, inFlight: number): void {
    const places = heldPlaces(options, subscriptionId, timeline.now()) + inFlight
    if (enabled && places >= Math.min(initialLimit, maxLimit)) noPlaceAt.set(subscriptionId, timeline.now())
  }

  /** Free to go from three periods before it left until it left. */
  function checkChance(record: SimulatedRecord): void {
    const leftMs = platform.now() - (record.eventAt + lookback)
    const since = timeline.now() - leftMs - 3 * scenario.periodMs - slackMs
    const known = knowledge.get(record.id)
    if (known === undefined || (knownAt.get(record.id) ?? Infinity) > since || record.status !== 'failed') return
    if (holds.openGateSince() > since || !holds.isFaultlessSince(since - 60_000) || since < startedAt) return
    if ((circuitAt.get(record.subscriptionId) ?? -Infinity) > since || holds.notClosed().has(record.subscriptionId))
      return
    if (!goesFirst && fullAt > since) return
    // Places come free as outcomes do: it may leave before its turn for one has come.
    notePlaces(record.subscriptionId, 0)
    if ((noPlaceAt.get(record.subscriptionId) ?? -Infinity) > since) return
    if (known.owed !== undefined || known.isDone || record.busy > 0 || !expectations.isSelected(record)) return
    if (expectations.isExhausted({ attempts: Math.max(record.attempts, known.tries) })) return
    exercise('a last chance before the window ends')
    const lastChance = record.eventAt + lookback - 2 * scenario.periodMs
    const triedAt = Math.max(known.triedAt, record.lastAt ?? -Infinity)
    if (triedAt < lastChance - slackMs - expectations.clockTolerance)
      violate('waits', `lets ${record.id} leave the window without a last try`)
  }

  return {
    sent(call) {
      // This one is not counted yet, and the last slot is kept for a subscription that has none.
      const taken = knowledge.inFlight().size + 2
      if (call.operation !== 'retry') return
      if (taken >= config.retry.concurrency) fullAt = timeline.now()
      const subscriptionId = platform.records.get(call.id)?.subscriptionId
      if (subscriptionId !== undefined) notePlaces(subscriptionId, taken - 1)
    },
    told(call, { kind, views }) {
      if (kind !== 'told' || !isSweepPage(call)) return
      for (const { id, status } of views) {
        if (status !== 'failed') continue
        listedAt.set(id, call.sentAt)
        if (!knownAt.has(id)) knownAt.set(id, timeline.now())
      }
    },
    fact(fact) {
      if (fact.type === 'circuit') circuitAt.set(fact.subscriptionId.toLowerCase(), timeline.now())
      else if (fact.type === 'outcome') notePlaces(fact.subscriptionId.toLowerCase(), knowledge.inFlight().size)
    },
    scraped({ metrics }) {
      // One whose event lies an hour back or forward by the wall clock is left aside.
      if (scenario.platformJumps.length > 0 || lookback > 3 * hourMs) return
      const shown = metrics.get('expired_webhooks_total') ?? 0
      const { least, most } = countBounds()
      if (most > 0) exercise('what expires is counted')
      if (shown < least) violate('books', `counts ${shown} expired records, there are at least ${least}`)
      if (shown > most) violate('books', `counts ${shown} expired records, there are at most ${most}`)
      if (!config.retry.enabled || !isRoomy || scenario.habits.timeZone === 'Europe/Berlin') return
      // Where few may go, those with fewer attempts go first, also of those that are to leave.
      if (config.retry.maxPerSecond !== undefined) return
      for (const id of listedAt.keys()) {
        const record = platform.records.get(id)
        if (record === undefined || looked.has(id) || !hasExpired(record, slackMs)) continue
        looked.add(id)
        checkChance(record)
      }
    },
  }
}
