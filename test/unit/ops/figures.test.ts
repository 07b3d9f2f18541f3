// The end as page and terminal say it: when all has arrived, or why that is not known.
import { expect, test } from 'vitest'
import { doneOf, missingText, recoveredOf, refusedText } from '../../../src/ops/figures.ts'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusFacts } from '../../../src/ops/status-document.ts'
import { aStatusState, noCauses } from '../../support/status.ts'
import { aCause, incidentNow, noDecisions, refusing } from '../../support/incident.ts'

const hourMs = 3_600_000
const now = new Date(incidentNow)
const swept = { lastFullSweepAt: incidentNow, lastCompleteSweepAt: incidentNow }

/** Five are missing, and this is known of their end. */
function statusOf(changes: object, drain: object = {}): StatusFacts {
  const status = toStatus(aStatusState(swept))
  return { ...status, missing: 5, ...changes, drain: { ...status.drain, doneAt: null, ...drain } }
}

test.each<[object, object, string]>([
  [{ pausedDeliveries: 2 }, { limitedBy: 'paused' }, "2 deliveries wait for the end of an operator's pause."],
  [{ lastBackoff: null }, { limitedBy: 'backoff' }, 'Some deliveries are only counted.'],
  [{ lastBackoff: now }, { limitedBy: 'backoff' }, 'Not before 12:00:00, when the last backoff ends.'],
  [{ unproven: 1 }, { limitedBy: 'unproven' }, 'The outcome of 1 retry is unknown.'],
  [{}, { limitedBy: 'gate' }, 'Retries are blocked.'],
  [{}, { limitedBy: 'pace', recoveredPerMinute: 0 }, 'Nothing recovered in the last minute.'],
  [{}, { limitedBy: 'pace', recoveredPerMinute: 3 }, 'The pace has not been steady for two minutes.'],
  [{ failed: { ...noDecisions, due: 1, awaiting: 4 } }, { limitedBy: 'outcomes' }, '4 retries await their outcomes.'],
  [{ failed: { ...noDecisions, awaiting: 1 } }, { limitedBy: 'outcomes' }, '1 retry awaits its outcome.'],
  [{}, { limitedBy: 'failing', failedShare: 0.256 }, '26 % of the recent retries failed again.'],
  [
    { mended: { records: 0 }, lastBackoff: now },
    { limitedBy: 'failing' },
    'Not before 12:00:00, when the last backoff ends.',
  ],
  [
    { refusedAgain: 1, firstExpiry: null },
    { limitedBy: 'refused' },
    'The receiver keeps failing 1 delivery. Each is retried until it arrives or leaves the window.',
  ],
  [{ missing: 0, aheadOfClock: 2 }, {}, '2 are retried when their event times have come.'],
  [
    { missing: 0, tokenTrouble: {}, tokenExpires: new Date(incidentNow + 1) },
    {},
    'Newer failures are not known once the token has expired.',
  ],
  [{ missing: 0, tokenTrouble: {}, tokenExpires: now }, {}, 'Nothing is missing; newer failures are not known yet.'],
])('the end is not known: %o %o', (changes, drain, basis) => {
  expect(doneOf(statusOf(changes, drain))).toEqual(['Unknown', basis])
})

test('what is older than the window never arrives', () => {
  const never = ['Never', 'Deliveries older than window.lookback are not retried.']
  expect(doneOf(statusOf({ missing: 0, beyondWindow: 2 }))).toEqual(never)
})

test.each<[string, (number | null)[]]>([
  ['keeps rejecting', [422, 500]],
  ['does not respond to', [null]],
  ['keeps failing', [422, null]],
  ['keeps failing', []],
])('the receiver %s what it answers with %j', (does, codes) => {
  const causes = codes.map((responseStatusCode) => ({
    ...aCause({ responseStatusCode, refusedAgain: 1 }),
    circuit: 'closed' as const,
  }))
  expect(refusedText(2, causes)).toBe(`The receiver ${does} 2 deliveries.`)
})

test('the pace is shown while deliveries arrive, the total for the last day or since the start', () => {
  const recovered = { lastDay: 7, lastAt: new Date(incidentNow - 1000) }
  const arriving = statusOf({ recovered, startedAt: now }, { limitedBy: 'pace', recoveredPerMinute: 9.46 })
  expect(recoveredOf(arriving)).toEqual({
    total: '7',
    since: 'in the 0 s since the start; the last 1 s ago',
    atPace: '9.5 a minute',
  })
  const paceOf = (changes: object, recoveredPerMinute: number, quietMs: number): string | undefined =>
    recoveredOf(
      statusOf(
        { recovered: { lastDay: 7, lastAt: new Date(incidentNow - quietMs) }, ...changes },
        { recoveredPerMinute },
      ),
    ).atPace
  const startedAt = new Date(0)
  // None of the last seconds, though many of the last minute; few come seldom.
  expect([paceOf({ startedAt }, 207, 14_000), paceOf({ startedAt }, 207, 20_000)]).toEqual(['207 a minute', undefined])
  expect([paceOf({ startedAt }, 3, 20_000), paceOf({ startedAt }, 1, 60_000)]).toEqual(['3 a minute', undefined])
  const quiet = statusOf({ recovered: { lastDay: 0, lastAt: null }, startedAt: new Date(0) })
  expect(recoveredOf(quiet)).toEqual({ total: '0', since: 'in the last 24 h', atPace: undefined })
})

test.each([
  ['at the attempt limit', [5 * hourMs, 3 * hourMs], 9 * hourMs, 'reaches retry.maxAttempts, the first in 3 h'],
  ['with the window', [5 * hourMs], 4 * hourMs, 'leaves the window, the first in 4 h'],
])('what is refused again and again ends %s', (_, limits, expiresIn, end) => {
  const list = limits.map((ms) => aCause({ refusedAgain: 1, firstExhausted: new Date(incidentNow + ms) }))
  const status = toStatus(
    aStatusState({
      ...swept,
      failed: { ...noDecisions, 'backing-off': 2 },
      endless: refusing(2),
      causes: { ...noCauses, total: list.length, records: 2, list },
      oldestOpenAt: incidentNow - hourMs,
      lookbackMs: hourMs + expiresIn,
    }),
  )
  expect(doneOf(status)).toEqual([
    'Unknown',
    `The receiver keeps rejecting 2 deliveries. Each is retried until it arrives or ${end}.`,
  ])
})

test.each([
  [299_999, 'All that is known has arrived.'],
  [300_000, 'Everything has arrived.'],
])('%i ms after the last arrival, newer failures may be unknown', (ms, basis) => {
  const status = toStatus(aStatusState({ ...swept, recovered: { lastDay: 1, lastAt: incidentNow - ms } }))
  expect(doneOf(status)).toEqual(['Now', basis])
  const books = { unprocessed: { total: 0 } } as NonNullable<typeof status.books>
  expect(doneOf({ ...status, books })).toEqual(['Now', basis])
  expect(status.summary.headline.includes('newer failures')).toBe(ms < 300_000)
  const stuck = { ...status, stuckProcessing: 1 }
  expect(doneOf(stuck)).toEqual(['Unknown', 'The platform is still processing some.'])
  const gaveUp = { ...stuck, missing: 2, failed: { ...noDecisions, exhausted: 2 } }
  expect(missingText(gaveUp)).toBe('2 deliveries are exhausted.')
})
