// What the receiver lost behind a 200 is named, and nothing else ever; a ledger that gives no books is said to be that. @see docs/compare.md "The ledger"
import type { StatusDocument } from '../../../src/ops/status-document.ts'
import type { SimulatedRecord } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

const [secondMs, minuteMs, hourMs] = [1000, 60_000, 3_600_000]
/** After its hour or its own retry has settled. */
const namedWithinMs = 20 * minuteMs
/** An hour without books is asked about again after 10 minutes; one of which no key matched, after an hour. */
const askedAgainMs = { other: hourMs, all: 10 * minuteMs }

export function createUnprocessedWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, ledger, number, platform, scenario, timeline, violate } = options
  const { habits, jumps, pauses, platformJumps, records } = scenario
  const { lookback, settle } = config.ledger
  const startedAt = timeline.now()
  /** Where the time is not known, or not all can be listed, what is named must be true, and may come late. */
  const isLate =
    habits.limits.length + jumps.length + platformJumps.length + pauses.length > 0 ||
    [habits.withoutDate, habits.listsFor, habits.listsAtOnce].some((one) => one !== undefined) ||
    scenario.keys.file.length > 0 ||
    records.some(({ unreadable }) => unreadable !== undefined)
  /** An event of an hour that daylight saving repeats is compared with the second of them. */
  const repeatedMs = habits.timeZone === 'Europe/Berlin' ? hourMs : 0
  /** When this process saw that its retry has arrived, ms since the start. */
  const recoveredAt = new Map<string, number>()

  /** ms since the start: when it is settled; Infinity where only the next look at its hour can show it. */
  function settledAt({ eventAt, id }: SimulatedRecord, lostAt: number): number {
    const hourEndsAt = timeline.now() - platform.now() + (Math.floor(eventAt / hourMs) + 1) * hourMs + repeatedMs
    const firstLookAt = Math.max(hourEndsAt + settle, startedAt)
    const seenAt =
      recoveredAt.get(id) ?? (lostAt + settle + habits.lagMs < firstLookAt - secondMs ? -Infinity : Infinity)
    return Math.max(firstLookAt, seenAt + settle)
  }

  /** False while a fault of the ledger may have put it off. */
  const hasBooksSince = (at: number): boolean =>
    (scenario.ledger?.faults ?? []).every(
      ({ answer, from, to }) =>
        from > timeline.now() || to + (answer === 'other' ? askedAgainMs.other : askedAgainMs.all) < at,
    )

  /** True while an hour is not compared that has settled some minutes ago: before, it may not have been asked about. */
  function isOwed({ books }: StatusDocument): boolean {
    const sinceSettled = platform.now() - settle
    const until = Math.floor(sinceSettled / hourMs) * hourMs
    return (books?.comparedUntil.getTime() ?? until) < until && sinceSettled - until > 2 * minuteMs
  }

  return {
    fact(fact) {
      if (fact.type === 'outcome' && fact.outcome === 'recovered') recoveredAt.set(fact.webhookId, timeline.now())
    },
    scraped({ isLast, status, unprocessed }) {
      if (ledger === undefined || isLast) return
      const lost = ledger.lost()
      for (const id of unprocessed) {
        const record = platform.records.get(id)
        if (record === undefined || !lost.has(record)) violate('untrue', `names ${id}, which the ledger has`)
      }
      const last = ledger.lastAnswer(number)
      const isBad = last !== undefined && last.how !== 'keys' && last.how !== 'other'
      if (isBad && last.at < timeline.now() - secondMs && isOwed(status)) {
        exercise('a ledger that gives no books is said to be that')
        if (!status.books?.problem) violate('untrue', `does not say that its ledger answers as "${last.how}"`)
      }
      if (isLate) return
      for (const [record, lostAt] of lost) {
        const at = settledAt(record, lostAt)
        // What is not selected may have another ledger, or none.
        const isCompared = expectations.isSelected(record) && record.eventAt >= platform.now() - lookback + hourMs
        const since = timeline.now() - namedWithinMs
        if (at > since || !isCompared || !hasBooksSince(since) || !holds.isFaultlessSince(since)) continue
        exercise('what a receiver lost behind a 200 is named')
        const isNamed = unprocessed.includes(record.id) || status.books?.problem?.text.includes(record.id) === true
        if (!isNamed) violate('waits', `does not name ${record.id}, which the ledger lacks`)
      }
    },
  }
}
