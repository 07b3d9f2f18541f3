// Nothing is called complete, and nothing is said not to be missing, while a failed record of the window could not be listed or read. @see docs/architecture.md "Sweep"
import type { SimulatedRecord } from '../platform.ts'
import type { Watcher, WatcherOptions } from './watcher.ts'

/** Near the edges of the window it is not known to the second on which side of it a record lies. */
const edgeMs = 90_000
/** Records that the platform has not listed for so long are surely not listed. */
const hiddenMs = 20 * 60_000

export function createWholeWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, platform, scenario, timeline, violate } = options
  const startedAt = timeline.now()
  /** When the last full sweep that did not fail began, ms since the start. */
  let sweptAt: number | undefined
  const { boundsLater = { ms: 0, until: 0 }, hidden = { from: 0, until: 0 } } = scenario.habits
  const isBerlin = scenario.habits.timeZone === 'Europe/Berlin'

  const isUnlisted = (record: SimulatedRecord, at: number): boolean =>
    expectations.isUnlisted(record, scenario.startAt + at - hiddenMs)
  /** A sweep lasts, and skips more than a second. */
  const mayBeUnlisted = (record: SimulatedRecord, at: number): boolean =>
    expectations.isUnlisted(record, scenario.startAt + at + edgeMs)

  /** Bounds of lists mean earlier times than its own, or a filter hides all. */
  const isUnasked = ({ eventAt }: SimulatedRecord, at: number): boolean =>
    (at >= hidden.from && at < hidden.until) ||
    (at < boundsLater.until && eventAt > scenario.startAt + at + boundsLater.ms + edgeMs)

  /** Records that a full sweep which began at a moment had to list and read, and could not. */
  function hiddenAt(at: number): SimulatedRecord[] {
    const since = at - scenario.habits.lagMs
    if (isBerlin || scenario.platformJumps.length > 0) return []
    return [...platform.records.values()].filter((record) => {
      const { changedAt, enteredAt, eventAt, plan, status } = record
      const isHidden = plan.unreadable !== undefined || isUnlisted(record, at) || isUnasked(record, at)
      if (!isHidden || status !== 'failed' || changedAt >= since || enteredAt >= since) return false
      const { notBefore = -Infinity, settle } = config.window
      const wasSettled = eventAt + settle + edgeMs <= scenario.startAt + at
      return wasSettled && eventAt >= notBefore && !expectations.isExpired(record, platform.now(), edgeMs)
    })
  }

  const { boundsLater: later, firstRows, hidden: filtered, listsAtOnce, listsFor, pages } = scenario.habits
  const hides = (later ?? firstRows ?? filtered ?? listsAtOnce ?? listsFor) !== undefined
  /** Without a total, the last page that comes again may be one of more. */
  const isUnproven = pages?.behind === 'again' && pages.totals === 'none'

  /** Nothing hid anything from a full sweep, and nothing changed since it began. */
  function isWhole(at: number): boolean {
    if (hides || isUnproven || scenario.platformJumps.length > 0) return false
    if (!holds.isFaultlessSince(startedAt)) return false
    const since = at - scenario.habits.lagMs
    return [...platform.records.values()].every(({ changedAt, enteredAt }) => Math.max(changedAt, enteredAt) < since)
  }

  return {
    fact(fact) {
      if (fact.type !== 'sweep' || fact.report.kind !== 'full' || fact.report.result === 'failed') return
      const before = sweptAt
      sweptAt = timeline.now() - fact.report.seconds * 1000
      const { listed, result, unreadable } = fact.report
      // Lists that lag behind may have shown the sweep before as failed what it lacked: it looks hidden until a list shows one.
      if (listed > 0 && isWhole(scenario.habits.lagMs > 0 ? (before ?? sweptAt) : sweptAt)) {
        exercise('what is whole is called so')
        if (result !== 'complete') violate('untrue', 'calls a full sweep incomplete, from which nothing was hidden')
      }
      for (const record of hiddenAt(sweptAt)) {
        exercise('nothing is called whole that is not')
        const isTold =
          result !== 'complete' || (unreadable > 0 && !isUnlisted(record, sweptAt) && !isUnasked(record, sweptAt))
        if (!isTold) violate('untrue', `calls a full sweep complete that could not list or read ${record.id}`)
      }
    },
    scraped({ isLast, metrics, status }) {
      if (sweptAt === undefined || isLast || status.lastFullSweep === null) return
      const { headline } = status.summary
      for (const record of hiddenAt(sweptAt)) {
        if (headline.includes('Nothing is missing'))
          violate('untrue', `says "${headline}", and does not know ${record.id}`)
        if (isUnasked(record, sweptAt)) continue
        const isShown =
          (status.unlisted !== null && mayBeUnlisted(record, sweptAt)) ||
          (status.unreadable !== null && !isUnlisted(record, sweptAt))
        if (!isShown) violate('books', `does not show that ${record.id} could not be listed or read`)
      }
      const rows = metrics.get('unreadable_records') ?? 0
      if (rows !== (status.unreadable?.rows ?? 0)) violate('books', `shows unreadable_records ${rows}`)
    },
  }
}
