// Why a record is, or is not, retried: each reason in words, in the order in which the daemon decides, with when it is due next.
import { describe, expect, test } from 'vitest'
import { toStatus } from '../../../src/ops/status.ts'
import { aStatusState } from '../../support/status.ts'
import { awaitedRemarks } from '../../../src/cli/explain.ts'
import { explainRecord, type ExplainedRecord, type ExplainOptions } from '../../../src/records/shown-record.ts'
import { loadWith } from '../../support/configuration.ts'
import { failedRecord } from '../../support/fake-platform.ts'
import { toPolicy } from '../../../src/reconciler.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { FailedRecord } from '../../../src/reconcile/failed-record.ts'

const now = Date.UTC(2026, 0, 15, 12)
const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
const zone = createTimeZone('UTC')

function situation(env: Record<string, string> = {}): ExplainOptions {
  const { config } = loadWith({ env })
  const off = { gate: 'disabled', stopsForMs: Infinity } as const
  const policy = toPolicy(config, 30_000)
  return {
    policy: { ...policy, backoff: { ...policy.backoff, jitter: 0 } },
    situation: { now, ...(!config.retry.enabled && off) },
  }
}

function record(changes: Partial<WebhookRecord> = {}): WebhookRecord {
  return failedRecord({ attempts: 3, eventLocal: now - 2 * hour, lastAttemptLocal: now - hour, ...changes })
}

function explain(one: WebhookRecord, options: ExplainOptions): ExplainedRecord {
  return explainRecord(new FailedRecord(one, { zone, now }), { ...options, status: one.status })
}

const never = { nextRetryBy: 'never', nextRetry: null } as const
const byTime = (at: number): Partial<ExplainedRecord> => ({ nextRetryBy: 'time', nextRetry: new Date(at) })

test.each(['successful', 'processing'] as const)('of a record that is %s nothing is due', (status) => {
  const found = explain(record({ status }), situation({ RECONCILER_SELECT_EVENT_TYPES: 'other' }))
  expect(found).toMatchObject({ state: status, why: status, ...never })
})

const daemon = { ...toStatus(aStatusState()), url: 'http://d' }
const due = explain(record(), situation())
const exhausted = explain(record({ attempts: 30 }), situation())

test('the platform shows a record as failed until its retry is delivered: that is said where one is due and awaited', () => {
  const remarks = (list: ExplainedRecord[], awaiting: number): string[] => awaitedRemarks(list, { ...daemon, awaiting })
  expect(remarks([exhausted, due], 3)).toEqual([expect.stringContaining('the outcome of 3 retries: that')])
  expect(remarks([due], 1)).toEqual([expect.stringContaining('the outcome of 1 retry: that')])
  expect([remarks([exhausted], 3), remarks([due], 0)]).toEqual([[], []])
  expect(awaitedRemarks([due], { url: 'http://d', problem: 'ECONNREFUSED' })).toEqual([])
})

describe('a failed record', () => {
  const leftWindow = { eventLocal: now - 7 * day - 1, lastAttemptLocal: null }
  const young = { attempts: 1, eventLocal: now - 10_000, lastAttemptLocal: now - 5000 }
  const leavesFirst = { attempts: 9, eventLocal: now - 7 * day + 30_000, lastAttemptLocal: now - 10_000 }

  // What is decided inside of the window: test/unit/reconcile/decide.test.ts.
  test.each<[string, Partial<WebhookRecord>, Record<string, string>, Partial<ExplainedRecord>]>([
    ['is due', {}, {}, { state: 'due', why: 'due', ...byTime(now) }],
    ['is exhausted', { attempts: 30 }, {}, { state: 'exhausted', why: 'max-attempts', ...never }],
    ['has left the window', leftWindow, {}, { state: 'outside', why: 'outside', ...never }],
    [
      'has left the window at the limit',
      { ...leftWindow, attempts: 30 },
      {},
      { state: 'outside', leavesWindow: new Date(now - 1) },
    ],
    ['leaves the window in this moment', { ...leftWindow, eventLocal: now - 7 * day }, {}, { why: 'expiring' }],
    ['is too young', young, {}, { state: 'settling', why: 'settling', ...byTime(now + 55_000) }],
    [
      'is too young for longer than it backs off',
      young,
      { RECONCILER_WINDOW_SETTLE: '10m' },
      { state: 'settling', ...byTime(now - 10_000 + 10 * minute) },
    ],
    ['is too young and exhausted', { ...young, attempts: 30 }, {}, { state: 'exhausted', why: 'max-attempts' }],
    ['leaves the window before its backoff ends', leavesFirst, {}, { state: 'backing-off', why: 'too-late', ...never }],
  ])('that %s', (_, changes, env, expected) => {
    expect(explain(record(changes), situation(env))).toMatchObject(expected)
  })

  test('that an operator selected is decided on outside the window too', () => {
    const entry = new FailedRecord(record(leftWindow), { zone, now })
    expect(explainRecord(entry, { ...situation(), isSelected: true })).toMatchObject({ state: 'due', ...byTime(now) })
  })

  test('without a shown attempt has no last one', () => {
    const shown = explain(record({ attempts: 0, lastAttemptLocal: null }), situation())
    expect(shown).toMatchObject({
      event: new Date(now - 2 * hour),
      lastAttempt: null,
      leavesWindow: new Date(now + 7 * day - 2 * hour),
    })
  })
})
