// When the place of a retry is free although nobody knows its outcome, and when nobody checks it any more. @see design sections 11 and 12
import { expect, test } from 'vitest'
import { freesPlace, isGivenUp } from '../../../src/reconcile/confirm/awaited.ts'
import { awaitedOf, defaultPolicy, hourMs, patchedAt } from '../../support/backlog.ts'

const policy = defaultPolicy.outcome

test('a look frees the place from circuit.probeTimeout on', () => {
  const awaited = awaitedOf({ id: '', subscriptionId: '' })
  expect(freesPlace(awaited, patchedAt + policy.lostAfterMs - 1, policy)).toBe(false)
  expect(freesPlace(awaited, patchedAt + policy.lostAfterMs, policy)).toBe(true)
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
