// Backoff between two retries of a record: a pure function of its id and its number of attempts.
import { hashOf } from '../runtime/hash.ts'
import type { BackoffPolicy } from './policy.ts'

/** Maximum share of a delay that the jitter removes: without it, records that failed together would be due together. */
const jitter = 0.5

/** Hash of a record's id, ignoring case; signed, so that V8 stores it in the record without an object: each decision needs it. */
export function jitterSeed(id: string): number {
  return hashOf(`${id.toLowerCase()}/`) | 0
}

/** The hash of seed and number with a final mix, in [0, 1). Equal in every process, so that a restart changes no due time. */
export function jitterOf(seed: number, attempts: number): number {
  let hash = hashOf(String(attempts), seed)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}

/** `min(max, initial * 2^(n-1)) * (1 - jitter * u)` in ms, `u` in [0, 1) from (id, n). `n` below 1 counts as 1. */
export function backoffDelayMs(seed: number, n: number, { initial, max }: BackoffPolicy): number {
  const attempts = Math.max(1, n)
  return Math.min(max, initial * 2 ** (attempts - 1)) * (1 - jitter * jitterOf(seed, attempts))
}
