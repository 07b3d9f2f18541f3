// The policy of the reconciler, and its connections, as the configuration sets them.
import { expect, test } from 'vitest'
import type { Policy } from '../../../src/reconcile/policy.ts'
import { lostAfterMsOf } from '../../../src/reconcile/confirm/evidence.ts'
import { connectionsOf, toPolicy } from '../../../src/reconciler.ts'
import { loadWith } from '../../support/configuration.ts'

function policyOf(env: Record<string, string>): Policy {
  return toPolicy(loadWith({ env }).config, 30_000)
}

test('the policy is what the operator set, subscriptions in the case in which records carry them', () => {
  const env = {
    RECONCILER_WINDOW_NOT_BEFORE: '2026-01-10T00:00:00Z',
    RECONCILER_SELECT_SUBSCRIPTION_IDS: 'AAAAAAAA-0000-4000-8000-000000000001',
    RECONCILER_RETRY_MAX_ATTEMPTS: '5',
  }
  expect(policyOf(env)).toMatchObject({
    window: { notBefore: Date.UTC(2026, 0, 10) },
    select: { subscriptionIds: ['aaaaaaaa-0000-4000-8000-000000000001'] },
    maxAttempts: 5,
    periodMs: 30_000,
  })
})

test.each([
  ['5m', 120_000],
  ['20s', 20_000],
])('given up after %s: a retry that seems not taken is looked for %i ms', (giveUp, ms) => {
  const env = { RECONCILER_OUTCOME_GIVE_UP_AFTER: giveUp }
  expect(lostAfterMsOf(policyOf(env).outcome)).toBe(ms)
})

test('there are connections for retries, a sweep, checks and a probe', () => {
  const env = { RECONCILER_RETRY_CONCURRENCY: '3' }
  expect(connectionsOf(loadWith({ env }).config)).toBe(3 + 2 * 4 + 1)
})
