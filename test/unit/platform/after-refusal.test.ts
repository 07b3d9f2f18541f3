// The next step after a token request that failed, row by row.
import { expect, test } from 'vitest'
import {
  afterRefusal,
  newKeyRests,
  type FailedRequest,
  type NextStep,
} from '../../../src/platform/auth/after-refusal.ts'

/** A new key is in the file, and was rejected. */
const newKey: FailedRequest = {
  isRejected: true,
  isTimeNew: false,
  hasOtherKey: true,
  isOfProvenKey: false,
  areBothRejected: false,
}

test.each<[string, Partial<FailedRequest>, NextStep]>([
  ['what may pass is tried later, with the backoff', { isRejected: false, isTimeNew: true }, {}],
  ['a wrong time comes before any key', { isTimeNew: true }, { remedy: 'time' }],
  ['the only key is tried later', { hasOtherKey: false }, {}],
  ['a new key rests, and the proven one signs', {}, { remedy: 'proven-key', current: newKeyRests }],
  [
    'then the proven one too: the new one is next',
    { isOfProvenKey: true },
    { current: { retryInMs: -Infinity, areBoth: true } },
  ],
  ['and again: the proven one is next', { areBothRejected: true }, { current: { retryInMs: Infinity, areBoth: true } }],
])('%s', (_, changes, next) => {
  expect(afterRefusal({ ...newKey, ...changes })).toEqual(next)
})
