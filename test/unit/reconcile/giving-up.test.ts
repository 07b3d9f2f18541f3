// When a retry is taken for one that never reached the platform, and when nobody looks after it any more. @see design section 11
import { expect, test } from 'vitest'
import { isGivenUp, seemsNotTaken } from '../../../src/reconcile/awaited.ts'
import { awaitedOf, defaultPolicy, hourMs, patchedAt } from '../../support/backlog.ts'

const policy = defaultPolicy.outcome

test.each([
  ['not known to be lost', { lost: false }, 'unchanged', hourMs, false],
  ['no answer in time, unchanged', { lost: true }, 'unchanged', hourMs, false],
  ['lost, unchanged', { lost: true, wasCut: true }, 'unchanged', 2000, true],
  ['lost, unchanged, too early', { lost: true, wasCut: true }, 'unchanged', 1999, false],
  ['lost, not shown', { lost: true, wasCut: true }, undefined, 2000, false],
  ['lost, being delivered', { lost: true, wasCut: true }, 'processing', 2000, false],
] as const)('seems not taken: %s', (_, fields, evidence, afterMs, notTaken) => {
  const awaited = awaitedOf({ id: '', subscriptionId: '' }, fields)
  expect(seemsNotTaken(awaited, evidence, patchedAt + afterMs, policy)).toBe(notTaken)
})

test.each([
  ['accepted, unchanged', { lost: false }, 'unchanged', policy.lostAfterMs, false],
  ['accepted, after an hour', { lost: false }, 'processing', hourMs, true],
  ['lost, unchanged', { lost: true }, 'unchanged', policy.lostAfterMs, true],
  ['lost, not shown', { lost: true }, undefined, policy.lostAfterMs, false],
] as const)('given up: %s', (_, fields, evidence, afterMs, givenUp) => {
  const awaited = awaitedOf({ id: '', subscriptionId: '' }, fields)
  expect(isGivenUp(awaited, evidence, patchedAt + afterMs, policy)).toBe(givenUp)
  expect(isGivenUp(awaited, evidence, patchedAt + Math.min(afterMs, policy.lostAfterMs) - 1, policy)).toBe(false)
})
