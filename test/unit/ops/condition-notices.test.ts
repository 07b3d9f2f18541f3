// Notices about conditions that last, each alone: what is so, for whom, since when, and what to do.
import { expect, test } from 'vitest'
import { toStatus } from '../../../src/ops/status.ts'
import type { StatusState } from '../../../src/ops/status-document.ts'
import { aCause, incidentNow, noDecisions, refusing } from '../../support/incident.ts'
import { aCircuit, aStatusState, noCauses, shut } from '../../support/status.ts'

const minuteMs = 60_000
const blocked = { ...noDecisions, blocked: 10 }
const causes = {
  ...noCauses,
  total: 1,
  records: 1,
  list: [aCause({ subscriptionId: 'three', responseStatusCode: 422 })],
}
const ofTwo = {
  ...causes,
  list: [...causes.list, aCause({ subscriptionId: 'four', responseStatusCode: 422, refusedAgain: 1 })],
}
const swept = { lastFullSweepAt: incidentNow - 12_000, lastCompleteSweepAt: incidentNow - 12_000 }

const tokenTrouble = {
  by: 'identity-host',
  host: 'id.example',
  kind: 'transient',
  reason: 'server-error',
  status: 503,
  since: incidentNow - 2 * minuteMs,
  nextTryAt: incidentNow + minuteMs / 2,
  advice: 'ask its operator',
  code: undefined,
} as const

const none = { missed: undefined, problem: undefined, withoutKey: 0 }
const missed = { total: 1, delivered: 10, subscriptions: 1, eventTypes: 1, isConfirmed: true, causes: [] }
const books = { ...none, comparedUntil: 0, dueAt: incidentNow, isBehind: true }

function lately(changes: Partial<StatusState['lately'][number]>): StatusState['lately'][number] {
  const untried = {
    taken: 0,
    failed: 0,
    failedRecords: 9,
    takesAgain: false,
    failedInARow: 0,
    failingForMs: 0,
    isFailing: false,
    takesNothing: false,
  }
  return { subscriptionId: 'three', ...untried, responseStatusCode: 500, ...changes }
}

test.each<[string, Partial<StatusState>, RegExp]>([
  [
    'a wrong zone',
    { timeOffsetMs: -3_600_000, timeZone: 'Europe/Vilnius' },
    /\(Europe\/Vilnius\) is wrong: the platform's times are 1 h behind it\..* The oldest 1 h of the window are not seen/,
  ],
  ['a zone behind', { timeOffsetMs: 3_600_000 }, /^[^.]+\.timeZone .* are not seen yet\. Event times are 1 h off\./],
  ['a zone behind, and what is ahead', { timeOffsetMs: 3_600_000, aheadOfClock: 2 }, / yet: 2 are only counted\. /],
  ['a time not known', { knowsTime: false, failed: { ...noDecisions, due: 1 } }, /^The platform's time is unknown/],
  ['a clock behind', { skewMs: { auth: 0, api: 120_000 } }, /clock is 2 min behind the platform's/],
  ['a clock ahead', { skewMs: { auth: -120_000, api: -120_000 } }, /clock is 2 min ahead of the platform's/],
  [
    "the identity host's clock",
    { skewMs: { auth: 300_000, api: 0 } },
    /^The identity host's clock is 5 min ahead of this host's and the platform's/,
  ],
  [
    'unprocessed deliveries after an hour that is not compared',
    { books: { ...books, missed: { ...missed, firstAt: incidentNow - 90 * minuteMs, untilAt: incidentNow } } },
    /^1 delivery acknowledged with 2xx is not processed: 10 % of all from 10:30 to 12:00\./,
  ],
  ['an expired certificate', { certificateExpiresAt: incidentNow }, /^The certificate has expired/],
  [
    'a certificate that has expired by the time of the platform',
    { certificateExpiresAt: incidentNow + 86_400_000, skewMs: { auth: 86_400_000, api: 86_400_000 } },
    /^The certificate has expired/,
  ],
  [
    'a certificate that has expired by the clock of this host alone',
    { certificateExpiresAt: incidentNow - 60_000, skewMs: { auth: -120_000, api: -120_000 } },
    /^The certificate expires in /,
  ],
  [
    'several paused subscriptions, with what is known of each, and that there are more',
    {
      ...shut('subscription-paused'),
      pauses: ['one', 'two', 'three', 'four'].map((subscriptionId, index) => ({
        subscriptionId,
        since: incidentNow,
        ...(index === 0 && { until: incidentNow + 60_000, reason: 'INC-7' }),
      })),
    },
    /^Retries of 4 subscriptions .* one: Since 12:00:00 UTC\. It ends at 12:01:00 UTC\. Reason: INC-7\. two: .* More are in \/status\./,
  ],
  ['a certificate that ends', { certificateExpiresAt: incidentNow + 86_400_000 }, /^The certificate expires in 24 h/],
  [
    'a token that is not renewed',
    { tokenExpiresAt: incidentNow + minuteMs, tokenTrouble },
    /^The access token is not renewed by the identity host \(id\.example\): HTTP 503\. .*Since 11:58:00 UTC\. The current token is valid until 12:01:00 UTC\. The next try is in 30 s\.$/,
  ],
  [
    'no token',
    { tokenExpiresAt: incidentNow - 1, tokenTrouble, ...shut('no-token') },
    /^No access token from the identity host \(id\.example\): HTTP 503\. .*Since 11:58:00 UTC\. The next try is in 30 s\.$/,
  ],
  [
    'a request that cannot be signed',
    { tokenTrouble: { ...tokenTrouble, by: 'signature', reason: 'other', code: 'SIGN_COMMAND_TIMEOUT' } },
    /^No access token: the assertion cannot be signed \(SIGN_COMMAND_TIMEOUT\)\./,
  ],
  ['a token that has come', shut('no-token'), /^Access token obtained: calls resume\./],
  [
    'a platform that answers again',
    { failed: blocked, ...shut('unauthorized') },
    /^The platform is back: the next retry is a trial\. /,
  ],
  [
    'calls that are rejected',
    {
      listsFailing: { since: incidentNow, until: incidentNow, reason: 'unauthorized' },
      ...shut('unauthorized', incidentNow, { call: { operation: 'list', reason: 'unauthorized' } }),
    },
    /^The platform rejects all calls\. .* The last list call: HTTP 401\. /,
  ],
  [
    'retries that are rejected, and when the next one is tried',
    {
      failed: blocked,
      ...shut('unauthorized', incidentNow, { opensInMs: 30_000, call: { operation: 'retry', reason: 'forbidden' } }),
    },
    /^The platform rejects retries\. .* The next try is in 30 s\./,
  ],
  [
    'a receiver that is down while nothing is missing',
    { ...shut('receiver-down'), seenUntil: incidentNow - minuteMs },
    /^The receiver fails its health check: .* Nothing is missing of events up to 11:59:00 UTC; newer failures are not known yet\./,
  ],
  [
    'tokens that are refused',
    { tokenTrouble: { ...tokenTrouble, by: 'api' } },
    /^The platform rejects each access token as soon as it is issued\. /,
  ],
  [
    'a receiver that fails a part, while another rejects records with the same status',
    {
      failed: blocked,
      causes: ofTwo,
      lately: [lately({ taken: 3, failed: 9, isFailing: true, responseStatusCode: 422 })],
    },
    /^The receiver fails some retries of a subscription\. .*Subscription three took 3 of the last 12 retries \(HTTP 422\)\.$/,
  ],
  [
    'a receiver that fails all, behind a closed circuit',
    {
      failed: blocked,
      causes: { ...noCauses, list: [aCause({ subscriptionId: 'three', responseStatusCode: 401, refusedAgain: 1 })] },
      endless: refusing(1),
      lately: [lately({ failedInARow: 12, failingForMs: minuteMs, responseStatusCode: 401, takesNothing: true })],
    },
    /^The receiver fails all retries of a subscription since 11:59:00 UTC\. 10 deliveries are missing\. It rejects the platform's credentials.*failed all of the last 12 retries \(HTTP 401\), since 11:59:00 UTC\.$/,
  ],
  [
    'a receiver that has failed a part until a moment ago',
    { failed: blocked, causes, lately: [lately({ taken: 6, failed: 9, takesAgain: true, isFailing: true })] },
    /^The receiver accepted the last retries of a subscription; some failed before\. /,
  ],
  [
    'of two, the one that still fails some',
    {
      failed: blocked,
      causes: { ...causes, list: [...causes.list, aCause({ subscriptionId: 'four' })] },
      lately: [
        lately({ taken: 6, failed: 9, takesAgain: true, isFailing: true, subscriptionId: 'four' }),
        lately({ taken: 3, failed: 9, isFailing: true }),
      ],
    },
    /^The receiver fails some retries of a subscription\. .*missing\. Subscription three took 3 of the last 12 retries \(HTTP 500\)\.$/,
  ],
  [
    'a receiver of which only the number of missing ones is known',
    {
      failed: blocked,
      causes: { ...noCauses, list: [aCause({ subscriptionId: 'other' })] },
      onlyCounted: 3,
      lately: [lately({ isFailing: true })],
    },
    /^The receiver fails all recent retries of a subscription\. /,
  ],
  [
    'more receivers than are kept',
    {
      failed: blocked,
      onlyCounted: 3,
      lately: Array.from({ length: 20 }, (_, n) => lately({ subscriptionId: `${n}`, isFailing: true })),
    },
    /^The receiver fails all recent retries of at least 20 subscriptions\. /,
  ],
  [
    'a platform that attempts nothing for one of two subscriptions',
    {
      failed: { ...noDecisions, due: 20 },
      causes: { ...noCauses, list: [aCause({ records: 10 }), aCause({ subscriptionId: 'three', unattempted: 10 })] },
      endless: { ...refusing(0), unattempted: 10 },
    },
    /^The platform shows no attempt after the last three retries of 10 deliveries\. 20 deliveries are missing\. Subscription three: 10\.$/,
  ],
  [
    'a receiver that was mended',
    { failed: blocked, mended: { records: 10, since: incidentNow - minuteMs, lastDueAt: incidentNow + minuteMs } },
    /^Deliveries succeed again since 11:59:00 UTC\. .*10 deliveries wait for the backoff of an earlier failure, the last until 12:01:00 UTC\.$/,
  ],
])('%s', (_, changes, text) => {
  const { advice, detail, headline, notices } = toStatus(
    aStatusState({ ...swept, now: incidentNow, ...changes }),
  ).summary
  const texts = [`${headline} ${detail}`, ...notices.map((notice) => notice.text)]
  expect(texts.filter((said) => text.test(said))).toHaveLength(1)
  expect(advice === '' ? notices[0]?.advice : advice).toMatch(/^[A-Z].*[^ ]$/)
})

test.each([
  [20, 422, 422, ['keeps rejecting', 'succeed again']],
  [20, 422, 500, ['fails some', 'keeps rejecting']],
  [20, 500, 500, ['keeps rejecting', 'succeed again']],
  // By chance.
  [9, 500, 500, ['fails some']],
])(
  '%i that are refused again and again with %i, and a part that fails with %i: %j',
  (records, ofRecords, code, said) => {
    const refused = aCause({
      ...{ subscriptionId: 'three', responseStatusCode: ofRecords },
      ...{ records: records + 1, refusedAgain: records },
      byDecision: { ...noDecisions, 'backing-off': records + 1 },
    })
    const { summary } = toStatus(
      aStatusState({
        ...swept,
        failed: { ...noDecisions, 'backing-off': records },
        endless: refusing(records),
        mended: { records: 1, since: incidentNow, lastDueAt: incidentNow },
        causes: { ...noCauses, total: 1, records, list: [refused] },
        lately: [lately({ taken: 8, failed: 12, failedRecords: 10, isFailing: true, responseStatusCode: code })],
      }),
    )
    const texts = [summary.headline, ...summary.notices.map(({ text }) => text)]
    expect(texts.flatMap((text) => /fails some|keeps rejecting|succeed again/.exec(text)?.[0] ?? [])).toEqual(said)
  },
)

test.each<[string, (x: number) => Partial<StatusState>, before: number, reached: number, said: RegExp]>([
  ['30 days', (days) => ({ certificateExpiresAt: incidentNow + days * 86_400_000 }), 30, 29.9, /certificate expires/],
  [
    '5 min',
    (minutes) => ({
      tokenExpiresAt: incidentNow + 60 * minuteMs,
      tokenTrouble: { ...tokenTrouble, since: incidentNow - minutes * minuteMs },
    }),
    4.9,
    5,
    /^trouble The access token is not renewed/,
  ],
  [
    'a rejected client',
    (rejected) => ({
      tokenExpiresAt: incidentNow + 60 * minuteMs,
      tokenTrouble: { ...tokenTrouble, kind: rejected === 1 ? 'rejected' : 'transient' },
    }),
    0,
    1,
    /^trouble The access token is not renewed/,
  ],
  [
    '30 min without a ledger',
    (minutes) => ({
      books: { ...books, problem: { text: 'The ledger is down', since: incidentNow - minutes * minuteMs } },
    }),
    29.9,
    30,
    /^trouble The ledger is down\./,
  ],
  [
    'past the deadline of an hour',
    (minutes) => ({ books: { ...books, dueAt: incidentNow - minutes * minuteMs } }),
    0,
    1,
    /compared with the ledger yet/,
  ],
  [
    '9 in a row are all',
    (failedInARow) => ({ failed: blocked, causes, lately: [lately({ failedInARow, isFailing: true })] }),
    8,
    9,
    /failed all of the last 9 retries/,
  ],
  [
    '4 paused',
    (length) => ({
      ...shut('subscription-paused'),
      pauses: Array.from({ length }, (_, n) => ({ subscriptionId: `sub-${n}`, since: incidentNow })),
    }),
    3,
    4,
    /More are in \/status\./,
  ],
  [
    'three named receivers',
    (length) => ({
      failed: blocked,
      causes: { ...noCauses, list: Array.from({ length }, (_, n) => aCause({ subscriptionId: `sub-${n}` })) },
      lately: Array.from({ length }, (_, n) => lately({ subscriptionId: `sub-${n}`, isFailing: true })),
    }),
    2,
    4,
    /^(?!.*sub-3).*sub-2/,
  ],
  [
    'ten rejections, of which some to the end',
    (exhausted) => ({
      failed: { ...noDecisions, 'backing-off': 9, exhausted: exhausted + 500 },
      endless: refusing(9),
      causes: {
        ...noCauses,
        list: [
          aCause({ subscriptionId: 'three', refusedAgain: 9, byDecision: { ...noDecisions, exhausted } }),
          aCause({ subscriptionId: 'other', byDecision: { ...noDecisions, exhausted: 500 } }),
        ],
      },
    }),
    0,
    1,
    /^trouble The receiver keeps rejecting 9/,
  ],
  [
    'ten exhausted ones of a receiver that fails others',
    (exhausted) => ({
      failed: blocked,
      causes: { ...noCauses, list: [aCause({ subscriptionId: 'three', byDecision: { ...noDecisions, exhausted } })] },
      lately: [lately({ taken: 8, failed: 12, isFailing: true })],
    }),
    9,
    10,
    /^trouble The receiver fails some/,
  ],
  ['90 %', (rateLimit) => ({ failed: blocked, rateLimit }), 18, 17.9, /The daemon sends at most/],
  [
    '1 min',
    (minutes) => ({ failed: blocked, ...shut('intercepted', incidentNow - minutes * minuteMs) }),
    0.9,
    1,
    /^trouble Retries do not reach/,
  ],
  [
    '10 min',
    (minutes) => ({
      unlisted: { from: '', to: '', seconds: 60, reason: 'timeout', status: null, forMs: minutes * minuteMs },
    }),
    9.9,
    10,
    /^trouble .* cannot be listed/,
  ],
])('its bound of %s', (_, stateOf, before, reached, said) => {
  const isSaid = (x: number): boolean => {
    const { detail, headline, level, notices } = toStatus(aStatusState({ ...swept, ...stateOf(x) })).summary
    return [{ level, text: `${headline} ${detail}` }, ...notices].some((one) => said.test(`${one.level} ${one.text}`))
  }
  expect([before, reached].map(isSaid)).toEqual([false, true])
})

test('that there is nothing to do is not said beside a notice that asks for something', () => {
  const adviceOf = (changes: Partial<StatusState>): string =>
    toStatus(aStatusState({ ...swept, failed: blocked, ...shut('no-token'), ...changes })).summary.advice
  expect(adviceOf({})).toBe('Nothing to do.')
  expect(adviceOf({ certificateExpiresAt: incidentNow + 86_400_000 })).toBe('')
})

test('no probe is awaited while all retries are blocked', () => {
  const circuits = [aCircuit({ outstanding: 1, failingForMs: 2 * minuteMs })]
  const probeOf = (changes: Partial<StatusState>): string => {
    const { detail, notices } = toStatus(aStatusState({ ...swept, failed: blocked, circuits, ...changes })).summary
    return [detail, ...notices.map(({ text }) => text)].find((text) => text.includes('failed again')) ?? ''
  }
  expect(probeOf({})).toMatch(/since 11:58:00 UTC\. A probe is under way\.$/)
  expect(probeOf(shut('platform'))).toMatch(/ Probes wait: the platform is unavailable\.$/)
})
