// In quiet times, when nothing has changed since a full sweep began, /metrics and /status show what the platform holds. @see docs/architecture.md "Backlog and decisions"
import { hourMs } from '../draw.ts'
import type { Known } from '../knowledge.ts'
import type { SimulatedRecord } from '../platform.ts'
import type { Sight, Watcher, WatcherOptions } from './watcher.ts'

/** What is only counted is of no known kind. */
function isSeen(shown: number, value: number, onlyCounted: number): boolean {
  return shown <= value && shown + onlyCounted >= value
}

/** Near the edges of the window it is not known to the second on which side of it a record lies. */
const edgeMs = 90_000

export function createQuietWatcher(options: WatcherOptions): Watcher {
  const { config, exercise, expectations, holds, knowledge, platform, scenario, timeline, violate } = options
  /** When the outcome of a record that had left the window was last reported, ms since the start: the next sweep forgets it. */
  let lateOutcomeAt = -Infinity
  const startedAt = timeline.now()

  const { notBefore = -Infinity } = config.window
  const expiryWarning = Math.min(6 * hourMs, config.window.lookback / 4)
  const isOut = (record: SimulatedRecord): boolean => expectations.isExpired(record, platform.now(), 0)
  const isAhead = ({ plan }: SimulatedRecord): boolean => plan.aheadMs !== undefined
  const isNearEdge = (record: SimulatedRecord): boolean => {
    const { lookback, settle } = config.window
    const age = platform.now() - record.eventAt
    // What has left is forgotten by the next sweep.
    const hasLeft = age > lookback && age - lookback < timeline.now() - (holds.lastComplete()?.startedAt ?? 0) + edgeMs
    const isNear = [lookback, lookback - expiryWarning].some((edge) => Math.abs(age - edge) < edgeMs)
    const isAtStart = age > lookback && Math.abs(record.eventAt - notBefore) < edgeMs
    return hasLeft || isNear || isAtStart || (!isAhead(record) && age < settle + edgeMs)
  }

  /** Nothing has changed since that sweep began, and nothing is under way. */
  function isQuiet(): boolean {
    const sweptAt = holds.lastComplete()?.startedAt ?? -Infinity
    if (sweptAt === -Infinity || sweptAt < lateOutcomeAt) return false
    if (knowledge.owed().size > 0 || knowledge.inFlight().size > 0) return false
    const since = sweptAt - scenario.habits.lagMs
    if (!holds.isFaultlessSince(startedAt) || scenario.platformJumps.length > 0) return false
    // Near a change of daylight saving the window is an hour wider.
    if (scenario.habits.timeZone === 'Europe/Berlin') return false
    // A row without a readable id may be any record: none counts as gone.
    if (scenario.records.some(({ unreadable }) => unreadable === 'id')) return false
    return [...platform.records.values()].every(
      (record) => record.busy === 0 && record.changedAt < since && record.enteredAt < since && !isNearEdge(record),
    )
  }

  function expect(sight: Sight, series: string, value: number): void {
    const shown = sight.metrics.get(series)
    if (shown !== value) violate('books', `shows ${series} ${shown ?? 'not at all'}, the platform has ${value}`)
  }

  /** What is beyond the window, about to leave it, and open for longest. */
  function checkOthers({ status }: Sight, ours: readonly SimulatedRecord[]): void {
    const isMeant = (record: SimulatedRecord): boolean => record.status === 'failed' && expectations.isSelected(record)
    const failed = [...platform.records.values()].filter(isMeant)
    const beyond = failed.filter(isOut).length
    if (beyond > 0) exercise('what lies beyond the window is counted')
    if (status.beyondWindow !== beyond && scenario.habits.hasYears !== true)
      violate('books', `/status has ${status.beyondWindow} records beyond the window, the platform ${beyond}`)
    const ahead = failed.filter(isAhead).length
    if (ahead > 0) exercise('what lies ahead of the clock is counted')
    if (status.aheadOfClock !== ahead)
      violate('books', `/status has ${status.aheadOfClock} records ahead of the clock, the platform ${ahead}`)
    const expiring = ours.filter((record) => expectations.isExpired(record, platform.now(), expiryWarning)).length
    if (expiring > 0) exercise('what is about to leave the window is shown')
    if (!isSeen(status.expiring.total, expiring, status.causes.onlyCounted))
      violate('books', `/status has ${status.expiring.total} records expiring, there are ${expiring}`)
    const open = ours.filter(
      (record) => !expectations.isExhausted({ attempts: record.attempts, tries: triesOf(record) }),
    )
    const oldest = Math.min(...open.map(({ eventAt }) => eventAt))
    const shown = status.oldestOpenEvent?.getTime() ?? Infinity
    const isSame = shown === oldest || Math.abs(shown - oldest) < 1000
    if (!isSame && status.causes.onlyCounted === 0)
      violate('books', `/status has ${shown} as the oldest open event, it is ${oldest}`)
  }

  const triesOf = ({ id }: SimulatedRecord): number => knowledge.get(id)?.tries ?? 0

  function check(sight: Sight): void {
    const isCounted = (record: SimulatedRecord): boolean => !isAhead(record) && record.plan.unreadable === undefined
    const all = [...platform.records.values()].filter((record) => record.status === 'failed' && isCounted(record))
    const failed = all.filter((record) => !isOut(record))
    const isOurs = (record: SimulatedRecord): boolean => !isOut(record) && expectations.isSelected(record)
    const ours = all.filter(isOurs)
    // Others that a job by webhook id asks for are missing while the daemon holds them.
    const asked = all.filter((record) => !isOurs(record) && holds.isAskedFor(record.id)).length
    const shown = sight.status.missing - sight.status.expired
    if (shown < ours.length || shown > ours.length + asked)
      violate('books', `/status says that ${shown} are missing, the platform has ${ours.length}`)
    if (asked > 0) return
    expect(sight, 'failed_webhooks{decision="excluded"}', failed.length - ours.length)
    checkOthers(sight, ours)
    // An operator may want others of these, and they are due then.
    const exhaustedBy = (triesOf: (known: Known) => number): number =>
      ours.filter((record) => {
        if (holds.isAskedFor(record.id)) return false
        const known = knowledge.get(record.id)
        const tries = known === undefined ? 0 : triesOf(known)
        return expectations.isExhausted({ attempts: record.attempts, tries })
      }).length
    const exhausted = exhaustedBy(({ tries }) => tries)
    const isSure = exhausted === exhaustedBy(({ sure }) => sure.tries)
    const shownExhausted = sight.status.failed.exhausted
    const wanted = ours.filter(({ id }) => holds.isAskedFor(id)).length
    if (isSure && !isSeen(shownExhausted - wanted, exhausted, sight.status.causes.onlyCounted + wanted))
      violate('books', `/status has ${shownExhausted} exhausted records, there are ${exhausted}`)
    if (ours.length > 0) exercise('what is shown in quiet times is what the platform holds')
    if (failed.length > config.backlog.maxRecords) exercise('so it is where the backlog is full')
  }

  return {
    fact(fact) {
      const record = fact.type === 'outcome' ? platform.records.get(fact.webhookId) : undefined
      if (record !== undefined && isOut(record)) lateOutcomeAt = timeline.now()
    },
    scraped(sight) {
      if (!sight.isLast && isQuiet()) check(sight)
    },
  }
}
