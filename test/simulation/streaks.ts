// Failures in a row of each subscription, as a daemon's outcomes show them, and since when they show that its receiver takes nothing.
import type { TelemetryEvent } from '../../src/observe/events.ts'
import { refusesRecord } from '../../src/platform/record.ts'
import type { SimulatedRecord } from './platform.ts'
import { succeedsTooSoon } from './scenario.ts'
import type { WatcherOptions } from './promises/watcher.ts'

const minuteMs = 60_000
/** So many in a row are no chance; so few are none of a receiver that never fails otherwise, by an answer that no single record causes. */
const [surelyDead, probablyDead] = [9, 3]
/** What a receiver did longer ago is forgotten. */
const recallMs = 10 * minuteMs

export interface Streaks {
  note(fact: TelemetryEvent): void
  /** A process has ended. */
  forget(): void
  /** Since when it is known that the receiver of a record takes nothing, ms since the start; Infinity: it is not. */
  deadSince(record: SimulatedRecord, known: 'surely' | 'probably'): number
}

export function createStreaks({
  platform,
  scenario,
  timeline,
}: Pick<WatcherOptions, 'platform' | 'scenario' | 'timeline'>): Streaks {
  /** When deliveries failed since one last did not, how, and whether each was its record's first retry; by subscription. */
  const failures = new Map<
    string,
    { at: number; sentAt: number; id: string; eventType: string; isRepeated: boolean; code: number | null }[]
  >()
  /** When the last retry that was taken was sent, and when one before it was last known to have failed, as it may be shown meanwhile. */
  const takenOf = new Map<string, number>()
  const failedBefore = new Map<string, number>()
  const hasOthers = scenario.records.some(({ kind }) => kind === 'poison' || kind === 'unwanted')

  return {
    note(fact) {
      if (fact.type !== 'outcome' || fact.outcome === 'unknown') return
      const id = fact.subscriptionId.toLowerCase()
      const sentAt = timeline.now() - fact.sinceRetryMs
      // A failure is known later than a success that was sent after it.
      if (fact.outcome === 'recovered') {
        takenOf.set(id, Math.max(sentAt, takenOf.get(id) ?? -Infinity))
        const row = failures.get(id) ?? []
        const [newer, older] = [row.filter((one) => one.sentAt > sentAt), row.filter((one) => one.sentAt <= sentAt)]
        failures.set(id, newer)
        failedBefore.set(id, Math.max(failedBefore.get(id) ?? -Infinity, ...older.map(({ at }) => at)))
      } else if (sentAt > (takenOf.get(id) ?? -Infinity)) {
        const { eventType, isRepeated, responseStatusCode: code, webhookId } = fact
        const failed = { at: timeline.now(), sentAt, id: webhookId, eventType, isRepeated, code }
        failures.getOrInsertComputed(id, () => []).push(failed)
      } else failedBefore.set(id, timeline.now())
    },
    forget() {
      failures.clear()
      takenOf.clear()
      failedBefore.clear()
    },
    deadSince({ plan, subscriptionId }, known) {
      const receiver = scenario.subscriptions[plan.subscription] ?? 0
      const { flaky = 0, outages = [] } = scenario.receivers[receiver] ?? {}
      const outage = platform.outageAt(receiver, timeline.now())
      const row = failures.get(subscriptionId) ?? []
      // What failed before may have arrived since without a retry.
      const all = row.filter(({ sentAt }) => sentAt >= (outage?.from ?? 0))
      const [first = { at: Infinity }] = all
      // Its successes hide its failures.
      if (succeedsTooSoon(scenario.habits)) return Infinity
      // It is up, and refuses each record, or did so.
      const isRefusing = row.some(({ code }) => refusesRecord(code))
      if (outage === undefined || (isRefusing && known === 'surely')) return Infinity
      // Others may fail for themselves.
      const firsts = row.filter(({ isRepeated }) => !isRepeated)
      const ownIds = new Set(firsts.map(({ id }) => id))
      const own = all.filter(({ id }) => ownIds.has(id))
      const isDoubtful = row.some(({ code }) => code === 500)
      const counted = isRefusing ? firsts : isDoubtful ? own : all
      // One that rejects a single type takes the others at the first attempt.
      if (isRefusing && new Set(own.slice(0, surelyDead).map(({ eventType }) => eventType)).size < 2) return Infinity
      if (known === 'surely')
        return Math.max(outage.from, first.at + 5 * minuteMs, counted[surelyDead - 1]?.at ?? Infinity)
      const hasFailed = (failedBefore.get(subscriptionId) ?? -Infinity) > first.at - recallMs
      const isPlain = counted === all && flaky === 0 && outages.length === 1 && !hasOthers && !hasFailed
      const shown = counted[(isPlain ? probablyDead : surelyDead) - 1]?.at ?? Infinity
      // Two minutes from the first failure that is known to a retry that fails: it may hang for a minute before either is seen.
      const last = all.find(({ at, sentAt }) => at >= shown && sentAt >= first.at + 2 * minuteMs)
      return Math.max(outage.from, last?.at ?? Infinity)
    },
  }
}
