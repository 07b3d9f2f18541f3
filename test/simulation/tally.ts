// How often each promise could have been broken: one that never could is no proof of anything.

/** In the words in which `npm run simulate` prints them. */
export const promises = [
  '/metrics and /status are true',
  '/status says what is missing',
  'a circuit opens',
  'a circuit opens at exactly the ratio',
  'a last chance before the window ends',
  'a probe is of another type than the last one',
  'a record retried a moment ago is not stuck',
  'a refused retry is no attempt',
  'a refused token is not used again',
  'a sweep asks for its pages',
  'a sweep that goes on where there was no room has not seen all',
  'an error under 429 is no rejection',
  'assertions are not of the future',
  'checks are few',
  'checks come in time',
  'failed again is true',
  'full sweeps rest',
  'healthy records behind a full backlog',
  'no more than a second is skipped',
  'no subscription waits while it may go',
  'not exhausted for refusals',
  'one trial after each pause',
  'exhausted',
  'recent and old take turns',
  'recent sweeps rest',
  'refusals are counted',
  'resolved by another client',
  'the certificate that is in use is shown',
  'the difference between the clocks is shown',
  'the key that is in the file is used',
  'the least tried record is the probe',
  'the rate is cut',
  'the rate is cut once in a burst',
  'three failures are asked about',
  'tokens are renewed early',
  'what is about to leave the window is shown',
  'what is shown in quiet times is what the platform holds',
  'so it is where the backlog is full',
  'what expires is counted',
  'what lies beyond the window is counted',
] as const

export type PromiseName = (typeof promises)[number]

export type Exercise = (promise: PromiseName) => void

export interface Tally {
  exercise: Exercise
  /** How often, by promise. */
  counts(): ReadonlyMap<PromiseName, number>
}

export function createTally(): Tally {
  const counts = new Map<PromiseName, number>()
  return {
    exercise(promise) {
      counts.set(promise, (counts.get(promise) ?? 0) + 1)
    },
    counts: () => counts,
  }
}
