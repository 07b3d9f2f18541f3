// How platforms list: rows in forms that the specification does not have, and large ones. @see readings.ts
import { dayMs, hourMs, type Draw } from './draw.ts'
import { withHabits, type Scenario } from './scenario.ts'

/** Some records, or all, are shown in a form that the daemon can't read. */
function withUnreadable(draw: Draw, scenario: Scenario): Scenario {
  const share = draw.pick([0.05, 0.3, 1])
  const unreadable = draw.pick(['id', 'eventDateTime', 'status'] as const)
  const records = scenario.records.map((record, index) =>
    index === 0 || draw.chance(share) ? { ...record, unreadable } : record,
  )
  return { ...scenario, records }
}

const withStatusCase = withHabits((draw) => ({ statusCase: draw.pick(['capital', 'upper']) }))

/** The receiver's responses make rows large: fewer than a page of them, or one alone, go into a response. */
const withLargeRows = withHabits((draw) => ({ rowBytes: draw.pick([100_000, 100_000, 1_000_000]) }))

/** Lists of old events, or of long spans, are refused, here and there beside rows that the daemon can't read. */
function withListLimits(draw: Draw, drawn: Scenario): Scenario | undefined {
  const { habits, ...scenario } = draw.chance(0.2) ? withUnreadable(draw, drawn) : drawn
  // Records that gave way are listed again by a full sweep, whose rest grows with the calls that are refused.
  if (scenario.theme === 'crowded') return undefined
  if (habits.timeZone === 'Europe/Berlin' || scenario.platformJumps.length > 0) return undefined
  const listsFor = draw.pick([2 * hourMs, 6 * hourMs, dayMs])
  const listsAtOnce = draw.pick([2 * hourMs, dayMs])
  const limits = draw.pick([{ listsFor }, { listsFor }, { listsAtOnce }, { listsFor, listsAtOnce }])
  return { ...scenario, habits: { ...habits, ...limits } }
}

/** Lists show their first rows alone, for any page. */
export const withFirstRows = withHabits((draw) => ({
  firstRows: { rows: draw.pick([100, 200, 1000]), behind: draw.pick(['error', 'none', 'again', 'uncounted']) },
}))

/** Pages are shorter than asked for, or refused, may not tell their size or total, and behind the last one it may come again. */
function withShortPages(draw: Draw, { habits, ...scenario }: Scenario): Scenario | undefined {
  if (habits.firstRows !== undefined) return undefined
  const [told, totals] = [draw.pick(['own', 'asked', 'none'] as const), draw.pick(['exact', 'none'] as const)]
  const pages = { told, totals, max: draw.pick([5, 10, 20]), behind: draw.pick(['none', 'again'] as const) }
  const refusesMore = draw.chance(0.3)
  return { ...scenario, habits: { ...habits, pages: { ...pages, refusesMore, ...(refusesMore && { max: 50 }) } } }
}

/** Some failed events are of a day to come. */
function withEventsAhead(draw: Draw, scenario: Scenario): Scenario {
  const ahead = scenario.records
    .slice(0, draw.within(1, 20))
    .map((record) => ({ ...record, at: -1, aheadMs: draw.within(2, 30) * dayMs }))
  return { ...scenario, records: [...scenario.records, ...ahead] }
}

/** The API's answers have no Date, and the host's clock is right. */
function withoutDate(_: Draw, scenario: Scenario): Scenario | undefined {
  const { habits, jumps, platformJumps } = scenario
  if (jumps.length > 0 || platformJumps.length > 0) return undefined
  return { ...scenario, hostAheadMs: 0, habits: { ...habits, withoutDate: true } }
}

export const listingReadings = {
  'no Date': { share: 0.06, change: withoutDate },
  'events ahead of the clock': { share: 0.05, change: withEventsAhead },
  'first rows alone': { share: 0.06, change: withFirstRows },
  'limits of lists': { share: 0.06, change: withListLimits },
  'short pages': { share: 0.06, change: withShortPages },
  'rows of 100 kB and more': { share: 0.06, change: withLargeRows },
  'statuses in another case': { share: 0.05, change: withStatusCase },
  'rows that cannot be read': { share: 0.06, change: withUnreadable },
}
