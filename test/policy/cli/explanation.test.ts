// Why a record is, or is not, retried: each reason in words, in the order in which the daemon decides, with when it is due next.
import { describe, expect, test } from 'vitest'
import { explain, type Situation } from '../../../src/cli/explanation.ts'
import { loadWith } from '../../support/configuration.ts'
import { toPolicy } from '../../../src/engine.ts'
import { createTimeZone } from '../../../src/platform/time-zone.ts'
import type { WebhookRecord } from '../../../src/platform/record.ts'
import { decide } from '../../../src/reconcile/decide.ts'
import { createFailedRecord } from '../../../src/reconcile/failed-record.ts'

const now = Date.UTC(2026, 0, 15, 12)
const [minute, hour, day] = [60_000, 3_600_000, 86_400_000]
const zone = createTimeZone('UTC')
const id = '11111111-2222-4333-8444-555555555555'
const subscriptionId = '33333333-2222-4333-8444-555555555555'

function situation(env: Record<string, string> = {}): Situation {
  const { config } = loadWith({ env: { RECONCILER_RETRY_BACKOFF_JITTER: '0', ...env } })
  const gate = config.retry.enabled ? undefined : 'disabled'
  return { policy: toPolicy(config, 30_000), zone, now, gate, show: (ms) => new Date(ms).toISOString() }
}

function record(changes: Partial<WebhookRecord> = {}): WebhookRecord {
  return {
    id,
    eventId: '22222222-2222-4333-8444-555555555555',
    subscriptionId,
    status: 'failed',
    attempts: 3,
    eventLocal: now - 2 * hour,
    lastAttemptLocal: now - hour,
    eventType: 'account-activated',
    module: 'accounts',
    responseStatusCode: 503,
    ...changes,
  }
}

describe('what the platform shows in another status', () => {
  test.each([
    ['successful', 'delivered: the platform shows it as successful, after 3 attempts'],
    ['processing', 'the platform is delivering it'],
    ['other', 'a status that this version does not know'],
  ] as const)('%s: nothing is due', (status, words) => {
    const told = explain(record({ status }), situation({ RECONCILER_SELECT_MODULES: 'other' }))
    expect(told).toMatchObject({ state: status, nextAt: undefined })
    expect(told.why).toContain(words)
  })
})

describe('a failed record', () => {
  test('that is due', () => {
    const told = explain(record(), situation())
    const dueAt = now - hour + 4 * minute
    expect(told).toEqual({
      state: 'due',
      why: `due since ${new Date(dueAt).toISOString()}: attempt 3 was at 2026-01-15T11:00:00.000Z`,
      nextAt: dueAt,
    })
  })

  test('that backs off: until when, and because of what', () => {
    const told = explain(record({ attempts: 8 }), situation())
    const dueAt = now - hour + 128 * minute
    expect(told).toEqual({
      state: 'backing-off',
      why: `backing off until ${new Date(dueAt).toISOString()}, because attempt 8 was at 2026-01-15T11:00:00.000Z`,
      nextAt: dueAt,
    })
  })

  test('of which no attempt is shown', () => {
    const told = explain(record({ attempts: 0, lastAttemptLocal: null, eventLocal: now - 90_000 }), situation())
    expect(told.state).toBe('due')
    expect(told.why).toContain('no attempt is shown, and its event was at 2026-01-15T11:58:30.000Z')
  })

  test('that is parked', () => {
    const told = explain(record({ attempts: 30 }), situation())
    expect(told).toMatchObject({ state: 'parked', nextAt: undefined })
    expect(told.why).toBe(
      `parked: 30 attempts, and retry.maxAttempts is 30; \`webhook-reconciler retry --parked ${id}\` tries it all the same`,
    )
  })

  test.each([
    [{ RECONCILER_SELECT_EVENT_TYPES: 'a,b' }, 'not selected: its event type is not in select.eventTypes (a, b)'],
    [{ RECONCILER_SELECT_MODULES: 'transfers' }, 'not selected: its module is not in select.modules (transfers)'],
    [{ RECONCILER_SELECT_SUBSCRIPTION_IDS: id }, 'not selected: its subscription is not in select.subscriptionIds'],
    [
      { RECONCILER_WINDOW_NOT_BEFORE: '2026-01-15T11:00:00Z' },
      'not selected: its event was before window.notBefore (2026-01-15T11:00:00.000Z)',
    ],
    [
      { RECONCILER_SELECT_MODULES: 'transfers', RECONCILER_SELECT_EVENT_TYPES: 'a' },
      'its event type is not in select.eventTypes (a); its module is not in select.modules (transfers)',
    ],
  ])('that is excluded by %j', (env, words) => {
    const told = explain(record({ attempts: 30, eventLocal: now - 2 * hour }), situation(env))
    expect(told).toMatchObject({ state: 'excluded', nextAt: undefined })
    expect(told.why).toContain(words)
    expect(told.why).toContain(`\`webhook-reconciler retry ${id}\` tries it all the same`)
  })

  test('that has left the window', () => {
    for (const attempts of [1, 30]) {
      const told = explain(record({ attempts, eventLocal: now - 7 * day - 1, lastAttemptLocal: null }), situation())
      expect(told).toMatchObject({ state: 'outside', nextAt: undefined })
      expect(told.why).toContain('its event left it at 2026-01-15T11:59:59.999Z (window.lookback 7d)')
    }
    expect(explain(record({ eventLocal: now - 7 * day, lastAttemptLocal: null }), situation()).state).toBe('due')
  })

  test('that is too young: it comes with its settling, or with its backoff when that is later', () => {
    const young = record({ attempts: 1, eventLocal: now - 10_000, lastAttemptLocal: now - 5000 })
    const told = explain(young, situation())
    expect(told).toMatchObject({ state: 'settling', nextAt: now + 55_000 })
    expect(told.why).toContain('younger than window.settle (1m)')
    const settle = situation({ RECONCILER_WINDOW_SETTLE: '10m' })
    expect(explain(young, settle).nextAt).toBe(now - 10_000 + 10 * minute)
  })

  test('that would be due, while retries are not enabled', () => {
    const told = explain(record(), situation({ RECONCILER_RETRY_ENABLED: 'false' }))
    expect(told).toMatchObject({ state: 'held', nextAt: undefined })
    expect(told.why).toContain('retry.enabled is false')
  })

  test('says that it may wait for an older one of its entity', () => {
    const told = explain(record(), situation({ RECONCILER_RETRY_ORDER_PER_ENTITY: 'true' }))
    expect(told.why).toContain('that one goes first (retry.orderPerEntity)')
  })

  test('that leaves the window before its backoff ends: nothing is promised', () => {
    const last = record({ attempts: 9, eventLocal: now - 7 * day + 30_000, lastAttemptLocal: now - 10_000 })
    const told = explain(last, situation())
    expect(told).toMatchObject({ state: 'backing-off', nextAt: undefined })
    expect(told.why).toContain('by then it has left the window')
  })
})

test('it never says anything else than the daemon decides', () => {
  const states = new Set<string>()
  for (const env of [{}, { RECONCILER_SELECT_MODULES: 'x' }, { RECONCILER_RETRY_ENABLED: 'false' }]) {
    const with_ = situation(env)
    for (let attempts = 0; attempts <= 31; attempts += 1) {
      for (const ago of [2 * hour, 3 * day, 6.9 * day]) {
        const one = record({ attempts, eventLocal: now - ago, lastAttemptLocal: now - ago / 2 })
        const { decision } = decide(createFailedRecord(one, { zone, now }), with_.policy, {
          now,
          gate: with_.gate,
        })
        expect(explain(one, with_).state).toBe(decision)
        states.add(decision)
      }
    }
  }
  expect([...states].sort()).toEqual(['backing-off', 'due', 'excluded', 'held', 'parked'])
})
