// The report of a round: every retried record counted once, the exit code under everything that can happen, and the text.
import { describe, expect, test } from 'vitest'
import { createMoments } from '../../../src/cli/moments.ts'
import { toText } from '../../../src/cli/round/report-text.ts'
import {
  estimateOf,
  exitCodeOf,
  noteRetried,
  sumsOf,
  type RetriedRecord,
  type RoundReport,
  type StoppedBy,
} from '../../../src/cli/round/report.ts'
import type { TelemetryEvent } from '../../../src/observe/events.ts'
import type { Outcome } from '../../../src/reconcile/confirm/evidence.ts'
import type { RetryAnswer } from '../../../src/platform/operations.ts'
import { noCounts } from '../../../src/reconcile/decide.ts'
import { loadWith } from '../../support/configuration.ts'
import { outcomeFact, retryFact } from '../../support/facts.ts'

const none = { retried: 0, recovered: 0, 'failed-again': 0, unknown: 0, resolved: 0, underway: 0, refused: 0 }
const refusals = ['gone', 'rejected', 'throttled', 'unauthorized', 'platform-error', 'unreachable'] as const

function retry(changes: Partial<RetryAnswer> = {}): TelemetryEvent {
  return retryFact({ result: 'accepted', reason: 'ok', sent: true, ...changes })
}

const outcome = (of: Outcome): TelemetryEvent => outcomeFact({ outcome: of })

test.each<[string, TelemetryEvent[], Partial<RoundReport['sums']>]>([
  ['waits for its outcome', [retry()], {}],
  ['has its outcome after the retry', [retry(), outcome('recovered')], { recovered: 1 }],
  ['has its outcome before the retry, which is final', [outcome('failed-again'), retry()], { 'failed-again': 1 }],
  ['was resolved by another', [retry({ result: 'already-resolved' })], { resolved: 1 }],
  ...refusals.map((result): [string, TelemetryEvent[], object] => [result, [retry({ result })], { refused: 1 }]),
  ['has lost its answer, which is no refusal', [retry({ result: 'unreachable', lost: true })], {}],
  [
    'has lost its answer and its outcome',
    [retry({ result: 'unreachable', lost: true }), outcome('unknown')],
    { unknown: 1 },
  ],
  ['was never sent', [retry({ result: 'unauthorized', sent: false })], { retried: 0 }],
])('a record counts once: one that %s', (_, events, sums) => {
  const retried = new Map<string, RetriedRecord>()
  for (const event of events) noteRetried(retried, event)
  expect(sumsOf([...retried.values()])).toEqual({ ...none, retried: 1, ...sums })
})

const good: RoundReport = {
  schemaVersion: 2,
  command: 'retry',
  instance: 'payments',
  platform: 'api.example.com',
  startedAt: new Date('2026-01-15T12:00:00.000Z'),
  seconds: 1.5,
  selection: { by: 'span' },
  listing: { result: 'complete', found: 2, moved: false, unreadable: null, unlisted: null },
  decidedAt: new Date('2026-01-15T12:00:01.000Z'),
  failed: { ...noCounts(), due: 2 },
  notFailed: 0,
  notFound: [],
  leftOut: 0,
  receiver: null,
  daemon: { url: 'http://127.0.0.1:10964', problem: 'ECONNREFUSED' },
  causes: [],
  estimate: { records: 2, seconds: 1, callsPerSecond: 20 },
  dryRun: false,
  retriesEnabled: true,
  retried: [],
  sums: { ...none, retried: 2, recovered: 2 },
  blocked: 0,
  awaiting: 0,
  cutOff: 0,
  stoppedBy: null,
  exitCode: 0,
}

const listing = (changes: Partial<RoundReport['listing']>): Partial<RoundReport> => ({
  listing: { ...good.listing, ...changes },
})
const failed = (changes: Partial<RoundReport['failed']>): Partial<RoundReport> => ({
  failed: { ...good.failed, ...changes },
})
const tokenRefused = {
  stage: 'token',
  reason: 'unauthorized',
  rejected: true,
  message: 'refused',
  advice: 'wait',
} as const
const once = { selection: { by: 'due' } } as const
const dryRun = { dryRun: true, sums: none } as const
const left = { 'backing-off': 1, exhausted: 1, excluded: 1 }

// What is stopped by a refusal or a platform that fails: test/process/once.test.ts.
test.each<[string, Partial<RoundReport>, number]>([
  ['all recovered', {}, 0],
  ['resolved by another before', { sums: { ...none, retried: 2, resolved: 2 } }, 0],
  ['an event whose records are all delivered', { ...listing({ found: 0 }), notFailed: 2, sums: none }, 0],
  ['a list that shrank while it was read', listing({ moved: true }), 0],
  ['nothing found', { ...listing({ found: 0 }), sums: none }, 1],
  ['one failed again', { sums: { ...good.sums, 'failed-again': 1 } }, 1],
  ['one refused', { sums: { ...good.sums, refused: 1 } }, 1],
  ['one unknown', { sums: { ...good.sums, unknown: 1 } }, 1],
  ['one left', { blocked: 1 }, 1],
  ['one not awaited', { awaiting: 1 }, 1],
  ['one cut off', { cutOff: 1 }, 1],
  ['one exhausted', failed({ exhausted: 1 }), 1],
  ['one excluded', failed({ excluded: 1 }), 1],
  ['one tried just now', failed({ 'backing-off': 1 }), 1],
  ['no room for one', { leftOut: 1 }, 1],
  ['a part that could not be listed', listing({ result: 'incomplete' }), 1],
  ['an id that is not among the failed ones', { selection: { by: 'ids' }, notFound: ['a'] }, 1],
  ['a signal, though all was done', { stoppedBy: 'signal' }, 1],
  ['a token that is refused', listing({ result: 'failed', failure: tokenRefused }), 4],
  ['once: nothing to do', { ...once, ...listing({ found: 0 }), sums: none }, 0],
  ['once: records left to their rules', { ...once, ...failed(left) }, 0],
  ['dry run: records that would be left alone', { ...dryRun, ...failed(left) }, 0],
  ['dry run: nothing found', { ...dryRun, ...listing({ found: 0 }) }, 1],
])('the exit code of %s is %j', (_, changes, code) => {
  expect(exitCodeOf({ ...good, ...changes })).toBe(code)
})

const { config } = loadWith({})
const silentDaemon = { url: 'http://127.0.0.1:10964', problem: 'ECONNREFUSED' }

function textOf(changes: Partial<RoundReport>): string {
  const shown = { config, moments: createMoments('UTC'), target: 'payments at api.example.com', width: undefined }
  return toText({ ...good, ...changes }, { ...shown, daemon: silentDaemon })
}

describe('the estimate', () => {
  const { circuit, retry } = config
  const quick = { retry: { ...retry, maxPerSecond: undefined }, circuit }
  const off = { ...circuit, initialLimit: 1000 }

  test.each<[string, Partial<Parameters<typeof estimateOf>[0]>, number, number, number?]>([
    ['nothing takes no time', {}, 0, 0],
    ['5 % of the calls are checks', { circuit: off }, 20_000, 1050],
    ["the receiver's own limit", { circuit: off, retry: { ...retry, maxPerSecond: 2 } }, 20_000, 10_000],
    ['the first check of one round', {}, 1, 1],
    ['a slow start that doubles: 5, 10, 20 and 40 are 75 records', {}, 75, 2, 1000],
    ['and one more round for the next', {}, 76, 3, 1000],
  ])('%s', (_, changes, records, seconds, callsPerSecond = 20) => {
    const estimate = estimateOf({ ...quick, ...changes }, records, callsPerSecond)
    expect(estimate).toEqual({ records, seconds, callsPerSecond })
  })
})

describe('the text of a round', () => {
  const unknownId = { webhookId: 'a', eventId: '', subscriptionId: '', eventType: '', result: 'gone' } as const

  test('everything that is left has its line, with a count', () => {
    const text = textOf({
      ...failed({ exhausted: 4, excluded: 5, 'backing-off': 6 }),
      ...{
        ...listing({ moved: true }),
        retried: [unknownId],
        blocked: 12,
        awaiting: 3,
        cutOff: 2,
        leftOut: 7,
        stoppedBy: 'circuit',
        notFailed: 8,
      },
      sums: { ...none, retried: 15, recovered: 1, 'failed-again': 10, unknown: 4 },
    })
    for (const line of [
      /, 2026-01-15T12:00:01Z: 15 retries in 1\.5 s\n {2}recovered +1\n/,
      /\na +- +gone \(unknown to the platform\) +-\n/,
      /The list became shorter while it was read, so a record may be missing/,
      /failed again +10\n/,
      /unknown +4 /,
      /exhausted +4 left alone \(retry\.maxAttempts\): add --exhausted/,
      /excluded +5 left alone/,
      /just tried +6 left alone/,
      /not retried +12\n/,
      /not awaited +3 /,
      /cut off +2 /,
      /not failed +8 /,
      /Left out: 7 records, as there is no room in memory \(backlog\.maxRecords\)/,
      /Stopped early: Nearly all retries .*Fix the receiver/,
    ])
      expect(text).toMatch(line)
  })

  test('refusals are shown with what the platform said', () => {
    const answer = { reason: 'bad-request', status: 422, problem: 'svc.barred: closed' } as const
    const refused = { ...unknownId, result: 'rejected', answer } as const
    const other = { ...unknownId, result: 'intercepted', answer: { reason: 'intercepted', status: 405 } } as const
    const text = textOf({ retried: [other, refused, refused] }).replaceAll(/\s+/g, ' ')
    expect(text).toContain(
      '2 retries were refused: HTTP 422 (svc.barred: closed). 1 retry was refused: HTTP 405 from something in front of the platform.',
    )
  })

  test.each<StoppedBy>(['signal', 'unauthorized', 'platform', 'paused', 'receiver-down', 'circuit'])(
    '%s says what to do',
    (stoppedBy) => {
      expect(textOf({ stoppedBy })).toMatch(/\nStopped early[: ].*[Rr]un\s+again.*\.\n$/s)
    },
  )
})

test('where rows could not be read, nothing is said not to be there', () => {
  const plan = { dryRun: true, command: 'plan', selection: { by: 'due' } } as const
  const unread = listing({ found: 0, result: 'incomplete', unreadable: { rows: 300, field: 'eventDateTime' } })
  const text = textOf({ ...plan, ...unread, failed: noCounts() })
  expect(text).toContain('At least 0 failed records')
  expect(text).toContain('300 rows could not be read: eventDateTime is not a date-time such as 2026-11-25T10:00:00.')
  expect(text).not.toContain('nothing to retry')
  const byId = textOf({ ...unread, selection: { by: 'ids' }, notFound: ['webhook id a'], sums: none })
  expect(byId).toContain('Not found in what was listed: webhook id a.')
  expect(byId).not.toContain('There is no failed record')
})

test('the text of a dry run of nothing is short', () => {
  const plan = { dryRun: true, command: 'plan', selection: { by: 'due' } } as const
  const text = textOf({ ...plan, ...listing({ found: 0 }), failed: noCounts() })
  expect(text.trimEnd().split('\n')).toHaveLength(3)
  expect(text).toContain('There is nothing to retry.\n')
})
